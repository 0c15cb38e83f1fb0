/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The one storage of the socket. Members: exists= it is there, fails= none can be made. */
static struct {
	u8 exists, fails;
	_Alignas(8) u8 bytes[4096];
} storage;

static void wrong(const char *what)
{
	fprintf(stderr, "no program may do this: %s\n", what);
	__sanitizer_print_stack_trace();
	abort();
}

static void *storage_made(u64 flags)
{
	if (storage.exists)
		return storage.bytes;
	if (!(flags & BPF_SK_STORAGE_GET_F_CREATE) || storage.fails)
		return NULL;
	storage.exists = true;
	memset(storage.bytes, 0, sizeof(storage.bytes));
	return storage.bytes;
}

#define bpf_sk_storage_get(map, sk, init, flags) ((__typeof__((map)->value))storage_of(sk, init, flags))
#define bpf_sk_storage_delete(map, sk) (storage.exists = false)
