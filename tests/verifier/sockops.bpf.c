// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* An ACK is sent by a controller only. refused: (unknown func|cannot use helper) bpf_tcp_send_ack */
#include "refused.h"

SEC("sockops") int refused_sockops(struct bpf_sock_ops *ops) { return bpf_tcp_send_ack(ops->sk, 0); }
OPS();
