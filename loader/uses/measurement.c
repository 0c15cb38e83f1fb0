// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernel/clock.h"
#include "uses/measurement.h"
#include "kernel/route_lookup.h"

/* Numbers, in order. */
struct set {
	__u64 *at;
	size_t nr;
};

static int by_number(const void *a, const void *b)
{
	const __u64 *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static bool has(const struct set *s, __u64 number)
{
	return s->nr && bsearch(&number, s->at, s->nr, sizeof(number), by_number);
}

static int add(struct set *s, __u64 number)
{
	__u64 *room = realloc(s->at, (s->nr + 1) * sizeof(*room));

	if (!room)
		return fail("out of memory");
	s->at = room;
	room[s->nr++] = number;
	return 0;
}

/* The cgroup and those below it, which come and go. */
static int add_cgroups(struct set *s, const char *path)
{
	char below[PATH_MAX];
	struct dirent *e;
	struct stat st;
	DIR *d = stat(path, &st) ? NULL : opendir(path);
	int err = d ? add(s, st.st_ino) : 0;

	while (d && !err && (e = readdir(d)))
		if (e->d_type == DT_DIR && strcmp(e->d_name, ".") && strcmp(e->d_name, "..") &&
		    snprintf(below, sizeof(below), "%s/%s", path, e->d_name) < (int)sizeof(below))
			err = add_cgroups(s, below);
	if (d)
		closedir(d);
	return err;
}

static bool is_meant(const struct flow *f, const struct uses *u, const struct set *cgroups)
{
	bool meant = u->by_default && f->own;

	for (int i = 0; i < u->routes.nr && !meant; i++)
		meant = f->own && u->prefix[i].family == f->family && prefix_has(&u->prefix[i], f->peer_address);
	return meant || has(cgroups, f->cgroup);
}

static int look_at(struct sockets *l, const struct uses *u, struct set *cgroups)
{
	int err = 0;

	cgroups->nr = 0;
	for (int i = 0; i < u->cgroups.nr && !err; i++)
		err = add_cgroups(cgroups, u->cgroups.text[i]);
	if (cgroups->nr)
		qsort(cgroups->at, cgroups->nr, sizeof(*cgroups->at), by_number);
	if (err || !sockets_read(l))
		return err;
	return *l->error ? fail("%s", l->error) : -1;
}

static double known(double v)
{
	return isnan(v) ? 0 : v;
}

/* Adds what it did since the look before; one that is new did all since it is there. */
static void account(struct sums *s, const struct flow *f, const struct flow *before)
{
	s->nr += !before;
	s->acked += known(f->value[BYTES_ACKED]) - (before ? known(before->value[BYTES_ACKED]) : 0);
	s->segments += known(f->segments) - (before ? known(before->segments) : 0);
	s->resent += known(f->value[RETRANS]) - (before ? known(before->value[RETRANS]) : 0);
	if (isnan(f->value[SRTT]))
		return;
	s->rtt += f->value[SRTT];
	s->rtts++;
}

/* Those of the look before are in order. */
static const struct flow *find(const struct flows *some, __u64 cookie)
{
	size_t from = 0, to = some->nr;

	while (from < to) {
		size_t mid = (from + to) / 2;

		if (some->at[mid].cookie == cookie)
			return &some->at[mid];
		if (some->at[mid].cookie < cookie)
			from = mid + 1;
		else
			to = mid;
	}
	return NULL;
}

static void
account_all(struct measurement *p, const struct sockets *l, const struct uses *u, const struct set *cgroups,
	    const struct set *existed)
{
	for (const struct flow *f = l->flows.at; f < l->flows.at + l->flows.nr; f++)
		if (is_meant(f, u, cgroups))
			account(&p->of[has(existed, f->cookie) ? EXISTED : BEGAN], f, find(&l->before, f->cookie));
}

static int
begin(struct measurement *p, const struct sockets *l, const struct uses *u, const struct set *cgroups,
      struct set *existed)
{
	int err = 0;

	for (const struct flow *f = l->flows.at; f < l->flows.at + l->flows.nr && !err; f++) {
		if (!is_meant(f, u, cgroups))
			continue;
		p->of[EXISTED].nr++;
		err = add(existed, f->cookie);
	}
	if (existed->nr)
		qsort(existed->at, existed->nr, sizeof(*existed->at), by_number);
	return err;
}

int measurement_take(struct measurement *p, const struct uses *u, long seconds, const sigset_t *signals)
{
	__u64 began = now_ns(), end = ns_after(seconds), next;
	struct set existed = {}, cgroups = {};
	struct sockets l = {};
	int sig = 0, err;

	*p = (struct measurement){};
	err = look_at(&l, u, &cgroups);
	if (!err)
		err = begin(p, &l, u, &cgroups, &existed);
	while (!err && sig <= 0 && now_ns() < end) {
		next = now_ns() + NS_PER_S;
		sig = wait_till(next < end ? next : end, signals);
		err = look_at(&l, u, &cgroups);
		if (!err)
			account_all(p, &l, u, &cgroups, &existed);
	}
	p->seconds = (now_ns() - began) / (double)NS_PER_S;
	sockets_free(&l);
	free(existed.at);
	free(cgroups.at);
	return err ? -1 : sig > 0 ? sig : 0;
}

double measurement_goodput(const struct measurement *p, int age)
{
	return p->of[age].nr ? 8 * p->of[age].acked / p->seconds : NAN;
}

double measurement_rtt(const struct measurement *p, int age)
{
	return p->of[age].rtts ? p->of[age].rtt / p->of[age].rtts : NAN;
}

double measurement_resent(const struct measurement *p, int age)
{
	return p->of[age].segments > 0 ? p->of[age].resent / p->of[age].segments : NAN;
}
