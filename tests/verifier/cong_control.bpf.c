// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A loop without end. refused: infinite loop detected|back-edge */
#define OWN_cong_control
#include "refused.h"

HOOK(cong_control)
{
	for (;;)
		asm volatile("");
}
OPS();
