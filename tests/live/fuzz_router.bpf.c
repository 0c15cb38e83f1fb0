// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * `asymcc thin --dev` for fuzz_router.c, but for one word. A packet of BPF_PROG_TEST_RUN has a socket, as if this machine had sent it,
 * and those all pass. So the program looks at the packet's hash in its place, which is 0.
 */
#include "tools/thin_rules.bpf.h"

#define sk hash
#include "tools/thin_router.bpf.c"
