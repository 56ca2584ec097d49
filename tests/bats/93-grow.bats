#!/usr/bin/env bats
# Growing: a pool that is in use comes to have more SSDs, and all that is in it moves.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/patches.bash
source "$BATS_TEST_DIRNAME/patches.bash"
# shellcheck source=tests/bats/beside.bash
source "$BATS_TEST_DIRNAME/beside.bash"
# shellcheck source=tests/bats/power.bash
source "$BATS_TEST_DIRNAME/power.bash"

meta=/dev/mapper/t-meta

test_setup() {
	end_udev
	members=5 spares=0
}
test_teardown() {
	[ ! -e $meta ] || dm resume t-meta
}

# new_members N: devices for so many are there.
new_members() {
	local i table=

	for ((i = members; i < $1; i++)); do
		table+="t-m$i,,,rw,0 $((data_offset + member_sectors)) linear /dev/mapper/ssd$i 0;"
	done
	dm create --concise "${table%;}"
}
# grow N: to so many, which are there.
grow() {
	local was=$members

	members=$1
	dm reload "$pool" --table "$(pool_table)" || { members=$was; return 1; }
	dm resume "$pool"
}
grows_from() { counter grows_from; }
grown() { [ "$(grows_from)" -eq 0 ]; }
# The background is at work until nothing is where it was.
let_grow() {
	message set paused 0
	wait_for 90 grown
	[ "$(counter growing_blocks)" -eq 0 ]
	message set paused 1
}
# What stopped cleanly, or was cut, is right.
checked() { fusion check $meta; }

# Of all kinds: in stripes, replicas, and patches.
all_kinds() {
	raid_volume 12
	write_all_kinds
	flush
	[ "$(space replicated)" -gt 0 ]
	[ "$(counter patch_area)" -gt 0 ]
}

@test "a pool grows, and all that is in it moves" {
	all_kinds
	free=$(space free) total=$(space total)
	new_members 7
	grow 7
	log_has "the pool grows from 5 to 7 members"
	[ "$(grows_from)" -eq 5 ]
	blocks=$(counter growing_blocks)
	[ "$blocks" -ge $((12 << 4)) ]
	[ "$(states)" = ooooooo ]
	as_written
	# nothing begins before the background is allowed to
	stays 1 grown
	[ "$(counter growing_blocks)" -eq "$blocks" ]
	run ! fusion check $meta
	restart rw 12
	[ "$(grows_from)" -eq 5 ]
	as_written
	stop_pool
	checked
	start_pool
	volume_device 0 $((12 << 11))
	let_grow
	log_has "the pool has grown: all of it is on 7 members"
	as_written
	[ "$(space total)" -gt $((total * 6 / 5)) ]
	[ "$(space free)" -gt $((free * 6 / 5)) ]
	message convert
	parity_fits
	all_there 0 2 4 5 6
	for ssd in 5 6; do [ "$(sectors written $ssd)" -gt $((1 << 11)) ]; done
	restart rw 12
	grown
	as_written
	stop_pool
	checked
}

@test "it grows again, to what its first layout's bands had been" {
	all_kinds
	new_members 8
	grow 7
	let_grow
	as_written
	write_all_kinds
	grow 8
	[ "$(grows_from)" -eq 7 ]
	let_grow
	as_written
	restart rw 12
	as_written
	message convert
	parity_fits
	all_there 0 3 5 7
	stop_pool
	checked
}

@test "volumes are written while their pool grows" {
	make_pool
	volume 0 24
	volume 1 8 2 2
	load_begins /dev/mapper/t-v0
	wait_for 20 more_written
	random_to 1 0 2048
	sum=$(sum 1)
	new_members 7
	grow 7
	message set paused 0
	wait_for 120 grown
	running $load
	load_ends
	[ "$(sum 1)" = "$sum" ]
	all_written /dev/mapper/t-v0
	message convert
	parity_fits
	for ssd in 1 6; do
		failing reads $ssd
		all_written /dev/mapper/t-v0
		[ "$(sum 1)" = "$sum" ]
	done
}
more_written() { [ $(($(counter new_top) + $(counter large))) -gt 500 ]; }

# refused SENTENCE COMMAND...: it fails, and the kernel says so; the pool goes on as before.
refused() {
	local sentence=$1

	shift
	log_mark
	run ! "$@"
	log_has "$sentence"
	dm clear "$pool"
	members=5
	[ "$(states)" = ooooo ]
}

@test "what cannot grow is told why, and goes on" {
	raid_volume 4
	new_members 8
	refused "Number of members must be a prime power" grow 6
	refused "Pool has another geometry" grow 4
	missing=6 refused "Pool can grow only with all members" grow 7
	dm remove t-m6
	dm create t-m6 --table "0 $((data_offset + member_sectors / 2)) linear /dev/mapper/ssd6 0"
	refused "A member is too small for the pool" grow 7
	dm reload t-m6 --table "0 $((data_offset + member_sectors)) linear /dev/mapper/ssd6 0"
	dm resume t-m6
	message fail 2
	run ! grow 7
	log_has "Pool can grow only while all members are ok"
	[ "$(states)" = oofoo ]
	as_written
	stop_pool
	members=5
	run ! grow 7
}

@test "a pool that is full grows when something of it is discarded" {
	member_sectors=$((40 << 11)) features+=" error_if_no_space"
	make_pool
	message set patch_percent 0
	volume 0 150 2 1
	run ! hand write /dev/mapper/t-v0 - 0 $((120 << 8)) 128k
	flush
	message convert
	new_members 7
	run ! grow 7
	log_has "Pool has too little free space to grow"
	members=5
	blkdiscard -o $((50 << 20)) /dev/mapper/t-v0
	flush
	message convert
	sum=$(sum 0)
	grow 7
	let_grow
	[ "$(sum 0)" = "$sum" ]
	# and there is more room than there was
	hand write /dev/mapper/t-v0 - 0 $((120 << 8)) 128k
	flush
	stop_pool
	checked
}

# grow_when_room N: what it is refused for is discarded, from the end of t-v1 on.
grow_when_room() {
	local left=$(($(blockdev --getsz /dev/mapper/t-v1) >> 11))

	new_members "$1"
	until grow "$1" 2>/dev/null; do
		[ "$left" -gt 4 ]
		left=$((left - 4))
		blkdiscard -o $((left << 20)) -l $((4 << 20)) /dev/mapper/t-v1
		flush
		message convert
	done
	echo "$left MiB of t-v1 are left"
}

@test "a pool grows with as little free space as it may, while all of it is written" {
	member_sectors=$((60 << 11))
	make_pool
	message set patch_percent 5
	volume 0 56 2 1
	volume 1 40 3 1
	for v in 0 1; do hand write /dev/mapper/t-v$v - 0 $(((v ? 40 : 56) << 8)) 64k; done
	flush
	message convert
	grow_when_room 7
	begin_load --size=56m --time_based --runtime=300
	message set paused 0
	message set load_kib 1
	wait_for 150 grown
	running $load
	end_load
	message convert
	parity_fits
	stop_pool
	checked
}

@test "members fail while their pool grows" {
	members=7 spares=1
	all_kinds
	new_members 8
	grow 8
	message fail 2
	as_written
	write_all_kinds
	flush
	message rebuild
	[ "$(counter degraded)" -eq 0 ]
	all_there 0 5 7
	let_grow
	as_written
	[ "$(states)" = oofooooo ]
	# one of those that came
	message fail 7
	as_written
	restart rw 12
	as_written
	message convert
	stop_pool
	checked
}

# super_members: as the metadata that is durable says.
super_members() { od -A n -t u2 -j 292 -N 2 "$meta" | tr -d ' '; }

@test "power fails at each step of a pool's beginning to grow" {
	make_pool
	fill_volume 4
	new_members 7
	outcomes=''
	for ((steps = 0; steps < 12; steps++)); do
		write_all_kinds
		flush
		hold flushes
		grow 7 3>&- &
		pid=$!
		members=5
		for ((i = 0; i < steps; i++)); do
			wait_for 20 held_or_ended $pid
			step
		done
		wait_for 20 held_or_ended $pid
		power_cut $steps
		release
		wait $pid || :
		dm clear "$pool" || :
		stop_pool
		power_on
		members=$(super_members)
		outcomes+=$members
		start_pool
		volume_device 0 $((4 << 11))
		as_written
		[ "$members" -eq 5 ] || break
		dm reload t-m5 --table "0 $((data_offset + member_sectors)) linear /dev/mapper/ssd5 0"
		dm resume t-m5
	done
	[[ $outcomes == 5*7 ]]
	[ "$(grows_from)" -eq 5 ]
	let_grow
	as_written
	stop_pool
	checked
}

@test "power fails while a pool grows" {
	members=7
	make_pool
	make_volumes
	run_and_cut 0 "${devs[@]}"
	new_members 8
	for round in {1..6}; do
		stop_pool
		power_on
		start_pool
		start_volumes
		verify "${devs[@]}"
		message set paused 0
		[ "$round" -ne 1 ] || grow 8
		[ "$(grows_from)" -eq 7 ] || break
		run_and_cut "$round" "${devs[@]}"
	done
	stop_pool
	power_on
	start_pool
	start_volumes
	verify "${devs[@]}"
	let_grow
	verify "${devs[@]}"
	message convert
	parity_fits
	stop_pool
	checked
}
