// SPDX-License-Identifier: GPL-2.0-only
/*
 * Write selection.
 */
#include "selection.h"
#include "tap.h"

static const struct fusion_selection md = { FUSION_SELECT_COUNT, 0 };
static const struct fusion_selection modthresh = { FUSION_SELECT_COUNT, 1 };
static const struct fusion_selection force_rmw = { FUSION_SELECT_RMW, 0 };
static const struct fusion_selection force_rcw = { FUSION_SELECT_RCW, 1 };

/*
 * The papers' example: four chunks of data of 64 KiB and one of parity; what a write
 * of so much has read by either way, and which way each of the algorithms goes.
 */
static void papers_table(void)
{
	static const struct {
		unsigned int kib, rmw, rcw;
		bool md, modthresh;
	} row[] = {
		{ 64, 2, 3, true, true },
		{ 128, 3, 2, false, true },
		{ 192, 4, 1, false, false },
		{ 256, 5, 0, false, false },
	};
	unsigned int i;

	for (i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		u64 changed = (1ULL << row[i].kib / 64) - 1;

		CHECK(fusion_rmw_reads(changed, 1) == row[i].rmw, "%u KiB", row[i].kib);
		CHECK(fusion_rcw_reads(0xf, changed) == row[i].rcw, "%u KiB", row[i].kib);
		CHECK(fusion_select_rmw(&md, 0xf, changed, 1) == row[i].md, "%u KiB",
		      row[i].kib);
		CHECK(fusion_select_rmw(&modthresh, 0xf, changed, 1) == row[i].modthresh,
		      "%u KiB", row[i].kib);
	}
}

/* The pages of a row that are read, one by one. */
static unsigned int count_reads(unsigned int d, unsigned int p, u64 written,
				u64 changed, bool rmw)
{
	unsigned int slot, reads = 0;

	for (slot = 0; slot < d + p; slot++) {
		bool covered = slot < d && (written >> slot & 1);
		bool changes = slot < d && (changed >> slot & 1);

		if (rmw ? changes || slot >= d : covered && !changes)
			reads++;
	}
	return reads;
}

/* Every set of pages that change, of every set that parity covers. */
static void every_subset(void)
{
	unsigned int d, p, rmw, rcw;
	u64 written, changed;

	for (d = 2; d <= 8; d++)
	for (p = 1; p <= 2; p++)
	for (written = 1; written < 1ULL << d; written++)
	for (changed = written; changed; changed = (changed - 1) & written) {
		rmw = count_reads(d, p, written, changed, true);
		rcw = count_reads(d, p, written, changed, false);
		CHECK(fusion_rmw_reads(changed, p) == rmw, "d %u p %u", d, p);
		CHECK(fusion_rcw_reads(written, changed) == rcw, "d %u p %u", d, p);
		CHECK(fusion_select_rmw(&md, written, changed, p) == (rmw < rcw),
		      "md: d %u p %u, %u and %u reads", d, p, rmw, rcw);
		CHECK(fusion_select_rmw(&modthresh, written, changed, p) ==
		      (rmw <= rcw + 1),
		      "modthresh: d %u p %u, %u and %u reads", d, p, rmw, rcw);
		CHECK(fusion_select_rmw(&force_rmw, written, changed, p), "forced");
		CHECK(!fusion_select_rmw(&force_rcw, written, changed, p), "forced");
	}
}

/* The more of a stripe changes, the less there is for rmw. */
static void monotonous(void)
{
	struct fusion_selection s = { FUSION_SELECT_COUNT, 0 };
	unsigned int d, p, n;
	bool was;

	for (s.bias = 0; s.bias < 6; s.bias++)
	for (d = 2; d < 62; d++)
	for (p = 1; p <= 2; p++)
	for (was = true, n = 1; n <= d; n++) {
		bool is = fusion_select_rmw(&s, (1ULL << d) - 1, (1ULL << n) - 1, p);

		CHECK(was || !is, "bias %u d %u p %u n %u", s.bias, d, p, n);
		was = is;
	}
}

/* Whatever is lost of whatever is covered: enough is read, none of what is lost. */
static void every_loss(void)
{
	unsigned int d, p, data, parity;
	u64 written, lost, sources;

	for (d = 2; d <= 6; d++)
	for (p = 1; p <= 2; p++)
	for (written = 1; written < 1ULL << d; written++)
	for (lost = 1; lost < 1ULL << (d + p); lost++) {
		data = fusion_popcount64(lost & written);
		parity = p - fusion_popcount64(lost >> d);
		sources = fusion_recover_sources(written, lost, d, p);
		if (!data)
			continue;
		CHECK(!sources == (data > parity), "d %u p %u: %u of %u lost", d, p, data,
		      parity);
		if (!sources)
			continue;
		CHECK(!(sources & lost), "lost ones are read");
		CHECK((sources & fusion_mask(0, d)) == (written & ~lost), "data");
		CHECK(fusion_popcount64(sources >> d) == data, "parities");
	}
}

int main(void)
{
	RUN(papers_table);
	RUN(every_subset);
	RUN(monotonous);
	RUN(every_loss);
	return tap_done();
}
