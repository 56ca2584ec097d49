// SPDX-License-Identifier: GPL-2.0-only
/* The straggler window, against the paper's example and a naive model; and latencies. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "latency.h"
#include "tap.h"
#include "window.h"

static struct fusion_window w;

/* ---- a naive model: each I/O has the slot of its issue ---- */

#define IOS	4096

static struct {
	u32 slot;
	bool pending, straggler;
} model[IOS];
static unsigned int used;

static void begin(void)
{
	memset(&w, 0, sizeof(w));
	used = 0;
}

static void model_rotate(u32 slot, unsigned int slots)
{
	unsigned int i;

	for (i = 0; i < used; i++)
		if (model[i].pending && slot - model[i].slot >= slots)
			model[i].straggler = true;
}

static s64 model_count(bool stragglers)
{
	unsigned int i;
	s64 n = 0;

	for (i = 0; i < used; i++)
		n += model[i].pending && (!stragglers || model[i].straggler);
	return n;
}

static void issue(u32 slot)
{
	bool first = true;
	unsigned int i;

	for (i = 0; i < used; i++)
		first &= model[i].slot != slot;
	CHECK(fusion_window_issue(&w, slot) == first, "%u", slot);
	model[used].slot = slot;
	model[used].pending = true;
	model[used++].straggler = false;
}

static void end(unsigned int i)
{
	s64 left = -1;
	bool straggler = fusion_window_end(&w, model[i].slot, &left);

	CHECK(straggler == model[i].straggler, "of slot %u", model[i].slot);
	model[i].pending = false;
	if (straggler)
		CHECK(left == model_count(true), "%" PRId64, left);
}

static void check(void)
{
	struct fusion_window_sum sum = fusion_window_sum(&w);

	CHECK(sum.pending == model_count(false), "%" PRId64, sum.pending);
	CHECK(sum.issued == (s64)used, "%" PRId64, sum.issued);
	CHECK(atomic64_read(&w.stragglers) == model_count(true), "%" PRId64,
	      atomic64_read(&w.stragglers));
}

/* ---- tests ---- */

/*
 * FusionRAID, figure 8: a window of 5 slots, 3 stragglers; the slot that leaves it holds 7; two
 * come back, and 8 are 6 or more: unresponsive.
 */
static void figure_8(void)
{
	static const unsigned int in_slot[] = { 7, 2, 4, 1, 3 };
	unsigned int i, j;
	s64 left;

	begin();
	for (i = 0; i < 3; i++)
		issue(0);
	for (i = 0; i < 5; i++)
		for (j = 0; j < in_slot[i]; j++)
			issue(1 + i);
	model_rotate(5, 5);
	CHECK(fusion_window_rotate(&w, 5, 5) == 3, "%" PRId64, atomic64_read(&w.stragglers));
	CHECK(!fusion_unresponsive(false, 3, 6, 6), "it is not yet");
	/* time goes on: the slot with 7 leaves the window */
	model_rotate(6, 5);
	CHECK(fusion_window_rotate(&w, 6, 5) == 10, "%" PRId64, atomic64_read(&w.stragglers));
	check();
	/* one of the old ones comes back, and one of those */
	CHECK(fusion_window_end(&w, 0, &left) && left == 9, "%" PRId64, left);
	CHECK(fusion_window_end(&w, 1, &left) && left == 8, "%" PRId64, left);
	CHECK(fusion_unresponsive(false, left, 6, 6), "it is");
	/* what is in the window does not count */
	CHECK(!fusion_window_end(&w, 4, &left), "it was none");
	CHECK(atomic64_read(&w.stragglers) == 8, "%" PRId64, atomic64_read(&w.stragglers));
}

static void thresholds(void)
{
	bool un = false;
	s64 n;

	/* the same: it changes there */
	for (n = 0; n < 10; n++)
		CHECK(fusion_unresponsive(false, n, 6, 6) == (n >= 6), "%" PRId64, n);
	for (n = 9; n >= -1; n--)
		CHECK(fusion_unresponsive(true, n, 6, 6) == (n >= 6), "%" PRId64, n);
	/* a gap: between them it stays as it is */
	for (n = 0; n < 10; n++) {
		un = fusion_unresponsive(un, n, 6, 2);
		CHECK(un == (n >= 6), "%" PRId64, n);
	}
	for (n = 9; n >= -1; n--) {
		un = fusion_unresponsive(un, n, 6, 2);
		CHECK(un == (n > 2), "%" PRId64, n);
	}
	CHECK(fusion_window_ns(50000, 300000, 1000000, 20000000) == 2400000, "eight medians");
	CHECK(fusion_window_ns(300000, 50000, 1000000, 20000000) == 2400000, "of whatever is slower");
	CHECK(fusion_window_ns(50000, 0, 1000000, 20000000) == 1000000, "at least the least");
	CHECK(fusion_window_ns(0, 1ULL << 40, 1000000, 20000000) == 20000000, "at most the most");
	CHECK(fusion_window_ns(50000, 0, 1000000, 1000) == 1000, "whatever is the least");
	/* 50 a second bring none in 20 ms */
	CHECK(fusion_window_enter(50, 20000000) == 1, "one");
	CHECK(fusion_window_enter(0, 20000000) == 1, "one");
	CHECK(fusion_window_enter(4000, 2000000) == 4, "four");
	CHECK(fusion_window_enter(1000000, 1000000) == 6, "six at most");
}

/* Whatever happens: issues, ends, time that goes on by little or by much. */
static void as_the_model(void)
{
	unsigned int round, step, slots, i;
	u32 slot;

	for (round = 0; round < 300; round++) {
		begin();
		slots = 1 + rnd_below(FUSION_WINDOW_SLOTS_MAX);
		/* it wraps */
		slot = round & 1 ? -20 : 1000;
		w.rotated = slot;
		for (step = 0; step < 1500; step++) {
			switch (rnd_below(8)) {
			case 0:
				slot += 1 + (rnd_below(20) ? 0 : rnd_below(40));
				/* as whoever is first in a slot does; the timer, if nobody is */
				model_rotate(slot, slots);
				if (rnd_below(2))
					CHECK(fusion_window_rotate(&w, slot, slots) ==
					      model_count(true), "%u slots", slots);
				else
					CHECK(fusion_window_advance(&w, slot, slots) ==
					      model_count(true), "%u slots", slots);
				break;
			case 1 ... 4:
				issue(slot);
				break;
			default:
				i = used ? rnd_below(used) : 0;
				if (used && model[i].pending)
					end(i);
			}
			check();
		}
	}
}

/* A slot that nobody rotated the window in: its cell is taken by another. */
static void taken_over(void)
{
	s64 left;

	begin();
	issue(3);
	issue(3);
	CHECK(fusion_window_issue(&w, 3 + FUSION_WINDOW_CELLS), "the first");
	CHECK(atomic64_read(&w.stragglers) == 2, "%" PRId64, atomic64_read(&w.stragglers));
	CHECK(fusion_window_end(&w, 3, &left) && left == 1, "%" PRId64, left);
	CHECK(!fusion_window_end(&w, 3 + FUSION_WINDOW_CELLS, &left), "it was none");
}

/* More than a cell can count are not lost. */
static void crowds(void)
{
	unsigned int i;
	s64 left;

	begin();
	for (i = 0; i < 200000; i++)
		fusion_window_issue(&w, 7);
	CHECK(fusion_window_sum(&w).pending == 200000, "%" PRId64, fusion_window_sum(&w).pending);
	CHECK(fusion_window_sum(&w).issued == 200000, "%" PRId64, fusion_window_sum(&w).issued);
	for (i = 0; i < 200000; i++)
		fusion_window_end(&w, 7, &left);
	CHECK(!fusion_window_sum(&w).pending, "%" PRId64, fusion_window_sum(&w).pending);
	CHECK(!atomic64_read(&w.stragglers), "%" PRId64, atomic64_read(&w.stragglers));
}

/* Many at once, with clocks that differ: nothing is lost, and nothing left. */
#define THREADS	4
#define ROUNDS	200000

static u32 shared_slot;

static void *issuer(void *arg)
{
	u32 mine[8], slot;
	unsigned int i, n = 0, seed = (uintptr_t)arg;
	s64 left;

	for (i = 0; i < ROUNDS; i++) {
		slot = READ_ONCE(shared_slot) + rand_r(&seed) % 3 - 1;
		if (fusion_window_issue(&w, slot))
			fusion_window_advance(&w, slot, 10);
		mine[n++] = slot;
		if (!(rand_r(&seed) % 16))
			WRITE_ONCE(shared_slot, slot + 1);
		if (n == 8)
			while (n)
				fusion_window_end(&w, mine[--n], &left);
	}
	while (n)
		fusion_window_end(&w, mine[--n], &left);
	return NULL;
}

static void at_once(void)
{
	pthread_t thread[THREADS];
	uintptr_t i;

	begin();
	for (i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&thread[i], NULL, issuer, (void *)i), "thread");
	for (i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	CHECK(!fusion_window_sum(&w).pending, "%" PRId64, fusion_window_sum(&w).pending);
	CHECK(fusion_window_sum(&w).issued == THREADS * ROUNDS, "%" PRId64,
	      fusion_window_sum(&w).issued);
}

/* Slots go on when they become longer, or shorter. */
static void clocks(void)
{
	struct fusion_slot_clock c = { 0 };
	u64 now = 1ULL << 50, ns;
	unsigned int i, j;
	u32 slot;

	fusion_slot_clock_set(&c, now, 100000);
	slot = fusion_slot(&c, now);
	CHECK(fusion_slot(&c, now + 99999) == slot, "the same");
	CHECK(fusion_slot(&c, now + 100001) == slot + 1, "the next");
	CHECK(fusion_slot(&c, now + 86400ULL * 1000000000) - slot - 864000000 + 1 <= 1,
	      "a day: %u", fusion_slot(&c, now + 86400ULL * 1000000000) - slot);
	CHECK(fusion_slot(&c, now - 5000) == slot, "a clock that is late");
	for (i = 0; i < 1000; i++) {
		ns = 1 + rnd_below(3000000);
		slot = fusion_slot(&c, now);
		fusion_slot_clock_set(&c, now, ns);
		CHECK(fusion_slot(&c, now) == slot + 1, "it goes on");
		for (j = 0; j < 5; j++) {
			u32 before = fusion_slot(&c, now);
			u64 step = rnd_below(10 * ns);

			now += step;
			CHECK(fusion_slot(&c, now) - before - step / ns <= 1, "%" PRIu64, step);
		}
	}
}

static int by_size(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

static void latencies(void)
{
	static const unsigned int permille[] = { 0, 1, 500, 900, 990, 999, 1000 };
	static u64 ns[5000];
	static struct fusion_latency l;
	unsigned int round, i, n, total;

	for (i = 1; i < FUSION_LATENCY_BUCKETS; i++) {
		CHECK(fusion_latency_bucket(fusion_latency_of_bucket(i)) == i, "%u", i);
		CHECK(fusion_latency_of_bucket(i) > fusion_latency_of_bucket(i - 1), "%u", i);
	}
	CHECK(!fusion_latency_bucket(0), "the first");
	CHECK(fusion_latency_bucket(~0ULL) == FUSION_LATENCY_BUCKETS - 1, "the last");
	memset(&l, 0, sizeof(l));
	CHECK(!fusion_latency_percentile(&l, 500), "there are none");
	for (round = 0; round < 200; round++) {
		memset(&l, 0, sizeof(l));
		n = 1 + rnd_below(round & 1 ? 20 : 5000);
		for (i = 0; i < n; i++) {
			ns[i] = 1024 + (rnd() & fusion_latency_of_bucket(rnd_below(190)));
			l.count[fusion_latency_bucket(ns[i])]++;
		}
		qsort(ns, n, sizeof(*ns), by_size);
		for (i = 0; i < sizeof(permille) / sizeof(*permille); i++) {
			unsigned int at = (n * permille[i] + 999) / 1000;
			u64 is = fusion_latency_percentile(&l, permille[i]);
			u64 should = ns[at ? at - 1 : 0];

			CHECK(is <= should + should / 16 && is >= should - should / 16,
			      "%u of %u: %" PRIu64 " %" PRIu64, permille[i], n, is, should);
		}
	}
	total = fusion_latency_total(&l);
	CHECK(total == n, "%u", total);
	fusion_latency_age(&l);
	CHECK(fusion_latency_total(&l) <= n / 2, "%" PRIu64, fusion_latency_total(&l));
}

int main(void)
{
	RUN(figure_8);
	RUN(thresholds);
	RUN(as_the_model);
	RUN(taken_over);
	RUN(crowds);
	RUN(at_once);
	RUN(clocks);
	RUN(latencies);
	return tap_done();
}
