// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <limits.h>
#include <string.h>

#include "kernel/device.h"
#include "kernel/registry.h"
#include "uses/thinning.h"

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

void thinning_print(FILE *out, const char *cgroup)
{
	fputs(is_on_device(cgroup) ? "forwarded ACKs that leave by " : "ACKs of connections in ", out);
	print_name(out, cgroup);
}

void thinning_json(const struct thinning *t)
{
	if (t->at->netns)
		printf("{\"device\": %s, \"netns\": %s", json_text(t->at->device), json_text(t->at->netns->name));
	else
		printf("{\"cgroup\": %s", json_text(t->cgroup));
	printf(", \"acks_sent\": %llu, \"acks_dropped\": %llu", t->sent, t->dropped);
}

const char *thinning_option(const char *cgroup)
{
	static char text[PATH_MAX + 16];

	if (is_on_device(cgroup))
		snprintf(text, sizeof(text), "--dev %s", cgroup + strlen(ON_DEVICE));
	else
		snprintf(text, sizeof(text), "--cgroup %s", cgroup);
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
