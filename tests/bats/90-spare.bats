#!/usr/bin/env bats
# Distributed spares: what an SSD that has failed would hold is on the others.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/patches.bash
source "$BATS_TEST_DIRNAME/patches.bash"
# shellcheck source=tests/bats/power.bash
source "$BATS_TEST_DIRNAME/power.bash"

test_setup() { spares=1; }
test_teardown() {
	all_work
	[ ! -e /dev/mapper/t-meta ] || dm resume t-meta
}
degraded() { [ "$(counter degraded)" -gt 0 ]; }

# all_there SSD...: what is written can be read without any one of these, which do not fail by that.
all_there() {
	local before ssd
	before=$(states)
	for ssd in "$@"; do
		failing reads "$ssd"
		as_written
	done
	failing reads
	[ "$(states)" = "$before" ]
}

@test "what is written after an SSD has failed has all its copies" {
	raid_volume 4
	write 0 16
	message fail 2
	# in place of what is there, as tops, and as patches of these
	write 0 1024
	write 160 8
	flush
	all_there 0 1 3 4 5 6
	message convert
	[ "$(space replicated)" -eq 0 ]
	for b in {0..15}; do write $((b * 16 + b)) 2; done
	all_there 0 1 3 4 5 6
	restart rw 4
	[ "$(states)" = oofooooo ]
	all_there "$turn" $((turn + 3)) 6
	message set patch_percent 0
	message convert
	scrubbed=$(counter scrubbed)
	parity_fits
	[ $(($(counter scrubbed) - scrubbed)) -gt 15 ]
	all_there 0 1 3 4 5 6
}

@test "what was on an SSD is rebuilt on the others, and another one may fail" {
	raid_volume 12
	write 0 16
	[ "$(counter degraded)" -eq 0 ]
	message fail 2
	[ "$(counter degraded)" -eq 1 ]
	run ! message fail 4
	message rebuild
	[ "$(counter degraded)" -eq 0 ]
	rebuilt=$(counter rebuilt)
	[ "$rebuilt" -gt 16 ]
	[ "$(states)" = oofooooo ]
	scrubbed=$(counter scrubbed)
	parity_fits
	[ $(($(counter scrubbed) - scrubbed)) -ge "$rebuilt" ]
	all_there 0 1 3 4 5 6
	# there is nothing left
	message rebuild
	[ "$(counter rebuilt)" -eq "$rebuilt" ]
	restart rw 12
	[ "$(counter degraded)" -eq 0 ]
	all_there 0 1 3 4 5 6
	dead $((3 + turn))
	write 16 1024
	flush
	[ "$(counter degraded)" -eq 1 ]
	as_written
	# there are no spares for it
	run ! message rebuild
	[ "$(counter degraded)" -eq 1 ]
	[ "$(mode)" = rw ]
	run ! message fail 6
	restart rw 12
	as_written
}

# As $pid, until the first slot is written, or the first commit's flush, or its transaction, or a
# slot of the second.  (dmsetup status would wait for that commit.)
rebuild_to_write() {
	hold writes
	begin_rebuild
}
rebuild_to_flush() {
	hold flushes
	begin_rebuild
}
rebuild_to_transaction() {
	dm suspend --noflush --nolockfs t-meta
	message rebuild 3>&- &
	pid=$!
	wait_for 30 tasks_in fusion_md_commit 1
}
rebuild_to_second_write() {
	rebuild_to_flush
	hold writes
	step
	wait_for 30 held 1
}
begin_rebuild() {
	message rebuild 3>&- &
	pid=$!
	wait_for 30 held 1
}

# Whatever has been rebuilt by then, and whatever not.
@test "the power fails while an SSD is rebuilt" {
	raid_volume 40
	message fail 2
	write 100 100
	flush
	for point in write flush transaction second_write; do
		udevadm settle
		rebuild_to_$point
		power_cut
		release
		dm resume t-meta
		wait "$pid" && false
		stop_pool
		power_on
		start_pool
		volume_device 0 $((40 << 11))
		[ "$(states)" = oofooooo ]
		[ "$(counter degraded)" -eq 1 ]
		as_written
	done
	message rebuild
	all_there 0 1 3 4 5 6
	parity_fits
}

# bats test_tags=smp
@test "SSDs are rebuilt under load" {
	spares=2
	raid_volume 4
	begin_load --time_based --runtime=200
	in_place=0
	wait_for 30 more_in_place
	for ssd in 2 5; do
		dead 2 $ssd
		wait_for 30 degraded
		message rebuild || [ "$ssd" -eq 5 ]
		in_place=$(counter in_place)
		wait_for 30 more_in_place
	done
	end_load
	[ "$(states)" = oofoofoo ]
	[ "$(mode)" = rw ]
	before=$(sum 0)
	message convert
	[ "$(sum 0)" = "$before" ]
	parity_fits
}

@test "fusion device fail and fusion device rebuild" {
	raid_volume 4
	run -1 --separate-stderr fusion device fail t-pool 8
	[[ $stderr == *"has no member 8"* ]]
	run -1 --separate-stderr fusion device fail t-pool /dev/mapper/t-meta
	[[ $stderr == *"has no member /dev/mapper/t-meta"* ]]
	run -0 --separate-stderr fusion device fail t-pool /dev/mapper/t-m2
	[[ $output == "member 2 of pool t-pool "* ]]
	[ "$(states)" = oofooooo ]
	run -1 --separate-stderr fusion device fail t-pool 3
	[[ $stderr == *"cannot be done without"* ]]
	run -0 --separate-stderr fusion device rebuild t-pool --json
	[ "$(jq -r .rebuilt <<<"$output")" -gt 1 ]
	[ "$(counter rebuild_todo)" -eq 0 ]
	[ "$(counter degraded)" -eq 0 ]
	run -0 --separate-stderr fusion device rebuild t-pool
	[ "$output" = "pool t-pool: 0 stripes rebuilt" ]
	fusion device fail t-pool 3 --json
	run -1 --separate-stderr fusion device rebuild t-pool
	[[ $stderr == *"space for spares is not enough"* ]]
	as_written
}
