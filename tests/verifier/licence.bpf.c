// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What the kernel's owners ask. refused: GPL compatible license */
#define LICENCE "Proprietary"
#include "refused.h"

OPS();
