/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A way for packets that arrive by a device through an ifb, before all else that the machine does with them: a qdisc can stand there.
 * All is of the namespace that the thread is in. Errors are -errno, and that which is not there is no error when it is removed.
 */
#ifndef IFB_H
#define IFB_H

#include <stdbool.h>

/* Has the device a qdisc for the filters of what arrives? `filters`: and somebody's filter there. */
int ingress_look(unsigned int index, bool *qdisc, bool *filters);

/* -ENOENT, of both: this kernel lacks one of the parts. */
int ifb_make(unsigned int index, unsigned int *ifb);
/* From here on what arrives by the device goes to its ifb. */
int ifb_lead(unsigned int index, unsigned int ifb);
/* The ifb of that device; 0: it has none. */
unsigned int ifb_of(unsigned int index);
/* `qdisc`: that of the filter goes, too, if it has nobody's filter. */
int ifb_remove(unsigned int index, bool qdisc);

#endif
