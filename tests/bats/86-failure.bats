#!/usr/bin/env bats
# SSDs that fail: they are not used any more, and nothing is lost.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/patches.bash
source "$BATS_TEST_DIRNAME/patches.bash"
# shellcheck source=tests/bats/power.bash
source "$BATS_TEST_DIRNAME/power.bash"

test_teardown() {
	[ ! -e /dev/mapper/t-meta ] || dm resume t-meta
}

@test "an SSD fails, and the rest of the pool goes on" {
	for ssd in "$turn" $((turn + 5)); do
		raid_volume 4
		write_all_kinds
		[ "$(states)" = oooooooo ]
		dead $ssd
		write_all_kinds
		write_stripes
		flush
		all=oooooooo
		[ "$(states)" = "${all:0:ssd}f${all:ssd+1}" ]
		as_written
		message convert
		[ "$(space replicated)" -eq 0 ]
		as_written
		restart rw 4
		message set patch_percent 20
		[ "$(states)" = "${all:0:ssd}f${all:ssd+1}" ]
		as_written
		# what it held is old
		dead
		as_written
		write 0 1024
		message convert
		as_written
		dm remove --retry t-v0
		stop_pool
		for m in $(devices_of linear); do dm remove --retry "$m"; done
	done
}

@test "an SSD that cannot be flushed has failed" {
	raid_volume 4
	failing flushes 2
	write_all_kinds
	write_stripes
	flush
	[ "$(states)" = oofooooo ]
	[ "$(mode)" = rw ]
	dead 2
	as_written
}

# pages_other FILE: of the first that have been read.
pages_other() {
	cmp -n 1048576 -l "$BATS_TEST_TMPDIR/read" "$1" | awk '{ page = int(($1 - 1) / 4096) } page != last { print last = page }' last=-1 |
		sort
}

# Nobody is told that it has been written before it is known what it is not on.
@test "a failure is recorded before the write is answered" {
	raid_volume 4
	for ((i = 0; i < 16; i++)); do
		write $((i * 16)) 16
	done
	flush
	suspend_meta
	failing writes {0..6}
	random 256 >"$BATS_TEST_TMPDIR/pages"
	dd if="$BATS_TEST_TMPDIR/pages" of=/dev/mapper/t-v0 bs=1M oflag=direct status=none 3>&- &
	pid=$!
	wait_for 20 tasks_in fusion_md_commit 1
	running $pid
	power_cut 1
	dm resume t-meta
	wait $pid && false
	stop_pool
	power_on
	failing writes
	start_pool
	volume_device 0 $((4 << 11))
	# it was not known
	[ "$(states)" = oooooooo ]
	dd if=/dev/mapper/t-v0 of="$BATS_TEST_TMPDIR/read" bs=1M iflag=direct status=none
	truncate -s 4M "$BATS_TEST_TMPDIR/pages"
	[ -z "$(comm -12 <(pages_other "$model") <(pages_other "$BATS_TEST_TMPDIR/pages"))" ]
	parity_fits
	# and is known when it is answered
	failing writes 3
	write 0 1024
	power_cut 2
	stop_pool
	power_on
	failing writes
	start_pool
	[ "$(states)" = ooofoooo ]
}

@test "what was under way when its SSD failed is answered as what comes later" {
	raid_volume 4
	hold_members
	pids=()
	for b in {0..23}; do
		dd if="$model" of=/dev/mapper/t-v0 bs=4k count=8 skip=$((b * 16)) seek=$((b * 16)) \
			oflag=direct conv=notrunc status=none 3>&- &
		pids+=($!)
	done
	# one of each at least: the SSD that holds nothing has one of two at most; some are first on
	# the one that fails, some second, and the others have not ended then
	wait_for 20 held 24
	message fail 2
	failing writes 2
	hand message ssd2 release
	release
	all_end "${pids[@]}"
	[ "$(states)" = oofooooo ]
	as_written
}

# Who loads a band waits for all who read; of these one waits for its SSD's failure to be known.
@test "a failure is recorded while bands are loaded" {
	raid_volume 4
	for b in {0..3}; do
		write $((b * 16)) 1
	done
	flush
	# of one of the blocks, which are anywhere, and not the one with the metadata
	for b in {0..3}; do
		find_ssd $((b * 16 + 15))
		[ "$ssd" -eq 7 ] || break
	done
	[ "$ssd" -ne 7 ]
	restart rw 4
	hand message "ssd$ssd" bad 0 $((member_sectors / 8))
	hand message "ssd$ssd" hold writes
	cmp -n 1M "$model" <(dd if=/dev/mapper/t-v0 bs=1M count=1 iflag=direct status=none) 3>&- &
	pid=$!
	# a page is written again
	wait_for 20 held 1
	blkdiscard -f -o 2M -l 2M /dev/mapper/t-v0
	flush
	message convert 3>&- &
	merge=$!
	wait_for 20 tasks_in fusion_grace_wait_hurried 1
	failing writes "$ssd"
	release
	wait $pid
	wait $merge
	all=oooooooo
	[ "$(states)" = "${all:0:ssd}f${all:ssd+1}" ]
}

@test "a pool is started without SSDs" {
	raid_volume 4 4 2
	write_all_kinds
	missing=1
	restart rw 4
	[ "$(states)" = omoooooo ]
	as_written
	write_all_kinds
	missing="1 4"
	restart rw 4
	[ "$(states)" = omoomooo ]
	as_written
	write_all_kinds
	message convert
	# more cannot be done without; of what is lost nothing is made up
	missing="1 4 6"
	restart ro 4
	[ "$(states)" = omoomomo ]
	read_what_can_be
	[ "$lost" -gt 0 ]
	[ "$lost" -lt 1024 ]
	# what returns is old
	missing=
	restart rw 4
	[ "$(states)" = omoomooo ]
	as_written
	write_all_kinds
	as_written
}

# A disk that is taken away answers with errors, with or without a device behind it.
@test "a disk is taken away, with I/O under way" {
	scsi_disk 64 delay=1
	make_members
	dm reload t-m2 --table "0 $member_sectors linear /dev/$disk 0"
	dm resume t-m2
	start_pool
	fill_volume 4
	begin_load --time_based --runtime=200
	in_place=$(counter in_place)
	wait_for 30 more_in_place
	echo 1 >"/sys/block/$disk/device/delete"
	wait_for 30 states_are oofooooo
	in_place=$(counter in_place)
	wait_for 30 more_in_place
	end_load
	log_has "has failed: it is not used any more"
	before=$(sum 0)
	message convert
	[ "$(sum 0)" = "$before" ]
	missing=2
	restart rw 4
	dm remove t-m2
	no_scsi_disk
	[ "$(states)" = oofooooo ]
	[ "$(sum 0)" = "$before" ]
}

@test "a table without an SSD is loaded" {
	raid_volume 4
	write_all_kinds
	missing=3
	dm load "$pool" --table "$(pool_table)"
	dm suspend "$pool"
	dm resume "$pool"
	[ "$(states)" = ooomoooo ]
	[ "$(dmsetup table "$pool" | awk '{ print $15, $16 }')" = "- 0" ]
	as_written
	write_all_kinds
	as_written
}

@test "the power fails, an SSD with it, and again" {
	make_pool
	make_volumes
	run_and_cut 11 "${devs[@]}"
	stop_pool
	power_on
	missing=2
	for round in 12 13; do
		start_pool
		start_volumes
		[ "$(states)" = oomooooo ]
		[ $round = 13 ] || message resync
		verify "${devs[@]}"
		message convert
		run_and_cut $round "${devs[@]}"
		stop_pool
		power_on
	done
	start_pool
	start_volumes
	verify "${devs[@]}"
}

@test "two SSDs fail of stripes with two parities; a third is used on" {
	raid_volume 4 4 2
	write_all_kinds
	dead 1
	write_all_kinds
	dead 1 4
	write_all_kinds
	[ "$(states)" = ofoofooo ]
	as_written
	message convert
	[ "$(space replicated)" -eq 0 ]
	as_written
	# what has no replica on it can be written; the rest stays what it was
	failing writes 1 4 6
	failed=0
	for b in {0..15}; do
		write $((b * 16)) 16 2>/dev/null || failed=$((failed + 1))
	done
	[ $failed -gt 0 ]
	[ $failed -lt 16 ]
	[ "$(states) $(mode)" = "ofoofoko rw" ]
	as_written
	failing writes 1 4
	write_all_kinds
	as_written
	restart rw 4
	[ "$(states)" = ofoofooo ]
	as_written
}

@test "SSDs fail while patches are merged" {
	raid_volume 4 4 2
	for i in 0 1 2 3; do
		# in so many stripes that something of each SSD is written
		for b in {0..31}; do
			write $((b * 32 + b % 16)) 1
		done
		# it fails when the rows have records
		merge_to_commit 12
		eval "failing writes {0..$i}"
		dm resume t-meta
		if [ $i -lt 2 ]; then
			wait $pid
		else
			wait $pid && false
			[ "$(mode)" = ro ]
			failing writes
			restart rw 4
			message set patch_percent 20
		fi
		[ "$(states)" = "$([ $i -eq 0 ] && echo fooooooo || echo ffoooooo)" ]
		as_written
	done
	message convert
	[ "$(counter patch_area)" -eq 0 ]
	as_written
	parity_fits
}

@test "members are failed by command, and no more than can be done without" {
	raid_volume 4 4 2
	write_all_kinds
	run ! message fail 8
	message fail 3
	run ! message fail 3
	message fail 5
	run ! message fail 6
	[ "$(states)" = ooofofoo ]
	as_written
	# one parity replaces one of them
	run ! message create_volume 7 x 2048 3 1
	dm remove --retry t-v0
	message delete_volume 0
	message create_volume 8 y 2048 4 2
	[ "$(mode)" = rw ]
}


# bats test_tags=smp
@test "SSDs fail under load" {
	raid_volume 4 4 2
	begin_load --time_based --runtime=200
	in_place=0
	wait_for 30 more_in_place
	dead 2
	wait_for 30 states_are oofooooo
	in_place=$(counter in_place)
	wait_for 30 more_in_place
	dead 2 5
	wait_for 30 states_are oofoofoo
	in_place=$(counter in_place)
	wait_for 30 more_in_place
	end_load
	before=$(sum 0)
	message convert
	[ "$(sum 0)" = "$before" ]
}

# Of an SSD that fails while it cannot be done without.
@test "an SSD that was kept is not when it can be done without again" {
	spares=2
	raid_volume 4 3 1
	for how in replaced rebuilt; do
		message set paused 1
		message fail 5
		failing writes 2
		run ! write 0 1024
		[ "$(states) $(mode)" = "ookoofoo rw" ]
		failing writes
		write 0 1024
		as_written
		message set paused 0
		case $how in
		replaced) message replace 5 && message rebuild && want=oooooooo ;;
		rebuilt) message rebuild && want=ooooofoo ;;
		esac
		[ "$(states)" = "$want" ]
		failing writes 2
		write 0 1024
		failing writes
		message replace 2
		message rebuild
		[ "$(states)" = "$want" ]
		as_written
	done
}
