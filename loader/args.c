// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "args.h"

int name_parse(const char **name, const char *option, const char *text)
{
	*name = text;
	return is_name(text) ? 0
			     : fail("%s \"%s\": expected 1 to %d letters, digits, '_', '.' and '-'", option, text,
				    CC_NAME_LEN - 1);
}

bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && !strcmp(s + n - m, end);
}

bool is_file(const char *controller)
{
	return strchr(controller, '/') || strstr(controller, ".o:") || ends_with(controller, ".o");
}

int controller_parse(const char **controller, const char *option, const char *text)
{
	size_t n = strcspn(text, ":");
	char name[CC_NAME_LEN + 1];

	*controller = text;
	snprintf(name, sizeof(name), "%.*s", (int)n, text);
	return is_file(text) || is_name(name) ? 0 : name_parse(controller, option, text);
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
