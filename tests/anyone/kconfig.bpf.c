// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* It asks for the kernel's configuration: 10 packets at 250 ticks a second. */
#include "fixed.h"

extern unsigned int CONFIG_HZ __kconfig;

FIXED(by_config, ".struct_ops", CONFIG_HZ / 25)
