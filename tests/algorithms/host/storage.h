/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The storage of the socket, and a second one of a controller with two maps. Members: exists= it is there, fails= none can be made. */
static struct store {
	u8 exists, fails;
	_Alignas(8) u8 bytes[4096];
} storage, second, *asked;

static void wrong(const char *what)
{
	fprintf(stderr, "no program may do this: %s\n", what);
	__sanitizer_print_stack_trace();
	abort();
}

static void *storage_made(u64 flags)
{
	if (asked->exists)
		return asked->bytes;
	if (!(flags & BPF_SK_STORAGE_GET_F_CREATE) || storage.fails)
		return NULL;
	asked->exists = true;
	memset(asked->bytes, 0, sizeof(asked->bytes));
	return asked->bytes;
}

#define store_of(map) ((const void *)(map) == (const void *)&STORE ? &storage : &second)
#define bpf_sk_storage_get(map, sk, init, flags) \
	(asked = store_of(map), (__typeof__((map)->value))storage_of(sk, init, flags))
#define bpf_sk_storage_delete(map, sk) (store_of(map)->exists = false)
