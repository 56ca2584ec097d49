/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A test prints one TAP line.  Checks inside it are cheap, so that millions
 * of them may run: the first few that fail are shown, all are counted.
 */
#ifndef TAP_H
#define TAP_H

#include <inttypes.h>
#include <stdio.h>
#include <stdint.h>

static unsigned int tap_tests, tap_failed_tests;
static unsigned long tap_checks, tap_failures;

#define CHECK(cond, fmt, ...)						\
	do {								\
		tap_checks++;						\
		if (!(cond) && tap_failures++ < 5)			\
			printf("# %s:%d: %s: " fmt "\n", __FILE__,	\
			       __LINE__, #cond, ##__VA_ARGS__);		\
	} while (0)

/* Run @test; a test that checks nothing fails. */
static inline void tap_run(const char *name, void (*test)(void))
{
	tap_checks = 0;
	tap_failures = 0;
	test();
	if (!tap_checks)
		printf("# no checks\n");
	if (tap_failures)
		printf("# %lu of %lu checks failed\n", tap_failures, tap_checks);
	if (tap_failures || !tap_checks)
		tap_failed_tests++;
	printf("%s %u - %s\n",
	       tap_failures || !tap_checks ? "not ok" : "ok", ++tap_tests,
	       name);
	fflush(stdout);
}

#define RUN(test)	tap_run(#test, test)

/* The plan; returns what main() does. */
static inline int tap_done(void)
{
	printf("1..%u\n", tap_tests);
	return tap_failed_tests != 0;
}

/* Seeded pseudo-random numbers (splitmix64): every run is the same. */
static uint64_t tap_seed = 20210223;

static inline uint64_t rnd(void)
{
	uint64_t z = (tap_seed += 0x9e3779b97f4a7c15ULL);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

/* 0 .. n - 1 */
static inline unsigned int rnd_below(unsigned int n)
{
	return rnd() % n;
}

/* Of random bits, but also sparse, dense and extreme. */
static inline uint64_t rnd_mask(void)
{
	switch (rnd_below(6)) {
	case 0:
		return rnd() & rnd() & rnd();
	case 1:
		return rnd() | rnd() | rnd();
	case 2:
		return 1ULL << rnd_below(64);
	case 3:
		return ~0ULL << rnd_below(64);
	case 4:
		return rnd_below(2) ? ~0ULL : 0;
	default:
		return rnd();
	}
}

#endif /* TAP_H */
