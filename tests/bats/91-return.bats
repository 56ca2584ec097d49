#!/usr/bin/env bats
# SSDs come back, or others take their places, and get what belongs there.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/patches.bash
source "$BATS_TEST_DIRNAME/patches.bash"
# shellcheck source=tests/bats/power.bash
source "$BATS_TEST_DIRNAME/power.bash"
# shellcheck source=tests/bats/labels.bash
source "$BATS_TEST_DIRNAME/labels.bash"

test_setup() {
	spares=1
	# each kernel has one half of the SSDs
	others=("$turn" $((turn + 3)) $((turn + 5)))
}
test_teardown() {
	[ ! -e /dev/mapper/t-meta ] || dm resume t-meta
}

# blank MEMBER...: what was on these is gone.
blank() {
	local i
	for i; do
		perl -e 'print "\xaa" x 1048576 for 1 .. $ARGV[0]' $((member_sectors >> 11)) |
			dd of="/dev/mapper/t-m$i" bs=1M iflag=fullblock oflag=direct status=none
	done
}
# every kind of write, while some are out
write_kinds() {
	local b
	write 0 200
	for b in {20..40}; do write $((b * 16 + b % 12)) $((b % 4 + 1)); done
}

@test "another SSD takes the place of one that was rebuilt, and gets what is in the space for spares" {
	raid_volume 8
	message fail 2
	message rebuild
	write_kinds
	run ! message replace 1
	log_has "member 1 is used: fail it first"
	run ! message replace 8
	blank 2
	message set paused 1
	message replace 2
	[ "$(states)" = oorooooo ]
	[ "$(counter degraded)" -eq 0 ]
	as_written
	write_kinds
	as_written
	restart rw 8
	message set patch_percent 20
	[ "$(states)" = oorooooo ]
	as_written
	write_kinds
	message rebuild
	[ "$(states)" = oooooooo ]
	[ "$(counter degraded)" -eq 0 ]
	all_there 2 "${others[@]}"
	parity_fits
	# nothing is in the space for spares any more: it serves another one
	restart rw 8
	message fail 5
	message rebuild
	all_there 2 "${others[@]::2}"
}

@test "another SSD takes the place of one that has failed, at once" {
	spares=$turn
	raid_volume 8
	message fail 2
	write_kinds
	blank 2
	message replace 2
	[ "$(states)" = oorooooo ]
	[ "$(counter degraded)" -eq 1 ]
	run ! message fail 4
	as_written
	write_kinds
	as_written
	# what it has not got is not read from it
	restart rw 8
	as_written
	message rebuild
	[ "$(states)" = oooooooo ]
	[ "$(counter degraded)" -eq 0 ]
	all_there 2 "${others[@]}"
	parity_fits
	message fail 4
	as_written
}

@test "of stripes with two parities two SSDs are replaced, whether they have spares or not" {
	spares=1
	raid_volume 8 3 2
	message fail 2
	message rebuild
	message fail 5
	write_kinds
	blank 2 5
	message replace 5
	[ "$(states)" = oofooroo ]
	as_written
	write_kinds
	message replace 2
	[ "$(states)" = oorooroo ]
	as_written
	message fail 0
	write_kinds
	as_written
	run message rebuild
	blank 0
	message replace 0
	message rebuild
	[ "$(states)" = oooooooo ]
	all_there 0 2 5
	for pair in "0 2" "2 5" "1 5" "0 7"; do
		# shellcheck disable=SC2086
		failing reads $pair
		as_written
	done
	failing reads
	parity_fits
}

@test "an SSD that was returning is missing, and cannot be done without" {
	spares=3
	make_pool
	volume 0 4 2 2
	for i in 2 3 5; do
		message fail "$i"
		message rebuild
	done
	message set paused 1
	message replace 2
	# half of them would be out without it
	message fail 6
	[ "$(states)" = oorfoffo ]
	missing=2
	restart ro 4
	[ "$(states)" = oomfoffo ]
	missing=
	restart rw 4
	[ "$(states)" = oorfoffo ]
}

returning() { [[ "$(states)" = *r* ]]; }
all_ok() { [ "$(states)" = oooooooo ]; }
some_rebuilt() { [ "$(counter rebuilt)" -gt "$rebuilt" ]; }

@test "an SSD that is returning fails, returns, and has what it had got by then" {
	raid_volume 12
	message fail 2
	message rebuild
	blank 2
	message replace 2
	write 0 200
	message set rate_kib 2048
	rebuilt=$(counter rebuilt)
	message rebuild 3>&- &
	pid=$!
	wait_for 60 some_rebuilt
	message fail 2
	[ "$(counter degraded)" -eq 1 ]
	as_written
	wait $pid
	message set rate_kib 0
	write_kinds
	message rebuild
	[ "$(counter degraded)" -eq 0 ]
	all_there "${others[@]}"
	blank 2
	message replace 2
	dead 2
	write_kinds
	flush
	[ "$(states)" = oofooooo ]
	dead
	as_written
	message replace 2
	message rebuild
	all_ok
	all_there 2 "${others[@]}"
	parity_fits
}

@test "rows are written again while an SSD is missing for the first time" {
	raid_volume 4
	rows_cut_short
	missing=2
	start_pool
	[ "$(states)" = oomooooo ]
	volume_device 0 $((4 << 11))
	as_written
	missing=
	restart rw 4
	message replace 2
	message rebuild
	all_ok
	all_there 2 "${others[@]}"
	parity_fits
}

@test "it gets what belongs there by itself" {
	background=auto
	raid_volume 4
	message fail 2
	blank 2
	message replace 2
	wait_for 60 all_ok
	all_there 2 "${others[@]}"
}

# to_POINT MESSAGE...: send it, as $pid, until the first write, or flush, or transaction.
to_write() {
	hold writes
	begin "$@"
	wait_for 30 held 1
}
to_flush() {
	hold flushes
	begin "$@"
	wait_for 30 held 1
}
to_transaction() {
	suspend_meta
	begin "$@"
	wait_for 30 tasks_in fusion_md_commit 1
}
begin() {
	message "$@" 3>&- &
	pid=$!
}
# cut_at POINT MESSAGE...: the power fails then, and the pool is started again.
cut_at() {
	local point=$1
	shift
	udevadm settle
	"to_$point" "$@"
	power_cut
	release
	dm resume t-meta
	wait "$pid" && false
	stop_pool
	power_on
	start_pool
	volume_device 0 $((12 << 11))
	as_written
}

# What is in sets has no place on the other one, and stays: nobody asks for its conversion.
@test "an SSD that is back does not wait for what another lacks that is out still" {
	local b before
	raid_volume 8 3 2
	message fail 2
	message fail 5
	# to stripes, and no replicas
	write 0 1536
	blank 2
	message replace 2
	for b in {100..115}; do write $((b * 16)) 16; done
	flush
	message set age_s 3600
	message set idle_ms 3600000
	before=$(space replicated)
	[ "$before" -gt 0 ]
	message set paused 0
	wait_for 60 states_are ooooofoo
	[ "$(space replicated)" -eq "$before" ]
	[ "$(counter degraded)" -ne 0 ]
	as_written
	# who asks is told what is left
	run ! message rebuild
	log_has "the space for spares is not enough for all members that are out"
	[ "$(states)" = ooooofoo ]
	blank 5
	message replace 5
	message rebuild
	[ "$(states)" = oooooooo ]
	[ "$(counter degraded)" -eq 0 ]
	all_there 2 5 "${others[@]}"
	parity_fits
}

@test "the power fails while an SSD returns" {
	raid_volume 12
	message fail 2
	message rebuild
	write 100 100
	flush
	blank 2
	for point in flush transaction; do
		cut_at $point replace 2
		[ "$(states)" = oofooooo ]
	done
	message replace 2
	for point in write flush transaction; do
		cut_at $point rebuild
		[ "$(states)" = oorooooo ]
	done
	message rebuild
	all_ok
	all_there 2 "${others[@]}"
	parity_fits
}

# ---- what was on it counts ----

# labelled_volume OPTION...: 12 MiB, all of it in RAID stripes, of a pool with labels, as t-v0.
labelled_volume() {
	own_metadata "$@"
	message create_volume 0 v0 $((12 << 11)) 3 "${parities:-1}"
	model=$BATS_TEST_TMPDIR/model
	random $((12 << 8)) >"$model"
	labelled_device
	dd if="$model" of=/dev/mapper/t-v0 bs=64k oflag=direct iflag=fullblock status=none
	message convert
	flush
}
labelled_device() {
	message set patch_percent 20
	message set paused 1
	[ -e /dev/mapper/t-v0 ] || volume_device 0 $((12 << 11))
}
labelled_stop() {
	dm remove --retry t-v0
	fusion pool stop t-pool >/dev/null
}
labelled_start() {
	[ -z "$(devices_of fusion-pool)" ] || labelled_stop
	fusion pool start t-pool >/dev/null
	dm remove --retry t-pool-v0
	labelled_device
}
# without MEMBER: it is away, and the rest of the pool is used.
without() {
	labelled_stop
	away "$1"
	labelled_start
	[[ "$(states)" = *m* ]]
}
with() {
	labelled_stop
	back "$1"
	labelled_start
	[[ "$(states)" = *m* ]]
}

# part_written SHARE: to 5 since $before, and less than half of so many sectors.
part_written() {
	wrote=$(($(sectors written 5) - before))
	echo "$wrote sectors of $1 were written"
	[ $wrote -gt 0 ]
	[ $wrote -lt $(($1 / 2)) ]
}

@test "an SSD that was away gets what has changed meanwhile" {
	# then what it has replicas of is written in place, but not on it
	labelled_volume --spares 0
	share=$(sectors written 5)
	for b in {64..95}; do write $((b * 16)) 16; done
	without 5
	in_place=$(counter in_place)
	for b in {64..95}; do write $((b * 16 + b % 14)) 2; done
	[ $(($(counter in_place) - in_place)) -eq 32 ]
	write 0 40
	for b in {20..40..4}; do write $((b * 16 + b % 12)) 2; done
	as_written
	with 5
	as_written
	before=$(sectors written 5)
	message readd 5
	[ "$(states)" = oooooroo ]
	as_written
	message rebuild
	all_ok
	part_written "$share"
	all_there 5 "${others[@]}"
	parity_fits
	labelled_start
	all_there "${others[@]}"
	[ "$(recorded 5)" = "$(recorded 4)" ]
	labelled_stop
}

@test "an SSD that was rebuilt while it was away gets what has changed" {
	labelled_volume
	share=$(sectors written 5)
	without 5
	write 0 40
	message rebuild
	# merged into stripes, of some of which it has what changes
	for b in {20..188..8}; do write $((b * 16 + b % 12)) 2; done
	message convert
	[ "$(counter destaged)" -gt 0 ]
	with 5
	before=$(sectors written 5)
	message readd 5
	as_written
	message rebuild
	all_ok
	wrote=$(($(sectors written 5) - before))
	echo "$wrote sectors of $share were written"
	[ $wrote -lt $((share / 2)) ]
	all_there 5 "${others[@]}"
	parity_fits
	labelled_stop
}

@test "what an SSD had lost, or is old, or is another's, does not count" {
	labelled_volume
	run ! message readd 5
	log_has "member 5 is used"
	# of an earlier time
	dd if=/dev/mapper/t-m5 of="$BATS_TEST_TMPDIR/old" bs=4k skip=64 count=1 iflag=direct status=none
	without 4
	run ! message readd 4
	log_has "the table has no device for member 4"
	with 4
	message readd 4
	message rebuild
	without 5
	with 5
	dd if=/dev/mapper/t-m5 of="$BATS_TEST_TMPDIR/good" bs=4k skip=64 count=1 iflag=direct status=none
	for at in 64 192; do
		dd if="$BATS_TEST_TMPDIR/old" of=/dev/mapper/t-m5 bs=4k seek=$at count=1 oflag=direct status=none
	done
	run ! message readd 5
	log_has "it is older than it was when it was used last: replace it"
	for at in 64 192; do
		dd if="$BATS_TEST_TMPDIR/good" of=/dev/mapper/t-m5 bs=4k seek=$at count=1 oflag=direct status=none
	done
	message readd 5
	message rebuild
	all_ok
	labelled_stop
}

# 5 has power again, and not what it had in its cache, before it is flushed, which fails.
cache_is_lost() {
	hand message ssd5 power_cut lose
	hand message ssd5 power_on
	failing flushes 5
}
# It failed, and is back with what it has.
back_without() {
	failing flushes
	[ "$(states)" = ooooofoo ]
	as_written
	before=$(sectors written 5)
	message readd 5
	as_written
	message rebuild
	all_ok
	part_written "$share"
	all_there 5 "${others[@]}"
	parity_fits
}

@test "an SSD that lost its cache gets what had not been flushed" {
	labelled_volume
	share=$(sectors written 5)
	# whole stripes
	write 0 600
	cache_is_lost
	flush
	back_without
	# the parity of what is converted, if some is there: places are drawn
	until [ "$(states)" = ooooofoo ]; do
		failing flushes
		write 600 200
		for b in {52..72}; do write $((b * 16)) 16; done
		flush
		to_flush convert
		cache_is_lost
		release
		wait $pid
	done
	back_without
	# rows that are merged
	for b in {60..120..2}; do write $((b * 16 + b % 12)) 2; done
	flush
	destaged=$(counter destaged)
	to_flush convert
	cache_is_lost
	release
	wait $pid
	[ "$(counter destaged)" -gt "$destaged" ]
	back_without
	# what it has of another, in the space for spares
	message fail 3
	message rebuild
	write 0 600
	cache_is_lost
	flush
	failing flushes
	[ "$(states)" = ooofofoo ]
	as_written
	message readd 5
	message rebuild
	[ "$(states)" = ooofoooo ]
	as_written
	message readd 3
	message rebuild
	all_ok
	all_there 5 3 "${others[@]}"
	parity_fits
	labelled_stop
}

@test "an SSD that fails as it is told of another's failure counts as it was before" {
	parities=2
	labelled_volume
	write 0 200
	failing writes 5
	message fail 3
	failing writes
	[ "$(states)" = ooofofoo ]
	write 300 200
	flush
	before=$(sectors written 5)
	message readd 5
	as_written
	message readd 3
	message rebuild
	all_ok
	part_written "$before"
	as_written
	all_there 5 3 "${others[@]}"
	parity_fits
	labelled_start
	all_there "${others[@]}"
	labelled_stop
}

@test "an SSD that is newer than the pool does not count" {
	labelled_volume
	without 5
	write 0 40
	with 5
	# it was used with metadata of which the pool's is a copy of an earlier time
	for at in 64 192; do
		"$BATS_TEST_DIRNAME/patch.pl" label /dev/mapper/t-m5 40 6300000000000000 $((at << 12))
		run ! message readd 5
		log_has "as it is newer than the pool, which is a copy of an earlier time then: replace it"
		log_mark
	done
	[[ "$(recorded 5)" = "99 "* ]]
	[ "$(states)" = ooooomoo ]
	as_written
	message replace 5
	message rebuild
	all_ok
	all_there 5 "${others[@]}"
	[ "$(recorded 5)" = "$(recorded 4)" ]
	labelled_start
	all_ok
	labelled_stop
}

# The record that says so is what the other one fails to write; it has a number of its own then, as
# long as it has not all been rebuilt.
@test "an SSD fails as another is recorded to be back, and has its number" {
	labelled_volume
	message fail 5
	write 0 100
	message convert
	message replace 5
	flush
	failing writes 3
	message rebuild
	failing writes
	[ "$(states)" = ooofoooo ]
	[ "$(counter degraded)" -eq 0 ]
	all_there 5 "${others[@]}"
	write 100 100
	all_there "${others[@]}"
	labelled_start
	as_written
	message replace 3
	message rebuild
	all_ok
	all_there 3 "${others[@]}"
	parity_fits
	labelled_stop
}

# The first whose I/O is held, in $ssd.
find_held() {
	ssd=$(dmsetup status "${ssds[@]}" | sed -n 's/^ssd\([0-9]*\): .* [1-9][0-9]*$/\1/p' | head -n 1)
	[[ $ssd =~ ^[0-6]$ ]]
}

@test "an SSD fails while rows are written to it, and is back before they have been" {
	labelled_volume
	for b in {0..59}; do write $((b * 48 + b % 14)) 1; done
	flush
	merge_to_commit 24
	hold_members
	dm resume t-meta
	# some of the rows, in place
	wait_for 20 held 24
	for i in {0..6}; do hand message "ssd$i" keep; done
	find_held
	# these fail it, and what is yet to be written there is not
	failing writes "$ssd"
	hand message "ssd$ssd" release
	wait_for 20 some_failed
	failing writes
	message readd "$ssd"
	[[ "$(states)" = *r* ]]
	running $pid
	release
	wait $pid
	[ "$(counter destaged)" -eq 60 ]
	as_written
	message rebuild
	all_ok
	all_there "$ssd" $(((ssd + 2 + turn) % 7)) $(((ssd + 4 + turn) % 7))
	parity_fits
	labelled_stop
}
some_failed() { [[ "$(states)" = *f* ]]; }

@test "an SSD fails and returns while what belongs there is being written" {
	raid_volume 64
	message fail 5
	# none of that is on it
	write 0 $((64 << 8))
	message replace 5
	# half of the stripes are read from it, one after the other: 64 ms each
	hand message ssd3 time 0 0 1 1000
	message set rebuild_kib 0
	hand message ssd3 hold reads
	message rebuild 3>&- &
	pid=$!
	wait_for 60 held 1
	# none of it is recorded yet
	[ "$(counter rebuilt)" -eq 0 ]
	message fail 5
	hand message ssd3 release
	message replace 5
	ssd_time off
	wait $pid || echo "rebuild ended with $?"
	message rebuild
	all_ok
	all_there 5 "${others[@]}"
	parity_fits
}

# Who reads a place is waited for before an SSD is used again: those too who copy patches to a top.
@test "an SSD is not back before who copies pages has read them" {
	raid_volume 4
	message fail 5
	# patches that are not read from the one with the metadata
	for b in {0..40}; do
		write $((b * 16)) 3
		find_ssd $((b * 16))
		[ "$ssd" -eq 7 ] || break
	done
	for i in {0..6}; do hand message "ssd$i" hold reads; done
	write $((b * 16 + 3)) 2 3>&- &
	writer=$!
	wait_for 20 held 1
	message replace 5 3>&- &
	pid=$!
	stays 3 ended $pid
	release
	all_end $writer $pid
	as_written
	message rebuild
	all_ok
	all_there 5 "${others[@]}"
	parity_fits
}

none_held() { [ "$(held_count)" -eq 0 ]; }

@test "two ask at once for an SSD to be back" {
	labelled_volume
	without 5
	write 0 100
	with 5
	for i in {1..6}; do
		message readd 5 3>&- &
		pids=($!)
		message replace 5 3>&- &
		pids+=($!)
		good=0
		for pid in "${pids[@]}"; do
			if wait "$pid"; then good=$((good + 1)); fi
		done
		[ $good -eq 1 ]
		as_written
		write 200 20
		message fail 5
		write 180 20
	done
	message readd 5
	message rebuild
	all_ok
	all_there 5 "${others[@]}"
	parity_fits
	labelled_stop
}

@test "an SSD that hangs when it is to be used again has failed once more" {
	labelled_volume
	message set hang_ms 1000
	message fail 5
	write 0 100
	hand message ssd5 hold writes
	before=$(recorded 5)
	message readd 5 3>&- &
	pid=$!
	wait_for 20 ended $pid
	run ! wait $pid
	[ "$(held_count)" -gt 0 ]
	[ "$(states)" = ooooofoo ]
	write 200 20
	as_written
	hand message ssd5 release
	wait_for 20 none_held
	message readd 5
	# it has been told that it is
	[ "$(recorded 5)" != "$before" ]
	[ "$(recorded 5)" = "$(recorded 4)" ]
	message rebuild
	all_ok
	all_there 5 "${others[@]}"
	parity_fits
	labelled_stop
}

# bats test_tags=smp
@test "SSDs return under load" {
	raid_volume 4
	begin_load --time_based --runtime=300
	for ssd in 2 5; do
		in_place=$(counter in_place)
		dead $ssd
		wait_for 60 some_failed
		dead
		wait_for 30 more_in_place
		[ $ssd -eq 2 ] || message rebuild
		message replace $ssd
		in_place=$(counter in_place)
		wait_for 60 more_in_place
		until message rebuild; do sleep 0.1; done
		all_ok
	done
	end_load
	[ "$(mode)" = rw ]
	before=$(sum 0)
	message convert
	[ "$(sum 0)" = "$before" ]
	parity_fits
	for ssd in 2 5 "${others[@]}"; do
		failing reads "$ssd"
		[ "$(sum 0)" = "$before" ]
	done
}

@test "an SSD that hangs as it is to be used again" {
	own_metadata
	message set hang_ms 1000
	message fail 3
	udevadm settle
	hand message ssd3 hold reads
	run ! message readd 3
	log_has "member 3, $(device 3), hangs: try again"
	[ "$(states)" = ooofoooo ]
	held 1
	# that it did does not count when it does not
	release
	message set hang_ms 600000
	message readd 3
	message rebuild
	message fail 3
	message set hang_ms 1000
	hand message ssd3 hold reads
	run ! message readd 3
	# what does not end by itself ends when the pool is suspended
	release
	message set hang_ms 0
	hand message ssd3 hold reads
	message readd 3 2>/dev/null 3>&- &
	pid=$!
	wait_for 20 held 1
	dm suspend t-pool 3>&- &
	wait_for 20 ended $pid
	wait $pid && false
	release
	wait $!
	dm resume t-pool
	message readd 3
	message set paused 0
	message rebuild
	[ "$(states)" = oooooooo ]
}

# Nothing is at home on the one that is to be used again: it is given up, whoever else fails.
@test "an SSD hangs as it records that it is used again, and another fails" {
	own_metadata
	fusion volume create t-pool v0 --size 4M >/dev/null
	message fail 3
	overwrite() { random 1024 | dd of=/dev/mapper/t-pool-v0 bs=64k iflag=fullblock oflag=direct status=none 2>/dev/null; }
	overwrite
	udevadm settle
	message set hang_ms 0
	hand message ssd3 hold writes
	message readd 3 2>/dev/null 3>&- &
	pid=$!
	wait_for 20 held 1
	failing writes 5
	# in place: nothing of that needs a commit
	overwrite 3>&- &
	other=$!
	wait_for 20 states_are oooroFoo
	# it can record what becomes of the other
	failing writes
	message set hang_ms 1000
	wait_for 20 ended $pid
	wait $pid && false
	wait $other || :
	[ "$(states)" = ooofokoo ]
	release
	[ "$(mode)" = rw ]
}
