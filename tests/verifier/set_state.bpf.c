// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A helper of other programs. refused: (unknown func|cannot use helper) bpf_redirect */
#include "refused.h"

HOOK(set_state, u8 state) { bpf_redirect(state, 0); }
OPS(.set_state = (void *)refused_set_state,);
