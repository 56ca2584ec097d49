#!/usr/bin/env bats
# Patches: single pages over blocks that are in RAID stripes.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/power.bash
source "$BATS_TEST_DIRNAME/power.bash"
# shellcheck source=tests/bats/patches.bash
source "$BATS_TEST_DIRNAME/patches.bash"

cuts=${FUSION_PATCH_CUTS:-6}

@test "a few pages of a block are patches, more become a top" {
	raid_volume 4
	write 5 1
	write 9 2
	[ "$(patched) $(counter new_top)" = "2 64" ]
	as_written
	# in place: no place is drawn
	in_place=$(counter in_place)
	write 5 1
	write 9 1
	write 10 1
	write 9 2
	[ "$(patched) $(($(counter in_place) - in_place))" = "2 4" ]
	as_written
	# three of sixteen are patched; with a fourth they are a quarter
	write 1 1
	[ "$(patched) $(counter new_top)" = "2 65" ]
	[ "$(counter in_place)" -eq $((in_place + 4)) ]
	as_written
	write 15 1
	write 5 1
	[ "$(patched)" -eq 2 ]
	as_written
	# without a base there is nothing to patch
	volume 1 1
	dd if=/dev/urandom of=/dev/mapper/t-v1 bs=4k count=1 oflag=direct status=none
	[ "$(patched)" -eq 2 ]
	stop_pool
	start_pool
	volume_device 0 $((4 << 11))
	as_written
	message convert
	as_written
	parity_fits
}

# Who writes waits for that: all pages are read together, and then written together with those that
# are new.
@test "patches become a top in two steps" {
	raid_volume 4
	write 1 1
	write 5 1
	write 9 1
	[ "$(patched)" -eq 3 ]
	flush
	hold reads
	write 13 1 3>&- &
	pid=$!
	wait_for 20 held 3
	hold writes
	step
	# four pages, two replicas each
	wait_for 20 held 8
	release
	wait $pid
	as_written
	# the patches have the right pages of both replicas
	for ssd in {0..6}; do
		all_there "$ssd"
	done
	stop_pool
	start_pool
	volume_device 0 $((4 << 11))
	as_written
}

@test "patches become a top though an SSD cannot be read" {
	raid_volume 4
	for ssd in {0..6}; do
		write $((ssd * 16 + 1)) 1
		write $((ssd * 16 + 5)) 2
		failing reads "$ssd"
		write $((ssd * 16 + 12)) 1
		failing reads
	done
	[ "$(patched)" -eq 14 ]
	as_written
}

@test "pages that are patched apart, and written together" {
	raid_volume 4
	write 7 1
	write 5 1
	write 6 1
	as_written
	# they are not one behind the other: new places, in one slot
	before=$(patched)
	write 5 3
	[ "$(patched)" -eq $((before + 1)) ]
	as_written
	in_place=$(counter in_place)
	write 5 3
	[ "$(patched) $(counter in_place)" = "$((before + 1)) $((in_place + 1))" ]
	# one of them, and one beside: five to seven would be four with it
	write 4 2
	[ "$(patched)" -eq $((before + 1)) ]
	as_written
	# all that is patched is written: no patch is kept
	write 37 1
	write 36 6
	as_written
	stop_pool
	start_pool
	volume_device 0 $((4 << 11))
	as_written
}

@test "patches go with their block, and their space comes back" {
	raid_volume 4
	flush
	free=$(space free)
	for b in {0..40}; do
		write $((b * 16 + b % 14)) 1
	done
	flush
	[ "$(patched)" -eq 41 ]
	[ "$(space replicated)" -gt 0 ]
	as_written
	stop_pool
	start_pool
	volume_device 0 $((4 << 11))
	as_written
	# a large write, a whole block, a discard
	dd if="$model" of=/dev/mapper/t-v0 bs=192k count=8 oflag=direct status=none
	for b in {24..31}; do
		dd if="$model" of=/dev/mapper/t-v0 bs=64k count=1 seek="$b" skip="$b" oflag=direct status=none
	done
	as_written
	blkdiscard -o $((32 << 16)) -l $((9 << 16)) /dev/mapper/t-v0
	dd if=/dev/zero of="$model" bs=64k seek=32 count=9 conv=notrunc status=none
	as_written
	message convert
	[ "$(space replicated)" -eq 0 ]
	[ "$(counter patch_area)" -eq 0 ]
	as_written
	parity_fits
	[ "$(space free)" -ge "$free" ]
	dm remove t-v0
	message delete_volume 0
}

@test "a volume with patches is deleted" {
	make_pool
	message set patch_percent 20
	empty=$(space free)
	volume 0 4
	random_to 0 0 1024
	message convert
	for b in {0..40}; do
		random_to 0 $((b * 16 + 3)) 1 4k
	done
	[ "$(patched)" -eq 41 ]
	dm remove t-v0
	message delete_volume 0
	[ "$(space free) $(space dead) $(counter patch_area)" = "$empty 0 0" ]
}

@test "writes wait for room in the patch area" {
	percent=0 member_sectors=$((16 << 11))
	raid_volume 4
	write 5 1
	[ "$(patched) $(counter new_top)" = "0 65" ]
	# a percent is three sets, of 48 pages each
	message set patch_percent 1
	limit=$(counter patch_limit)
	[ "$limit" -gt 16 ]
	[ "$limit" -le 24 ]
	# each page but the first ones once, in any order
	verified --rw=randwrite --bs=4k --iodepth=4 --offset=64k --size=4032k
	# there is room again when patches are merged; blocks with more than three become tops
	echo "$(patched) patches, $(counter destaged) merged, $(counter new_top) tops"
	[ "$(counter destaged)" -gt 0 ]
	[ "$(patched)" -gt 96 ]
	[ "$(counter patch_area)" -le 24 ]
	dd if=/dev/mapper/t-v0 of="$model" bs=1M iflag=direct status=none
	message convert
	as_written
	parity_fits
}

# 240 pages fill the area long before a commit comes by itself.
@test "writes wait for patches to be merged that no commit has seen yet" {
	percent=1 member_sectors=$((32 << 11))
	raid_volume 18
	tops=$(counter new_top)
	verified --rw=write:60k --bs=4k --iodepth=16 --size=18m --io_size=1152k
	echo "$(patched) patches, $(counter destaged) merged, $(counter new_top) tops, of which $tops before"
	[ "$(patched)" -eq 288 ]
	[ "$(counter destaged)" -gt 0 ]
	[ "$(counter new_top)" -eq "$tops" ]
}

# Five times three of sixteen pages: the last one of each slot is not drawn.
@test "patches that leave a page of each slot" {
	raid_volume 9
	verified --rw=write:52k --bs=12k --iodepth=4 --size=9m
	[ "$(patched)" -eq 144 ]
	[ "$(counter new_top)" -eq 144 ]
}

@test "patches are merged, and their blocks are compacted" {
	raid_volume 6
	# a third of each stripe goes
	for b in {0..95..3}; do
		blkdiscard -o $((b << 16)) -l 64k /dev/mapper/t-v0
		dd if=/dev/zero of="$model" bs=64k seek="$b" count=1 conv=notrunc status=none
	done
	for b in {1..95..3}; do
		write $((b * 16 + b % 15)) 1
	done
	[ "$(patched)" -eq 32 ]
	message convert
	[ "$(counter destaged)" -eq 32 ]
	[ "$(counter compacted)" -gt 0 ]
	as_written
	for b in {1..95..3}; do
		write $((b * 16 + b % 15)) 1
	done
	[ "$(patched)" -eq 64 ]
	as_written
	parity_fits
}

# Two replicas of a page that differ, after a cut, must not be read one now and the
# other then: verify reads all twice.
# bats test_tags=smp
@test "$cuts power cuts while pages are patched" {
	member_sectors=$((120 << 11))
	make_pool
	make_volumes
	patched=0
	for ((round = 601; round <= 600 + cuts; round++)); do
		message set patch_percent 10
		message set soft_percent 0
		message convert
		run_and_cut $round --max-size $((4096 << round % 4 * 2)) "${devs[@]}"
		patched=$((patched + $(patched)))
		stop_pool
		power_on
		start_pool
		start_volumes
		# Every other time before resync is done.
		[ $((round % 2)) -eq 0 ] || message resync
		verify "${devs[@]}"
		parity_fits
	done
	echo "$patched writes were patches"
	[ $patched -gt 0 ]
	verify "${devs[@]}"
}
