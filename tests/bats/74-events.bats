#!/usr/bin/env bats
# What a pool tells of itself: tracepoints, and events when space becomes low.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"

setup_file() { with_udev; }
teardown_file() { end_udev; }

tracing=/sys/kernel/tracing

test_teardown() {
	echo 0 >$tracing/events/dm_fusion/enable
	echo >$tracing/trace
}

# --- tracepoints -------------------------------------------------------------

trace() {
	echo >$tracing/trace
	echo 1 >$tracing/events/dm_fusion/enable
}
# traced EVENT [FIELD=VALUE...]: its lines, from the device on.
traced() {
	local lines field
	lines=$(sed -n "s/.*: fusion_$1: //p" $tracing/trace)
	for field in "${@:2}"; do
		lines=$(grep -wE -e "$field" <<<"$lines" || :)
	done
	[ -z "$lines" ] || echo "$lines"
}
traced_count() { traced "$@" | wc -l; }
# traced_sum FIELD EVENT [FIELD=VALUE...]
traced_sum() {
	traced "${@:2}" | awk -v field="$1" '{
		for (i = 1; i <= NF; i++)
			if (split($i, f, "=") == 2 && f[1] == field)
				n += f[2]
	} END { print n + 0 }'
}
of_this_pool() {
	local dev
	dev=$(dmsetup info -c --noheadings -o major,minor --separator , "$pool")
	[ "$(traced "$1" | cut -d' ' -f1 | sort -u)" = "$dev" ]
}
# Each stripe was told of once.
distinct() { [ -z "$(traced "$@" | cut -d' ' -f2 | sort | uniq -d)" ]; }

@test "fusion_convert and fusion_compact add up to what the counters say" {
	make_pool
	volume 0 8 3
	random_to 0 0 2048
	trace
	message convert
	of_this_pool convert
	distinct convert
	[ "$(counter converted)" -gt 0 ]
	[ "$(traced_count convert)" -eq "$(counter converted)" ]
	[ "$(traced_count convert result=0 frozen=0)" -eq "$(counter converted)" ]
	# 128 blocks of 16 pages, each of them where its set was, or put together with others
	live=$(traced_sum live convert)
	moved=$(($(traced_sum moved compact) - $(traced_sum moved compact sets=0)))
	[ $((live + moved)) -eq 128 ]
	[ "$(traced_sum read convert)" -eq $((16 * live)) ]
	[ "$(traced_sum written convert)" -eq $((16 * $(counter converted))) ]
	[ "$(traced_count compact result=0)" -eq "$(counter compacted)" ]
	[ "$(traced_sum read compact)" -eq "$(counter compact_read_pages)" ]
	[ "$(traced_sum written compact)" -eq "$(counter compact_written_pages)" ]
}

@test "fusion_compact of sets, with a block that is hot" {
	make_pool
	volume 0 4 3
	letter a 4096
	letter a 4096 65536
	flush
	trace
	stalled reads letter b 4096
	traced compact
	[ "$(traced_count compact result=0)" -eq 1 ]
	# pages that are zeros are not read
	[ "$(traced_count compact moved=1 hot=1 sets=2 result=0 read=2 written=48)" -eq 1 ]
	[ "$(counter compact_gave_up)" -eq 1 ]
	of_this_pool compact
}

@test "fusion_compact of RAID stripes" {
	make_pool
	volume 0 8 3
	random_to 0 0 2016 192k
	[ "$(counter large)" -eq 42 ]
	# One block of three is left.
	for ((i = 0; i < 42; i++)); do
		blkdiscard -o $((3 * i << 16)) -l $((2 << 16)) /dev/mapper/t-v0
	done
	trace
	message convert
	of_this_pool compact
	[ "$(counter compacted)" -ge 14 ]
	# Jobs are not after the same blocks, and do not split what is worth a stripe together;
	# one that comes when others have taken the last of them finds none.
	[ "$(traced_sum moved compact result=-61) $(traced_sum hot compact result=-61)" = "0 0" ]
	[ "$(traced_count compact result=-61)" -le 16 ]
	[ "$(traced_count compact sets=0 result=0)" -eq "$(counter compacted)" ]
	[ "$(traced_sum moved compact)" -ge 42 ]
	[ "$(traced_sum read compact)" -eq "$(counter compact_read_pages)" ]
	# two jobs may be after the same block
	[ "$(traced_sum hot compact)" -eq "$(counter compact_gave_up)" ]
	[ "$(traced_count convert)" -eq 0 ]
}

@test "fusion_convert of a set that is given up, and frozen at last" {
	make_pool
	volume 0 4 3
	for ((i = 0; i < 24; i++)); do
		letter a 65536 $((i << 16))
	done
	flush
	trace
	# Twice they are left alone.
	stalled reads every_block
	[ "$(traced_count convert result=-16)" -ge 1 ]
	stalled reads every_block
	[ "$(traced_count convert frozen=1)" -eq 0 ]
	given_up=$(traced_count convert result=-16)
	[ "$given_up" -eq "$(counter convert_gave_up)" ]
	[ "$(traced_sum written convert result=-16)" -eq $((16 * given_up)) ]
	message convert
	[ "$(traced_count convert frozen=1 result=0)" -ge 1 ]
	[ "$(traced_count convert result=-16)" -eq "$given_up" ]
	[ "$(traced_count convert result=0)" -eq "$(counter converted)" ]
}

@test "fusion_reclaim says how hard the background works" {
	make_pool
	volume 0 8 3
	random_to 0 0 2048
	flush
	trace
	message set soft_percent 0
	message set paused 0
	wait_for 20 traced_last reclaim effort=rest
	of_this_pool reclaim
	[ "$(traced reclaim | sed 's/.*effort=//' | xargs)" = "yield rest" ]
	message set paused 1
	random_to 0 0 2048
	flush
	# What is at the limit is in somebody's way.
	message set limit_percent 0
	wait_for 20 traced_any reclaim effort=insist
}
traced_any() { [ "$(traced_count "$@")" -gt 0 ]; }
traced_last() { traced "$1" | tail -n 1 | grep -qw "$2"; }

# --- low water ---------------------------------------------------------------

small_pool() {
	members=4 spares=0 member_sectors=$((16 << 11))
	make_pool
	volume 0 256 2
	# Of one class: it has its reserve.
	random_to 0 0 32 128k
	filled=1
}
# fill_to PERCENT: more stripes, until that part is available.  By halves: what bands
# of the class reserve grows with them.
fill_to() {
	local stripes
	while stripes=$((($(space free) - $(counter reserve) - $(space total) * $1 / 100) / 3)) &&
		[ $stripes -gt 0 ]; do
		stripes=$(((stripes + 1) / 2))
		dd if=/dev/zero of=/dev/mapper/t-v0 bs=128k count=$stripes seek=$filled oflag=direct status=none
		filled=$((filled + stripes))
	done
	flush
}
events() { dmsetup info -c --noheadings -o events "$pool"; }
# The event after that number comes.
event_after() { timeout 20 dmsetup wait "$pool" "$1" >/dev/null; }
low_water_is() { [ "$(counter low_water)" -eq "$1" ]; }
# told PERCENT TIMES: so often the log has the sentence, since the mark.
told() {
	log_update
	[ "$(grep -c "less than $1 % of the pool is available: discard or delete" <<<"$log_text")" -eq "$2" ]
}

@test "low water: an event, once, and again after space has come back" {
	small_pool
	before=$(events)
	fill_to 6
	low_water_is 0
	fill_to 4
	event_after "$before"
	[ "$(events)" -eq $((before + 1)) ]
	told 5 1
	low_water_is 1
	[ "$(mode)" = rw ]
	# Less yet is no news.
	random_to 0 0 32 128k
	flush
	blkdiscard -l $((4 << 20)) /dev/mapper/t-v0
	flush
	wait_for 20 low_water_is 0
	[ "$(events)" -eq $((before + 1)) ]
	told 5 1
	fill_to 4
	event_after $((before + 1))
	[ "$(events)" -eq $((before + 2)) ]
	told 5 2
}

@test "low water ends when a volume is deleted" {
	small_pool
	before=$(events)
	fill_to 4
	event_after "$before"
	low_water_is 1
	dm remove t-v0
	message delete_volume 0
	wait_for 20 low_water_is 0
	[ "$(events)" -eq $((before + 1)) ]
}

@test "set low_water_percent: 0 silences it, another value is another level" {
	small_pool
	before=$(events)
	message set low_water_percent 0
	fill_to 6
	# Had it been told, it would be of the part that was set then.
	message set low_water_percent 20
	event_after "$before"
	told 20 1
	told 5 0
	message set low_water_percent 0
	wait_for 20 low_water_is 0
	message set low_water_percent 5
	fill_to 4
	event_after $((before + 1))
	[ "$(events)" -eq $((before + 2)) ]
	told 5 1
	run ! message set low_water_percent 81
	log_has "low_water_percent must be 0 to 80, not 81"
}

@test "a pool that is low when it is started says so" {
	small_pool
	fill_to 4
	wait_for 20 low_water_is 1
	stop_pool
	log_mark
	# no message to begin with, which would have it look
	background=auto
	start_pool
	event_after 0
	low_water_is 1
	told 5 1
}
