// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What the loaded programs count, as OpenMetrics text. */
#include <stdio.h>
#include <string.h>

#include "attached.h"
#include "command.h"
#include "registry.h"
#include "thinning.h"

static void print_counters(const struct section *s, const char *name, const char *object, const char *cgroup)
{
	for (int i = 0; i < s->vars.nr; i++) {
		printf("asymcc_events_total{controller=\"%s\",object=\"%s\",cgroup=", name, object);
		json_string(cgroup);
		printf(",event=\"%s\"} %llu\n", s->vars.var[i].name,
		       (unsigned long long)var_get(&s->vars.var[i], s->bytes));
	}
}

static int of_load(__u32 btf_id, const char *name, const char *object, const char *cgroup)
{
	struct section s = {};
	int err = section_read(&s, btf_id, ".bss");

	if (!err)
		print_counters(&s, name, object, cgroup);
	section_free(&s);
	return err;
}

/* A kernel's own controller has no BTF, and counts nothing. */
static int of_controllers(const struct registry *r)
{
	for (int i = 0; i < r->nr; i++)
		if (!r->at[i].unloading && r->at[i].btf_id &&
		    of_load(r->at[i].btf_id, r->at[i].name, r->at[i].object, ""))
			return -1;
	return 0;
}

static int of_thinning(const struct attachments *all)
{
	struct thinning t;
	int i = 0;

	while (thinning_next(all, &i, &t))
		if (of_load(t.btf_id, THIN, THIN, t.cgroup))
			return -1;
	return 0;
}

static int metrics(void)
{
	struct attachments all = {};
	struct registry r = {};
	int err = registry_read(&r) || attachments_read(&all) ? -1 : 0;

	if (!err) {
		printf("# TYPE asymcc_events counter\n"
		       "# HELP asymcc_events Counters of a loaded controller, and of ACK thinning, as `asymcc show` has "
		       "them.\n");
		err = of_controllers(&r) || of_thinning(&all) ? -1 : 0;
	}
	if (!err)
		printf("# EOF\n");
	attachments_free(&all);
	registry_free(&r);
	return err;
}

const struct command cmd_metrics = {
	.name = "metrics",
	.run = metrics,
	.summary = "counters as OpenMetrics text, for a monitoring system",
	.about =
		"For the text files of Prometheus's node exporter: `asymcc metrics >FILE.part && mv FILE.part FILE.prom` "
		"in its folder, once a minute.",
};
