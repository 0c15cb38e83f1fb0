/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Those of `struct bpf_westwood`, which it is. */
#include "bpf_westwood.fields.h"
