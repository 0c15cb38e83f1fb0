// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "uses/socket_move.h"
#include "kernel/netns.h"
#include "kernel/registry.h"
#include "object/verifier.h"

int move_open(struct move *m)
{
	struct bpf_program *prog;
	int err;

	if (object_open(&m->o, "move"))
		return -1;
	prog = bpf_object__next_program(m->o.bpf, NULL);
	err = registry_load(m->o.bpf);
	if (!err) {
		m->link = bpf_program__attach_iter(prog, NULL);
		err = m->link ? 0 : -errno;
	}
	if (err && verifier_verdict() && lockdown_refuses_reads())
		return fail(
			"cannot give open sockets another controller: the kernel's lockdown (confidentiality) lets no "
			"BPF program read what they have: boot with lockdown=integrity");
	return err ? fail("this kernel cannot give open sockets another controller: %s: %s", registry_load_error(err),
			  libbpf_complaint())
		   : 0;
}

static int rule_map(const struct move *m)
{
	return bpf_object__find_map_fd_by_name(m->o.bpf, "move_rules");
}

/* It writes nothing: what is read is the end, or that it asks for patience. */
static int run_to_end(int fd)
{
	char buf[64];
	ssize_t n;

	do
		n = read(fd, buf, sizeof(buf));
	while (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)));
	return n ? -errno : 0;
}

int move_run(struct move *m)
{
	__u32 zero = 0;
	int fd, err = bpf_map_update_elem(rule_map(m), &zero, &m->rule, BPF_ANY);

	if (err)
		return fail("cannot tell the kernel which sockets are meant: %s", strerror(-err));
	fd = bpf_iter_create(bpf_link__fd(m->link)); /* of the namespace that the thread is in */
	err = fd < 0 ? fd : run_to_end(fd);
	if (fd >= 0)
		close(fd);
	if (err)
		return fail("cannot go over the open sockets: %s", strerror(-err));
	err = bpf_map_lookup_elem(rule_map(m), &zero, &m->rule);
	return err ? fail("cannot read how many sockets were moved: %s", strerror(-err)) : 0;
}

/* It moves as many at once as the list takes. */
int move_run_listed(struct move *m, const __u64 *cookie, size_t nr)
{
	int list = bpf_object__find_map_fd_by_name(m->o.bpf, "listed"), err = 0;
	const __u8 yes = 1;

	m->rule.what |= MOVE_LISTED;
	for (size_t at = 0, n; !err && at < nr; at += n) {
		n = nr - at < MOVE_LIST_LEN ? nr - at : MOVE_LIST_LEN;
		for (size_t i = at; !err && i < at + n; i++)
			err = bpf_map_update_elem(list, &cookie[i], &yes, BPF_ANY);
		err = err ? fail("cannot tell the kernel which sockets are meant: %s", strerror(-err)) : move_run(m);
		for (size_t i = at; i < at + n; i++)
			bpf_map_delete_elem(list, &cookie[i]);
	}
	return err;
}

static int run_one(const struct netns_id *id, void *ctx)
{
	(void)id;
	return move_run(ctx);
}

int move_run_all(struct move *m)
{
	return netns_each(run_one, m);
}

void move_close(struct move *m)
{
	bpf_link__destroy(m->link);
	object_close(&m->o);
}
