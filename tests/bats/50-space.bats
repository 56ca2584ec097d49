#!/usr/bin/env bats
# No space: writes fail, or wait, and go on when there is space again.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"

big=$((256 << 11))

test_setup() {
	members=4 spares=0 member_sectors=$((16 << 11))
}
test_teardown() { parameter no_space_timeout 60; }

# Volumes of which each is larger than the pool.
small_pool() {
	features+=${*:+ $*}
	make_pool
	message create_volume 0 v0 $big 2 1
	message create_volume 1 v1 $big 2 1
	volume_device 0 $big
	volume_device 1 $big
}

# fill DEVICE: until there is no space; sets $written, in MiB.
fill() {
	run dd if=/dev/zero of="/dev/mapper/$1" bs=1M oflag=direct
	[ "$status" -ne 0 ]
	[[ $output == *"No space left on device"* ]]
	written=$(sed -n 's/^\([0-9]*\)+.* records out/\1/p' <<<"$output")
	echo "$written MiB"
}

# The writer ($1: arguments of dd) waits in the kernel for space.
start_writer() {
	dd if=/dev/zero of=/dev/mapper/t-v0 bs=64k count=16 oflag=direct status=none "$@" 2>"$BATS_TEST_TMPDIR/writer" 3>&- &
	writer=$!
	wait_for 30 out_of_space
}

# Everything is taken, by t-v0's first blocks and t-v1.
fill_with_queue() {
	small_pool
	parameter no_space_timeout 1
	dd if=/dev/zero of=/dev/mapper/t-v1 bs=64k count=32 oflag=direct status=none
	fill t-v0
	parameter no_space_timeout 60
	log_has "writes that waited fail"
	# Reset: what is discarded makes it leave the mode, and is taken again.
	out_of_space
}

@test "error_if_no_space: ENOSPC, and again after a discard" {
	small_pool error_if_no_space
	dd if=/dev/urandom of="$BATS_TEST_TMPDIR/data" bs=64k count=16 status=none
	dd if="$BATS_TEST_TMPDIR/data" of=/dev/mapper/t-v1 bs=64k oflag=direct conv=fsync status=none
	fill t-v0
	[ "$written" -gt 15 ]
	out_of_space
	log_has "the pool is out of space"
	[ "$(status | cut -d' ' -f9)" -lt 64 ]
	# What is there can be read.  Replicas have become stripes, for want of space.
	cmp "$BATS_TEST_TMPDIR/data" <(dd if=/dev/mapper/t-v1 bs=64k count=16 iflag=direct status=none)
	[ "$(space replicated)" -eq 0 ]
	run ! dd if=/dev/zero of=/dev/mapper/t-v1 bs=64k count=64 seek=100 oflag=direct
	blkdiscard -l $((8 << 20)) /dev/mapper/t-v0
	flush
	wait_for 10 in_rw
	log_has "the pool is read-write again"
	dd if="$BATS_TEST_TMPDIR/data" of=/dev/mapper/t-v1 bs=64k seek=100 oflag=direct conv=fsync status=none
	cmp "$BATS_TEST_TMPDIR/data" <(dd if=/dev/mapper/t-v1 bs=64k count=16 skip=100 iflag=direct status=none)
	cmp "$BATS_TEST_TMPDIR/data" <(dd if=/dev/mapper/t-v1 bs=64k count=16 iflag=direct status=none)
	# Once more, to the brim, and over a stop and start.
	fill t-v0
	stop_pool
	start_pool
	volume_device 0 $big
	volume_device 1 $big
	cmp "$BATS_TEST_TMPDIR/data" <(dd if=/dev/mapper/t-v1 bs=64k count=16 skip=100 iflag=direct status=none)
	run ! dd if=/dev/zero of=/dev/mapper/t-v1 bs=64k count=160 seek=500 oflag=direct
	blkdiscard /dev/mapper/t-v0
	flush
	dd if="$BATS_TEST_TMPDIR/data" of=/dev/mapper/t-v0 bs=64k oflag=direct conv=fsync status=none
}

@test "writes that wait fail after no_space_timeout" {
	small_pool
	parameter no_space_timeout 1
	fill t-v0
	[ "$written" -gt 15 ]
	log_has "no space was freed for 1 seconds: writes that waited fail"
	out_of_space
}

@test "who waits for space is answered when the SSDs fail" {
	fill_with_queue
	start_writer seek=3000
	power_cut 3
	run ! message create_volume 2 v2 $big 2 1
	wait $writer && false
	grep -q "Input/output error" "$BATS_TEST_TMPDIR/writer"
	stop_pool
	power_on
}

# The journals and inodes of file systems are, when something is to be removed there.
@test "in a full pool, blocks that are there are overwritten" {
	small_pool error_if_no_space
	fill t-v0
	blocks=$((written << 4))
	run ! dd if=/dev/zero of=/dev/mapper/t-v0 bs=4k count=1 seek=$((big / 8 - 1)) oflag=direct
	events=$(dmsetup info -c --noheadings -o events "$pool")
	# Twice of what is there, in whole blocks and in pages, and much at once.
	fio --output="$BATS_TEST_TMPDIR/fio" --direct=1 --ioengine=libaio --iodepth=16 --thread --randrepeat=1 \
		--filename=/dev/mapper/t-v0 --size=$((blocks << 16)) --verify=crc32c --verify_fatal=1 \
		--name=whole --rw=randwrite --bs=64k --io_size=$((blocks << 16)) \
		--name=pages --stonewall --rw=randwrite --bsrange=4k-16k --io_size=$((blocks << 14)) \
		--name=large --stonewall --rw=randwrite --bs=512k || { cat "$BATS_TEST_TMPDIR/fio"; return 1; }
	[ "$(counter compacted)" -gt $((blocks / 2)) ]
	run ! dd if=/dev/zero of=/dev/mapper/t-v0 bs=64k count=1 seek=$((big / 128 - 1)) oflag=direct
	[[ $output == *"No space left on device"* ]]
	# It has been out of space all the while, and says so once.
	out_of_space
	[ "$(dmsetup info -c --noheadings -o events "$pool")" -eq "$events" ]
	parity_fits
}

@test "who waits for space with a new block does not keep who overwrites" {
	fill_with_queue
	start_writer seek=3000
	for ((i = 0; i < 40; i++)); do
		dd if=/dev/urandom of=/dev/mapper/t-v0 bs=64k count=1 seek=$i oflag=direct status=none
		dd if=/dev/urandom of=/dev/mapper/t-v1 bs=4k count=1 seek=$((i * 8)) oflag=direct,dsync status=none
	done
	# Nor does a stripe that is being written, for whose end one would wait elsewhere.
	flush
	hold writes
	dd if=/dev/zero of=/dev/mapper/t-v0 bs=128k count=1 oflag=direct status=none 3>&- &
	large=$!
	wait_for 20 held 3
	dd if=/dev/zero of=/dev/mapper/t-v0 bs=64k count=1 seek=50 oflag=direct status=none 3>&- &
	small=$!
	wait_for 20 held 5
	release
	all_end $large $small
	kill -0 $writer
	out_of_space
	blkdiscard /dev/mapper/t-v1
	wait $writer
	[ ! -s "$BATS_TEST_TMPDIR/writer" ]
	flush
	in_rw
}

@test "a writer that waits goes on after a discard" {
	fill_with_queue
	start_writer seek=3000
	kill -0 $writer
	blkdiscard /dev/mapper/t-v1
	wait $writer
	[ ! -s "$BATS_TEST_TMPDIR/writer" ]
	flush
	in_rw
	cmp -n 1048576 /dev/zero <(dd if=/dev/mapper/t-v0 bs=64k skip=3000 count=16 iflag=direct status=none)
}

@test "a writer that waits goes on after a volume is deleted" {
	fill_with_queue
	start_writer seek=3000
	kill -0 $writer
	dm remove t-v1
	message delete_volume 1
	wait $writer
	[ ! -s "$BATS_TEST_TMPDIR/writer" ]
}

@test "a device with a writer that waits can be suspended" {
	fill_with_queue
	start_writer seek=3000
	# The write is kept, and waits again.
	dm suspend --noflush --nolockfs t-v0
	dm resume t-v0
	kill -0 $writer
	blkdiscard /dev/mapper/t-v1
	wait $writer
	[ ! -s "$BATS_TEST_TMPDIR/writer" ]
	# Without noflush it fails.
	fill_with_queue_again
	start_writer seek=3500
	dm suspend --nolockfs t-v0
	run ! wait $writer
	dm resume t-v0
	grep -q "No space left on device" "$BATS_TEST_TMPDIR/writer"
}

fill_with_queue_again() {
	parameter no_space_timeout 1
	fill t-v1
	parameter no_space_timeout 60
}
