// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#define _GNU_SOURCE 1
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image.h"
#include "object.h"
#include "verifier.h"

#define SUFFIX ".bpf.o"
#define OPS_SECTION ".struct_ops"
#define LINK_SECTION OPS_SECTION ".link"
#define BTF_MAX (1u << 30) /* that of a kernel with all its debug information has less */
#define SECONDS 10 /* of CPU time, to read an object */

static const char *folder; /* NULL: it was not named */
static char core_btf[32]; /* "": it was not named */

void object_settings(const char *dir, bool loud)
{
	folder = dir;
	verifier_listen(loud);
}

int object_core_btf(const char *file)
{
	const char *why;
	size_t size;
	int fd = file_open(file, BTF_MAX, &size, &why);

	if (fd < 0)
		return fail("--btf %s: %s", file, why);
	/* libbpf opens it by name: that of the file that was looked at */
	snprintf(core_btf, sizeof(core_btf), "/proc/self/fd/%d", fd);
	return 0;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && !strcmp(s + n - m, end);
}

/* One whose name no command takes is none. */
static int is_object(const struct dirent *e)
{
	char name[CC_NAME_LEN];
	size_t n = strlen(e->d_name);

	if (!ends_with(e->d_name, SUFFIX) || n - strlen(SUFFIX) >= sizeof(name))
		return false;
	snprintf(name, sizeof(name), "%.*s", (int)(n - strlen(SUFFIX)), e->d_name);
	return is_name(name);
}

static bool holds_objects(const char *dir)
{
	struct dirent *e;
	bool found = false;
	DIR *d = opendir(dir);

	if (!d)
		return false;
	while (!found && (e = readdir(d)))
		found = is_object(e);
	closedir(d);
	return found;
}

const char *object_dir(void)
{
	static char beside[PATH_MAX], installed[PATH_MAX + sizeof(INSTALLED)], plain[PATH_MAX];
	const char *env = getenv("ASYMCC_OBJECTS");
	ssize_t n;

	if (folder)
		return folder;
	if (env && *env)
		return env;
	n = readlink("/proc/self/exe", beside, sizeof(beside) - 1);
	beside[n > 0 ? n : 0] = 0;
	if (strrchr(beside, '/'))
		*strrchr(beside, '/') = 0;
	if (holds_objects(beside))
		return beside;
	snprintf(installed, sizeof(installed), "%s/" INSTALLED, beside);
	return realpath(installed, plain) ? plain : installed;
}

/*
 * A controller is an object with a struct_ops; the others are tools. A file whose sections cannot be read is taken for a
 * controller, too: each command that opens it tells why. An ELF file has a section without a name.
 */
static bool is_controller(const char *path, const char **why)
{
	void *image;
	size_t size, bytes;
	static char told[PATH_MAX];
	const char *unread = image_read(path, &image, &size);
	bool yes = true;

	if (unread && !*why) {
		snprintf(told, sizeof(told), "%s: %s", strrchr(path, '/') + 1, unread);
		*why = told;
	}
	if (!unread)
		yes = !image_section(image, size, "", &bytes) || image_section(image, size, OPS_SECTION, &bytes);
	free(image);
	return yes;
}

const char *object_names(char ***names)
{
	const char *why = NULL, *dir = object_dir();
	struct dirent **entry = NULL;
	int n = scandir(dir, &entry, is_object, alphasort), nr = 0;
	char path[PATH_MAX];

	if (n < 0 && errno != ENOENT)
		why = strerror(errno);
	*names = calloc((n > 0 ? n : 0) + 1, sizeof(**names));
	if (!*names)
		why = strerror(ENOMEM);
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, entry[i]->d_name);
		if (*names && is_controller(path, &why) &&
		    !((*names)[nr++] = strndup(entry[i]->d_name, strlen(entry[i]->d_name) - strlen(SUFFIX)))) {
			nr--;
			why = strerror(ENOMEM);
		}
		free(entry[i]);
	}
	free(entry);
	return why;
}

void object_names_free(char **names)
{
	for (char **n = names; n && *n; n++)
		free(*n);
	free(names);
}

bool object_is_among(char **names, const char *name)
{
	for (; names && *names; names++)
		if (!strcmp(*names, name))
			return true;
	return false;
}

/* Find the name of the ops in the image: section, variable in it, member in that; NULL: it has none. */
static char *ops_name(struct object *o)
{
	size_t size = 0, offset;
	char *section = image_section(o->image, o->size, OPS_SECTION, &size);
	int id = btf__find_by_name_kind(o->btf, OPS_SECTION, BTF_KIND_DATASEC);
	const struct btf_var_secinfo *s;
	const struct btf_member *m;
	const struct btf_type *t;

	if (!section || id < 0)
		return NULL;
	s = btf_var_secinfos(btf__type_by_id(o->btf, id));
	t = btf__type_by_id(o->btf, s->type);
	t = t ? btf_plain_type(o->btf, t->type) : NULL;
	if (!t || strcmp(btf_text(o->btf, t->name_off), "tcp_congestion_ops"))
		return NULL;
	m = btf_member_find(o->btf, t, "name");
	if (!m)
		return NULL;
	o->type = t;
	offset = (size_t)s->offset + m->offset / 8;
	return offset + CC_NAME_LEN <= size ? section + offset : NULL;
}

static int parse(struct object *o, const char *name)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = name, .btf_custom_path = *core_btf ? core_btf : NULL);
	struct bpf_map *map;

	o->bpf = bpf_object__open_mem(o->image, o->size, &opts);
	if (!o->bpf)
		return fail("%s" SUFFIX ": not a BPF object: %s", name, strerror(errno));
	o->btf = bpf_object__btf(o->bpf);
	if (!o->btf)
		return fail("%s" SUFFIX " has no BTF: build it with clang -g", name);
	bpf_object__for_each_map(map, o->bpf) {
		if (bpf_map__type(map) == BPF_MAP_TYPE_STRUCT_OPS)
			o->ops = map;
		else if (ends_with(bpf_map__name(map), ".rodata"))
			o->rodata = (void *)bpf_map__initial_value(map, &o->rodata_size);
		else if (ends_with(bpf_map__name(map), ".data"))
			o->data = (void *)bpf_map__initial_value(map, &o->data_size);
	}
	return 0;
}

static int fail_unknown(const char *name)
{
	char **names, list[512] = "none";
	size_t n = 0;

	object_names(&names);
	for (char **s = names; s && *s && n < sizeof(list) - 80; s++)
		n += snprintf(list + n, sizeof(list) - n, "%s%s", n ? ", " : "", *s);
	object_names_free(names);
	return fail("no controller %s in %s; built there: %s", name, object_dir(), list);
}

/* A parameter is where it says, among the initial values. */
static int check_params(const struct object *o, const char *file)
{
	for (int i = 0; i < o->params.nr; i++) {
		const struct var *v = &o->params.var[i];
		size_t size = v->live ? o->data ? o->data_size : 0 : o->rodata ? o->rodata_size : 0;

		if (v->offset > size || v->size > size - v->offset)
			return fail("%s: parameter %s lies outside of its section", file, v->name);
	}
	return 0;
}

/* One controller an object, and registered without a link: a link ends with the command. */
static int check_ops(const struct object *o, const char *file)
{
	int id = btf__find_by_name_kind(o->btf, OPS_SECTION, BTF_KIND_DATASEC);
	int nr = id < 0 ? 1 : btf_vlen(btf__type_by_id(o->btf, id));

	if (nr != 1)
		return fail("%s has %d struct_ops, one is expected: put each into an object of its own", file, nr);
	if (btf__find_by_name_kind(o->btf, LINK_SECTION, BTF_KIND_DATASEC) >= 0)
		return fail("%s has struct_ops in section " LINK_SECTION ", which ends with the program that loads it: "
			    "write SEC(\"" OPS_SECTION "\")",
			    file);
	return 0;
}

/* What the image says; freed by object_close(). */
static int understand(struct object *o, const char *file, const char *name, const char *alias)
{
	char *patch;

	if (parse(o, name) || check_ops(o, file))
		return -1;
	patch = ops_name(o);
	if (patch && alias) {
		/* libbpf copied the section when it parsed the image: parse the changed one */
		memset(patch, 0, CC_NAME_LEN);
		memcpy(patch, alias, strlen(alias));
		bpf_object__close(o->bpf);
		o->bpf = NULL;
		if (parse(o, name) || !ops_name(o))
			return -1;
	}
	if (patch)
		snprintf(o->ops_name, sizeof(o->ops_name), "%.15s", patch);
	if (!patch)
		o->ops = NULL;
	if (vars_read(&o->params, o->btf, ".data") || vars_read(&o->params, o->btf, ".rodata"))
		return -1;
	return check_params(o, file);
}

/* libbpf may crash of a damaged file: a child reads it first. */
static int try(struct object *o, const char *file, const char *name, const char *alias)
{
	const struct rlimit limit = { SECONDS, SECONDS };
	int status = -1;
	pid_t pid;

	fflush(NULL);
	signal(SIGCHLD, SIG_DFL);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_DUMPABLE, 0); /* no core */
		setrlimit(RLIMIT_CPU, &limit);
		if (freopen("/dev/null", "w", stdout) && freopen("/dev/null", "w", stderr)) /* it is told once */
			understand(o, file, name, alias);
		_exit(0);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (pid < 0)
		return fail("cannot read %s: no process for it: %s", file, strerror(errno));
	return status ? fail("%s is damaged: build or install it anew", file) : 0;
}

int object_open(struct object *o, const char *name, const char *alias)
{
	char path[PATH_MAX];
	const char *why;

	memset(o, 0, sizeof(*o));
	snprintf(path, sizeof(path), "%s/%s" SUFFIX, object_dir(), name);
	if (strchr(name, '/') || access(path, F_OK))
		return fail_unknown(name);
	why = image_read(path, &o->image, &o->size);
	if (why)
		return fail("cannot read %s: %s", path, why);
	return try(o, path, name, alias) ? -1 : understand(o, path, name, alias);
}

void object_write_name(struct object *o, const char *variable, const char *cc)
{
	int offset = vars_offset_of(o->btf, variable);

	if (offset >= 0 && o->rodata && o->rodata_size >= CC_NAME_LEN && (size_t)offset <= o->rodata_size - CC_NAME_LEN)
		strncpy((char *)o->rodata + offset, cc, CC_NAME_LEN);
}

/* Of the names that is_name() admits, those that the kernel takes from BPF. */
static bool is_plain(const char *name)
{
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && *name != '_' && *name != '.')
			return false;
	return true;
}

int object_open_controller(struct object *o, const char *name, const char *alias)
{
	if (alias && !is_plain(alias))
		return fail("--as %s: letters, digits, '_' and '.' only: the kernel takes no other name from BPF",
			    alias);
	if (alias && !strcmp(alias, THIN))
		return fail("--as " THIN ": programs of that name are those of `asymcc thin`");
	if (object_open(o, name, alias))
		return -1;
	if (!o->ops)
		return fail("%s/%s" SUFFIX " is not a controller: it has no tcp_congestion_ops in section " OPS_SECTION,
			    object_dir(), name);
	if (!*o->ops_name || !is_plain(o->ops_name))
		return fail("%s/%s" SUFFIX ": the name of its controller is damaged", object_dir(), name);
	/* so that programs outside the struct_ops know which controller is theirs */
	object_write_name(o, "asymcc_name", o->ops_name);
	return 0;
}

bool object_open_if_built(struct object *o, const char *name)
{
	char **names;
	bool built;

	object_names(&names);
	built = object_is_among(names, name);
	object_names_free(names);
	return built && !object_open_controller(o, name, NULL);
}

void object_close(struct object *o)
{
	vars_free(&o->params);
	bpf_object__close(o->bpf);
	free(o->image);
	memset(o, 0, sizeof(*o));
}

int object_set(struct object *o, const char *assignment)
{
	const struct var *v;
	long long value;

	if (assignment_parse(&o->params, bpf_object__name(o->bpf), "--set ", assignment, &v, &value))
		return -1;
	var_set(v, v->live ? o->data : o->rodata, value);
	return 0;
}

long long object_get(const struct object *o, const struct var *v)
{
	return var_get(v, v->live ? o->data : o->rodata);
}

static int fail_register(const struct object *o, int err)
{
	if (err == -EEXIST)
		return fail("cannot register %s: the kernel has a congestion control of that name; choose another with "
			    "--as",
			    o->ops_name);
	if (err == -EINVAL)
		return fail("cannot register %s: the kernel refuses its ops: ssthresh, undo_cwnd and one of cong_avoid "
			    "and cong_control are required",
			    o->ops_name);
	return fail("cannot register %s: %s", o->ops_name, strerror(-err));
}

int object_register(const struct object *o)
{
	struct bpf_link *link = bpf_map__attach_struct_ops(o->ops);

	if (!link)
		return fail_register(o, -errno);
	/* the registration shall outlive us: without this, destroying the link undoes it */
	bpf_link__disconnect(link);
	bpf_link__destroy(link);
	return 0;
}
