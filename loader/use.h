/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What makes new connections take a controller: defaults of namespaces, routes, cgroups. */
#ifndef USE_H
#define USE_H

#include "cgroup.h"
#include "netns.h"
#include "registry.h"

/*
 * "default of host, route 198.51.100.0/24 and 3 sockets in host; cgroup /sys/fs/cgroup/bulk", in memory to be
 * freed; "" if nobody does. `sockets`: count those, too.
 */
char *users_text(const struct netns_list *l, const struct attachments *all, const char *cc, bool sockets);

/*
 * Take `cc` back wherever it is used, or from all routes only. Returns from how many places, -1 with a message. *left: foreign
 * namespaces where something is left, with a message: no error, as their owners shall not keep root from anything.
 */
int unuse_all(const struct attachments *all, const char *cc, bool only_routes, int *left);
/* Namespaces whose default is `cc` keep the instance they met: make them meet the one that has the name now. */
int defaults_renew(const char *cc);

#endif
