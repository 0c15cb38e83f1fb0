/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Hosts are little-endian, as BPF is. */
#ifndef FAKE_BPF_ENDIAN_H
#define FAKE_BPF_ENDIAN_H

#define bpf_htons(x) __builtin_bswap16(x)
#define bpf_ntohs(x) __builtin_bswap16(x)
#define bpf_htonl(x) __builtin_bswap32(x)
#define bpf_ntohl(x) __builtin_bswap32(x)

#endif
