/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* `asymcc uplink`: CAKE and ACK thinning on a device ahead of a modem, whose rate is found and followed. */
#ifndef USES_UPLINK_H
#define USES_UPLINK_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/types.h>

#include "kernel/device.h"
#include "object/object.h"
#include "uses/uplink_law.h"

/* A CAKE of it. */
struct uplink_shaper {
	unsigned int index;    /* of its device: on the way down the ifb's */
	bool stands;
	double told, told_rtt; /* bit/s and s, that it has been told last */
	struct uplink_law law;
};

struct uplink {
	const char *dev;      /* as the user names it */
	struct device device;
	double rate, least, most; /* bit/s; `rate` 0: not known */
	long overhead, mpu;   /* bytes */
	int ways;             /* of enum uplink_way: 2 with that down, else 1 */
	struct object meter, thin;
	struct in_addr reflector; /* 0: nobody is asked */
	int probe;            /* a socket for that; -1: not open */
	__u32 probes;         /* the number of the last one */
	bool blind;           /* packets leave, and no TCP tells how long they wait */
	int tap, netlink;     /* the packet socket of uplink.bpf.c, and one for CAKE; -1: not open */
	struct uplink_shaper shaper[UPLINK_WAYS];
	bool thins;
	bool made_qdisc;      /* for the filter that leads to the ifb */
	double shared;        /* bit/s, of which thinning has been told its share last; 0: nothing */
	struct uplink_told now[UPLINK_WAYS]; /* the last words to the meter */
	FILE *log;            /* a line each tick; NULL: none */
};

#define UPLINK_NOWHERE { .ways = 1, .probe = -1, .tap = -1, .netlink = -1 }

/* Takes over what a process left that was killed; puts CAKE and programs there. Under the state's lock. -1 with a message. */
int uplink_begin(struct uplink *u, bool killed);
/* Till SIGINT or SIGTERM, which are blocked. -1 with a message. */
int uplink_run(struct uplink *u);
/* The device has again what stood there. Under the lock. -1 with a message. */
int uplink_end(struct uplink *u);
void uplink_close(struct uplink *u);

/* Takes away what a process left that was killed. Under the lock. 1: something did; -1 with a message. */
int uplink_clear(const struct device *d);

#endif
