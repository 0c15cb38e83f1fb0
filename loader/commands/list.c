// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "kernel/inventory.h"
#include "uses/uses.h"

static struct {
	bool json;
} args;

/* What a list tells of. */
struct seen {
	struct sight now;
	char **built;
	bool unread; /* the kernel could not be read: only what is built is known */
};

static void json_users(const struct netns_list *l, const char *cc)
{
	const char *sep = "";

	printf("[");
	for (int i = 0; i < l->nr; i++) {
		const struct netns *ns = &l->ns[i];
		unsigned int sockets = netns_sockets(ns, cc);
		bool initial = !strcmp(ns->initial, cc);
		const char *comma = "";

		if (!initial && !sockets && !netns_routes(ns, cc))
			continue;
		printf("%s{\"netns\": %s, \"default\": %s, \"routes\": [", sep, json_text(ns->name),
		       initial ? "true" : "false");
		for (int k = 0; k < ns->nr_route; k++) {
			if (strcmp(ns->route[k].name, cc))
				continue;
			printf("%s%s", comma, json_text(ns->route[k].text));
			comma = ", ";
		}
		printf("], \"sockets\": %u}", sockets);
		sep = ", ";
	}
	printf("]");
}

/* Routes to which `use` gave it, and that have it no more. */
static void json_lost(const struct netns_list *l, const char *cc)
{
	const char *sep = "";

	printf(", \"lost\": [");
	for (int i = 0; i < l->nr; i++) {
		for (int k = 0; k < l->ns[i].nr_lost; k++) {
			if (strcmp(l->ns[i].lost[k].name, cc))
				continue;
			printf("%s{\"netns\": %s, \"route\": %s}", sep, json_text(l->ns[i].name),
			       json_text(l->ns[i].lost[k].text));
			sep = ", ";
		}
	}
	printf("]");
}

static void print_lost(const struct netns_list *l, const char *cc)
{
	for (int i = 0; i < l->nr; i++)
		for (int k = 0; k < l->ns[i].nr_lost; k++)
			if (!strcmp(l->ns[i].lost[k].name, cc))
				printf("; lost: route %s in %s", l->ns[i].lost[k].text, l->ns[i].name);
}

/* Cgroups that `use` gave the controller. */
static void json_used_in(const struct attachments *all, const char *cc)
{
	const char *sep = "";

	printf(", \"used_in\": [");
	for (int i = 0; i < all->nr; i++) {
		if (!attached_gives(&all->at[i], cc))
			continue;
		printf("%s%s", sep, json_text(all->at[i].cgroup));
		sep = ", ";
	}
	printf("]");
}

/* Programs of others that run after that of `use`, and may choose another controller. */
static void print_after(const struct seen *s, const char *cc)
{
	for (int i = 0; i < s->now.all.nr && s->now.after; i++) {
		const struct attached *ours = &s->now.all.at[i];

		for (int k = 0; k < s->now.after[i].nr && attached_gives(ours, cc); k++) {
			const struct attached *theirs = &s->now.after[i].at[k];

			printf("; after it in %s runs %s (program %u) of %s", ours->cgroup, theirs->name,
			       theirs->prog_id, theirs->cgroup);
		}
	}
}

static void json_after(const struct seen *s, const char *cc)
{
	const char *sep = "";

	printf(", \"after\": [");
	for (int i = 0; i < s->now.all.nr && s->now.after; i++) {
		const struct attached *ours = &s->now.all.at[i];

		for (int k = 0; k < s->now.after[i].nr && attached_gives(ours, cc); k++, sep = ", ") {
			const struct attached *theirs = &s->now.after[i].at[k];

			printf("%s{\"used_in\": %s, \"program\": %s, \"id\": %u, \"cgroup\": %s}", sep,
			       json_text(ours->cgroup), json_text(theirs->name), theirs->prog_id,
			       json_text(theirs->cgroup));
		}
	}
	printf("]");
}

static void json_row(const struct seen *s, const char *name, const char *object, const struct registered *reg)
{
	printf("{\"name\": %s, \"object\": %s, \"built\": %s, \"map_id\": ", json_text(name), json_text(object),
	       object_is_among(s->built, object) ? "true" : "false");
	printf(reg ? "%u" : "null", reg ? reg->map_id : 0);
	printf(", \"unloading\": %s, \"used_by\": ", reg && reg->unloading ? "true" : "false");
	json_users(&s->now.users, name);
	json_used_in(&s->now.all, name);
	json_after(s, name);
	json_lost(&s->now.users, name);
	attachments_json(&s->now.all, reg ? reg->btf_id : 0, reg ? NULL : name);
	printf("}");
}

static void text_row(const struct seen *s, const char *name, const char *object, const struct registered *reg)
{
	const char *built = !object_is_among(s->built, object) ? "-" : strcmp(name, object) ? object : "yes";
	char *used = s->unread ? NULL : users_text(&s->now.users, &s->now.all, name, true);
	const char *owner = reg ? NULL : name;
	__u32 btf_id = reg ? reg->btf_id : 0;
	char id[40];
	int i = 0;

	snprintf(id, sizeof(id), s->unread ? "?" : "-");
	if (reg)
		snprintf(id, sizeof(id), "%u%s", reg->map_id, reg->unloading ? " (unloading)" : "");
	printf("%-16s %-16s %-16s %s", name, built, id, used ? used : "?");
	if (attachments_cgroup(&s->now.all, btf_id, owner, &i)) {
		printf(used && *used ? "; programs in " : "programs in ");
		attachments_print(&s->now.all, btf_id, owner);
	} else if (used && !*used) {
		putchar('-');
	}
	print_after(s, name);
	if (reg)
		print_lost(&s->now.users, name);
	putchar('\n');
	free(used);
}

/* Objects that are only built first. */
static void print_rows(const struct seen *s)
{
	void (*row)(const struct seen *, const char *, const char *, const struct registered *) =
		args.json ? json_row : text_row;
	const char *sep = "\n  ";
	int thin = 0;

	if (args.json)
		printf("[");
	else
		printf("%-16s %-16s %-16s %s\n", "NAME", "BUILT", "REGISTERED", "USED BY");
	for (char **name = s->built; name && *name; name++) {
		if (registry_find(&s->now.registry, *name))
			continue;
		if (args.json)
			fputs(sep, stdout);
		row(s, *name, *name, NULL);
		sep = ",\n  ";
	}
	for (const struct registered *reg = s->now.registry.at; reg < s->now.registry.at + s->now.registry.nr; reg++) {
		if (args.json)
			fputs(sep, stdout);
		row(s, reg->name, reg->object, reg);
		sep = ",\n  ";
	}
	if (attachments_cgroup(&s->now.all, 0, THIN, &thin)) {
		if (args.json)
			fputs(sep, stdout);
		row(s, THIN, THIN, NULL);
	}
	if (args.json)
		printf("\n]\n");
}

static int list(void)
{
	struct seen s = {};
	const char *unread;
	int err = sight_read(&s.now, false);

	s.unread = err;
	if (err)
		sight_free(&s.now);
	else
		err = netns_warn(&s.now.users);
	unread = object_names(&s.built);
	if (unread)
		err = fail("%s cannot be read, or not all of it: %s", object_dir(), unread);
	if (!s.unread || !args.json)
		print_rows(&s);
	if (!s.unread)
		attachments_warn(&s.now.all, NULL);
	object_names_free(s.built);
	sight_free(&s.now);
	return err;
}

static const struct opt opts[] = { OPT_JSON(&args.json), {} };

const struct command cmd_list = {
	.name = "list",
	.opts = opts,
	.objects = true,
	.run = list,
	.summary = "controllers built and registered, and who uses them",
	.about = "USED BY tells namespaces whose default a controller is, routes and cgroups that `use` gave it, and "
		 "open sockets. \"lost\" are routes to which `use` gave it, and that have it no more. "
		 "A program of somebody else that runs after that of `use` in a cgroup may choose another controller.",
};
