// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Attach trace.bpf.o, collect its records until told to stop, close the bins. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "kernel/clock.h"
#include "command.h"
#include "kernel/flow_end.h"
#include "object/object.h"
#include "tools/trace.h"
#include "object/verifier.h"

#define RECORD 64
#define MS_MAX 3600000
#define RING_KB_MAX (1 << 20)
#define MAX_PROGRAMS 8
#define FILE_BUFFER (256 << 10) /* bytes: few system calls a drain */

static struct {
	const char *output, *btf;
	struct texts flows, links;
	struct ports ports;
	bool state;
	long bin_ms, every_ms, drain_ms, ring_kb;
	long seconds;               /* -1: without end */
} args = { .ports = { 0, 65535 }, .bin_ms = 100, .drain_ms = 1000, .ring_kb = TRACE_RING_BYTES >> 10, .seconds = -1 };

struct out {
	FILE *file;
	struct trace_end count;
};

/* One record, or an ACK record with those of its state. */
static int on_record(void *ctx, void *data, size_t size)
{
	struct out *out = ctx;

	switch (*(__u16 *)data) {
	case TRACE_ACK:
		out->count.acks++;
		out->count.states += size / RECORD - 1;
		break;
	case TRACE_GOODPUT:
		out->count.goodput++;
		break;
	case TRACE_LINK:
		out->count.links++;
		break;
	}
	if (fwrite(data, size, 1, out->file) != 1)
		return -errno;
	return 0;
}

static int set_number(struct object *o, const char *name, long long value)
{
	char text[64];

	snprintf(text, sizeof(text), "%s=%lld", name, value);
	return object_set(o, text);
}

static int prepare(struct object *o)
{
	if (args.btf && object_core_btf(args.btf))
		return -1;
	if (object_open(o, "trace"))
		return -1;
	if (set_number(o, "port_lo", args.ports.lo) || set_number(o, "port_hi", args.ports.hi) ||
	    set_number(o, "bin_ns", args.bin_ms * NS_PER_MS) || set_number(o, "every_ns", args.every_ms * NS_PER_MS) ||
	    set_number(o, "with_state", args.state) || set_number(o, "nr_ends", args.flows.nr) ||
	    set_number(o, "nr_links", args.links.nr))
		return -1;
	bpf_map__set_max_entries(bpf_object__find_map_by_name(o->bpf, "ring"), args.ring_kb << 10);
	bpf_map__set_autocreate(bpf_object__find_map_by_name(o->bpf, "senders"), args.every_ms > 0);
	if (args.flows.nr)
		bpf_map__set_max_entries(bpf_object__find_map_by_name(o->bpf, "ends"), args.flows.nr);
	if (!args.links.nr)
		bpf_program__set_autoload(bpf_object__find_program_by_name(o->bpf, "on_dequeue"), false);
	return 0;
}

static int device_parse(char name[TRACE_NAME_LEN], const char *text)
{
	if (strlen(text) >= TRACE_NAME_LEN)
		return fail("--link %s: a device's name has at most %d characters", text, TRACE_NAME_LEN - 1);
	strncpy(name, text, TRACE_NAME_LEN);
	return 0;
}

static int add_links(int fd)
{
	for (__u32 i = 0; i < (__u32)args.links.nr; i++) {
		struct trace_dev dev = { .bin.type = TRACE_LINK };

		if (device_parse(dev.bin.name, args.links.text[i]))
			return -1;
		if (bpf_map_update_elem(fd, &i, &dev, BPF_ANY))
			return fail("--link %s: %s (at most %d links)", args.links.text[i], strerror(errno),
				    TRACE_MAX_LINKS);
	}
	return 0;
}

static int add_ends(int fd)
{
	for (int i = 0; i < args.flows.nr; i++) {
		struct trace_flow_end end;
		__u8 wanted = 1;

		if (flow_end_parse(&end, args.flows.text[i]))
			return -1;
		if (bpf_map_update_elem(fd, &end, &wanted, BPF_ANY))
			return fail("--flow %s: %s", args.flows.text[i], strerror(errno));
	}
	return 0;
}

/* Nothing is attached any more: what the maps hold are the bins that no later event closed. */
static int flush_bins(struct out *out, int socks, int devs)
{
	char key[TRACE_NAME_LEN];
	struct trace_sock s;
	struct trace_dev d;
	void *prev;
	int err = 0;

	for (prev = NULL; !err && !bpf_map_get_next_key(socks, prev, key); prev = key) {
		if (bpf_map_lookup_elem(socks, key, &s))
			continue;
		s.bin.bytes += (__u32)(s.expect - s.nxt);
		if (s.bin.bytes || s.bin.segments)
			err = on_record(out, &s.bin, RECORD);
	}
	for (prev = NULL; !err && !bpf_map_get_next_key(devs, prev, key); prev = key)
		if (!bpf_map_lookup_elem(devs, key, &d) && d.bin.packets)
			err = on_record(out, &d.bin, RECORD);
	return err;
}

static __u64 read_lost(const struct object *o)
{
	struct trace_counts counts = {};
	struct bpf_program *prog;
	struct bpf_map *map;
	__u64 left_out = 0;
	__u32 zero = 0;

	bpf_object__for_each_map(map, o->bpf)
		if (strstr(bpf_map__name(map), ".bss"))
			bpf_map_lookup_elem(bpf_map__fd(map), &zero, &counts);
	/* what a program left out because it ran already, but for what its stand-in took; what
	 * the stand-in leaves out, on_segment has */
	bpf_object__for_each_program(prog, o->bpf) {
		struct bpf_prog_info info = {};
		__u32 len = sizeof(info);

		if (strcmp(bpf_program__name(prog), "on_segment_within") &&
		    !bpf_obj_get_info_by_fd(bpf_program__fd(prog), &info, &len))
			left_out += info.recursion_misses;
	}
	return counts.lost + (left_out > counts.within ? left_out - counts.within : 0);
}

/* Collect every drain_ms, and sleep in between: a poll would wake us for each record. */
static int collect(struct ring_buffer *ring, const sigset_t *stop)
{
	__u64 end = ns_after(args.seconds), next;
	int err = 0;

	while (err >= 0 && now_ns() < end) {
		next = now_ns() + args.drain_ms * NS_PER_MS;
		if (wait_till(next < end ? next : end, stop) > 0)
			break;
		err = ring_buffer__consume(ring);
	}
	return err < 0 ? err : 0;
}

/* Only what never blocks: signals to stop wait until we look for them. */
static FILE *open_output(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666);
	const char *why = NULL;
	struct stat st;
	FILE *f = NULL;

	if (fd < 0 || fstat(fd, &st))
		why = strerror(errno);
	else if (!S_ISREG(st.st_mode))
		why = "not a regular file";
	else if (ftruncate(fd, 0) || !(f = fdopen(fd, "w")))
		why = strerror(errno);
	if (why)
		fail("cannot write %s: %s", path, why);
	if (!f && fd >= 0)
		close(fd);
	return f;
}

/* A trace's objects in the kernel, and its file. */
struct tracer {
	struct object o;
	struct bpf_link *links[MAX_PROGRAMS];
	int nr_links;
	struct ring_buffer *ring;
	struct out out;
};

static int map_of(const struct tracer *t, const char *name)
{
	return bpf_object__find_map_fd_by_name(t->o.bpf, name);
}

static int fail_load(int err)
{
	if (verifier_verdict() && lockdown_refuses_reads())
		return fail(
			"cannot load the tracer: the kernel's lockdown (confidentiality) lets no BPF program read what "
			"--flow, --link and --state need: leave them out, or boot with lockdown=integrity");
	if (verifier_verdict())
		return fail("cannot load the tracer: the kernel's verifier rejects %s (-v shows its log)",
			    verifier_verdict());
	if (args.btf && err != EPERM)
		return fail("cannot load the tracer with --btf %s: %s", args.btf, libbpf_complaint());
	return fail("cannot load the tracer: %s: %s", strerror(err),
		    err == EPERM ? "run it as root" : libbpf_complaint());
}

static int open_tracer(struct tracer *t)
{
	int err;

	if (prepare(&t->o))
		return -1;
	err = verifier_load(t->o.bpf);
	if (err)
		return fail_load(-err);
	if (add_links(map_of(t, "devs")) || add_ends(map_of(t, "ends")))
		return -1;
	t->ring = ring_buffer__new(map_of(t, "ring"), on_record, &t->out, NULL);
	if (!t->ring)
		return fail("cannot map the ring buffer: %s", strerror(errno));
	t->out.file = open_output(args.output);
	return t->out.file ? 0 : -1;
}

static void begin_file(FILE *f)
{
	static char buffer[FILE_BUFFER]; /* it must outlive the file, which the caller closes */
	struct trace_header head = {
		.magic = TRACE_MAGIC,
		.version = TRACE_VERSION,
		.record_size = RECORD,
		.bin_ns = args.bin_ms * NS_PER_MS,
		.start_ns = now_ns(),
	};

	setvbuf(f, buffer, _IOFBF, sizeof(buffer)); /* glibc would give one of its own 4 KB */
	fwrite(&head, sizeof(head), 1, f);
}

static int attach(struct tracer *t)
{
	struct bpf_program *prog;

	bpf_object__for_each_program(prog, t->o.bpf) {
		if (!bpf_program__autoload(prog))
			continue;
		if (t->nr_links == MAX_PROGRAMS)
			return fail("the tracer's object holds more programs than this asymcc knows: build both anew");
		t->links[t->nr_links] = bpf_program__attach(prog);
		if (!t->links[t->nr_links])
			return fail("cannot attach %s: %s", bpf_program__section_name(prog), strerror(errno));
		t->nr_links++;
	}
	return 0;
}

static void detach(struct tracer *t)
{
	while (t->nr_links)
		bpf_link__destroy(t->links[--t->nr_links]);
}

/* Writes the last records, and the end of the file. Returns -errno. */
static int finish(struct tracer *t)
{
	struct out *out = &t->out;
	int err = ring_buffer__consume(t->ring);

	if (err >= 0)
		err = flush_bins(out, map_of(t, "socks"), map_of(t, "devs"));
	out->count.t_ns = now_ns();
	out->count.lost = read_lost(&t->o);
	return err < 0 ? err : on_record(out, &out->count, RECORD);
}

static int record(struct tracer *t, const sigset_t *stop)
{
	const struct trace_end *count = &t->out.count;
	int err;

	begin_file(t->out.file);
	if (attach(t))
		return -1;
	puts("tracing");
	fflush(stdout);
	err = collect(t->ring, stop);
	detach(t);
	if (!err)
		err = finish(t);
	if (fclose(t->out.file) && !err)
		err = -errno;
	t->out.file = NULL;
	if (err)
		return fail("cannot write %s: %s: the trace is not complete", args.output, strerror(-err));
	printf("acks %llu, goodput bins %llu, link bins %llu, lost %llu\n", count->acks, count->goodput, count->links,
	       count->lost);
	if (!count->acks && !count->goodput)
		printf("no connection%s was active: `asymcc top` shows those that are there\n",
		       args.flows.nr || args.ports.lo || args.ports.hi != 65535 ? " of these ends or ports" : "");
	return 0;
}

static int trace(void)
{
	struct tracer t = { .out.count.type = TRACE_END };
	sigset_t stop;
	int err;

	if (!args.output)
		return fail("trace: -o FILE is missing");
	sigemptyset(&stop);
	sigaddset(&stop, SIGINT);
	sigaddset(&stop, SIGTERM);
	sigprocmask(SIG_BLOCK, &stop, NULL);
	err = open_tracer(&t) || record(&t, &stop) ? -1 : 0;
	detach(&t);
	ring_buffer__free(t.ring);
	if (t.out.file)
		fclose(t.out.file);
	object_close(&t.o);
	return err;
}

static const struct opt opts[] = {
	{ "seconds", 't', "N", "stop after N seconds (else at SIGINT or SIGTERM)", .number = &args.seconds,
	  .max = SECONDS_MAX },
	{ "output", 'o', "FILE", "where the records go (format: trace.h); replaced if it is there",
	  .text = &args.output },
	{ "flow", 'F', "ADDRESS:PORT", "only connections that have this end; IPv6 as [ADDRESS]:PORT; repeatable",
	  .texts = &args.flows },
	{ "link", 'l', "DEVICE", "count departures and queue of a shaped device (tbf, htb); repeatable",
	  .texts = &args.links },
	{ "ports", 'p', "LO-HI", "only sockets with a local or remote port in this range", .ports = &args.ports },
	{ "state", 'S', NULL, "also record the controllers' private state at each ACK", .flag = &args.state },
	{ "bin-ms", 'b', "MS", "width of goodput and link bins (100)", .number = &args.bin_ms, .min = 1,
	  .max = MS_MAX },
	{ "every-ms", 'e', "MS", "of each connection at most one ACK in so long (0: each), at most 1000",
	  .number = &args.every_ms, .max = 1000 },
	{ "btf", 'B', "FILE", "the kernel's types, by `bpftool gen min_core_btf` for trace.bpf.o: it starts sooner",
	  .text = &args.btf },
	{ "drain-ms", 'm', "MS", "time between two collections of records (1000)", .number = &args.drain_ms, .min = 1,
	  .max = MS_MAX },
	{ "ring-kb", 'r', "KB", "room for records that wait to be collected, 14 a KB; at least this much (16384)",
	  .number = &args.ring_kb, .min = 4, .max = RING_KB_MAX },
	{}
};

const struct command cmd_trace = {
	.name = "trace",
	.opts = opts,
	.objects = true,
	.run = trace,
	.summary = "record every ACK, and goodput and links in bins",
	.about = "With --flow and --ports, connections that fit both. Links are counted whole.",
};
