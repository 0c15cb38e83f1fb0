// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A plugin of QEMU's translator: how many instructions each block of guest code executes, and what BPF code there is. It
 * changes nothing in the guest.
 *
 *     -plugin count.so,out=FOLDER,list=ADDRESS,node=OFFSET,mark=ADDRESS,mark=ADDRESS
 *
 * BPF programs come and go while the guest runs, and others take their place. So time is cut into ages. An age ends when
 * the guest comes to the instruction at a `mark`: before it takes a BPF symbol off its list, and before it restarts.
 * FOLDER/bpf gets a `struct symbol` for each that the kernel's list has then. At QEMU's end FOLDER/blocks gets a `struct
 * block` for each translation of a block.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * QEMU's plugin API, as far as it is used here: Debian has no package with its header. Version 1 (QEMU up to 8.2) counts
 * in memory of ours, later ones in a board with a column for each CPU. `insn_data` fills a buffer since version 3; before,
 * it took the instruction alone and returned a pointer.
 */
#define API __attribute__((visibility("default")))
#define ADD_U64 0
#define NO_REGS 0

struct qemu_info;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_scoreboard;
struct qemu_plugin_u64 {
	struct qemu_plugin_scoreboard *board;
	size_t offset;
};

extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
extern void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *);
extern uintptr_t qemu_plugin_insn_data(const struct qemu_plugin_insn *, void *, size_t);
extern void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*)(uint64_t id, struct qemu_plugin_tb *));
extern void qemu_plugin_register_atexit_cb(uint64_t id, void (*)(uint64_t id, void *), void *);
extern void qemu_plugin_register_vcpu_insn_exec_cb(
	struct qemu_plugin_insn *, void (*)(unsigned int cpu, void *), int flags, void *);

#define MAYBE __attribute__((weak))
extern MAYBE void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int op, void *, uint64_t);
extern MAYBE void
qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(struct qemu_plugin_tb *, int op, struct qemu_plugin_u64, uint64_t);
extern MAYBE struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t);
extern MAYBE void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *, unsigned int cpu);

#define VERSION_OLD 1
#define VERSION_NEW 4

API int qemu_plugin_version;

/* Before QEMU reads the version: one object is for both. */
static __attribute__((constructor)) void choose_version(void)
{
	qemu_plugin_version = qemu_plugin_register_vcpu_tb_exec_inline ? VERSION_OLD : VERSION_NEW;
}

#define CODE_MAX 31
#define CHUNK 4096

struct block {
	uint64_t address;
	uint64_t executed; /* instructions */
	uint32_t instructions;
	uint32_t age;
	uint8_t code_len; /* of the first instructions, whole ones */
	uint8_t code[CODE_MAX];
};

struct chunk {
	struct chunk *next;
	struct qemu_plugin_scoreboard *board;
	size_t used;
	struct block blocks[CHUNK];
	uint64_t executed[CHUNK]; /* version 1 */
};

#define NAME_LEN 128
#define MARKS 2

/* The begin of the kernel's struct bpf_ksym, behind the age. */
struct symbol {
	uint64_t age;
	uint64_t start, end;
	char name[NAME_LEN];
};

/* The kernel's image and its map of all memory, where nothing is randomised. */
#define IMAGE 0xffffffff80000000
#define DIRECT 0xffff888000000000

static struct chunk *chunks; /* the newest first */
static uint64_t marks[MARKS], list, node;
static uint8_t *ram; /* the guest's, here */
static uint32_t age;
static FILE *blocks, *symbols;

static void die(const char *what)
{
	fprintf(stderr, "count: %s\n", what);
	exit(1);
}

static struct chunk *with_room(void)
{
	if (!chunks || chunks->used == CHUNK) {
		struct chunk *c = calloc(1, sizeof(*c));

		if (!c)
			die("no memory");
		if (qemu_plugin_version == VERSION_NEW)
			c->board = qemu_plugin_scoreboard_new(CHUNK * sizeof(uint64_t));
		c->next = chunks;
		chunks = c;
	}
	return chunks;
}

static void read_code(const struct qemu_plugin_insn *insn, uint8_t *to, size_t len)
{
	uintptr_t said = qemu_plugin_insn_data(insn, to, len);

	if (qemu_plugin_version == VERSION_OLD)
		memcpy(to, (const void *)said, len);
}

static const void *at(uint64_t address)
{
	return ram + (address >= IMAGE ? address - IMAGE : address - DIRECT);
}

static uint64_t next_of(uint64_t entry)
{
	return *(const uint64_t *)at(entry);
}

static void age_ends(unsigned int cpu, void *data)
{
	for (uint64_t entry = next_of(list); entry != list; entry = next_of(entry)) {
		struct symbol s = { .age = age };

		memcpy(&s.start, at(entry - node), sizeof(s) - sizeof(s.age));
		fwrite(&s, sizeof(s), 1, symbols);
	}
	age++;
}

static void look_for_mark(struct qemu_plugin_insn *insn)
{
	uint64_t address = qemu_plugin_insn_vaddr(insn);

	for (int i = 0; i < MARKS; i++)
		if (address == marks[i]) {
			ram = (uint8_t *)qemu_plugin_insn_haddr(insn) - (address - IMAGE);
			qemu_plugin_register_vcpu_insn_exec_cb(insn, age_ends, NO_REGS, NULL);
		}
}

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
	struct chunk *c = with_room();
	size_t at = c->used++, n = qemu_plugin_tb_n_insns(tb);
	struct block *b = &c->blocks[at];
	bool room = true;

	b->address = qemu_plugin_tb_vaddr(tb);
	b->instructions = n;
	b->age = age;
	for (size_t i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		size_t len = qemu_plugin_insn_size(insn);

		room = room && b->code_len + len <= CODE_MAX;
		if (room) {
			read_code(insn, b->code + b->code_len, len);
			b->code_len += len;
		}
		look_for_mark(insn);
	}
	if (qemu_plugin_version == VERSION_OLD) {
		qemu_plugin_register_vcpu_tb_exec_inline(tb, ADD_U64, &c->executed[at], n);
	} else {
		struct qemu_plugin_u64 entry = { c->board, at * sizeof(uint64_t) };

		qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, ADD_U64, entry, n);
	}
}

static void write_out(uint64_t id, void *data)
{
	for (struct chunk *c = chunks; c; c = c->next) {
		const uint64_t *executed = c->executed;

		if (c->board)
			executed = qemu_plugin_scoreboard_find(c->board, 0);
		for (size_t i = 0; i < c->used; i++)
			c->blocks[i].executed = executed[i];
		fwrite(c->blocks, sizeof(struct block), c->used, blocks);
	}
	if (ferror(blocks) | fclose(blocks) | ferror(symbols) | fclose(symbols))
		die("cannot write what was counted");
}

static FILE *create(const char *folder, const char *name)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "wb");
	if (!f)
		die("cannot write into the folder of out=");
	return f;
}

API int qemu_plugin_install(uint64_t id, const struct qemu_info *info, int argc, char **argv)
{
	int n = 0;

	for (int i = 0; i < argc; i++) {
		const char *value = strchr(argv[i], '=');

		if (!value++)
			die("an argument without a value");
		if (!strncmp(argv[i], "mark=", 5) && n < MARKS)
			marks[n++] = strtoull(value, NULL, 0);
		else if (!strncmp(argv[i], "list=", 5))
			list = strtoull(value, NULL, 0);
		else if (!strncmp(argv[i], "node=", 5))
			node = strtoull(value, NULL, 0);
		else if (!strncmp(argv[i], "out=", 4)) {
			blocks = create(value, "blocks");
			symbols = create(value, "bpf");
		} else
			die("an argument that it does not know");
	}
	if (!blocks || !list || !node || n < MARKS)
		die("out, list, node and two marks must be given");
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, write_out, NULL);
	return 0;
}
