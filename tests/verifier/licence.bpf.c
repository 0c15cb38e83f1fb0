// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The kernel's owners ask this. refused: GPL compatible license */
#define LICENCE "Proprietary"
#include "refused.h"

OPS();
