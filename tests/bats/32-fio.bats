#!/usr/bin/env bats
# bats file_tags=smp
# fio verifies what it has written, under concurrency.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"

# fio_verify NAME OPTIONS...: of several jobs.
run_fio() {
	run fio --output-format=terse --direct=1 --ioengine=libaio --verify=crc32c --verify_fatal=1 \
		--verify_backlog=64 --randrepeat=1 --group_reporting --thread "$@"
	[ "$status" -eq 0 ] || { echo "$output"; return 1; }
}

@test "random writes of all sizes, several jobs, a volume each" {
	make_pool
	jobs=()
	for d in 2 3 5; do
		volume $d 16 $d
		jobs+=(--name="v$d" --filename="/dev/mapper/t-v$d")
	done
	run_fio --rw=randrw --bsrange=4k-512k --bs_unaligned=0 --iodepth=8 --io_size=12m "${jobs[@]}"
	[ "$(counter large)" -gt 0 ]
	[ "$(counter in_place)" -gt 0 ]
	[ "$(counter new_top)" -gt 0 ]
}

@test "jobs that share a volume and blocks, not pages" {
	make_pool
	volume 0 16
	jobs=()
	# Interleaved areas that end in the middle of blocks.
	for j in 0 1 2 3; do
		jobs+=(--name="j$j" --filename=/dev/mapper/t-v0 --offset=$((j * 4169728)) --size=4169728)
	done
	run_fio --rw=randwrite --bsrange=4k-128k --iodepth=16 --io_size=8m "${jobs[@]}"
}

@test "small overwrites with flushes, then a start" {
	make_pool
	volume 0 8
	run_fio --rw=randwrite --bs=4k --iodepth=16 --fsync=32 --size=8m --io_size=4m --name=a --filename=/dev/mapper/t-v0
	stop_pool
	start_pool
	volume_device 0 $((8 << 11))
	run_fio --rw=randwrite --bs=4k --iodepth=16 --fsync=32 --size=8m --io_size=4m --verify_only --name=a --filename=/dev/mapper/t-v0
}
