// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "kernel/clock.h"
#include "kernel/bpf_link.h"
#include "kernel/netns.h"
#include "object/struct_ops.h"
#include "kernel/registry.h"
#include "object/verifier.h"

#define KERNEL_BTF "/sys/kernel/btf/vmlinux"
#define VALUE_TYPE "bpf_struct_ops_tcp_congestion_ops"

#define ENOTSUPP 524 /* the kernel's own; strerror() does not know it */

enum { STATE_INIT, STATE_INUSE, STATE_TOBEFREE, STATE_READY }; /* enum bpf_struct_ops_state */

/* Byte offset of a member, and the type it has. */
static int
locate(const struct btf *btf, const struct btf_type *type, const char *name, unsigned int *offset,
       const struct btf_type **found)
{
	const struct btf_member *m = type ? btf_member_find(btf, type, name) : NULL;

	if (!m)
		return -1;
	*offset += m->offset / 8;
	*found = btf_plain_type(btf, m->type);
	return 0;
}

/* libbpf says ESRCH, whatever hindered it. */
static const char *why_no_btf(void)
{
	static char why[100];
	int fd = open(KERNEL_BTF, O_RDONLY | O_CLOEXEC);

	if (fd < 0 && errno != ENOENT)
		snprintf(why, sizeof(why), "cannot read this kernel's BTF (" KERNEL_BTF "): %s", strerror(errno));
	else
		snprintf(why, sizeof(why),
			 "this kernel gives no BTF (" KERNEL_BTF "): it needs CONFIG_DEBUG_INFO_BTF=y");
	if (fd >= 0)
		close(fd);
	return why;
}

int registry_layout(struct registry *r, char *why, size_t size)
{
	const struct btf_type *t, *common;

	r->kernel = btf__load_vmlinux_btf();
	if (!r->kernel) {
		snprintf(why, size, "%s", why_no_btf());
		return -1;
	}
	r->value_id = btf__find_by_name_kind(r->kernel, VALUE_TYPE, BTF_KIND_STRUCT);
	if (r->value_id < 0) {
		snprintf(why, size,
			 "this kernel takes no congestion control from BPF (no struct " VALUE_TYPE
			 "): it needs 5.6 or later with CONFIG_BPF_JIT=y");
		return -1;
	}
	r->value = btf__type_by_id(r->kernel, r->value_id);
	if (locate(r->kernel, r->value, "data", &r->data, &r->ops))
		goto unknown;
	r->name = r->flags = r->data;
	if (locate(r->kernel, r->ops, "name", &r->name, &t) || locate(r->kernel, r->ops, "flags", &r->flags, &t))
		goto unknown;
	/* from 6.9 refcnt and state are in a struct of their own */
	if (locate(r->kernel, r->value, "common", &r->state, &common))
		common = r->value;
	r->refcnt = r->state;
	if (locate(r->kernel, common, "state", &r->state, &t) || locate(r->kernel, common, "refcnt", &r->refcnt, &t))
		goto unknown;
	return 0;
unknown:
	snprintf(why, size, "this kernel's struct " VALUE_TYPE " has a layout not known here");
	return -1;
}

int registry_layout_once(struct registry *r)
{
	char why[200];

	return !r->kernel && registry_layout(r, why, sizeof(why)) ? fail("%s", why) : 0;
}

static int fail_maps(int err)
{
	if (err == -EPERM)
		return fail("not permitted: run it as root (it needs CAP_SYS_ADMIN, CAP_BPF, "
			    "CAP_PERFMON and CAP_NET_ADMIN)");
	return fail("cannot read the kernel's BPF maps: %s", strerror(-err));
}

static int read_map(struct registry *r, __u32 id)
{
	struct bpf_map_info info = {};
	__u32 len = sizeof(info), zero = 0, state;
	char *value = NULL;
	struct registered *reg;
	int err = 0, fd = bpf_map_get_fd_by_id(id), there = 1;
	__u32 flags;

	if (fd < 0)
		return errno == ENOENT ? 0 : fail_maps(-errno); /* gone since */
	if (bpf_obj_get_info_by_fd(fd, &info, &len)) {
		err = fail_maps(-errno);
		goto cleanup;
	}
	if (info.type != BPF_MAP_TYPE_STRUCT_OPS)
		goto cleanup;
	err = registry_layout_once(r);
	if (err || info.btf_vmlinux_value_type_id != (__u32)r->value_id)
		goto cleanup;
	value = calloc(1, info.value_size);
	reg = realloc(r->at, (r->nr + 1) * sizeof(*reg));
	if (reg)
		r->at = reg;
	if (!value || !reg) {
		err = fail("out of memory");
		goto cleanup;
	}
	if (info.value_size < r->data + (r->ops->size))
		goto cleanup;
	if (bpf_map_lookup_elem(fd, &zero, value)) {
		err = fail_maps(-errno);
		goto cleanup;
	}
	reg = &r->at[r->nr];
	*reg = (struct registered){ .map_id = id, .btf_id = info.btf_id };
	snprintf(reg->name, sizeof(reg->name), "%.15s", value + r->name);
	snprintf(reg->object, sizeof(reg->object), "%s", info.name);
	memcpy(&state, value + r->state, sizeof(state));
	memcpy(&flags, value + r->flags, sizeof(flags));
	reg->l4s = flags & ECT_1;
	/* READY: belongs to a link, which may be attached or not; INIT: loaded, never registered */
	if (state == STATE_READY)
		there = controller_available(reg->name);
	if (there < 0)
		err = -1;
	if (state == STATE_INIT || there <= 0)
		goto cleanup;
	reg->unloading = state == STATE_TOBEFREE;
	memcpy(&reg->uses, value + r->refcnt, sizeof(reg->uses));
	reg->uses -= !reg->unloading && reg->uses; /* the registration is one */
	r->nr++;
cleanup:
	free(value);
	close(fd);
	return err;
}

int registry_read(struct registry *r)
{
	__u32 id = 0;

	memset(r, 0, sizeof(*r));
	while (!bpf_map_get_next_id(id, &id))
		if (read_map(r, id))
			return -1;
	return errno == ENOENT ? 0 : fail_maps(-errno);
}

void registry_free(struct registry *r)
{
	free(r->at);
	btf__free(r->kernel);
	memset(r, 0, sizeof(*r));
}

struct registered *registry_find(const struct registry *r, const char *name)
{
	struct registered *found = NULL;

	for (int i = 0; i < r->nr; i++)
		if (!strcmp(r->at[i].name, name) && (!found || found->unloading))
			found = &r->at[i];
	return found;
}

/* The kernel's name of a member, which is the end of an object's; NULL: it has none. */
static const char *name_there(const struct registry *r, const char *name)
{
	if (!btf_member_find(r->kernel, r->ops, name) && !strcmp(name, "min_tso_segs"))
		name += strlen("min_");
	return btf_member_find(r->kernel, r->ops, name) ? name : NULL;
}

const char *registry_missing(const struct registry *r, const struct btf *btf, const struct btf_type *type)
{
	const struct btf_member *m = btf_members(type);

	for (int i = 0; i < (int)btf_vlen(type); i++, m++)
		if (!name_there(r, btf_text(btf, m->name_off)))
			return btf_text(btf, m->name_off);
	return NULL;
}

bool registry_rename(const struct registry *r, const struct btf *btf, const struct btf_type *type)
{
	struct btf_member *m = btf_members(type);
	bool renamed = false;

	for (int i = 0; i < (int)btf_vlen(type); i++, m++) {
		const char *name = btf_text(btf, m->name_off), *there = name_there(r, name);

		if (there && there != name) {
			m->name_off += there - name;
			renamed = true;
		}
	}
	return renamed;
}

/* libbpf changes BTF that it takes to be more than the kernel knows. */
static int compare_btf(const struct btf *built, __u32 id)
{
	struct btf *loaded = btf__load_from_kernel_by_id(id);
	unsigned int nr = btf__type_cnt(built);
	int err = loaded ? 0 : -errno;

	if (!err && btf__type_cnt(loaded) != nr)
		err = -ENODATA;
	for (unsigned int i = 1; !err && i < nr; i++)
		if (btf_kind(btf__type_by_id(loaded, i)) != btf_kind(btf__type_by_id(built, i)))
			err = -ENODATA;
	btf__free(loaded);
	return err;
}

/* One of variables, which the object's BTF names. `.rodata.str1.1` has none. */
static bool has_variables(const struct bpf_object *o, const struct bpf_map *map)
{
	const char *section = bpf_map__is_internal(map) ? strrchr(bpf_map__name(map), '.') : NULL;

	return section && btf__find_by_name_kind(bpf_object__btf(o), section, BTF_KIND_DATASEC) >= 0;
}

/* libbpf goes on without BTF, and without names, where the kernel does not insist on them. */
int registry_load(struct bpf_object *o)
{
	int err = verifier_load(o);
	struct bpf_program *prog;
	struct bpf_map *map;
	__u32 btf_id = 0;

	bpf_object__for_each_program(prog, o) {
		struct bpf_prog_info info = {};
		__u32 len = sizeof(info);

		if (!bpf_program__autoload(prog))
			continue;
		if (!err && bpf_obj_get_info_by_fd(bpf_program__fd(prog), &info, &len))
			err = -errno;
		else if (!err && (!info.btf_id || !*info.name))
			err = -ENODATA;
		btf_id = info.btf_id;
	}
	bpf_object__for_each_map(map, o) {
		struct bpf_map_info info = {};
		__u32 len = sizeof(info);

		if (err || !has_variables(o, map))
			continue;
		if (bpf_obj_get_info_by_fd(bpf_map__fd(map), &info, &len))
			err = -errno;
		else if (!info.btf_id || !*info.name)
			err = -ENODATA;
	}
	return err ? err : compare_btf(bpf_object__btf(o), btf_id);
}

const char *registry_load_error(int err)
{
	return err == -ENOTSUPP  ? "this kernel does not support it"
	       : err == -ENODATA ? "the kernel did not take its BTF and names"
	       : err == -ESRCH   ? why_no_btf()
				 : strerror(-err);
}

int registry_program(__u32 btf_id, __u32 *id, struct bpf_prog_info *info)
{
	while (!bpf_prog_get_next_id(*id, id)) {
		__u32 len = sizeof(*info);
		int err, fd = bpf_prog_get_fd_by_id(*id);

		if (fd < 0 && errno == ENOENT)
			continue; /* gone since */
		memset(info, 0, sizeof(*info));
		err = fd < 0 || bpf_obj_get_info_by_fd(fd, info, &len) ? errno : 0;
		if (fd >= 0)
			close(fd);
		if (err)
			return fail("cannot read BPF program %u: %s", *id, strerror(err));
		if (info->btf_id == btf_id)
			return 1;
	}
	return errno == ENOENT ? 0 : fail("cannot read the kernel's BPF programs: %s", strerror(errno));
}

/* Has the load `btf_id` the program of that name and those instructions? The values of maps are none. */
static int has_program(__u32 btf_id, const struct bpf_prog_info *wanted)
{
	struct bpf_prog_info info;
	int found;
	__u32 id = 0;

	while ((found = registry_program(btf_id, &id, &info)) > 0)
		if (!strcmp(info.name, wanted->name) && !memcmp(info.tag, wanted->tag, sizeof(info.tag)))
			break;
	return found;
}

int registry_same_programs(const struct bpf_object *o, __u32 btf_id)
{
	struct bpf_program *prog;
	int same = 1;

	bpf_object__for_each_program(prog, o) {
		struct bpf_prog_info info = {};
		__u32 len = sizeof(info);

		if (!bpf_program__autoload(prog))
			continue;
		if (bpf_obj_get_info_by_fd(bpf_program__fd(prog), &info, &len))
			return fail("cannot read program %s: %s", bpf_program__name(prog), strerror(errno));
		same = has_program(btf_id, &info);
		if (same <= 0)
			break;
	}
	return same;
}

/* Names who else has it. `bpftool link detach` takes no such link before Linux 6.11. */
static int fail_link(const struct registered *old)
{
	struct link_holders h;

	link_find(old->map_id, &h);
	if (*h.pin)
		return fail("%s is registered through a BPF link that is pinned: `rm '%s'` takes it out%s%s", old->name,
			    h.pin, *h.process ? ", after the end of " : "", h.process);
	if (*h.process)
		return fail("%s is registered through a BPF link that %s holds: its end takes %s out", old->name,
			    h.process, old->name);
	return fail("%s is registered through a BPF link; what holds it, a process or a pin, is not seen here",
		    old->name);
}

time_t registry_since(__u32 btf_id)
{
	__u64 first = NEVER;
	struct bpf_prog_info info;
	__u32 id = 0;
	int found;

	if (!btf_id)
		return 0;
	while ((found = registry_program(btf_id, &id, &info)) > 0)
		if (info.load_time < first)
			first = info.load_time;
	if (found < 0)
		return -1;
	return first == NEVER ? 0 : epoch_of(first);
}

int registry_remove(const struct registered *old)
{
	int zero = 0, err = 0, fd = bpf_map_get_fd_by_id(old->map_id);

	if (fd < 0 || bpf_map_delete_elem(fd, &zero))
		err = errno;
	if (fd >= 0)
		close(fd);
	if (err == EOPNOTSUPP)
		return fail_link(old);
	return err ? fail("cannot unload %s: %s", old->name, strerror(err)) : 0;
}

/* Is this the map of that section? Then take its values and names. */
static int read_section_map(struct section *s, __u32 id, __u32 btf_id, const char *name)
{
	struct bpf_map_info info = {};
	__u32 len = sizeof(info), zero = 0;
	int ret = 0, fd = bpf_map_get_fd_by_id(id);
	size_t n;

	if (fd < 0)
		return errno == ENOENT ? 0 : fail_maps(-errno); /* gone since */
	if (bpf_obj_get_info_by_fd(fd, &info, &len)) {
		ret = fail_maps(-errno);
		goto cleanup;
	}
	n = strlen(info.name);
	if (info.type != BPF_MAP_TYPE_ARRAY || info.btf_id != btf_id || n < strlen(name) ||
	    strcmp(info.name + n - strlen(name), name))
		goto cleanup;
	s->map_id = id;
	s->bytes = calloc(1, info.value_size);
	s->btf = btf__load_from_kernel_by_id(btf_id);
	if (!s->bytes || !s->btf || bpf_map_lookup_elem(fd, &zero, s->bytes)) {
		ret = fail("cannot read map %u (%s): %s", id, info.name, strerror(errno));
		goto cleanup;
	}
	ret = vars_read(&s->vars, s->btf, name);
	for (int i = 0; !ret && i < s->vars.nr; i++)
		if (s->vars.var[i].offset + s->vars.var[i].size > info.value_size)
			ret = fail("map %u (%s) is smaller than its BTF says", id, info.name);
	if (!ret)
		ret = 1;
cleanup:
	close(fd);
	return ret;
}

/* Not by the maps that a program names: none of the struct_ops' need use the section. */
int section_read(struct section *s, __u32 btf_id, const char *name)
{
	__u32 id = 0;
	int ret;

	memset(s, 0, sizeof(*s));
	if (!btf_id)
		return 0;
	while (!bpf_map_get_next_id(id, &id)) {
		ret = read_section_map(s, id, btf_id, name);
		if (ret)
			return ret < 0 ? ret : 0;
	}
	return errno == ENOENT ? 0 : fail_maps(-errno);
}

void section_free(struct section *s)
{
	vars_free(&s->vars);
	btf__free(s->btf);
	free(s->bytes);
	memset(s, 0, sizeof(*s));
}

int params_read(struct params *p, __u32 btf_id)
{
	memset(p, 0, sizeof(*p));
	if (section_read(&p->data, btf_id, ".data") || section_read(&p->rodata, btf_id, ".rodata"))
		return -1;
	if ((p->data.btf && vars_read(&p->vars, p->data.btf, ".data")) ||
	    (p->rodata.btf && vars_read(&p->vars, p->rodata.btf, ".rodata")))
		return -1;
	return 0;
}

int params_write(const struct params *p)
{
	int zero = 0, err = 0, fd = bpf_map_get_fd_by_id(p->data.map_id);

	if (fd < 0 || bpf_map_update_elem(fd, &zero, p->data.bytes, BPF_EXIST))
		err = -errno;
	if (fd >= 0)
		close(fd);
	return err;
}

void params_free(struct params *p)
{
	vars_free(&p->vars);
	section_free(&p->data);
	section_free(&p->rodata);
}
