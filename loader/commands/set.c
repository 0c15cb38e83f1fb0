// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "object/object.h"
#include "kernel/registry.h"
#include "uses/state.h"

static struct {
	const char *name;
	struct texts assignments;
} args;

/* One that is changed. */
struct change {
	const struct var *var;
	long long before;
};

/* How the user gets the value, and keeps the others that are not the object's. */
static int fail_constant(const struct registered *reg, const struct params *p, const struct var *v, long long value)
{
	bool by_alias = strcmp(reg->object, args.name);
	char others[512] = "";
	struct object o = {};
	size_t n = 0;

	if (object_open_if_built(&o, reg->object)) {
		for (int i = 0; i < p->vars.nr && n < sizeof(others) - 80; i++) {
			const struct var *now = &p->vars.var[i],
					 *built = vars_find(&o.params, now->name, strlen(now->name));
			long long is = var_get(now, now->live ? p->data.bytes : p->rodata.bytes);

			if (built && strcmp(now->name, v->name) && is != object_get(&o, built))
				n += snprintf(others + n, sizeof(others) - n, " --set %s=%lld", now->name, is);
		}
	}
	object_close(&o);
	return fail("%s is a constant of the loaded program; for new connections: `asymcc load %s%s%s --replace --set "
		    "%s=%lld%s`",
		    v->name, reg->object, by_alias ? " --as " : "", by_alias ? args.name : "", v->name, value, others);
}

/* In our copy of the values. */
static int change(const struct registered *reg, const struct params *p, const char *assignment, struct change *c)
{
	long long value;

	if (assignment_parse(&p->vars, args.name, "", assignment, &c->var, &value))
		return -1;
	if (!c->var->live)
		return fail_constant(reg, p, c->var, value);
	c->before = var_get(c->var, p->data.bytes);
	var_set(c->var, p->data.bytes, value);
	return 0;
}

static int change_all(const struct registered *reg, const struct params *p, struct change *changes)
{
	int err;

	for (int i = 0; i < args.assignments.nr; i++)
		if (change(reg, p, args.assignments.text[i], &changes[i]))
			return -1;
	err = params_write(p);
	if (err)
		return fail("cannot change %s: %s", args.name, strerror(-err));
	for (const struct change *c = changes; c < changes + args.assignments.nr; c++) {
		bool unit = strcmp(c->var->unit, "-");

		printf("%s: %s=%lld%s%s (was %lld)\n", args.name, c->var->name, var_get(c->var, p->data.bytes),
		       unit ? " " : "", unit ? c->var->unit : "", c->before);
	}
	return 0;
}

static int set_locked(struct change *changes)
{
	const struct registered *reg = NULL;
	struct registry r = {};
	struct params p = {};
	int err = registry_read(&r);

	if (!err) {
		reg = registry_find(&r, args.name);
		err = reg ? params_read(&p, reg->btf_id)
			  : fail("%s is not registered; `asymcc list` shows what is", args.name);
	}
	if (!err)
		err = change_all(reg, &p, changes);
	params_free(&p);
	registry_free(&r);
	return err;
}

static int set(void)
{
	struct change *changes = calloc(args.assignments.nr, sizeof(*changes));
	int err = changes ? state_lock() : fail("out of memory");

	if (!err)
		err = set_locked(changes);
	state_unlock();
	free(changes);
	return err;
}

static const struct opt words[] = {
	{ .arg = "NAME", .cc = &args.name }, { .arg = "PARAM=VALUE...", .texts = &args.assignments }, {}
};

const struct command cmd_set = {
	.name = "set",
	.words = words,
	.objects = true,
	.run = set,
	.summary = "change parameters while flows run",
	.about = "Only those that `show` marks \"live\"; the others are constants of the loaded program and need `load "
		 "--replace`. All or none are changed; running connections follow at their next update.",
};
