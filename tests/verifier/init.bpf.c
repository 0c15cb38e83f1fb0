// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A member of the socket that no controller may write. refused: no write support to tcp_sock at off */
#include "refused.h"

HOOK(init) { tcp_sk(sk)->snd_una = 0; }
OPS(.init = (void *)refused_init,);
