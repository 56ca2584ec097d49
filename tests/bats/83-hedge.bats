#!/usr/bin/env bats
# Writes that an unresponsive member holds up are sent once more, elsewhere.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/patches.bash
source "$BATS_TEST_DIRNAME/patches.bash"
# shellcheck source=tests/bats/power.bash
source "$BATS_TEST_DIRNAME/power.bash"
# shellcheck source=tests/bats/monitor.bash
source "$BATS_TEST_DIRNAME/monitor.bash"

test_setup() {
	monitor=on
	# a band has enough stripes without one of them
	members=13
	writers=()
}

# IOS of users before: one hedge for each 20 of them, and there may be no more.
hedging() {
	one_straggler
	dd if=/dev/mapper/t-v0 of=/dev/null bs=4k count="$1" iflag=direct status=none
}
within_budget() {
	local ios
	ios=$(($(counter reads) + $(counter in_place) + $(counter new_top) + $(counter new_patch) + $(counter large)))
	[ $(($(counter hedged_writes) * 20)) -le "$ios" ]
}

# write_at PAGE PAGES: of $model, in the background, as one of $writers.
write_at() {
	dd if="$model" of=/dev/mapper/t-v0 bs=$(($2 << 12)) skip=$(($1 << 12)) seek=$(($1 << 12)) count=1 \
		iflag=skip_bytes oflag=direct,seek_bytes status=none 3>&- &
	writers+=($!)
}
# choose_slow FIRST PAGES: such a write in one block after the other, until it is known of an SSD that others
# will go to, too: $late; the next would be at page $next.  It is one with one member, so there are places
# without it.  None of these is hedged, however long they are held: the budget is for what comes after.
choose_slow() {
	local hedge
	hedge=$(message settings | sed -n 's/^hedge //p')
	message set hedge 0
	next=$1 late=
	# sets are opened for the first
	write_next "$2"
	all_end "${writers[@]}"
	flush
	while [ -z "$late" ]; do
		hold writes
		write_next "$2"
		wait_for 20 held 2
		late=$(dmsetup status ssd5 ssd6 | awk '$NF > 0 { print substr($1, 4, 1); exit }')
		release
		all_end "${writers[@]}"
	done
	writers=()
	wait_for 20 all_responsive
	message set hedge "$hedge"
}
all_responsive() { [[ $(message pulse) != *unresponsive* ]]; }
# hold_writes PAGES: more of them, until $late, which answers no writes, is unresponsive for one.  So many were
# hedged $before, and $won.
hold_writes() {
	before=$(counter hedged_writes) won=$(counter hedges_won)
	hand message "ssd$late" hold writes
	until unresponsive "$late"; do
		write_next "$1"
	done
}
# $late has done what it held, is responsive, and nothing is replicated any more.
all_as_ever() {
	release
	wait_for 20 responsive "$late"
	message convert
}
hold_up() {
	choose_slow "$@"
	hold_writes "$2"
}
write_next() {
	[ "$next" -lt $((mib[0] << 8)) ] || { echo "there is no block left to write"; return 1; }
	write_at "$next" "$1"
	next=$((next + ($1 + 15) / 16 * 16))
}
all_ended() {
	local pid
	for pid in "${writers[@]}"; do
		ended "$pid" || return
	done
}
# What there is of the model from page $1 to page $2.
same_as_model() {
	cmp <(dd if="$model" bs=4k skip="$1" count=$(($2 - $1)) status=none) \
		<(dd if=/dev/mapper/t-v0 bs=4k skip="$1" count=$(($2 - $1)) iflag=direct status=none)
}
hedged() { [ "$(counter hedged_writes)" -ge "$1" ]; }

# empty_volume: with a block that is there, and what it is to be in $model.
empty_volume() {
	make_pool
	volume 0 "${mib[0]}" 3
	random_to 0 0 16
	model=$BATS_TEST_TMPDIR/model
	random $((mib[0] << 8)) >"$model"
}

# blocks_as_model FIRST PAGES: so many pages of each block that was written by hold_up.
blocks_as_model() {
	local page

	for ((page = $1; page < next; page += 16)); do
		same_as_model $page $((page + $2))
	done
}

# answered_elsewhere FIRST PAGES: hold_up, but none of the writes waits for $late, and what that does at
# last is nowhere to be seen.
answered_elsewhere() {
	hold_up "$1" "$2"
	all_end "${writers[@]}"
	# and the SSD has them still
	[ "$(held_count)" -ge 1 ]
	[ "$(counter hedged_writes)" -gt "$before" ]
	[ "$(counter hedges_won)" -gt "$won" ]
	within_budget
	blocks_as_model "$1" "$2"
	all_as_ever
	blocks_as_model "$1" "$2"
	parity_fits
}

@test "a write of a new block is answered though a member of it is not" {
	empty_volume
	hedging 400
	answered_elsewhere 1024 4
}

@test "so is a patch" {
	member_sectors=$((64 << 11)) percent=20
	raid_volume "${mib[0]}"
	hedging 400
	random $((mib[0] << 8)) >"$model"
	answered_elsewhere 0 4
}

@test "so is a large write" {
	empty_volume
	hedging 400
	hold_up 1024 48
	all_end "${writers[@]}"
	[ "$(held_count)" -ge 1 ]
	[ "$(counter hedges_won)" -gt "$won" ]
	within_budget
	same_as_model 1024 "$next"
	# the stripes of those that were second are free then
	all_as_ever
	same_as_model 1024 "$next"
	parity_fits
	# besides a stripe for the first block
	[ $(($(space raid) + $(space dead) + $(space replicated))) -le $((((next - 1024) / 48 + 1) * 4)) ]
}

@test "so is a whole block in place, and it moves" {
	empty_volume
	random_to 0 1024 3072
	hedging 400
	tops=$(counter new_top)
	answered_elsewhere 1024 16
	# it was in place at first
	[ "$(counter new_top)" -eq "$tops" ]
}

@test "without hedging it waits" {
	empty_volume
	message set hedge 0
	hedging 400
	hold_up 1024 4
	stays 2 all_ended
	[ "$(counter hedged_writes)" -eq "$before" ]
	release
	all_end "${writers[@]}"
	same_as_model 1024 1028
}

# blocks_in_place: all from page 1024 on are there, in $old what they are.
blocks_in_place() {
	empty_volume
	old=$BATS_TEST_TMPDIR/old
	random $(((mib[0] << 8) - 1024)) >"$old"
	dd if="$old" of=/dev/mapper/t-v0 bs=64k seek=64 oflag=direct status=none
}
# What of each block in $old is behind its first $1 pages is what it was.
rest_is_old() {
	perl -e '
		my ($skip, $is, $was) = shift;
		open(my $old, "<", $ARGV[0]) or die;
		for (my $page = 1024; read($old, $was, 65536); $page += 16) {
			read(STDIN, $is, 65536) == 65536 or die "page $page is missing\n";
			die "pages after $page are others\n" if substr($is, $skip << 12) ne substr($was, $skip << 12);
		}' "$1" "$old" < <(dd if=/dev/mapper/t-v0 bs=64k skip=64 iflag=direct status=none)
}

@test "so is a part of a block in place, and all of it moves" {
	blocks_in_place
	hedging 400
	tops=$(counter new_top)
	answered_elsewhere 1024 4
	[ "$(counter new_top)" -eq "$tops" ]
	rest_is_old 4
}

# tell_others MESSAGE...: all SSDs but $late.
tell_others() {
	local ssd

	for ssd in "${others[@]}"; do
		hand message "$ssd" "$@"
	done
}
others_hold() { [ "$(held_by "${others[@]}")" -ge "$1" ]; }
# read_for_another: writes of a part of a block wait for $late, and $others keep back what is read for another
# attempt.
read_for_another() {
	choose_slow 1024 4
	others=("${ssds[@]}")
	unset "others[$late]"
	tell_others hold reads
	hold_writes 4
	wait_for 20 hedged $((before + 1))
}

@test "what else a block has may be read for that until the write has ended" {
	blocks_in_place
	hedging 400
	read_for_another
	stays 2 all_ended
	[ "$(counter hedges_won)" -eq "$won" ]
	# what was held up ends first, and is not what is read then
	hand message "ssd$late" release
	all_end "${writers[@]}"
	dd if="$model" of=/dev/mapper/t-v0 bs=64k skip=64 seek=64 count=64 oflag=direct status=none
	all_as_ever
	same_as_model 1024 2048
	parity_fits
}

@test "what is sent the second time stays as it is until it is written" {
	empty_volume
	# half of each block, so that a processor keeps memory for that apart; more blocks than it takes to find
	# $late, and to have it held up
	fio --name=w --filename=/dev/mapper/t-v0 --offset=4m --size=8m --bs=32k --rw=write:32k --direct=1 \
		--output=/dev/null
	old=$BATS_TEST_TMPDIR/old
	dd if=/dev/mapper/t-v0 of="$old" bs=1M skip=4 count=8 iflag=direct status=none
	hedging 400
	read_for_another
	[ "$next" -le 3072 ]
	tell_others hold writes
	tell_others step
	wait_for 20 others_hold 2
	# the next would have that memory, if it were free
	for page in {3072..3136..16}; do
		write_at "$page" 8
	done
	wait_for 20 others_hold 10
	tell_others release
	all_end "${writers[@]}"
	[ "$(counter hedges_won)" -gt "$won" ]
	blocks_as_model 1024 4
	rest_is_old 4
	all_as_ever
	blocks_as_model 1024 4
	parity_fits
}

@test "so are patches in place" {
	member_sectors=$((64 << 11)) percent=20
	raid_volume "${mib[0]}"
	for ((page = 0; page < mib[0] << 8; page += 16)); do
		random_to 0 $page 3 12k
	done
	hedging 400
	patches=$(counter new_patch)
	random $((mib[0] << 8)) >"$model"
	answered_elsewhere 0 3
	[ "$(counter new_patch)" -eq "$patches" ]
}

@test "4 KiB in place are if that is known before" {
	blocks_in_place
	hedging 400
	hold_up 1024 1
	# those that told of it are not
	count=$(counter hedged_writes)
	until hedged $((count + 4)); do
		write_next 1
	done
	release
	all_end "${writers[@]}"
	blocks_as_model 1024 1
	rest_is_old 1
	message convert
	parity_fits
}

@test "there is no more than one hedge for 20 I/Os" {
	empty_volume
	hedging 20
	# so many are sent there before it is seen that it does not answer
	message set monitor 0
	hand message ssd5 hold writes
	# blocks that are not there yet
	fio --name=w --filename=/dev/mapper/t-v0 --offset=4m --size=12m --bs=16k --rw=write:48k --direct=1 \
		--ioengine=libaio --iodepth=128 --output=/dev/null 3>&- &
	fio=$!
	wait_for 20 held 8
	message set monitor 1
	wait_for 20 hedged 1
	within_budget
	# of all that are held the pool could afford few
	[ "$(counter hedged_writes)" -lt "$(held_count)" ]
	running $fio
	release
	wait $fio
	within_budget
	message convert
	parity_fits
}

@test "a pool is not stopped before what was hedged has ended" {
	empty_volume
	hedging 400
	hold_up 1024 4
	all_end "${writers[@]}"
	held 1
	stop_waits_in fusion_hedge_stop
	start_pool
	volume_device 0 $((mib[0] << 11))
	blocks_as_model 1024 4
	parity_fits
}

# page_in_stripes: data whose first page that is on SSD 5 is $page; a read of it is held, and it will not be
# found unresponsive.
page_in_stripes() {
	make_pool
	model=$BATS_TEST_TMPDIR/model
	volume 0 "${mib[0]}" 3
	random $((mib[0] << 8)) >"$model"
	dd if="$model" of=/dev/mapper/t-v0 bs=1M oflag=direct status=none
	message convert
	page=0
	until find_ssd $page && [ "$ssd" -eq 5 ]; do
		page=$((page + 16))
	done
	hedging "$1"
	message set straggler_enter 65535
	hand message ssd5 hold reads
	read_late
	wait_for 20 held 1
}
read_late() {
	dd if=/dev/mapper/t-v0 of="$BATS_TEST_TMPDIR/late" bs=4k skip="$page" count=1 iflag=direct status=none 3>&- &
	readers+=($!)
}
readers=()
read_around() {
	read_late
	[ "$(counter avoided_reads)" -gt "$before" ]
}

@test "what only a silent member has is computed" {
	page_in_stripes 400
	before=$(counter avoided_reads)
	wait_for 20 read_around
	# it is silent all the time
	same_as_model $((page + 1)) $((page + 2))
	[ "$(message pulse | grep -c unresponsive)" -eq 0 ]
	release
	all_end "${readers[@]}"
	[ "$(counter recovered) $(counter repaired)" = "0 0" ]
}

@test "without hedging it is waited for" {
	page_in_stripes 400
	message set hedge 0
	before=$(counter avoided_reads)
	stays 2 read_around
	release
	all_end "${readers[@]}"
	same_as_model "$page" $((page + 1))
}

# Two processors: what has ended and what is being sent again are at the same time.
# bats test_tags=smp
@test "writes are hedged under load, and the power fails" {
	make_pool
	make_volumes
	one_straggler_after 2000
	for d in {0..7}; do
		hand message "ssd$d" drive E aged 1
	done
	for round in 1 2 3; do
		run_and_cut $round "${devs[@]}"
		before[round]=$(counter hedged_writes)
		stop_pool
		power_on
		start_pool
		start_volumes
		one_straggler_after 2000
		verify "${devs[@]}"
		message convert
		parity_fits
	done
	echo "${before[@]}"
	[ $((before[1] + before[2] + before[3])) -gt 0 ]
}
