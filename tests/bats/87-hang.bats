#!/usr/bin/env bats
# SSDs that hang, and neither do nor fail what they are sent: they are not waited for, and
# nothing is lost, whatever they do with it later.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/patches.bash
source "$BATS_TEST_DIRNAME/patches.bash"
# shellcheck source=tests/bats/power.bash
source "$BATS_TEST_DIRNAME/power.bash"

test_teardown() {
	[ ! -e /dev/mapper/t-meta ] || dm resume t-meta
}

# hang KINDS SSD...: these keep such I/O back, until release.
hang() {
	local kind i
	hanging=("${@:2}")
	for kind in $1; do
		for i in "${@:2}"; do
			hand message "ssd$i" hold "$kind"
		done
	done
}
everything="reads writes flushes discards"

# A volume as raid_volume makes it, in a pool that waits no longer than that.
ms=1000
hang_volume() {
	raid_volume "$@"
	message set hang_ms $ms
	udevadm settle
	# it has committed: nothing else is under way
	flush
}

# same BLOCK...: half of what is there is written once more, each as one of $pids, so that it is
# known while that is under way, and as ${writer[BLOCK]}.  Each goes to other SSDs.
declare -gA writer
same() {
	local b
	for b; do
		dd if="$model" of=/dev/mapper/t-v0 bs=32k count=1 skip=$((b * 2)) seek=$((b * 2)) oflag=direct \
			conv=notrunc status=none 3>&- &
		pids+=($!)
		writer[$b]=$!
	done
}
# same_at_once COPIES BLOCK...: the same, and no SSD answers before all COPIES of all of them are under way.
# So each SSD has its share of them, and those that hang keep it: one after the other they would avoid
# an SSD that has something to do already.
same_at_once() {
	local copies=$1 before
	shift
	before=$(held_count)
	hold writes
	same "$@"
	wait_for 60 held $((before + copies * $#))
	others_answer
}
# same_until_held COUNT COPIES BLOCK...: the same with one block after the other, until those that hang have
# COUNT.
same_until_held() {
	local count=$1 copies=$2 before b
	shift 2
	before=$(held_count)
	hold writes
	for b; do
		same "$b"
		wait_for 20 held $((before += copies))
		! held_there "$count" || break
	done
	held_there "$count"
	others_answer
}
held_there() { [ "$(held_by "${hanging[@]/#/ssd}")" -ge "$1" ]; }
others_answer() {
	local i
	for i in {0..7}; do
		[[ " ${hanging[*]} " == *" $i "* ]] || hand message "ssd$i" release
	done
}
# large_write STRIPES BLOCKS: so many, one after the other, each a write of the blocks that it has data of.
# What is left of a write would go to replicas.
large_write() {
	local i before
	before=$(counter new_top)/$(counter in_place)/$(counter new_patch)
	for ((i = 0; i < $1; i++)); do write $((i * $2 * 16)) $(($2 * 16)); done
	[ "$before" = "$(counter new_top)/$(counter in_place)/$(counter new_patch)" ]
}
# until_two_hang COMMAND BLOCK...: COMMAND, a read, with one block after the other, until two I/Os hang; $last
# is the last one then.
until_two_hang() {
	local command=$1 before
	shift
	message set hang_ms 0
	for b; do
		before=$(held_count)
		"$command" "$b"
		held_more() { held $((before + 1)) || ended "${pids[-1]}"; }
		wait_for 20 held_more
		! held 2 || break
	done
	last=$b
	held 2
	message set hang_ms $ms
}
# read_block BLOCK [FILE], as one of $pids.
read_block() {
	dd if=/dev/mapper/t-v0 of="${2:-/dev/null}" bs=64k count=1 skip="$1" iflag=direct status=none 3>&- &
	pids+=($!)
}
block_of() { dd if="$1" bs=64k count=1 skip="$2" status=none; }

# What is done after the SSDs that hang have failed, without these.
all_goes_on() {
	as_written
	# not what is being written there
	write 480 96
	flush
	message convert
	as_written
}
# And that what they do at last does no harm.
late() {
	release
	[ ${#pids[@]} -eq 0 ] || all_end "${pids[@]}"
	pids=()
	[ "$(held_count)" -eq 0 ]
	as_written
	message convert
	parity_fits
	as_written
	restart rw "$1"
	as_written
}
pids=()

@test "a flush does not wait for an SSD that hangs" {
	hang_volume 4
	hang flushes 2
	for b in {0..63}; do
		write $((b * 16 + b % 12)) 2
		# places are drawn: it may have nothing to flush
		[ $((b % 4)) -eq 3 ] || continue
		flush
		[ "$(states)" = oooooooo ] || break
	done
	[ "$(states)" = oofooooo ]
	log_has "$(device 2) has not answered for $ms ms"
	log_has "$(device 2) has failed: it is not used any more"
	# the flush, and that before a record of the journal if it was sent one
	kept=$(held_count)
	[ "$kept" -ge 1 ]
	all_goes_on
	[ "$(held_count)" -eq "$kept" ]
	late 4
	[ "$(states)" = oofooooo ]
}

@test "an SSD hangs under writes, and the rest of the pool goes on" {
	hang_volume 4
	message set hang_ms 0
	hang "$everything" "$turn"
	same_until_held 2 2 {0..31}
	message set hang_ms $ms
	wait_for 20 states_are "$([ "$turn" -eq 0 ] && echo fooooooo || echo ofoooooo)"
	log_has "what is under way on $(device "$turn")"
	held 2
	# blocks and stripes of their own: these are not waited for
	for b in {0..15}; do write $(((b + 40) * 16)) 4; done
	all_goes_on
	held 2
	late 4
}

# One of two copies at most of what is written goes there.
@test "one write that never ends is found among others that do" {
	hang_volume 4
	message set hang_ms 0
	hang writes 2
	same_until_held 1 2 {0..31}
	message set hang_ms $ms
	hand message ssd2 keep
	begin_load --time_based --runtime=200 --offset=2m --size=2m
	wait_for 30 states_are oofooooo
	in_place=$(counter in_place)
	wait_for 30 more_in_place
	end_load
	held 1
	release
	all_end "${pids[@]}"
	message convert
	parity_fits
}

@test "what takes long does not hang" {
	hang_volume 4
	# three times of a third: far from it each, however slow this machine is, but not together
	message set hang_ms 20000
	for pass in 1 2 3; do
		hang "writes flushes" 2
		same_until_held 1 2 {0..31}
		sleep 7
		release
		all_end "${pids[@]}"
		pids=()
		flush
	done
	[ "$(states)" = oooooooo ]
	# nor does anything if that is not wanted
	message set hang_ms 0
	hang flushes 2
	write 0 1024
	flush 3>&- &
	pid=$!
	stays 6 ended $pid
	message set hang_ms $ms
	wait $pid
	[ "$(states)" = oofooooo ]
	late 4
}

@test "a large write does not wait for an SSD that hangs" {
	hang_volume 4
	hang writes 2
	large_write 21 3
	[ "$(states)" = oofooooo ]
	held 1
	all_goes_on
	# its memory is used again meanwhile
	large_write 21 3
	late 4
}

# All stripes are written anew meanwhile, at other addresses: what is read late there is something
# else's.
@test "reads that hang keep no space, and are answered with what is there" {
	member_sectors=$((16 << 11))
	hang_volume 8
	hang reads 2
	cp "$model" "$BATS_TEST_TMPDIR/before"
	keep_block() { read_block "$1" "$BATS_TEST_TMPDIR/block$1"; }
	until_two_hang keep_block {0..127}
	wait_for 20 states_are oofooooo
	hung=$(held_count)
	# more than fits if nothing becomes free
	for pass in {1..16}; do
		write 0 2048
		flush
	done
	[ "$(held_count)" -eq "$hung" ]
	release
	all_end "${pids[@]}"
	pids=()
	late=0
	for ((b = 0; b <= last; b++)); do
		if cmp -s "$BATS_TEST_TMPDIR/block$b" <(block_of "$model" "$b"); then
			late=$((late + 1))
		else
			cmp "$BATS_TEST_TMPDIR/block$b" <(block_of "$BATS_TEST_TMPDIR/before" "$b")
		fi
	done
	[ $late -eq "$hung" ]
	late 8
}

@test "two SSDs hang of stripes with two parities" {
	hang_volume 4 4 2
	hang "$everything" 1 4
	same {0..23}
	wait_for 30 states_are ofoofooo
	as_written
	write 480 96
	flush
	as_written
	held 2
	late 4
	[ "$(states)" = ofoofooo ]
}

waits_for() { log_has "$(device "$1") hangs, and cannot be done without" 2>/dev/null; }

@test "an SSD that cannot be done without is waited for" {
	hang_volume 4
	message fail 5
	hang "$everything" 2
	same {0..23}
	flush 3>&- &
	pid=$!
	wait_for 20 held 1
	wait_for 20 waits_for 2
	log_lacks "$(device 2) has failed"
	log_lacks "read-only"
	release
	all_end "${pids[@]}"
	pids=()
	wait $pid
	[ "$(states) $(mode)" = "oooooffo rw" ] || [ "$(states) $(mode)" = "ooooofoo rw" ]
	again() { log_has "$(device 2) answers again" 2>/dev/null; }
	wait_for 20 again
	as_written
	late 4
}

# It would lose what its cache may have lost, and then the other could not be done without.
@test "an SSD that hangs is waited for if another is failing" {
	# a flush is a commit then, and not beside another one
	no_journal
	hang_volume 4
	message set hang_ms 0
	hang flushes 2
	# until it has something to flush
	wrote=$(sectors written 2)
	for b in {0..63}; do
		write $((b * 16 + b % 12)) 2
		[ "$(sectors written 2)" -eq "$wrote" ] || break
	done
	flush 3>&- &
	pids+=($!)
	# in a commit: nobody else's can begin
	wait_for 20 held 1
	failing writes 5
	same {0..23}
	# status does not wait for the commit
	wait_for 20 states_are oooooFoo
	message set hang_ms $ms
	wait_for 20 waits_for 2
	[ "$(states)" = oooooFoo ]
	release
	all_end "${pids[@]}"
	pids=()
	[ "$(states)" = ooooofoo ]
	all_goes_on
	late 4
}

# full SSD KINDS: it keeps one such I/O back, and then who sends it another.
full() {
	hand message "ssd$1" tags 1
	hang "$2" "$1"
}
sent() { tasks_in ssdsim_map "$1"; }

holds() { [ "$(held_by "ssd$1")" -ge 1 ]; }

@test "what is set, and how often, makes nothing older" {
	hang_volume 4
	message set hang_ms 60000
	hang "writes flushes" 2
	same_until_held 1 2 {0..31}
	for i in {1..24}; do message set age_s "$i"; done
	log_lacks "has not answered"
	# but it is found all the same
	message set hang_ms $ms
	for i in {1..24}; do message set age_s "$i"; done
	wait_for 20 states_are oofooooo
	all_goes_on
	late 4
}

@test "a flush does not wait for an SSD that takes nothing any more" {
	hang_volume 4
	message set hang_ms 0
	for b in {0..15}; do write $((b * 16)) 16; done
	flush
	# in place: that is not committed by itself
	for b in {0..15}; do write $((b * 16)) 16; done
	full 2 reads
	for b in {0..31}; do read_block "$b"; done
	wait_for 20 holds 2
	before=$(cat /proc/[0-9]*/stack 2>/dev/null | grep -c ' ssdsim_map+' || :)
	flush 3>&- &
	pid=$!
	wait_for 20 sent $((before + 1))
	message set hang_ms $ms
	wait_for 20 states_are oofooooo
	wait_for 20 ended $pid
	wait $pid
	all_goes_on
	holds 2
	late 4
}

# What is discarded waits for a read to end, and meanwhile another SSD hangs.
@test "space that an SSD is not told of, as it takes nothing any more, is free" {
	hang_volume 8
	message set hang_ms 0
	hang reads 5
	for b in {0..63}; do read_block "$b"; done
	wait_for 20 holds 5
	blkdiscard -f -o 4M /dev/mapper/t-v0 2>/dev/null
	dd if=/dev/zero of="$model" bs=1M seek=4 count=4 conv=notrunc status=none
	flush
	full 2 reads
	for b in {0..63}; do read_block "$b"; done
	wait_for 20 holds 2
	hand message ssd5 release
	wait_for 20 tasks_in 'passdown_[a-z]*' 1
	message set hang_ms $ms
	wait_for 20 states_are oofooooo
	message convert 3>&- &
	pid=$!
	wait_for 60 ended $pid
	wait $pid
	late 8
}

# More than there are workers for.  One device begins one discard at a time.
@test "discards of blocks that are written to an SSD that hangs keep no others" {
	hang_volume 8
	message set hang_ms 0
	hang writes 2
	same_at_once 2 {0..119}
	held 18
	discards=()
	for b in {0..119}; do
		running "${writer[$b]}" || continue
		dm create "t-d$b" --table "0 128 linear /dev/mapper/t-v0 $((b * 128))"
		blkdiscard -f "/dev/mapper/t-d$b" 2>/dev/null 3>&- &
		pids+=($!)
		discards+=("$b")
	done
	[ ${#discards[@]} -ge 18 ]
	blkdiscard -f -o $((120 << 16)) /dev/mapper/t-v0 2>/dev/null 3>&- &
	pid=$!
	wait_for 20 ended $pid
	wait $pid
	message set hang_ms $ms
	wait_for 20 states_are oofooooo
	release
	all_end "${pids[@]}"
	pids=()
	for b in "${discards[@]}" {120..127}; do
		[ "$b" -ge 120 ] || dm remove --retry "t-d$b"
		dd if=/dev/zero of="$model" bs=64k count=1 seek="$b" conv=notrunc status=none
	done
	late 8
}

# Other SSDs cannot be read but by a repair, which may not: the block is being written.
@test "a read with a medium error does not wait for who writes to an SSD that hangs" {
	hang_volume 4
	message set hang_ms 0
	for b in {0..63}; do write $((b * 16)) 16; done
	# what is kept then is of the blocks
	flush
	hang writes 2
	same_until_held 3 2 {0..31}
	for i in 0 1 3 4 5 6 7; do hand message "ssd$i" bad 0 $((member_sectors / 8)); done
	reads=0
	for b in {0..31}; do
		running "${writer[$b]}" || continue
		dd if=/dev/mapper/t-v0 of="$BATS_TEST_TMPDIR/half" bs=32k skip=$((b * 2 + 1)) count=1 iflag=direct \
			status=none 3>&- &
		pid=$!
		wait_for 20 ended $pid
		wait $pid
		cmp "$BATS_TEST_TMPDIR/half" <(dd if="$model" bs=32k skip=$((b * 2 + 1)) count=1 status=none)
		reads=$((reads + 1))
	done
	[ $reads -ge 3 ]
	for i in 0 1 3 4 5 6 7; do hand message "ssd$i" good; done
	late 4
}

# With a third of it written, parity, of 32 stripes: each SSD has some.
@test "an SSD hangs while it is converted to stripes" {
	for kind in reads writes flushes; do
		make_pool
		fill_volume 8 4 2
		message set hang_ms $ms
		flush
		udevadm settle
		hang "$kind" 3
		message convert
		[ "$(space replicated)" -eq 0 ]
		[ "$(states)" = ooofoooo ]
		held 1
		all_goes_on
		late 8
		stop_pool
		for m in $(devices_of linear); do dm remove --retry "$m"; done
		hand message ssd0 erase_all
	done
}

@test "an SSD hangs while patches are merged" {
	for kind in reads writes; do
		hang_volume 4 4 2
		for b in {0..31}; do write $((b * 32 + b % 16)) 1; done
		flush
		hang "$kind" 3
		message convert
		[ "$(counter patch_area)" -eq 0 ]
		[ "$(states)" = ooofoooo ]
		held 1
		all_goes_on
		late 4
		stop_pool
		for m in $(devices_of linear); do dm remove --retry "$m"; done
		hand message ssd0 erase_all
	done
}

@test "an SSD hangs during a rebuild" {
	spares=2
	hang_volume 6 3 2
	message fail 5
	hang "reads writes" 2
	# what would be in the area on that one is nowhere: not all can be rebuilt, but it ends
	message rebuild 2>/dev/null || log_has "not all could be rebuilt"
	[ "$(states)" = oofoofoo ]
	[ "$(counter rebuilt)" -gt 0 ]
	held 1
	all_goes_on
	late 6
}

@test "discards that hang keep no space" {
	hang_volume 4
	hang discards 2
	blkdiscard /dev/mapper/t-v0
	flush
	wait_for 20 held 1
	wait_for 20 states_are oofooooo
	# this waits for what is passed down
	message convert
	held 1
	write 0 1024
	late 4
}

# Two stripes at least would be one, but for blocks that nobody can hold.
@test "compaction leaves what is being written to an SSD that hangs" {
	hang_volume 8 4 2
	large_write 32 4
	flush
	message set hang_ms 0
	hang writes 2
	same_until_held 2 3 {0..60..4}
	message set hang_ms $ms
	wait_for 20 states_are oofooooo
	# what is left of them is one block of each four
	for b in {0..124..4}; do write $(((b + 1) * 16)) 48; done
	message convert 3>&- &
	pid=$!
	wait_for 60 ended $pid
	wait $pid
	held 2
	[ "$(counter compacted)" -gt 0 ]
	as_written
	late 8
}

@test "an SSD that hung is not used again before all has come back" {
	hang_volume 4
	message set hang_ms 0
	hang "reads writes" 2
	for b in {32..63}; do
		dd if=/dev/mapper/t-v0 of=/dev/null bs=64k count=1 skip="$b" iflag=direct status=none 3>&- &
		pids+=($!)
	done
	same_until_held 2 2 {0..15}
	message set hang_ms $ms
	wait_for 20 states_are oofooooo
	write 512 256
	run ! message replace 2
	log_has "member 2, $(device 2), has not answered all that it was sent before it failed"
	[ "$(states)" = oofooooo ]
	release
	all_end "${pids[@]}"
	pids=()
	message replace 2
	message rebuild
	[ "$(states)" = oooooooo ]
	late 4
}

@test "an SSD that has failed, and is slow, is waited for before it is used again" {
	hang_volume 4
	message set hang_ms 600000
	hang writes 2
	same_until_held 1 2 {0..31}
	message fail 2
	message replace 2 3>&- &
	pid=$!
	stays 4 ended $pid
	release
	all_end "${pids[@]}" $pid
	pids=()
	message rebuild
	[ "$(states)" = oooooooo ]
	late 4
}

@test "a pool is not stopped before all has come back" {
	hang_volume 4
	hang flushes 2
	write 0 1024
	flush
	[ "$(states)" = oofooooo ]
	stop_waits_in fusion_hang_stop
	start_pool
	volume_device 0 $((4 << 11))
	[ "$(states)" = oofooooo ]
	as_written
}

# bats test_tags=smp
@test "SSDs hang under load, and the power fails" {
	make_pool
	make_volumes
	message set hang_ms $ms
	for round in 1 2; do
		rm -f "$BATS_TEST_TMPDIR/ready"
		"$oracle" run --state "$BATS_TEST_TMPDIR/state" --seed $((seed * 100 + round)) --threads 6 \
			--ready "$BATS_TEST_TMPDIR/ready" "${devs[@]}" >"$BATS_TEST_TMPDIR/run" 2>&1 3>&- &
		pid=$!
		wait_for 30 test -e "$BATS_TEST_TMPDIR/ready"
		if [ $round = 1 ]; then
			hang "$everything" 3
			wait_for 60 states_are ooofoooo
			release
			# it goes on
			reads=$(counter reads)
			more_reads() { [ "$(counter reads)" -gt $((reads + 50)) ]; }
			wait_for 60 more_reads
		fi
		sleep 1
		power_cut $round
		run ! message create_volume 1000 none 2048 3 1
		wait $pid || { cat "$BATS_TEST_TMPDIR/run"; return 1; }
		stop_pool
		power_on
		start_pool
		start_volumes
		[ "$(states)" = ooofoooo ]
		verify "${devs[@]}"
		message convert
		parity_fits
	done
}
