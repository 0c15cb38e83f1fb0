// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The program around one of the kernel's BPF selftests, in place of its test_progs.c: that one is made of all of them,
 * some 1,000 programs, and wants a kernel that takes a signing key. TEST is the test's function. A line tells how each
 * subtest ended; what a test says comes before it. */
#include "test_progs.h"

#define WORD(name) WORD_OF(name)
#define WORD_OF(name) #name

struct test_env env;

static char subtest[MAX_SUBTEST_NAME];
static int failures, number, bad;
static bool skipped;

extern void TEST(void);

static void end(void)
{
	if (!*subtest)
		return;
	fflush(stderr);
	printf("%s %d %s%s\n", failures ? "not ok" : "ok", ++number, subtest, skipped && !failures ? " # SKIP" : "");
	fflush(stdout);
	bad += failures != 0;
	failures = 0;
	skipped = false;
	*subtest = '\0';
}

bool test__start_subtest(const char *name)
{
	end();
	snprintf(subtest, sizeof(subtest), "%s", name);
	return true;
}

bool test__start_subtest_with_desc(const char *name, const char *description)
{
	return test__start_subtest(name);
}

void test__end_subtest(void)
{
	end();
}

void test__skip(void)
{
	skipped = true;
}

void test__fail(void)
{
	failures++;
}

int main(void)
{
	TEST();
	if (!*subtest && (failures || !number)) /* it has no subtests, or failed behind them */
		snprintf(subtest, sizeof(subtest), "%s", WORD(TEST));
	end();
	printf("1..%d\n", number);
	return bad ? 1 : 0;
}
