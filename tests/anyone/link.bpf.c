// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A section that libbpf has links for. */
#include "fixed.h"

FIXED(by_link, ".struct_ops.link", 10)
