// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "uses/boot.h"
#include "kernel/cgroup.h"
#include "kernel/device.h"
#include "command.h"
#include "object/elf.h"
#include "object/object.h"
#include "kernel/route.h"
#include "uses/setting.h"

#define CONF_MAX 65536
#define UNITS "/etc/systemd/system/*.wants/"
#define INIT "/etc/rc*.d/S*asymcc"

static char *read_file(const char *path, const char **why)
{
	size_t size;
	int fd = file_open(path, CONF_MAX, &size, why);
	char *text = fd < 0 ? NULL : calloc(1, size + 1);
	ssize_t n = text ? read(fd, text, size) : -1;

	if (fd >= 0 && n < 0)
		*why = strerror(text ? errno : ENOMEM);
	if (fd >= 0)
		close(fd);
	if (n >= 0)
		return text;
	free(text);
	return NULL;
}

/* The uses that USE names. */
static const char *read_uses(struct boot *b)
{
	static struct uses u;
	static bool existing;
	static const struct opt opts[] = {
		USES_OPTS(u), SHARE_OPTS(u), { "existing", 'e', NULL, "", .flag = &existing }, {}
	};
	static const struct command use = { .name = "use", .opts = opts };
	struct texts words = {};
	int err;

	u = (struct uses){ .cc = b->name };
	err = setting_split(b->use, &words, &b->words) || options_parse(&use, &words) || uses_parse(&u);
	free(words.text);
	b->uses = u;
	return err ? "its USE is wrong" : NULL;
}

/* The place where THIN thins. */
static const char *read_thin(struct boot *b)
{
	static struct texts cgroups, set;
	static const char *dev, *other;
	static bool atm;
	static const struct opt opts[] = {
		{ "cgroup", 'c', "PATH", "", .texts = &cgroups },
		{ "dev", 'd', "DEVICE", "", .text = &dev },
		{ "reverse", 'r', "RATE", "", .text = &other },
		{ "overhead", 'e', "N", "", .text = &other },
		{ "mpu", 'p', "N", "", .text = &other },
		{ "atm", 'a', NULL, "", .flag = &atm },
		{ "max", 'm', "N", "", .text = &other },
		{ "set", 's', "PARAM=VALUE", "", .texts = &set },
		{},
	};
	static const struct command thin = { .name = THIN, .opts = opts };
	char root[PATH_MAX];
	struct texts words = {};
	int fd, err = setting_split(b->thin, &words, &b->words) || options_parse(&thin, &words) ? -1 : 0;

	free(words.text);
	if (err)
		return "its THIN is wrong";
	b->uses.cgroups = cgroups;
	if (dev && asprintf(&b->place, ON_DEVICE "%s", dev) < 0)
		b->place = NULL;
	else if (!dev && !cgroups.nr && (fd = cgroup_open_root(root)) >= 0) {
		close(fd);
		b->place = strdup(root);
	}
	return NULL;
}

static bool is_wanted(const char *unit)
{
	char pattern[sizeof(UNITS) + sizeof(((struct boot *)0)->unit)];
	glob_t g;
	bool found;

	snprintf(pattern, sizeof(pattern), UNITS "%s", unit);
	found = !glob(pattern, GLOB_NOCHECK, NULL, &g) && strcmp(g.gl_pathv[0], pattern);
	globfree(&g);
	return found;
}

static bool has_init(void)
{
	glob_t g;
	bool found = !glob(INIT, 0, NULL, &g);

	if (found)
		globfree(&g);
	return found;
}

static struct boot *add(struct boots *b, const char *name)
{
	struct boot *room = realloc(b->at, (b->nr + 1) * sizeof(*room));

	if (!room) {
		fail("out of memory");
		return NULL;
	}
	b->at = room;
	room += b->nr++;
	*room = (struct boot){};
	snprintf(room->name, sizeof(room->name), "%s", name);
	snprintf(room->unit, sizeof(room->unit), strcmp(name, THIN) ? "asymcc@%s.service" : "asymcc-thin.service",
		 name);
	room->starts = is_wanted(room->unit);
	if (!room->starts && has_init()) {
		snprintf(room->unit, sizeof(room->unit), "the init script");
		room->starts = true;
	}
	return room;
}

static void read_conf(struct boot *b)
{
	char path[sizeof(CONF_DIR) + CC_NAME_LEN + 8];
	const char *why;
	char *text;

	snprintf(path, sizeof(path), CONF_DIR "/%s.conf", b->name);
	text = read_file(path, &why);
	if (!text) {
		b->unread = strdup(why); /* the next file's would take its place */
		b->wrong = b->unread ? b->unread : why;
		return;
	}
	if (!strcmp(b->name, THIN)) {
		b->thin = setting_read(text, "THIN");
		if (!b->thin)
			b->thin = strdup("");
	} else {
		b->load = setting_read(text, "LOAD");
		b->use = setting_read(text, "USE");
	}
	free(text);
}

/* Enabled, without a file: the controller is loaded, and waits. */
static int add_bare(struct boots *b)
{
	int err = 0;
	glob_t g;

	if (glob(UNITS "asymcc@*.service", 0, NULL, &g))
		return 0;
	for (size_t i = 0; i < g.gl_pathc && !err; i++) {
		const char *at = strrchr(g.gl_pathv[i], '@') + 1;
		char name[CC_NAME_LEN];

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, "."), at);
		if (is_name(name) && !boot_find(b, name))
			err = add(b, name) ? 0 : -1;
	}
	globfree(&g);
	return err;
}

int boots_read(struct boots *b)
{
	int err = 0;
	DIR *d = opendir(CONF_DIR);
	struct dirent *e;

	*b = (struct boots){};
	if (!d && errno != ENOENT)
		return fail("cannot read " CONF_DIR ": %s", strerror(errno));
	while (d && !err && (e = readdir(d))) {
		char name[CC_NAME_LEN] = "";
		size_t n = strlen(e->d_name);

		if (!ends_with(e->d_name, ".conf") || n - 5 >= sizeof(name))
			continue;
		memcpy(name, e->d_name, n - 5);
		if (!is_name(name))
			continue;
		err = add(b, name) ? 0 : -1;
		if (!err)
			read_conf(&b->at[b->nr - 1]);
	}
	if (d)
		closedir(d);
	if (!err)
		err = add_bare(b);
	if (!err && !boot_find(b, THIN) && is_wanted("asymcc-thin.service"))
		err = add(b, THIN) && (b->at[b->nr - 1].thin = strdup("")) ? 0 : fail("out of memory");
	for (int i = 0; i < b->nr && !err; i++) {
		struct boot *one = &b->at[i];

		if (one->use)
			one->wrong = read_uses(one);
		else if (one->thin)
			one->wrong = read_thin(one);
	}
	return err;
}

void boots_free(struct boots *b)
{
	for (int i = 0; i < b->nr; i++) {
		free(b->at[i].unread);
		free(b->at[i].load);
		free(b->at[i].use);
		free(b->at[i].thin);
		free(b->at[i].words);
		free(b->at[i].place);
		uses_free(&b->at[i].uses);
	}
	free(b->at);
	*b = (struct boots){};
}

const struct boot *boot_find(const struct boots *b, const char *name)
{
	for (int i = 0; i < b->nr; i++)
		if (!strcmp(b->at[i].name, name))
			return &b->at[i];
	return NULL;
}

static const struct uses *uses_at_boot(const struct boots *b, const char *cc)
{
	const struct boot *of = boot_find(b, cc);

	return of && of->starts && !of->wrong ? &of->uses : NULL;
}

bool boot_has_default(const struct boots *b, const char *cc)
{
	const struct uses *u = uses_at_boot(b, cc);

	return u && u->by_default;
}

bool boot_has_route(const struct boots *b, const char *cc, const char *route)
{
	const struct uses *u = uses_at_boot(b, cc);

	for (int i = 0; u && i < u->routes.nr; i++)
		if (route_text_is_to(route, &u->prefix[i]))
			return true;
	return false;
}

bool boot_has_cgroup(const struct boots *b, const char *cc, const char *path)
{
	const struct uses *u = uses_at_boot(b, cc);
	const struct boot *of = boot_find(b, cc);
	char real[PATH_MAX];

	if (u && of->place && !strcmp(of->place, path))
		return true;
	for (int i = 0; u && i < u->cgroups.nr; i++)
		if (!strcmp(realpath(u->cgroups.text[i], real) ? real : u->cgroups.text[i], path))
			return true;
	return false;
}
