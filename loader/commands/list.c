// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "uses/inventory.h"
#include "uses/uses.h"
#include "view/output.h"

static struct {
	bool json;
} args;

/* The rows of a list are made of this. */
struct seen {
	struct inventory now;
	char **built;
	bool unread; /* the kernel could not be read: only what is built is known */
};

/* JSON has its users in each namespace; the text has all of them in one column. */
static void print_users(const struct users *l, const char *cc)
{
	list_begin("used_by", "", "");
	for (const struct netns *ns = l->ns; ns < l->ns + l->nr; ns++) {
		unsigned int sockets = netns_sockets(ns, cc);
		bool initial = !strcmp(ns->initial, cc);

		if (!initial && !sockets && !netns_routes(ns, cc))
			continue;
		object_begin(NULL, "", "");
		members(text_of("netns", ns->name), flag_of("default", initial));
		list_begin("routes", "", "");
		for (int k = 0; k < ns->nr_route; k++)
			if (!strcmp(ns->route[k].name, cc))
				members(text_of(NULL, ns->route[k].text));
		level_end();
		members(integer_of("sockets", sockets));
		level_end();
	}
	level_end();
}

/* Routes to which `use` gave it, and that have it no more. */
static void print_lost(const struct users *l, const char *cc, bool registered)
{
	list_begin("lost", "", "");
	for (const struct netns *ns = l->ns; ns < l->ns + l->nr; ns++)
		for (int k = 0; k < ns->nr_lost; k++) {
			if (strcmp(ns->lost[k].name, cc))
				continue;
			object(text_of("netns", ns->name), text_of("route", ns->lost[k].text));
			if (registered)
				print("; lost: route %s in %s", ns->lost[k].text, ns->name);
		}
	level_end();
}

/* Cgroups that `use` gave the controller. */
static void print_cgroups(const struct attachments *all, const char *cc)
{
	list_begin("used_in", "", "");
	for (int i = 0; i < all->nr; i++)
		if (attached_gives(&all->at[i], cc))
			members(text_of(NULL, all->at[i].cgroup));
	level_end();
}

/* Programs of others that run after that of `use`, and may choose another controller. */
static void print_after(const struct seen *s, const char *cc)
{
	list_begin("after", "", "");
	for (int i = 0; i < s->now.all.nr && s->now.after; i++) {
		const struct attached *ours = &s->now.all.at[i];

		for (int k = 0; k < s->now.after[i].nr && attached_gives(ours, cc); k++) {
			const struct attached *theirs = &s->now.after[i].at[k];

			object(text_of("used_in", ours->cgroup), text_of("program", theirs->name),
			       integer_of("id", theirs->prog_id), text_of("cgroup", theirs->cgroup));
			print("; after it in %s runs %s (program %u) of %s", printable(ours->cgroup), theirs->name,
			      theirs->prog_id, printable(theirs->cgroup));
		}
	}
	level_end();
}

static void print_row(const struct seen *s, const char *name, const char *object, const struct registered *reg)
{
	bool built = object_is_among(s->built, object);
	char *used = s->unread ? NULL : users_text(&s->now.users, &s->now.all, name, true);
	const char *owner = reg ? NULL : name;
	__u32 btf_id = reg ? reg->btf_id : 0;
	char id[40];

	snprintf(id, sizeof(id), s->unread ? "?" : "-");
	if (reg)
		snprintf(id, sizeof(id), "%u%s", reg->map_id, reg->unloading ? " (unloading)" : "");
	print("%-16s %-16s %-16s %s", name,
	      !built                 ? "-"
	      : strcmp(name, object) ? object
				     : "yes",
	      id, used ? used : "?");
	object_begin(NULL, "", "");
	members(text_of("name", name), text_of("object", object), flag_of("built", built),
		integer_if("map_id", reg, reg ? reg->map_id : 0), flag_of("unloading", reg && reg->unloading));
	print_users(&s->now.users, name);
	print_cgroups(&s->now.all, name);
	if (used && !*used && !attachments_cgroup(&s->now.all, btf_id, owner, &(int){ 0 }))
		print("-");
	if (!output_is_json())
		attachments_print(&s->now.all, btf_id, owner, used && *used ? "; programs in " : "programs in ");
	print_after(s, name);
	print_lost(&s->now.users, name, reg);
	if (output_is_json())
		attachments_print(&s->now.all, btf_id, owner, "");
	level_end();
	print("\n");
	free(used);
}

/* Objects that are only built first. */
static void print_rows(const struct seen *s)
{
	const struct registry *r = &s->now.registry;

	list_begin(NULL, "\n  ", "\n");
	print("%-16s %-16s %-16s %s\n", "NAME", "BUILT", "REGISTERED", "USED BY");
	for (char **name = s->built; name && *name; name++)
		if (!registry_find(r, *name))
			print_row(s, *name, *name, NULL);
	for (const struct registered *reg = r->at; reg < r->at + r->nr; reg++)
		print_row(s, reg->name, reg->object, reg);
	if (attachments_cgroup(&s->now.all, 0, THIN, &(int){ 0 }))
		print_row(s, THIN, THIN, NULL);
	level_end();
}

static int list(void)
{
	struct seen s = {};
	const char *unread;
	int err = inventory_read(&s.now, false);

	output_json(args.json);
	s.unread = err;
	if (err)
		inventory_free(&s.now);
	else
		err = users_warn(&s.now.users);
	unread = object_names(&s.built);
	if (unread)
		err = fail("%s cannot be read, or not all of it: %s", object_dir(), unread);
	if (!s.unread || !args.json)
		print_rows(&s);
	if (!s.unread &&
	    (attachments_hidden(&s.now.all, NULL, false) < 0 || users_warn_hidden(&s.now.users, &s.now.registry)))
		err = -1;
	object_names_free(s.built);
	inventory_free(&s.now);
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
