#!/usr/bin/env bats
# Reclaim by itself: conversion, compaction, limits, and pools that are full.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/power.bash
source "$BATS_TEST_DIRNAME/power.bash"

cuts=${FUSION_RECLAIM_CUTS:-12}
# The full pool is overwritten so many times.
times=${FUSION_RECLAIM_TIMES:-2}

test_setup() {
	background=auto
	spares=0 member_sectors=$((32 << 11))
}

sum() { dd if=/dev/mapper/t-v"$1" bs=1M iflag=direct status=none | md5sum; }
parity_fits() {
	message scrub
	[ "$(counter scrub_mismatches)" -eq 0 ]
}
# overwrite VOLUME SIZE [OPTION...]: at random, with data that is verified.
overwrite() {
	local volume=$1 size=$2
	shift 2
	fio --output-format=terse --direct=1 --ioengine=libaio --verify=crc32c --verify_fatal=1 --do_verify=1 \
		--verify_backlog=512 --randrepeat=1 --group_reporting --thread --rw=randwrite --norandommap --serialize_overlap=1 \
		--iodepth=16 --bs=64k --io_size="$size" --name=o --filename=/dev/mapper/t-v"$volume" "$@" \
		>"$BATS_TEST_TMPDIR/fio" 2>&1 || { cat "$BATS_TEST_TMPDIR/fio"; return 1; }
}

# full_pool PERCENT: a volume, t-v0, with so much of the data that fits.  Seven of
# eight members are the widest stripes: nothing of a band is left over.
full_pool() {
	make_pool
	volume 0 400 6
	blocks=$(($(space free) * 6 / 7 * $1 / 100))
	dd if=/dev/urandom of=/dev/mapper/t-v0 bs=384k oflag=direct iflag=fullblock count=$((blocks / 6)) status=none
	size=$((blocks / 6 * 384))k
}

@test "a pool that is 90 % full is overwritten again and again" {
	full_pool 90
	SECONDS=0
	overwrite 0 $((blocks * times / 16))m --size="$size"
	echo "# $SECONDS s $(status | sed 's/.* 21 reads/reads/')" >&3
	in_rw
	[ "$(counter compacted)" -gt 0 ]
	parity_fits
}
in_rw() { [ "$(mode)" = rw ]; }
