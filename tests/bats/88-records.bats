#!/usr/bin/env bats
# What the members record of each other: no start with old metadata, none of less than half.
# Most of its pools are made without options.
# shellcheck disable=SC2119

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/patches.bash
source "$BATS_TEST_DIRNAME/patches.bash"
# shellcheck source=tests/bats/labels.bash
source "$BATS_TEST_DIRNAME/labels.bash"

# letters LETTER: 256 KiB of v0.  same LETTER: they are still there.
letters() {
	head -c 262144 /dev/zero | tr '\0' "$1" | dd of=/dev/mapper/t-pool-v0 bs=64k iflag=fullblock oflag=direct status=none
}
same() { [ "$(dd if=/dev/mapper/t-pool-v0 bs=256k count=1 iflag=direct status=none | tr -d "$1" | wc -c)" -eq 0 ]; }

@test "what became of the members is recorded by each that is used" {
	own_metadata
	[ "$(generations)" = "1 1 1 1 1 1 1 1" ]
	[ "$(recorded 4)" = "1 oooooooo" ]
	message fail 3
	[ "$(generations)" = "2 2 2 1 2 2 2 2" ]
	[ "$(recorded 4)" = "2 ooofoooo" ]
	fusion pool stop t-pool
	away 5
	run fusion pool start t-pool
	[ "$status" -eq 0 ]
	[[ $output == *"without its member 5"* ]]
	[ "$(states)" = ooofomoo ]
	fusion pool stop t-pool
	back 5
	[ "$(generations)" = "3 3 3 1 3 2 3 3" ]
	[ "$(recorded 4)" = "3 ooofomoo" ]
	[ "$(fusion scan --json | jq -r '.members[].state' | xargs)" = "ok ok ok failed ok old ok ok" ]
	# what is back is old, and records nothing; a record that is lost is written again
	dd if=/dev/zero of=/dev/mapper/t-m6 bs=4k seek=64 count=1 oflag=direct status=none
	start
	[ "$(states)" = ooofomoo ]
	fusion pool stop t-pool
	[ "$(generations)" = "3 3 3 1 3 2 3 3" ]
}

@test "members without labels record nothing" {
	make_members
	for ((i = 0; i < members; i++)); do
		random 256 | dd of="/dev/mapper/t-m$i" bs=1M iflag=fullblock oflag=direct status=none
	done
	before=$(for i in {0..7}; do record "$i" 64; record "$i" 192; done | md5sum)
	start_pool
	message fail 3
	[ "$(for i in {0..7}; do record "$i" 64; record "$i" 192; done | md5sum)" = "$before" ]
}

@test "metadata that is older than the records is refused, and so is none" {
	own_metadata
	fusion volume create t-pool v0 --size 4M >/dev/null
	fusion pool stop t-pool
	old=$BATS_TEST_TMPDIR/old new=$BATS_TEST_TMPDIR/new
	dd if=/dev/mapper/t-meta of="$old" bs=1M iflag=direct status=none
	away 2
	start
	table=$(own_table)
	letters a
	fusion pool stop t-pool
	dd if=/dev/mapper/t-meta of="$new" bs=1M iflag=direct status=none
	back 2
	dd if="$old" of=/dev/mapper/t-meta bs=1M oflag=direct status=none
	run ! fusion pool start t-pool
	[[ $output == *"Metadata is older than what the members have recorded"* ]]
	# member 2 has recorded nothing of it, but the others have
	away 0 1
	run ! fusion pool start t-pool
	[[ $output == *"Metadata is older than what the members have recorded"* ]]
	back 0 1
	blkdiscard /dev/mapper/t-meta
	run ! dm create t-pool --table "$table"
	log_has "Metadata is empty, but the members have been used with some"
	dd if="$new" of=/dev/mapper/t-meta bs=1M oflag=direct status=none
	start
	[ "$(states)" = oomooooo ]
	same a
}

# The records are being written, and one has been, or begun to be: that on the metadata's SSD.
@test "the power fails before the members have recorded what the metadata says" {
	own_metadata
	for ssd in 3 5; do
		hold_members
		message fail $ssd 2>/dev/null 3>&- &
		pid=$!
		wait_for 20 held 5
		power_cut $ssd
		release
		wait $pid || :
		fusion pool stop t-pool
		power_on
		start
	done
	[ "$(generations)" = "3 3 3 1 3 2 3 3" ]
	[ "$(recorded 0)" = "3 ooofofoo" ]
}

# A record that does not count, as no other member has it, is of a generation that no other states
# may have then.
@test "states that one member alone has recorded are not taken for others" {
	own_metadata
	fusion pool stop t-pool
	dd if=/dev/mapper/t-meta of="$BATS_TEST_TMPDIR/old" bs=1M iflag=direct status=none
	dd if=/dev/mapper/t-m0 of="$BATS_TEST_TMPDIR/record" bs=4k skip=64 count=1 iflag=direct status=none
	start
	message fail 3
	fusion pool stop t-pool
	[ "$(generations)" = "2 2 2 1 2 2 2 2" ]
	dd if="$BATS_TEST_TMPDIR/old" of=/dev/mapper/t-meta bs=1M oflag=direct status=none
	for i in 0 1 2 4 6 7; do
		for copy in 64 192; do
			dd if="$BATS_TEST_TMPDIR/record" of="/dev/mapper/t-m$i" bs=4k seek=$copy oflag=direct status=none
		done
	done
	away 6
	start
	[ "$(states)" = oooooomo ]
	fusion pool stop t-pool
	back 6
	[ "$(generations)" = "4 4 4 4 4 4 1 4" ]
}

@test "a member that cannot record has failed, too" {
	own_metadata
	failing writes 2
	message fail 3
	[ "$(states)" = ooffoooo ]
	failing writes
	[ "$(generations)" = "3 3 1 1 3 3 3 3" ]
	# as many as can be done without
	run ! message fail 4
	fusion pool stop t-pool
	start
	[ "$(states) $(mode)" = "ooffoooo rw" ]
}

@test "what a member that cannot be done without cannot record is not acted upon" {
	own_metadata
	message fail 3
	failing writes 2 4
	run ! message fail 5
	[ "$(mode)" = ro ]
	log_has "a member cannot record what became of the others, and cannot be done without"
	fusion pool stop t-pool
	# nor at a start
	start
	[ "$(mode)" = ro ]
	fusion pool stop t-pool
	failing writes
	start
	[ "$(states) $(mode)" = "ooofofoo rw" ]
	[ "$(generations)" = "3 3 3 1 3 2 3 3" ]
}

# What it could not commit it does not record, whoever fails then.
@test "a pool that is read-only records nothing" {
	own_metadata
	fusion volume create t-pool v0 --size 4M >/dev/null
	hand message ssd6 hold writes
	failing flushes 2 5
	random 1024 | dd of=/dev/mapper/t-pool-v0 bs=4M iflag=fullblock oflag=direct status=none 2>/dev/null 3>&- &
	pid=$!
	# the timer's commit
	wait_for 20 in_ro
	held 1
	failing writes 6
	release
	wait $pid && false
	log_has "dm-15 has failed: that cannot be recorded"
	fusion pool stop t-pool
	[ "$(generations)" = "1 1 1 1 1 1 1 1" ]
	all_work
	start
	[ "$(states) $(mode)" = "oooooooo rw" ]
}

# One that cannot be done without need not record what it has.
@test "a pool starts with a member that cannot be written" {
	labelled_pool
	fusion volume create t-pool v0 --size 4M >/dev/null
	letters a
	message fail 3
	failing writes 5
	for round in 1 2; do
		fusion pool stop t-pool
		start
		[ "$(states) $(mode)" = "ooofoooo rw" ]
		same a
	done
}

slice_states() { fusion pool status t-pool --json | jq -r .metadata.mirror; }

@test "slices of the metadata that are back are old" {
	labelled_pool
	fusion volume create t-pool v0 --size 4M >/dev/null
	[ "$(slice_states)" = AAA ]
	letters a
	fusion pool stop t-pool
	away 1
	start
	[ "$(states) $(slice_states)" = "omoooooo A-A" ]
	letters b
	fusion pool stop t-pool
	back 1
	start
	[ "$(states) $(slice_states)" = "omoooooo A-A" ]
	same b
	fusion pool stop t-pool
	# the metadata is not there but for that which is old
	away 0 2
	run ! fusion pool start t-pool
	[[ $output == *"the metadata of pool t-pool is on members that are missing"*"attach its members 0, 2"* ]]
	back 0
	# nor is enough of it, nor all data
	run ! fusion pool start t-pool
	[[ $output == *"1 of the 3 slices of the metadata of pool t-pool is there, and may be old"* ]]
	back 2
	away 4
	run ! fusion pool start t-pool
	[[ $output == *"without its member 4 it can only be read, and data may be lost"* ]]
	[ -z "$(test_devices | grep t-pool || :)" ]
	start --force
	[ "$(mode)" = ro ]
	fusion pool stop t-pool
	away 2 5 6
	run ! fusion pool start t-pool
	[[ $output == *"of the 8 members of pool t-pool only 3 are there that were used last"* ]]
	back 2 4 5 6
	start
	[ "$(states) $(mode)" = "omoooooo rw" ]
	same b
}
