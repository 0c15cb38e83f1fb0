// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* `asymcc trace`: attach trace.bpf.o, collect its records until told to stop, close the bins. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "object.h"
#include "trace.h"

#define NS_PER_S 1000000000ULL
#define RECORD 64
#define MAX_PROGRAMS 8
#define FILE_BUFFER (1 << 20) /* bytes: few system calls a drain */

struct out {
	FILE *file;
	struct trace_end count;
};

static __u64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

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

static int prepare(struct object *o, const struct args *a)
{
	if (object_open(o, object_dir(a), "trace", NULL))
		return -1;
	if (set_number(o, "port_lo", a->port_lo) || set_number(o, "port_hi", a->port_hi) ||
	    set_number(o, "bin_ns", a->bin_ms * 1000000LL) || set_number(o, "with_state", a->state) ||
	    set_number(o, "nr_ends", a->nr_flows))
		return -1;
	if (a->nr_flows)
		bpf_map__set_max_entries(bpf_object__find_map_by_name(o->bpf, "ends"), a->nr_flows);
	if (!a->nr_links)
		bpf_program__set_autoload(bpf_object__find_program_by_name(o->bpf, "on_dequeue"), false);
	return 0;
}

static int add_links(int fd, const struct args *a)
{
	for (int i = 0; i < a->nr_links; i++) {
		struct trace_dev dev = { .bin.type = TRACE_LINK };

		if (strlen(a->links[i]) >= TRACE_NAME_LEN)
			return fail("--link %s: a device's name has at most %d characters", a->links[i],
				    TRACE_NAME_LEN - 1);
		strncpy(dev.bin.name, a->links[i], TRACE_NAME_LEN - 1);
		if (bpf_map_update_elem(fd, dev.bin.name, &dev, BPF_ANY))
			return fail("--link %s: %s (at most %d links)", a->links[i], strerror(errno),
				    TRACE_MAX_LINKS);
	}
	return 0;
}

/* ADDRESS:PORT, or [ADDRESS]:PORT for IPv6. */
static bool parse_end(struct trace_flow_end *end, const char *text)
{
	char address[INET6_ADDRSTRLEN], rest;
	unsigned int port;
	struct in_addr v4;

	*end = (struct trace_flow_end){};
	if (sscanf(text, "[%45[0-9a-fA-F:.]]:%5u%c", address, &port, &rest) == 2) {
		if (inet_pton(AF_INET6, address, end->address) != 1)
			return false;
	} else if (sscanf(text, "%15[0-9.]:%5u%c", address, &port, &rest) == 2) {
		if (inet_pton(AF_INET, address, &v4) != 1)
			return false;
		trace_map_v4(end, v4.s_addr);
	} else {
		return false;
	}
	end->port = port;
	return port && port <= 65535;
}

static int add_ends(int fd, const struct args *a)
{
	for (int i = 0; i < a->nr_flows; i++) {
		struct trace_flow_end end;
		__u8 wanted = 1;

		if (!parse_end(&end, a->flows[i]))
			return fail("--flow %s: expected ADDRESS:PORT, or [ADDRESS]:PORT for IPv6", a->flows[i]);
		if (bpf_map_update_elem(fd, &end, &wanted, BPF_ANY))
			return fail("--flow %s: %s", a->flows[i], strerror(errno));
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
static int collect(struct ring_buffer *ring, const struct args *a, const sigset_t *stop)
{
	__u64 end = a->seconds < 0 ? ~0ULL : now_ns() + a->seconds * NS_PER_S;
	int err = 0;

	while (err >= 0) {
		__u64 now = now_ns(), wait = a->drain_ms * 1000000ULL;
		struct timespec ts;

		if (now >= end)
			break;
		if (wait > end - now)
			wait = end - now;
		ts.tv_sec = wait / NS_PER_S;
		ts.tv_nsec = wait % NS_PER_S;
		if (sigtimedwait(stop, NULL, &ts) > 0)
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

int cmd_trace(const struct args *a)
{
	struct bpf_link *links[MAX_PROGRAMS] = {};
	struct ring_buffer *ring = NULL;
	struct bpf_program *prog;
	struct trace_header head = {
		.magic = TRACE_MAGIC, .version = TRACE_VERSION, .record_size = RECORD,
		.bin_ns = a->bin_ms * 1000000ULL,
	};
	struct out out = { .count.type = TRACE_END };
	int err = -1, ret, nr = 0;
	struct object o = {};
	sigset_t stop;

	if (!a->output)
		return fail("trace: -o FILE is missing");
	sigemptyset(&stop);
	sigaddset(&stop, SIGINT);
	sigaddset(&stop, SIGTERM);
	sigprocmask(SIG_BLOCK, &stop, NULL);

	if (prepare(&o, a))
		goto cleanup;
	if (bpf_object__load(o.bpf)) {
		ret = errno;
		if (object_verdict())
			fail("cannot load the tracer: the kernel's verifier rejects %s (-v shows its log)",
			     object_verdict());
		else
			fail("cannot load the tracer: %s: %s", strerror(ret),
			     ret == EPERM ? "run it as root" : object_complaint());
		goto cleanup;
	}
	if (add_links(bpf_object__find_map_fd_by_name(o.bpf, "devs"), a) ||
	    add_ends(bpf_object__find_map_fd_by_name(o.bpf, "ends"), a))
		goto cleanup;
	ring = ring_buffer__new(bpf_object__find_map_fd_by_name(o.bpf, "ring"), on_record, &out, NULL);
	if (!ring) {
		fail("cannot map the ring buffer: %s", strerror(errno));
		goto cleanup;
	}
	out.file = open_output(a->output);
	if (!out.file)
		goto cleanup;
	setvbuf(out.file, NULL, _IOFBF, FILE_BUFFER);
	head.start_ns = now_ns();
	fwrite(&head, sizeof(head), 1, out.file);
	bpf_object__for_each_program(prog, o.bpf) {
		if (!bpf_program__autoload(prog))
			continue;
		if (nr == MAX_PROGRAMS) {
			fail("the tracer's object holds more programs than this asymcc knows: build both anew");
			goto cleanup;
		}
		links[nr] = bpf_program__attach(prog);
		if (!links[nr++]) {
			fail("cannot attach %s: %s", bpf_program__section_name(prog), strerror(errno));
			goto cleanup;
		}
	}
	puts("tracing");
	fflush(stdout);
	ret = collect(ring, a, &stop);
	while (nr)
		bpf_link__destroy(links[--nr]);
	if (ret >= 0)
		ret = ring_buffer__consume(ring);
	if (ret >= 0)
		ret = flush_bins(&out, bpf_object__find_map_fd_by_name(o.bpf, "socks"),
				 bpf_object__find_map_fd_by_name(o.bpf, "devs"));
	out.count.t_ns = now_ns();
	out.count.lost = read_lost(&o);
	if (ret >= 0)
		ret = on_record(&out, &out.count, RECORD);
	if (fclose(out.file) && ret >= 0)
		ret = -errno;
	out.file = NULL;
	if (ret) {
		fail("cannot write %s: %s: the trace is not complete", a->output, strerror(-ret));
		goto cleanup;
	}
	printf("acks %llu, goodput bins %llu, link bins %llu, lost %llu\n", out.count.acks,
	       out.count.goodput, out.count.links, out.count.lost);
	err = 0;
cleanup:
	while (nr)
		bpf_link__destroy(links[--nr]);
	ring_buffer__free(ring);
	if (out.file)
		fclose(out.file);
	object_close(&o);
	return err;
}
