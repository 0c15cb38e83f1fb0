// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <limits.h>
#include <string.h>

#include "kernel/device.h"
#include "kernel/registry.h"
#include "uses/thinning.h"
#include "view/output.h"

/* A cgroup's attachments stand together. */
bool thinning_next(const struct attachments *all, int *i, struct thinning *t)
{
	memset(t, 0, sizeof(*t));
	for (; *i < all->nr; (*i)++) {
		const struct attached *a = &all->at[*i];

		if (strcmp(a->owner, THIN))
			continue;
		if (t->cgroup && strcmp(a->cgroup, t->cgroup))
			break;
		if (!t->at)
			t->at = a;
		t->cgroup = a->cgroup;
		t->btf_id = a->btf_id;
		t->programs++;
	}
	return t->cgroup;
}

const char *thinning_text(const char *cgroup)
{
	static char text[PATH_MAX + 40];

	snprintf(text, sizeof(text), "%s %s",
		 is_on_device(cgroup) ? "forwarded ACKs that leave by" : "ACKs of connections in", cgroup);
	return text;
}

void thinning_members(const struct thinning *t)
{
	const struct attached *a = t->at;

	if (a->netns)
		members(text_of("device", a->device), text_of("netns", a->netns->name));
	else
		members(text_of("cgroup", t->cgroup));
	members(integer_of("acks_sent", t->sent), integer_of("acks_dropped", t->dropped));
}

bool thinning_elsewhere(const struct attachments *all, const char *dev, struct thinning *t)
{
	int i = 0;

	while (thinning_next(all, &i, t))
		if (!strcmp(t->at->device, dev) && !t->at->netns->own)
			return true;
	return false;
}

const char *thinning_command(const struct thinning *t, const char *words)
{
	const struct netns_id *netns = t->at->netns;
	static char text[PATH_MAX + 400];

	if (netns)
		snprintf(text, sizeof(text), "%sasymcc %s --dev %s", netns_prefix(netns->name, netns->own), words,
			 t->at->device);
	else
		snprintf(text, sizeof(text), "asymcc %s --cgroup %s", words, t->cgroup);
	return text;
}

int thinning_count(struct thinning *t)
{
	struct section s = {};
	int err = section_read(&s, t->btf_id, ".bss");
	const struct var *v;

	for (int i = 0; i < s.vars.nr && !err; i++) {
		v = &s.vars.var[i];
		if (!strcmp(v->name, "acks_sent"))
			t->sent = var_get(v, s.bytes);
		else if (!strcmp(v->name, "acks_suppressed"))
			t->dropped = var_get(v, s.bytes);
	}
	section_free(&s);
	return err;
}

int thinning_attach(struct device *d, struct object *o)
{
	int err = device_load(d, o);
	struct bpf_program *p;

	bpf_object__for_each_program(p, o->bpf)
		err = err ? err : attached_check_findable(bpf_program__fd(p), THIN);
	if (!err)
		err = device_attach(d, o);
	if (err)
		device_leave(d);
	return err;
}

int thinning_detach(const char *place)
{
	struct attachments all;
	int err = attachments_read(&all), nr = 0;

	if (!err) {
		attachments_keep(&all, THIN, place);
		nr = all.nr;
		err = attachments_detach(&all);
	}
	attachments_free(&all);
	return err ? -1 : nr;
}
