// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "args.h"

bool is_name(const char *s)
{
	size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-");

	return n && n < CC_NAME_LEN && !s[n];
}

int name_parse(const char **name, const char *option, const char *text)
{
	*name = text;
	return is_name(text) ? 0
			     : fail("%s \"%s\": expected 1 to %d letters, digits, '_', '.' and '-'", option, text,
				    CC_NAME_LEN - 1);
}

int integer_parse(long long *n, const char *text, int base, long long min, long long max)
{
	char *end;

	errno = 0;
	*n = strtoll(text, &end, base);
	if (end == text || *end)
		return -EINVAL;
	return errno || *n < min || *n > max ? -ERANGE : 0;
}

int number_parse(long *n, const char *option, const char *text, long min, long max)
{
	long long value;

	if (integer_parse(&value, text, 10, min, max))
		return fail("%s %s: expected an integer from %ld to %ld", option, text, min, max);
	*n = value;
	return 0;
}

int assignment_parse(const struct vars *vars, const char *owner, const char *option, const char *assignment,
		     const struct var **v, long long *value)
{
	const char *eq = strchr(assignment, '=');
	char list[512] = "none";
	size_t n = 0;
	int err;

	if (!eq || eq == assignment)
		return fail("%s%s: expected param=value", option, assignment);
	*v = vars_find(vars, assignment, eq - assignment);
	if (!*v) {
		for (int i = 0; i < vars->nr && n < sizeof(list) - 80; i++)
			n += snprintf(list + n, sizeof(list) - n, "%s%s", n ? ", " : "", vars->var[i].name);
		return fail("%s has no parameter %.*s; it has: %s", owner, (int)(eq - assignment), assignment, list);
	}
	err = integer_parse(value, eq + 1, 0, (*v)->min, (*v)->max);
	if (err == -EINVAL || isspace((unsigned char)eq[1]))
		return fail("%s%s: \"%s\" is not an integer", option, assignment, eq + 1);
	if (err)
		return fail("%s%s: out of range, %s takes %lld to %lld %s", option, assignment, (*v)->name, (*v)->min,
			    (*v)->max, (*v)->unit);
	return 0;
}

int rate_parse(long *kbit, const char *option, const char *text)
{
	static const struct {
		const char *unit;
		double kbit;
	} units[] = { { "bit", 1e-3 }, { "kbit", 1 }, { "mbit", 1e3 }, { "gbit", 1e6 } };
	static const char digits[] = "0123456789";
	size_t whole = strspn(text, digits), part = text[whole] == '.' ? strspn(text + whole + 1, digits) : 0;
	const char *unit = text + whole + (part ? 1 + part : 0);
	double rate;

	unit += strspn(unit, " ");
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (!whole || strcmp(unit, units[i].unit))
			continue;
		rate = strtod(text, NULL) * units[i].kbit;
		if (rate < 1 || rate > RATE_MAX_KBIT)
			continue;
		*kbit = rate + 0.5;
		return 0;
	}
	return fail("%s %s: expected a rate such as 200kbit or 1.5mbit, from 1kbit to %dgbit", option, text,
		    RATE_MAX_KBIT / 1000000);
}

int texts_add(struct texts *list, const char *text)
{
	const char **room = realloc(list->text, (list->nr + 1) * sizeof(*room));

	if (!room)
		return fail("out of memory");
	list->text = room;
	room[list->nr++] = text;
	return 0;
}

int ports_parse(struct ports *p, const char *text)
{
	char rest;

	if (sscanf(text, "%5ld-%5ld%c", &p->lo, &p->hi, &rest) != 2 || p->lo < 0 || p->hi > 65535 || p->lo > p->hi)
		return fail("--ports %s: expected LO-HI with 0 <= LO <= HI <= 65535", text);
	return 0;
}

unsigned int address_bits(int family)
{
	return family == AF_INET ? 32 : 128;
}

int prefix_parse(struct prefix *p, const char *text)
{
	char addr[INET6_ADDRSTRLEN] = "", rest;
	const char *slash = strchrnul(text, '/');
	unsigned int len, bits;

	*p = (struct prefix){ .text = text };
	p->family = strchr(text, ':') ? AF_INET6 : AF_INET;
	if (!strcmp(text, "default"))
		return 0;
	len = bits = address_bits(p->family);
	if (slash - text < (int)sizeof(addr))
		memcpy(addr, text, slash - text); /* one that is too long stays empty, and is no address */
	if (inet_pton(p->family, addr, p->addr) != 1 || (*slash && sscanf(slash + 1, "%3u%c", &len, &rest) != 1) ||
	    len > bits)
		return fail("--route %s: expected ADDRESS/LENGTH (198.51.100.0/24, 2001:db8::/32), or `default`", text);
	p->len = len;
	for (unsigned int i = len; i < bits; i++)
		if (p->addr[i / 8] & (0x80 >> i % 8))
			return fail("--route %s: the address has bits set beyond the first %u", text, len);
	return 0;
}

/* ADDRESS:PORT, or [ADDRESS]:PORT for IPv6. */
int flow_end_parse(struct trace_flow_end *end, const char *text)
{
	char address[INET6_ADDRSTRLEN], rest;
	unsigned int port = 0;
	struct in_addr v4;
	bool good = false;

	*end = (struct trace_flow_end){};
	if (sscanf(text, "[%45[0-9a-fA-F:.]]:%5u%c", address, &port, &rest) == 2) {
		good = inet_pton(AF_INET6, address, end->address) == 1;
	} else if (sscanf(text, "%15[0-9.]:%5u%c", address, &port, &rest) == 2) {
		good = inet_pton(AF_INET, address, &v4) == 1;
		if (good)
			trace_map_v4(end, v4.s_addr);
	}
	end->port = port;
	if (good && port && port <= 65535)
		return 0;
	return fail("--flow %s: expected ADDRESS:PORT, or [ADDRESS]:PORT for IPv6", text);
}

int device_parse(char name[TRACE_NAME_LEN], const char *text)
{
	if (strlen(text) >= TRACE_NAME_LEN)
		return fail("--link %s: a device's name has at most %d characters", text, TRACE_NAME_LEN - 1);
	strncpy(name, text, TRACE_NAME_LEN);
	return 0;
}

int cgroup_path_parse(char *path, const char *text)
{
	return realpath(text, path) ? 0 : -errno;
}
