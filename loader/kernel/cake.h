/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The kernel's shaper CAKE as the root qdisc of a device, in the namespace the thread is in. */
#ifndef CAKE_H
#define CAKE_H

#include <stdbool.h>

#include <linux/types.h>

/* A qdisc at a device's root. */
struct root_qdisc {
	char kind[16];
	__u32 handle;   /* 0: the kernel's own choice, which comes again when another one goes */
	bool ours;      /* a CAKE that cake_make() made */
	double rate;    /* of a CAKE, bit/s */
};

/* 0 or -errno; `kind` "": there is none. */
int root_qdisc_read(unsigned int index, struct root_qdisc *q);

/*
 * It filters ACKs; `arrives`: it does not, and what it drops has taken its part of the rate. Each packet takes its bytes from the IP header on and `overhead`, and `mpu` at least. Its AQM lets a connection's own
 * packets wait for a part of `rtt`, s, and drops none in an RTT after another. -ENOENT: this kernel has no CAKE.
 */
int cake_make(unsigned int index, double rate, double rtt, int overhead, int mpu, bool arrives);
/* The next two are for each few ms, by a socket that stays open; -errno. A packet that waits stays. */
int cake_change(int fd, unsigned int index, double rate, double rtt);
int cake_look(int fd, unsigned int index, struct root_qdisc *q);
/* The kernel's own choice is there again. */
int cake_remove(unsigned int index);

/* Has this kernel CAKE? It is tried in a namespace of its own. -errno: that is not known. */
int cake_there(void);

#endif
