// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "args.h"
#include "kernel/attachments.h"
#include "kernel/cgroup.h"
#include "kernel/clock.h"
#include "kernel/device.h"
#include "kernel/registry.h"
#include "view/output.h"

#define MAX_MAPS 64        /* of a program: the kernel's MAX_USED_MAPS */
#define DYING_TRIES 60 /* 3 s: the kernel frees a network namespace when it has time */
#define DYING_US 50000
#define MAX_EFFECTIVE 1024 /* a cgroup takes 64 of a kind, and those of all above it count */

/* The kernel cuts names, and the object's may be longer. */
static bool same_name(const struct attached *a, const char *prog)
{
	return !strncmp(prog, a->name, sizeof(a->name) - 1);
}

bool attached_is_of(const struct attached *a, const struct object *o)
{
	struct bpf_program *p;

	bpf_object__for_each_program(p, o->bpf)
		if (hook_of(p) == a->hook && same_name(a, bpf_program__name(p)))
			return true;
	return false;
}

static int fail_read(const char *cgroup, int err)
{
	return fail("cannot read what is attached to %s: %s", cgroup, strerror(-err));
}

static void read_name(const struct section *s, const char *variable, char name[CC_NAME_LEN])
{
	int offset = s->btf ? vars_offset_of(s->btf, variable) : -1;

	if (offset >= 0)
		snprintf(name, CC_NAME_LEN, "%.15s", (const char *)s->bytes + offset);
	if (!is_name(name))
		name[0] = 0;
}

/* The names that the loader wrote into the program's object, and the map that has them, 0 if there is none. */
static int read_written_names(struct attached *a, __u32 *map_id)
{
	struct section s;
	int err = section_read(&s, a->btf_id, ".rodata");

	if (!err) {
		read_name(&s, "asymcc_name", a->owner);
		read_name(&s, "asymcc_used", a->used);
		read_name(&s, "asymcc_before", a->before);
		*map_id = s.map_id;
	}
	section_free(&s);
	return err;
}

/* Does the map stay as long as the program? libbpf binds one that a program does not read. */
static bool holds(const __u32 maps[MAX_MAPS], __u32 map_id)
{
	for (int i = 0; i < MAX_MAPS; i++)
		if (maps[i] == map_id)
			return true;
	return false;
}

int attached_check_findable(int prog, const char *cc)
{
	__u32 maps[MAX_MAPS] = {};
	struct bpf_prog_info info = { .map_ids = (unsigned long)maps, .nr_map_ids = MAX_MAPS };
	__u32 map_id = 0, len = sizeof(info);
	struct attached a = {};

	if (bpf_obj_get_info_by_fd(prog, &info, &len))
		return fail("%s: cannot read its program: %s", cc, strerror(errno));
	a.btf_id = info.btf_id;
	if (a.btf_id && read_written_names(&a, &map_id))
		return -1;
	if ((strcmp(a.owner, cc) && strcmp(a.used, cc)) || !holds(maps, map_id))
		return fail(
			"%s: its program %s was loaded without its name, so nothing could take it out again: try again",
			cc, info.name);
	return 0;
}

static int add(struct attachments *all, const char *cgroup, const struct hook *hook, __u32 prog_id)
{
	struct bpf_prog_info info = {};
	__u32 map_id, len = sizeof(info);
	struct attached *a;
	int err = 0, fd = bpf_prog_get_fd_by_id(prog_id);

	if (fd < 0)
		return errno == ENOENT ? 0 : fail_read(cgroup, -errno); /* gone since */
	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		err = fail_read(cgroup, -errno);
	close(fd);
	if (err)
		return err;
	a = realloc(all->at, (all->nr + 1) * sizeof(*a));
	if (!a)
		return fail("out of memory");
	all->at = a;
	a += all->nr;
	*a = (struct attached){ .prog_id = prog_id, .btf_id = info.btf_id, .hook = hook };
	memcpy(a->name, info.name, sizeof(a->name));
	a->cgroup = strdup(cgroup);
	if (!a->cgroup)
		return fail("out of memory");
	all->nr++;
	return a->btf_id ? read_written_names(a, &map_id) : 0;
}

static void forget(struct attached *a)
{
	free(a->cgroup);
	free(a->netns);
}

static int query(struct attachments *all, int fd, const char *cgroup, __u32 flags)
{
	__u32 ids[MAX_EFFECTIVE];

	for (int i = 0; i < NR_CGROUP_HOOKS; i++) {
		__u32 n = MAX_EFFECTIVE;

		if (bpf_prog_query(fd, cgroup_hooks[i].attach, flags, NULL, ids, &n)) {
			if (cgroup_is_absent(-errno))
				continue; /* removed since */
			return fail_read(cgroup, -errno);
		}
		for (__u32 k = 0; k < n; k++)
			if (add(all, cgroup, &cgroup_hooks[i], ids[k]))
				return -1;
	}
	return 0;
}

/* The cgroup at `path` and those below it. They come and go meanwhile: that is no error. */
static int walk(struct attachments *all, char path[PATH_MAX])
{
	int err, fd = cgroup_open(path);
	size_t len = strlen(path);
	struct dirent *e;
	DIR *d;

	if (fd < 0)
		return cgroup_is_absent(fd) ? 0 : fail_read(path, fd);
	err = query(all, fd, path, 0);
	d = fdopendir(fd);
	if (!d) {
		err = err ? err : fail_read(path, -errno);
		close(fd);
		return err;
	}
	while (!err && (errno = 0, e = readdir(d))) {
		if (e->d_type != DT_DIR || !strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (snprintf(path + len, PATH_MAX - len, "/%s", e->d_name) < (int)(PATH_MAX - len))
			err = walk(all, path);
		else
			err = fail_read(path, -ENAMETOOLONG);
		path[len] = 0;
	}
	if (!err && errno && !cgroup_is_absent(-errno))
		err = fail_read(path, -errno);
	closedir(d);
	return err;
}

/* The devices of one network namespace. */
struct devices {
	struct attachments *all;
	const struct netns_id *netns;
	char where[sizeof(((struct netns_id *)0)->name) + 4]; /* " in netns r1"; "": our own */
	bool own_met;
};

static int add_on_device(const struct if_nameindex *dev, const struct hook *hook, __u32 prog_id, void *ctx)
{
	const struct devices *d = ctx;
	char place[DEVICE_PLACE + sizeof(d->where)];
	struct attachments *all = d->all;
	int nr = all->nr, err;
	struct attached *a;

	snprintf(place, sizeof(place), ON_DEVICE "%s%s", dev->if_name, d->where);
	err = add(all, place, hook, prog_id);
	if (err || all->nr == nr)
		return err;
	a = &all->at[nr];
	if (!*a->owner) {
		forget(a);
		all->nr--;
		return 0;
	}
	snprintf(a->device, sizeof(a->device), "%s", dev->if_name);
	a->index = dev->if_index;
	a->netns = malloc(sizeof(*a->netns));
	if (!a->netns)
		return fail("out of memory");
	*a->netns = *d->netns;
	return 0;
}

/* A failure in another namespace is told, and hinders nothing here: attachments_hidden() counts what runs there. */
static int add_devices(const struct netns_id *netns, void *ctx)
{
	struct devices *d = ctx;
	int nr = d->all->nr;

	d->netns = netns;
	d->own_met |= netns->own;
	snprintf(d->where, sizeof(d->where), "%s%s", netns->own ? "" : " in ", netns->own ? "" : netns->name);
	if (!devices_each(d->where, add_on_device, d))
		return 0;
	if (netns->own)
		return -1;
	while (d->all->nr > nr)
		forget(&d->all->at[--d->all->nr]);
	return 0;
}

int attachments_read(struct attachments *all)
{
	static const struct netns_id own = { .name = "this network namespace", .own = true };
	struct devices d = { .all = all };
	char root[PATH_MAX];
	int fd = cgroup_open_root_anyhow(root);

	*all = (struct attachments){ .since_boot = boot_ns() };
	if (fd < 0 && !cgroup_is_absent(fd))
		return fail("cannot look for cgroups: %s", strerror(-fd));
	if (fd >= 0)
		close(fd);
	if ((fd >= 0 && walk(all, root)) || netns_each(add_devices, &d))
		return -1;
	return d.own_met ? 0 : add_devices(&own, &d);
}

static bool is_among(const struct attachments *all, __u32 prog_id)
{
	for (int i = 0; i < all->nr; i++)
		if (all->at[i].prog_id == prog_id)
			return true;
	return false;
}

static int fail_hidden(int err)
{
	return fail("cannot read which programs of asymcc run elsewhere: %s", strerror(err));
}

/* Is it a program of `thin` or `use` that is not among those? -1 with a message. */
static int is_hidden(const struct attachments *all, const char *name, __u32 id)
{
	int err, fd = bpf_prog_get_fd_by_id(id);
	struct bpf_prog_info info = {};
	__u32 map_id, len = sizeof(info);
	struct attached a = {};

	if (fd < 0)
		return errno == ENOENT ? 0 : fail_hidden(errno); /* gone since */
	err = bpf_obj_get_info_by_fd(fd, &info, &len) ? errno : 0;
	close(fd);
	if (err)
		return fail_hidden(err);
	a.btf_id = info.btf_id;
	if (!a.btf_id || info.load_time > all->since_boot || is_among(all, id) ||
	    (strncmp(info.name, "thin_", 5) && strcmp(info.name, "asymcc_use")))
		return 0;
	if (read_written_names(&a, &map_id))
		return -1;
	return (*a.owner || *a.used) && (!name || !strcmp(a.owner, name) || attached_gives(&a, name));
}

static int count_hidden(const struct attachments *all, const char *name)
{
	int nr = 0, hidden;
	__u32 id = 0;

	while (!bpf_prog_get_next_id(id, &id)) {
		hidden = is_hidden(all, name, id);
		if (hidden < 0)
			return -1;
		nr += hidden;
	}
	return errno == ENOENT ? nr : fail_hidden(errno);
}

int attachments_hidden(const struct attachments *all, const char *name, bool after_detach)
{
	int nr = count_hidden(all, name);

	for (int i = 0; after_detach && i < DYING_TRIES && nr > 0; i++) {
		usleep(DYING_US);
		nr = count_hidden(all, name);
	}
	if (nr > 0)
		fail("%d program%s of asymcc run%s in a network namespace or a cgroup that cannot be seen from here",
		     nr, nr == 1 ? "" : "s", nr == 1 ? "s" : "");
	return nr;
}

bool is_on_device(const char *cgroup)
{
	return !strncmp(cgroup, ON_DEVICE, strlen(ON_DEVICE));
}

int attachments_near(struct attachments *near, int fd, const char *cgroup)
{
	char path[PATH_MAX];

	memset(near, 0, sizeof(*near));
	snprintf(path, sizeof(path), "%s", cgroup);
	return query(near, fd, path, BPF_F_QUERY_EFFECTIVE) ? -1 : walk(near, path);
}

/* The cgroup to which the program is attached that is in effect in `cgroup`. */
static const char *place_of(const struct attachments *all, __u32 prog_id, const char *cgroup)
{
	for (int i = 0; i < all->nr; i++)
		if (all->at[i].prog_id == prog_id && cgroup_is_near(all->at[i].cgroup, cgroup))
			return all->at[i].cgroup;
	return "a cgroup that cannot be seen";
}

static int read_after(const struct attached *a, const struct attachments *all, struct attachments *after)
{
	__u32 ids[MAX_EFFECTIVE], n = MAX_EFFECTIVE, i = 0;
	int err = 0, fd = cgroup_open(a->cgroup), nr;

	if (fd < 0)
		return cgroup_is_absent(fd) ? 0 : fail_read(a->cgroup, fd);
	if (bpf_prog_query(fd, a->hook->attach, BPF_F_QUERY_EFFECTIVE, NULL, ids, &n))
		err = cgroup_is_absent(-errno) ? n = 0, 0 : fail_read(a->cgroup, -errno);
	close(fd);
	while (!err && i < n && ids[i++] != a->prog_id)
		;
	for (; !err && i < n; i++) {
		nr = after->nr;
		err = add(after, place_of(all, ids[i], a->cgroup), a->hook, ids[i]);
		if (!err && after->nr > nr && (*after->at[nr].owner || *after->at[nr].used))
			forget(&after->at[--after->nr]); /* asymcc's own go well together */
	}
	return err;
}

struct attachments *attachments_after(const struct attachments *all)
{
	struct attachments *after = calloc(all->nr + 1, sizeof(*after));
	int err = after ? 0 : fail("out of memory");

	for (int i = 0; i < all->nr && !err; i++)
		if (all->at[i].hook->type == BPF_PROG_TYPE_SOCK_OPS && (*all->at[i].owner || *all->at[i].used))
			err = read_after(&all->at[i], all, &after[i]);
	if (!err)
		return after;
	attachments_after_free(after, all);
	return NULL;
}

void attachments_after_free(struct attachments *after, const struct attachments *all)
{
	for (int i = 0; after && i < all->nr; i++)
		attachments_free(&after[i]);
	free(after);
}

void attachments_free(struct attachments *all)
{
	for (int i = 0; i < all->nr; i++)
		forget(&all->at[i]);
	free(all->at);
	memset(all, 0, sizeof(*all));
}

void attachments_keep(struct attachments *all, const char *name, const char *cgroup)
{
	int nr = 0;

	for (int i = 0; i < all->nr; i++) {
		struct attached *a = &all->at[i];

		if (*a->owner && !strcmp(a->owner, name) && (!cgroup || !strcmp(a->cgroup, cgroup)))
			all->at[nr++] = *a;
		else
			forget(a);
	}
	all->nr = nr;
}

bool attached_gives(const struct attached *a, const char *cc)
{
	return *a->used && !strcmp(a->used, cc);
}

const char *attachments_cgroup(const struct attachments *all, __u32 btf_id, const char *owner, int *i)
{
	const char *last = *i ? all->at[*i - 1].cgroup : "";

	while (*i < all->nr) {
		const struct attached *a = &all->at[(*i)++];

		if ((!btf_id || a->btf_id == btf_id) && (!owner || !strcmp(a->owner, owner)) && strcmp(a->cgroup, last))
			return a->cgroup;
	}
	return NULL;
}

static void list_places(const struct attachments *all, __u32 btf_id, const char *owner, bool devices)
{
	const char *cgroup;
	int i = 0;

	list_begin(devices ? "devices" : "cgroups", "", "");
	while ((cgroup = attachments_cgroup(all, btf_id, owner, &i)))
		if (is_on_device(cgroup) == devices)
			members(text_of(NULL, cgroup + (devices ? strlen(ON_DEVICE) : 0)));
	level_end();
}

void attachments_print(const struct attachments *all, __u32 btf_id, const char *owner, const char *before)
{
	const char *cgroup;
	int i = 0;

	list_places(all, btf_id, owner, false);
	list_places(all, btf_id, owner, true);
	for (; (cgroup = attachments_cgroup(all, btf_id, owner, &i)); before = ", ")
		print("%s%s", before, printable(cgroup));
}

bool attachments_has(const struct attachments *all, __u32 btf_id, const char *cgroup, const char *prog)
{
	for (int i = 0; i < all->nr; i++)
		if ((!btf_id || all->at[i].btf_id == btf_id) && !strcmp(all->at[i].cgroup, cgroup) &&
		    same_name(&all->at[i], prog))
			return true;
	return false;
}

const char **attachments_programs(const struct object *o, const struct attachments *all, __u32 btf_id)
{
	struct bpf_program *p;
	const char **names;
	int n = 0, room = all->nr + 1;

	if (o)
		bpf_object__for_each_program(p, o->bpf)
			room++;
	names = calloc(room, sizeof(*names));
	if (!names)
		return NULL;
	if (o)
		bpf_object__for_each_program(p, o->bpf)
			if (hook_of(p))
				names[n++] = bpf_program__name(p);
	for (int i = 0, k; i < all->nr; i++) {
		if (btf_id && all->at[i].btf_id != btf_id)
			continue;
		for (k = 0; k < n && !same_name(&all->at[i], names[k]); k++)
			;
		if (k == n)
			names[n++] = all->at[i].name;
	}
	return names;
}

int fail_detach(const char *prog, const char *cgroup, int err)
{
	const char *by_link = "a BPF link holds it: end the program that has the link, or use `bpftool link detach`";

	return fail("%s stays attached to %s: %s", prog, cgroup, err == -ENOENT ? by_link : strerror(-err));
}

static int detach_from_cgroup(const struct attached *a)
{
	int cgroup = cgroup_open(a->cgroup), prog = bpf_prog_get_fd_by_id(a->prog_id), err = 0;

	if (prog < 0)
		prog = -errno;
	if (cgroup < 0 && !cgroup_is_absent(cgroup))
		err = fail_detach(a->name, a->cgroup, cgroup);
	else if (prog < 0 && prog != -ENOENT)
		err = fail_detach(a->name, a->cgroup, prog);
	else if (cgroup >= 0 && prog >= 0 && bpf_prog_detach2(prog, cgroup, a->hook->attach))
		err = fail_detach(a->name, a->cgroup, -errno);
	if (cgroup >= 0)
		close(cgroup);
	if (prog >= 0)
		close(prog);
	return err;
}

static int detach_from_device(const struct attached *a)
{
	const struct var *made = NULL;
	struct section s = {};
	int err = section_read(&s, a->btf_id, ".rodata");

	for (int i = 0; i < s.vars.nr && !made; i++)
		made = strcmp(s.vars.var[i].name, "made_clsact") ? NULL : &s.vars.var[i];
	if (!err)
		err = device_detach(a->index, a->cgroup, a->hook, a->prog_id, made && var_get(made, s.bytes));
	section_free(&s);
	return err;
}

struct leaving {
	const struct attached *at;
	int nr;
	bool failed;
};

static int detach_there(const struct netns_id *netns, void *ctx)
{
	struct leaving *l = ctx;

	for (int i = 0; i < l->nr; i++) {
		const struct netns_id *in = l->at[i].netns;

		if (in && !in->own && in->dev == netns->dev && in->ino == netns->ino)
			l->failed |= !!detach_from_device(&l->at[i]);
	}
	return 0;
}

int attachments_detach(const struct attachments *mine)
{
	struct leaving l = { mine->at, mine->nr, false };
	bool elsewhere = false;

	for (int i = 0; i < mine->nr; i++) {
		const struct attached *a = &mine->at[i];

		if (a->netns && !a->netns->own)
			elsewhere = true;
		else
			l.failed |= !!(a->netns ? detach_from_device(a) : detach_from_cgroup(a));
	}
	return (elsewhere && netns_each(detach_there, &l)) || l.failed ? -1 : 0;
}

int attached_detach(const struct attached *a)
{
	return attachments_detach(&(struct attachments){ .at = (struct attached *)a, .nr = 1 });
}
