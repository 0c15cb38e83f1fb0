// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A socket that goes takes no options. refused: (unknown func|cannot use helper) bpf_setsockopt */
#include "refused.h"

HOOK(release)
{
	int one = 1;

	bpf_setsockopt(sk, 6, 1, &one, sizeof(one));
}
OPS(.release = (void *)refused_release,);
