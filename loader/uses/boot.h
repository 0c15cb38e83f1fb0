/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* These start at boot: the units of packaging/ that are enabled, or its init script, by what their files say. */
#ifndef BOOT_H
#define BOOT_H

#include "uses/uses.h"

#define CONF_DIR "/etc/asymcc"

/* One file of CONF_DIR. */
struct boot {
	char name[CC_NAME_LEN];     /* a controller's, or THIN */
	char *load, *use, *thin;    /* settings as they stand there; NULL: none; thin.conf has the last alone. */
	char unit[48];              /* what starts it: "asymcc@fast.service" */
	bool starts;
	struct uses uses;           /* what USE says, of `words` */
	char *words;
	char *place;                /* where THIN thins, if that is no cgroup that it names */
	const char *wrong;          /* why the file is of no use; NULL: it is */
	char *unread;               /* that text, if the file cannot be read */
};

struct boots {
	struct boot *at;
	int nr;
};

/* -1 with a message: it cannot be told. */
int boots_read(struct boots *b);
void boots_free(struct boots *b);
const struct boot *boot_find(const struct boots *b, const char *name);

/* Will it be so after a reboot? `route` is its text, as of `struct cc_route`. */
bool boot_has_default(const struct boots *b, const char *cc);
bool boot_has_route(const struct boots *b, const char *cc, const char *route);
/* `cc` THIN: will there be thinning? Then `path` may be a device's. */
bool boot_has_cgroup(const struct boots *b, const char *cc, const char *path);

#endif
