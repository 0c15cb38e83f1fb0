/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The model prints its state. With `trace` it prints each call of the controller too, which a model in Python follows:
 * {"op", "args", "tp", "counted" and "before", the socket's storage, before the call, "ca", "counters", "stored", "cwnd",
 * "ssthresh" and "rcv_tsval" after it, "result"}.
 */

/* Those whose name has the prefix. */
static void print_entries(const char *name, const struct entry *e, int n, const char *prefix)
{
	const char *comma = "";

	printf("\"%s\":{", name);
	for (; n-- > 0 && e->name; e++) {
		if (strncmp(e->name, prefix, strlen(prefix)))
			continue;
		printf("%s\"%s\":%llu", comma, e->name + strlen(prefix), get(e));
		comma = ",";
	}
	printf("}");
}

static void print_state(void)
{
	printf("{");
	print_entries("tp", members, COUNT_OF(members), "");
	printf(",");
	print_entries("ca", fields, COUNT_OF(fields), "ca.");
	printf(",");
#ifdef STORE
	print_entries(STORED_AS, fields, COUNT_OF(fields), STORED_AS ".");
	printf(",");
#endif
	print_entries("counters", counters, n_counters, "");
	printf(",\"cwnd_limited\":%d,\"cong_control\":%d}\n", tp->is_cwnd_limited, !!OPS.cong_control);
}

static bool tracing;
static int traced; /* calls in this answer */

static void begin_trace(void)
{
	traced = 0;
	if (tracing)
		printf("{\"calls\":[");
}

/* The socket's storage. */
static void print_stored(const char *name)
{
#ifdef STORE
	printf(",");
	print_entries(name, fields, COUNT_OF(fields), STORED_AS ".");
#endif
}

static void trace_before(const char *op, long long first, long long second)
{
	if (!tracing)
		return;
	printf("%s{\"op\":\"%s\",\"args\":[%lld,%lld],\"limited\":%d,", traced++ ? "," : "", op, first, second,
	       tp->is_cwnd_limited);
	print_entries("tp", members, COUNT_OF(members), "");
	print_stored("before");
#ifdef WIRE
	printf(",");
	print_entries("counted", counters, n_counters, ""); /* options are, between the calls */
#endif
}

static void trace_after(u32 result)
{
	if (!tracing)
		return;
	printf(",");
	print_entries("ca", fields, COUNT_OF(fields), "ca.");
	printf(",");
	print_entries("counters", counters, n_counters, "");
	print_stored("stored");
	printf(",\"cwnd\":%u,\"ssthresh\":%u,\"rcv_tsval\":%u,\"result\":%u}", tp->snd_cwnd, tp->snd_ssthresh,
	       tp->rx_opt.rcv_tsval, result);
}

/* Calls of the controller that give nothing, or a window. */
#define CALL(op, first, second, ...)             \
	do {                                     \
		trace_before(#op, first, second); \
		OPS.op(__VA_ARGS__);             \
		trace_after(0);                  \
	} while (0)

#define CALL_FOR_RESULT(op)                 \
	static u32 op(void)                 \
	{                                   \
		u32 result;                 \
                                            \
		trace_before(#op, 0, 0);    \
		result = OPS.op(sk);        \
		trace_after(result);        \
		return result;              \
	}

CALL_FOR_RESULT(ssthresh)
CALL_FOR_RESULT(undo_cwnd)
CALL_FOR_RESULT(min_tso_segs)
