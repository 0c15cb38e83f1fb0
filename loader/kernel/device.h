/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Programs on a network device of the namespace that the thread is in: by tcx where the kernel has it, from 6.6 on, else as filters
 * of the device's clsact. They run before those of others, and leave to these what they do not drop.
 */
#ifndef DEVICE_H
#define DEVICE_H

#include <net/if.h>

#include "kernel/hook.h"
#include "object/object.h"

#define ON_DEVICE "dev " /* so a place is written that is a device, and no cgroup */

#define DEVICE_PLACE (sizeof(ON_DEVICE) + IFNAMSIZ)

/* "dev NAME" of the device that `name`, an altname perhaps, stands for; one that is not there keeps that name. Its index, or 0. */
unsigned int device_place(char place[DEVICE_PLACE], const char *name);

struct device {
	unsigned int index;
	char place[DEVICE_PLACE];
	bool ethernet;      /* its packets have an Ethernet header; else they begin with that of IP */
	bool clsact;        /* it has no tcx */
	bool made_clsact;   /* device_load() made its clsact */
};

/* -1 with a message: there is none, or it is of no use. */
int device_find(struct device *d, const char *name);

/* Loads the object for the device. -1 with a message. */
int device_load(struct device *d, struct object *o);
/* Its programs `..._ingress` and `..._egress`: both or none. -1 with a message. */
int device_attach(const struct device *d, const struct object *o);
/* After either has failed: what they made is taken back. */
void device_leave(const struct device *d);

/* Nobody's filter is lost: one that has filters, or cannot be looked at, stays. */
void device_drop_clsact(unsigned int index);

/*
 * Calls `found` for each program on a device, whoever put it there. -1 with a message, in which `where`, " in netns r1",
 * names the namespace; "": our own.
 */
int devices_each(
	const char *where,
	int (*found)(const struct if_nameindex *dev, const struct hook *hook, __u32 prog_id, void *ctx), void *ctx);

/* A program that is gone meanwhile is no error. `made_clsact`: its clsact goes, too, when nobody's filter is in it. -1 with a message. */
int device_detach(unsigned int index, const char *place, const struct hook *hook, __u32 prog_id, bool made_clsact);

#endif
