#!/usr/bin/env bats
# Distributed spares: what an SSD that has failed would hold is on the others.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/patches.bash
source "$BATS_TEST_DIRNAME/patches.bash"
# shellcheck source=tests/bats/power.bash
source "$BATS_TEST_DIRNAME/power.bash"

test_setup() {
	spares=1
	# each kernel has one half of the SSDs
	others=("$turn" $((turn + 3)) $((turn + 5)))
}
test_teardown() {
	[ ! -e /dev/mapper/t-meta ] || dm resume t-meta
}
degraded() { [ "$(counter degraded)" -gt 0 ]; }

@test "what is written after an SSD has failed has all its copies" {
	raid_volume 4
	write 0 16
	message fail 2
	# in place of what is there, as tops, and as patches of these
	write 0 1024
	write 160 8
	flush
	all_there "${others[@]}"
	message convert
	[ "$(space replicated)" -eq 0 ]
	for b in {0..15}; do write $((b * 16 + b)) 2; done
	all_there "${others[@]}"
	restart rw 4
	[ "$(states)" = oofooooo ]
	all_there "${others[@]:1}"
	message set patch_percent 0
	message convert
	scrubbed=$(counter scrubbed)
	parity_fits
	[ $(($(counter scrubbed) - scrubbed)) -gt 15 ]
	all_there "${others[@]}"
}

@test "what is overwritten in place after an SSD has failed has all its copies again" {
	make_pool
	fill_volume 2
	flush
	message fail 2
	tops=$(counter new_top)
	for pass in 1 2; do
		in_place=$(counter in_place)
		for b in {0..31}; do write $((b * 16 + b % 16)) 1; done
		# what had a copy there moves with what is written, once
		[ $pass = 2 ] || moved=$(($(counter new_top) - tops))
		[ $(($(counter new_top) - tops)) -eq "$moved" ]
		[ $(($(counter in_place) - in_place)) -eq $((pass == 1 ? 32 - moved : 32)) ]
		flush
		all_there "${others[@]}"
	done
	[ "$moved" -gt 0 ]
	restart rw 2
	all_there "${others[@]:1}"
}

@test "patches that are overwritten after an SSD has failed have another place, once" {
	raid_volume 2
	for ssd in {0..7}; do wrote[ssd]=$(sectors written "$ssd"); done
	for b in {0..31}; do write $((b * 16 + b % 14)) 2; done
	# one that has some of these
	for ssd in {0..7}; do [ "$(sectors written "$ssd")" -eq "${wrote[ssd]}" ] || break; done
	message fail "$ssd"
	patches=$(counter new_patch)
	for b in {0..31}; do write $((b * 16 + b % 14)) 2; done
	moved=$(($(counter new_patch) - patches))
	[ $moved -gt 0 ]
	[ $moved -lt 32 ]
	for b in {0..31}; do write $((b * 16 + b % 14)) 2; done
	[ $(($(counter new_patch) - patches)) -eq $moved ]
	as_written
	message rebuild
	all_there $(((ssd + 1 + turn) % 7)) $(((ssd + 3 + turn) % 7))
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
	all_there "${others[@]}"
	# there is nothing left
	message rebuild
	[ "$(counter rebuilt)" -eq "$rebuilt" ]
	restart rw 12
	[ "$(counter degraded)" -eq 0 ]
	all_there "${others[@]}"
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

@test "of stripes with two parities two SSDs are rebuilt, and a third may fail" {
	spares=2
	raid_volume 12 3 2
	message fail 2
	message fail 5
	[ "$(counter degraded)" -eq 2 ]
	run ! message fail 0
	write 0 200
	# what is in the area of one on the other has no place
	run ! message rebuild
	log_has "the space for spares is not enough"
	[ "$(counter rebuilt)" -gt 16 ]
	[ "$(counter degraded)" -eq 1 ]
	all_there 0 1 3 4 6
	restart rw 12
	message set patch_percent 20
	message fail 0
	[ "$(counter degraded)" -eq 2 ]
	[ "$(states)" = fofoofoo ]
	as_written
	for b in {0..63}; do write $((b * 16 + b % 12)) $((b % 4 + 1)); done
	as_written
	message convert
	as_written
	# never half of them
	run ! message fail 1
	[ "$(mode)" = rw ]
}

@test "SSDs are rebuilt, one after the other, but for what has no place" {
	spares=2
	raid_volume 12
	message fail 2
	message rebuild
	message fail 5
	[ "$(counter degraded)" -eq 1 ]
	run message rebuild
	[ "$(counter degraded)" -eq 1 ]
	write 0 1024
	for b in {0..63}; do write $((b * 16 + b % 12)) $((b % 4 + 1)); done
	as_written
	run ! message fail 0
	restart rw 12
	as_written
	message convert
	parity_fits
	as_written
}

some_rebuilt() { [ "$(counter rebuilt)" -gt 0 ]; }
more_rebuilt() { [ "$(counter rebuilt)" -gt "$rebuilt" ]; }
rebuilt_all() { [ "$(counter degraded)" -eq 0 ]; }

@test "rebuild begins by itself, is paused, and goes on after a start" {
	raid_volume 12
	message fail 2
	# about a stripe a second
	message set rate_kib 256
	message set paused 0
	wait_for 30 some_rebuilt
	message set paused 1
	[ "$(counter degraded)" -eq 1 ]
	as_written
	ask_for_rebuild
	rebuilt=$(counter rebuilt)
	wait_for 30 more_rebuilt
	[ "$(counter rebuild_todo)" -gt 0 ]
	stop_pool
	wait "$pid" && false
	background=auto
	start_pool
	volume_device 0 $((12 << 11))
	wait_for 60 rebuilt_all
	all_there "${others[@]}"
}

@test "replicas that it leaves to conversion are nothing that a rebuild by itself complains of" {
	make_pool
	volume 0 8
	random_to 0 0 64
	message set age_s 3600
	message set idle_ms 3600000
	message set paused 0
	message fail 2
	stays $((5 * slow)) log_has "not all could be rebuilt"
	[ "$(counter degraded)" -eq 1 ]
	message rebuild
	rebuilt_all
	log_lacks "not all could be rebuilt"
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
	suspend_meta
	ask_for_rebuild
	wait_for 30 tasks_in fusion_md_commit 1
}
rebuild_to_second_write() {
	rebuild_to_flush
	hold writes
	step
	wait_for 30 held 1
}
begin_rebuild() {
	ask_for_rebuild
	wait_for 30 held 1
}
ask_for_rebuild() {
	message rebuild 3>&- &
	pid=$!
}

# Eight SSDs have 512 KiB each to read or write at once: sixteen stripes of four slots, of which
# three are read.
@test "several stripes are rebuilt at once, and a stop waits for these alone" {
	raid_volume 24
	message fail 2
	hold reads
	begin_rebuild
	wait_for 20 held 40
	todo=$(counter rebuild_todo)
	[ "$todo" -gt 30 ]
	stop_pool 3>&- &
	stopper=$!
	wait_for 20 tasks_in fusion_pool_begin_stop 1
	[ "$(held_count)" -le 48 ]
	release
	wait "$stopper"
	wait "$pid" && false
	start_pool
	volume_device 0 $((24 << 11))
	[ "$(counter degraded)" -eq 1 ]
	message rebuild
	[ "$(counter rebuilt)" -gt $((todo / 2)) ]
	all_there "${others[@]}"
}

read_some() { [ "$(counter reads)" -gt 200 ]; }

# Four slots of 64 KiB are read or written for each stripe.
@test "rebuild gives way to load, however little" {
	raid_volume 12
	message set rebuild_kib 2048
	fio --name=load --filename=/dev/mapper/t-v0 --direct=1 --rw=randread --bs=16k --rate_iops=100 --time_based \
		--runtime=200 --output=/dev/null 3>&- &
	load=$!
	wait_for 60 read_some
	message fail 2
	began=${EPOCHREALTIME/[.,]/}
	message rebuild
	ms=$(((${EPOCHREALTIME/[.,]/} - began) / 1000))
	rebuilt=$(counter rebuilt)
	echo "$rebuilt stripes in $ms ms"
	# but for the last ones, half a second's, and what had begun before the load was seen
	[ "$rebuilt" -gt 16 ]
	[ $ms -gt $(((rebuilt - 6) * 256 * 1000 / 2048)) ]
	end_load
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
	all_there "${others[@]}"
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
