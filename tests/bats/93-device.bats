#!/usr/bin/env bats
# Members are replaced and re-added by the tool; hot spares.

# shellcheck disable=SC2119

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/labels.bash
source "$BATS_TEST_DIRNAME/labels.bash"

setup_file() { with_udev; }
teardown_file() { end_udev; }

# Members may have slices of the metadata that were made after the pool was.
test_teardown() { [ ! -e /dev/mapper/t-pool ] || fusion pool stop t-pool >/dev/null; }

# extra NAME SSD [SECTORS]: a device that is no member.
extra() {
	dm create "t-$1" --table "0 ${3:-$member_sectors} linear /dev/mapper/ssd$2 $((2048 + 2 * member_sectors))"
}
# used_pool [OPTION...]: of eight, with a volume with data; its background does only what it is asked for
used_pool() {
	labelled_pool
	fusion volume create t-pool v0 --size 24M "$@" >/dev/null
	random 6144 | dd of=/dev/mapper/t-pool-v0 bs=1M iflag=fullblock oflag=direct status=none
	message convert
	written=$(sum_v0)
}
sum_v0() { dd if=/dev/mapper/t-pool-v0 bs=1M iflag=direct status=none | md5sum; }
as_written() { [ "$(sum_v0)" = "$written" ]; }
# overwrite MIB
overwrite() {
	random $(($1 << 8)) | dd of=/dev/mapper/t-pool-v0 bs=1M iflag=fullblock oflag=direct status=none
	written=$(sum_v0)
}
# The pool is stopped and started again, and says no more than $1.
restarted() {
	fusion pool stop t-pool
	run fusion pool start t-pool
	[ "$status" -eq 0 ]
	message set paused 1
	[[ $output == *"${1:-}"* ]]
	as_written
}
scanned() { fusion scan --json "/dev/mapper/$1" | jq -r '.members[] | "\(.index) \(.state)"'; }
# What member $1 has can be read: no other copy of it is.
without() {
	message fail "$1"
	as_written
}
# sectors written to a member since it was made
sectors_written() {
	local stat
	read -r -a stat <"/sys/block/$(hand name "t-$1")/stat"
	echo "${stat[6]}"
}

@test "a member that is used is replaced by a device that is named" {
	used_pool
	extra new 1
	mkfs.ext4 -q /dev/mapper/t-new
	run ! fusion device replace t-pool 4 /dev/mapper/t-new
	[[ $output == *"/dev/mapper/t-new carries a signature of ext4: give --force"* ]]
	run ! fusion device replace t-pool 4 /dev/mapper/t-m5 --force
	[[ $output == *"/dev/mapper/t-m5 is member 5 of pool t-pool"* ]]
	run ! fusion device replace t-pool 4 /dev/mapper/t-m4 --force
	[[ $output == *"/dev/mapper/t-m4 is member 4 of pool t-pool, and used"* ]]
	run ! fusion device replace t-pool 4
	[[ $output == *"pool t-pool has no hot spare"* ]]
	extra small 2 $((member_sectors / 2))
	run ! fusion device replace t-pool 4 /dev/mapper/t-small
	[[ $output == *"/dev/mapper/t-small is too small to be a member of pool t-pool"* ]]
	[ "$(states)" = oooooooo ]
	run fusion device replace t-pool 4 /dev/mapper/t-new --force --json
	[ "$status" -eq 0 ]
	[ "$(jq -c '[.member, .device, .replaced, .rebuilt > 0]' <<<"${output#"${output%%\{*}"}")" = '[4,"/dev/mapper/t-new",true,true]' ]
	[ "$(states)" = oooooooo ]
	[ -z "$(scanned t-m4)" ]
	as_written
	# what it had is there, and nowhere else
	without 5
	restarted
	[ "$(states)" = ooooofoo ]
	[ "$(fusion scan --json | jq -r '.members[] | select(.device == "/dev/mapper/t-new").state')" = ok ]
	# the kernel's sentence
	run ! fusion device replace t-pool 4 /dev/mapper/t-m4
	[[ $output == *"cannot be done without"* ]]
	[ "$(states)" = ooooofoo ]
	[ -z "$(scanned t-m4)" ]
}

@test "a hot spare takes the place of one that is missing after a start" {
	used_pool
	extra spare 1
	run fusion device add t-pool /dev/mapper/t-spare
	[ "$status" -eq 0 ]
	run ! fusion device add t-pool /dev/mapper/t-spare
	[[ $output == *"is a hot spare of pool t-pool already"* ]]
	[ "$(fusion pool status t-pool --json | jq -r '.hot_spares[]')" = /dev/mapper/t-spare ]
	fusion pool stop t-pool
	away 6
	start
	[ "$(states)" = oooooomo ]
	overwrite 1
	run fusion device replace t-pool 6 --no-wait
	[ "$status" -eq 0 ]
	[[ $output == *"/dev/mapper/t-spare is member 6 of pool t-pool: what belongs there is being written"* ]]
	[ "$(states)" = ooooooro ]
	restarted
	[ "$(states)" = ooooooro ]
	[ "$(fusion scan --json | jq -r '.members[] | select(.device == "/dev/mapper/t-spare").state')" = returning ]
	fusion device rebuild t-pool
	[ "$(states)" = oooooooo ]
	[ "$(fusion pool status t-pool --json | jq '.hot_spares | length')" -eq 0 ]
	# the old one comes back, and is not taken for it, with the new one or without
	back 6
	restarted "/dev/mapper/t-m6 is not used: its label says that it is member 6"
	[ "$(states)" = oooooooo ]
	[ "$(fusion scan --json | jq -r '.members[] | select(.device == "/dev/mapper/t-m6").state')" = other ]
	fusion pool stop t-pool
	dm remove --retry t-spare
	run fusion pool start t-pool
	[ "$status" -eq 0 ]
	[ "$(states)" = oooooomo ]
	[[ $output == *"without its member 6"* ]]
	as_written
	run fusion device remove t-pool /dev/mapper/t-m6
	[ "$status" -eq 0 ]
	[ -z "$(scanned t-m6)" ]
	extra spare 1
	run fusion device readd t-pool 6
	[ "$status" -eq 0 ]
	[[ $output == *"/dev/mapper/t-spare is member 6 of pool t-pool"* ]]
	[ "$(states)" = oooooooo ]
	without 2
}

@test "one that was missing comes back, and gets what has changed" {
	used_pool
	fusion pool stop t-pool
	away 3
	start
	[ "$(states)" = ooomoooo ]
	overwrite 1
	run ! fusion device readd t-pool 3
	[[ $output == *"no device has the label of member 3 of pool t-pool: attach it"* ]]
	run ! fusion device readd t-pool 4
	[[ $output == *"member 4 of pool t-pool is used (ok)"* ]]
	back 3
	run ! fusion device readd t-pool 3 /dev/mapper/t-m4
	[[ $output == *"/dev/mapper/t-m4 was not member 3"* ]]
	before=$(sectors_written m3)
	run fusion device readd t-pool 3 --json
	[ "$status" -eq 0 ]
	[ "$(jq -c '[.member, .device, .readded]' <<<"${output#"${output%%\{*}"}")" = '[3,"/dev/mapper/t-m3",true]' ]
	[ "$(states)" = oooooooo ]
	# its eighth of what has changed, with parity, and some; not of what is there
	[ $(($(sectors_written m3) - before)) -lt 2048 ]
	as_written
	restarted
	[ "$(states)" = oooooooo ]
	without 5
}

@test "of two that were missing one has come back when it has what belongs there, whatever the other lacks" {
	used_pool --raid raid6 --data 3
	fusion pool stop t-pool
	away 3 5
	start
	[ "$(states)" = ooomomoo ]
	overwrite 4
	back 3 5
	run fusion device readd t-pool 3
	[ "$status" -eq 0 ]
	[[ $output == *"/dev/mapper/t-m3 is member 3 of pool t-pool"* ]]
	[ "$(states)" = ooooomoo ]
	as_written
	# what is nowhere is an error for who asks for all
	run ! fusion device rebuild t-pool
	[[ $output == *"not enough"* ]]
	fusion device readd t-pool 5 >/dev/null
	[ "$(states)" = oooooooo ]
	fusion device rebuild t-pool >/dev/null
	without 2
	without 6
}

@test "one that was replaced does not come back, but may be used as an empty one" {
	used_pool
	extra new 1
	fusion device fail t-pool 7 >/dev/null
	# its label is there still, as that of one that could not be written
	dd if=/dev/mapper/t-m7 of="$BATS_TEST_TMPDIR/label" bs=1M count=1 iflag=direct status=none
	fusion device replace t-pool 7 /dev/mapper/t-new >/dev/null
	dd if="$BATS_TEST_TMPDIR/label" of=/dev/mapper/t-m7 bs=1M oflag=direct status=none
	overwrite 1
	fusion device fail t-pool 7 >/dev/null
	run ! fusion device readd t-pool 7 /dev/mapper/t-m7
	[[ $output == *"it is another device than it was"*"fusion device replace t-pool 7 /dev/mapper/t-m7"* ]]
	[ "$(states)" = ooooooof ]
	# the table is as it was
	[ "$(fusion pool status t-pool --json | jq -r '.members[7].device')" = /dev/mapper/t-new ]
	as_written
	run fusion device replace t-pool 7 /dev/mapper/t-m7
	[ "$status" -eq 0 ]
	[ "$(states)" = oooooooo ]
	[ -z "$(scanned t-new)" ]
	restarted
	without 1
}

@test "the devices of members that are not used are free again" {
	used_pool
	run ! fusion device remove t-pool 5
	[[ $output == *"member 5 of pool t-pool is used: fail it first"* ]]
	fusion device fail t-pool 5 >/dev/null
	run fusion device remove t-pool /dev/mapper/t-m5 --json
	[ "$status" -eq 0 ]
	[ "$(jq -c '[.member, .device, .wiped]' <<<"$output")" = '[5,"/dev/mapper/t-m5",true]' ]
	[ -z "$(scanned t-m5)" ]
	as_written
	run ! fusion device remove t-pool 5
	[[ $output == *"member 5 of pool t-pool has no device"* ]]
	restarted "without its member 5"
	[ "$(states)" = ooooofoo ]
	run ! fusion device remove t-pool /dev/mapper/t-m5
	[[ $output == *"has no label of pool t-pool"* ]]
	fusion device add t-pool /dev/mapper/t-m5 >/dev/null
	fusion device remove t-pool /dev/mapper/t-m5 >/dev/null
	[ -z "$(scanned t-m5)" ]
	fusion device replace t-pool 5 /dev/mapper/t-m5 >/dev/null
	[ "$(states)" = oooooooo ]
	without 2
}

@test "a replacement that was cut short" {
	used_pool
	extra new 1
	fusion device fail t-pool 4 >/dev/null
	# it has its label, and is not in the table
	fusion device add t-pool /dev/mapper/t-new >/dev/null
	dd if=/dev/mapper/t-m4 of="$BATS_TEST_TMPDIR/label" bs=1M count=1 iflag=direct status=none
	fusion pool stop t-pool
	dm create t-first --table "0 $member_sectors linear /dev/mapper/ssd2 $((2048 + 2 * member_sectors))"
	fusion pool start t-pool
	message set paused 1
	fusion device replace t-pool 4 /dev/mapper/t-first >/dev/null
	fusion device fail t-pool 4 >/dev/null
	dd if="$BATS_TEST_TMPDIR/label" of=/dev/mapper/t-m4 bs=1M oflag=direct status=none
	restarted "/dev/mapper/t-m4 is not used"
	[ "$(states)" = oooofooo ]
	[ "$(fusion pool status t-pool --json | jq -r '.members[4].device')" = /dev/mapper/t-first ]
	# the same again, and it needs no force
	fusion device replace t-pool 4 /dev/mapper/t-m4 >/dev/null
	[ "$(states)" = oooooooo ]
	restarted
	without 0
}

mirror() { fusion pool status t-pool --json | jq -r .metadata.mirror; }
# slice LEG: the device that it is on.
slice() {
	local table
	read -r -a table <<<"$(dmsetup table "t-pool_fmeta_rimage_$1")"
	dmsetup info -c --noheadings -o name -j "${table[3]%:*}" -m "${table[3]#*:}"
}

@test "slices of the metadata are made anew on members that are used" {
	used_pool
	extra new 1
	[ "$(mirror) $(slice 1)" = "AAA t-m1" ]
	fusion device replace t-pool 1 /dev/mapper/t-new >/dev/null
	[ "$(mirror) $(slice 1)" = "AAA t-new" ]
	# nothing has the old device open
	away 1
	restarted
	[ "$(mirror) $(slice 1)" = "AAA t-new" ]
	fusion device fail t-pool 0 >/dev/null
	fusion device rebuild t-pool >/dev/null
	[ "$(mirror) $(slice 0)" = "AAA t-m3" ]
	restarted
	[ "$(states) $(mirror) $(slice 0)" = "fooooooo AAA t-m3" ]
	# the other two are lost
	fusion pool stop t-pool
	for device in t-new t-m2; do
		dd if=/dev/zero of=/dev/mapper/$device bs=1M seek=1 count=5 oflag=direct status=none
	done
	start
	as_written
	[ "$(mirror)" = A-- ]
	overwrite 1
	fusion device rebuild t-pool >/dev/null
	[ "$(mirror)" = AAA ]
	restarted
	# the one that was away has the label of a slice that is on another
	fusion device readd t-pool 0 >/dev/null
	[ "$(states) $(mirror) $(slice 0)" = "oooooooo AAA t-m3" ]
	restarted
	[ "$(states) $(mirror) $(slice 0)" = "oooooooo AAA t-m3" ]
	without 5
}
