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
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "args.h"
#include "object/elf.h"
#include "object/object.h"
#include "object/struct_ops.h"
#include "object/verifier.h"

#define SUFFIX ".bpf.o"
#define BTF_MAX (1u << 30) /* that of a kernel with all its debug information has less */
#define SECONDS 10 /* of CPU time, to read an object */

/* The place of an object. */
struct place {
	char path[PATH_MAX];
	char name[CC_NAME_LEN]; /* what libbpf calls it */
	const char *chosen;     /* the controller that is meant, "": the only one */
};

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
 * controller, too: each command that opens it tells why.
 */
static bool is_controller(const char *path, const char **why)
{
	void *image;
	size_t size;
	static char told[PATH_MAX];
	const char *unread = elf_read(path, &image, &size);
	bool yes = true;

	if (unread && !*why) {
		snprintf(told, sizeof(told), "%s: %s", strrchr(path, '/') + 1, unread);
		*why = told;
	}
	if (!unread)
		yes = ops_are_in(image, size);
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

static int parse(struct object *o, const struct place *at)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = at->name,
		    .btf_custom_path = *core_btf ? core_btf : NULL);
	struct bpf_map *map;

	libbpf_complaint_forget();
	o->bpf = bpf_object__open_mem(o->image, o->size, &opts);
	if (!o->bpf)
		return fail("%s: not a BPF object that libbpf %s can read: %s: %s", at->path, libbpf_version_string(),
			    strerror(errno), libbpf_complaint());
	o->btf = bpf_object__btf(o->bpf);
	if (!o->btf)
		return fail("%s has no BTF: build it with clang -g", at->path);
	bpf_object__for_each_map(map, o->bpf) {
		if (ends_with(bpf_map__name(map), ".rodata"))
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

/* Reads what the image says; freed by object_close(). `ops`: it is a controller, to be registered as `alias`, if that is one. */
static int understand(struct object *o, const struct place *at, bool ops, const char *alias)
{
	struct ops mine;
	int id;

	if (ops && (ops_find(&mine, o->image, o->size, at->path, at->chosen) ||
		    ops_check_programs(&mine, o->image, o->size, at->path)))
		return -1;
	if (ops) {
		ops_settle(&mine, o->image, o->size, alias);
		snprintf(o->ops_name, sizeof(o->ops_name), "%.15s", mine.name);
		o->l4s = mine.l4s;
	}
	if (parse(o, at))
		return -1;
	if (ops) {
		o->ops = ops_alone(&mine, o->image, o->size, o->bpf);
		id = btf__find_by_name_kind(o->btf, "tcp_congestion_ops", BTF_KIND_STRUCT);
		if (!o->ops || id < 0)
			return fail("%s: libbpf %s finds no %s in it", at->path, libbpf_version_string(),
				    mine.symbol.name);
		o->type = btf__type_by_id(o->btf, id);
	}
	if (vars_read(&o->params, o->btf, ".data") || vars_read(&o->params, o->btf, ".rodata"))
		return -1;
	return check_params(o, at->path);
}

/* libbpf may crash of a damaged file: a child reads it first. */
static int try(struct object *o, const struct place *at, bool ops, const char *alias)
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
			understand(o, at, ops, alias);
		_exit(0);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (pid < 0)
		return fail("cannot read %s: no process for it: %s", at->path, strerror(errno));
	return status ? fail("%s is damaged: build or install it anew", at->path) : 0;
}

/* "fast", "./mine.bpf.o", and either with ":NAME" behind it. */
static int find(struct place *at, const char *spec)
{
	const char *colon = ends_with(spec, ".o") ? NULL : strrchr(spec, ':');
	size_t n = colon ? (size_t)(colon - spec) : strlen(spec);
	const char *base = memrchr(spec, '/', n);

	*at = (struct place){ .chosen = colon ? colon + 1 : "" };
	base = base ? base + 1 : spec;
	/* libbpf and the kernel make names of it */
	for (size_t i = 0; i < CC_NAME_LEN - 1 && base + i < spec + n && base[i] != '.'; i++)
		at->name[i] = isalnum((unsigned char)base[i]) ? base[i] : '_';
	if (is_file(spec)) {
		if (snprintf(at->path, sizeof(at->path), "%.*s", (int)n, spec) >= (int)sizeof(at->path))
			return fail("%.60s...: the name of the file is too long", spec);
		if (access(at->path, F_OK))
			return fail("%s: %s", at->path, strerror(errno));
		return *at->name ? 0 : fail("%s: a file with a name before its first dot is expected", at->path);
	}
	snprintf(at->name, sizeof(at->name), "%.*s", (int)n, spec);
	snprintf(at->path, sizeof(at->path), "%s/%.*s" SUFFIX, object_dir(), (int)n, spec);
	return !is_name(at->name) || n >= CC_NAME_LEN || access(at->path, F_OK) ? fail_unknown(spec) : 0;
}

static int open_as(struct object *o, const char *spec, bool ops, const char *alias)
{
	struct place at;
	const char *why;

	memset(o, 0, sizeof(*o));
	if (find(&at, spec))
		return -1;
	why = elf_read(at.path, &o->image, &o->size);
	if (why)
		return fail("cannot read %s: %s", at.path, why);
	o->path = realpath(at.path, NULL);
	return try(o, &at, ops, alias) ? -1 : understand(o, &at, ops, alias);
}

int object_open(struct object *o, const char *name)
{
	return open_as(o, name, false, NULL);
}

void object_write_name(struct object *o, const char *variable, const char *cc)
{
	int offset = vars_offset_of(o->btf, variable);

	if (offset >= 0 && o->rodata && o->rodata_size >= CC_NAME_LEN && (size_t)offset <= o->rodata_size - CC_NAME_LEN)
		strncpy((char *)o->rodata + offset, cc, CC_NAME_LEN);
}

/* The kernel takes from BPF these alone of the names that is_name() admits. */
static bool is_plain(const char *name)
{
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && *name != '_' && *name != '.')
			return false;
	return true;
}

int object_check_name(const struct object *o, const char *spec)
{
	if (!*o->ops_name || !is_plain(o->ops_name))
		return fail("%s: its controller registers as \"%s\", which is no name that the kernel takes from BPF: "
			    "give it one with --as",
			    spec, o->ops_name);
	return 0;
}

int object_open_controller(struct object *o, const char *spec, const char *alias)
{
	if (alias && !is_plain(alias))
		return fail("--as %s: letters, digits, '_' and '.' only: the kernel takes no other name from BPF",
			    alias);
	if (alias && !strcmp(alias, THIN))
		return fail("--as " THIN ": programs of that name are those of `asymcc thin`");
	if (open_as(o, spec, true, alias))
		return -1;
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
	free(o->path);
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

bool object_fails_needs(const struct object *o)
{
	struct utsname host;
	struct needs needs;

	if (!needs_read(&needs, o->btf) || uname(&host) || !needs_more(&needs, host.release))
		return false;
	fail("cannot load %s: it needs Linux %u.%u or later, for %s; this is %s", o->ops_name, needs.major, needs.minor,
	     needs.what, host.release);
	return true;
}

static int fail_register(const struct object *o, int err)
{
	if (err == -EINVAL && object_fails_needs(o))
		return -1;
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
