#!/usr/bin/env bats
# What udev's rules make of members and volumes, and the starts that they want.

# shellcheck disable=SC2119

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/labels.bash
source "$BATS_TEST_DIRNAME/labels.bash"

setup_file() { with_rules; }
teardown_file() { without_rules; }

# A test may end with the pool running, or with what it made instead of a member.
test_teardown() {
	[ ! -e /dev/mapper/t-pool ] || fusion pool stop t-pool >/dev/null
	rm -rf /run/fusion
}

# state MEMBER: of its pool, as an event finds it.
state() {
	seen "t-m$1"
	property "t-m$1" FUSION_STATE
}
wants() { property "t-m$1" SYSTEMD_WANTS; }
uuid() { fusion scan --json /dev/mapper/t-m3 | jq -r '.members[].pool_uuid'; }

@test "members are marked, so that other tools leave them alone" {
	labelled_pool
	seen t-m3
	[ "$(property t-m3 ID_FS_TYPE)" = fusion_member ]
	[ "$(property t-m3 ID_FS_USAGE)" = raid ]
	[ "$(property t-m3 ID_FS_LABEL)" = t-pool ]
	[ "$(property t-m3 ID_FS_UUID)" = "$(uuid)" ]
	[ "$(property t-m3 FUSION_MEMBER)" = 3 ]
	[ "$(property t-m3 FUSION_STATE)" = running ]
	[ -z "$(wants 3)" ]
	[ "$(lsblk -dno FSTYPE /dev/mapper/t-m3)" = fusion_member ]
	# nor is anything else a member, or a member anything else
	dm create t-else --table "0 65536 linear /dev/mapper/ssd0 300000"
	mkfs.ext4 -q /dev/mapper/t-else
	seen t-else
	[ "$(property t-else ID_FS_TYPE)" = ext4 ]
	[ -z "$(property t-else FUSION_STATE)" ]
	run ! fusion scan --udev /dev/mapper/t-no
	run fusion scan --udev /dev/mapper/t-else
	[ "$status" -eq 0 ]
	[ -z "$output" ]
}

@test "volumes have links, whatever their names" {
	labelled_pool
	for name in data a-b; do
		fusion volume create t-pool $name --size 4M >/dev/null
		[ "$(readlink -f /dev/fusion/t-pool/$name)" = "$(readlink -f "/dev/mapper/t-pool-$name")" ]
	done
	fusion volume remove t-pool data --yes >/dev/null
	udevadm settle
	[ ! -e /dev/fusion/t-pool/data ]
	fusion pool stop t-pool
	udevadm settle
	[ ! -e /dev/fusion/t-pool ]
	fusion pool start t-pool
	[ -b /dev/fusion/t-pool/a-b ]
}

@test "a pool is started when the last of its members is there" {
	labelled_pool
	uuid=$(uuid)
	crash
	away 5
	[ "$(state 3)" = incomplete ]
	[ "$(wants 3)" = "fusion-last-resort@$uuid.timer" ]
	run fusion pool start --automatic complete "$uuid"
	[ "$status" -eq 0 ]
	[[ $output == *"is not started: it waits for its member 5"* ]]
	[ ! -e /dev/mapper/t-pool ]
	back 5
	[ "$(state 5)" = complete ]
	[ "$(wants 5)" = "fusion-start@$uuid.service" ]
	# which is decided before udev has made its name
	device=/dev/$(hand name t-m5)
	rm /dev/mapper/t-m5
	fusion scan --udev "$device" | grep -x FUSION_STATE=complete
	dmsetup mknodes t-m5
	fusion pool start --automatic complete "$uuid"
	[ "$(mode)" = rw ]
	[ "$(state 5)" = running ]
	# the same again, as for each of several that find it complete
	run fusion pool start --automatic complete "$uuid"
	[ "$status" -eq 0 ]
	[[ $output == *"is not started: it is running"* ]]
}

@test "without one that does not come it is started, too, and complete from then on" {
	labelled_pool
	uuid=$(uuid)
	crash
	away 5
	fusion pool start --automatic degraded "$uuid"
	message set paused 1
	[ "$(mode)" = rw ]
	# one that comes now has missed something
	back 5
	[ "$(state 5)" = running ]
	[ "$(fusion scan --json | jq -r ".members[] | select(.index == 5).state")" = old ]
	crash
	away 5
	[ "$(state 3)" = complete ]
	back 5
	[ "$(state 5)" = complete ]
	fusion pool start --automatic complete "$uuid"
	[[ "$(fusion pool status t-pool --json | jq -r '.members[5].state')" == missing ]]
}

@test "one that was stopped is not started again, until it is" {
	labelled_pool
	uuid=$(uuid)
	fusion pool stop t-pool
	[ "$(state 3)" = stopped ]
	[ -z "$(wants 3)" ]
	for when in complete degraded; do
		run fusion pool start --automatic $when "$uuid"
		[ "$status" -eq 0 ]
		[[ $output == *"is not started: it was stopped"* ]]
	done
	[ ! -e /dev/mapper/t-pool ]
	fusion pool start t-pool
	crash
	[ "$(state 3)" = complete ]
}

@test "what does not fit together is not started" {
	labelled_pool
	uuid=$(uuid)
	crash
	# a copy of a member, beside it
	dm create t-copy --table "0 $member_sectors linear /dev/mapper/ssd4 150000"
	dd if=/dev/mapper/t-m3 of=/dev/mapper/t-copy bs=1M oflag=direct status=none
	[ "$(state 4)" = incomplete ]
	run ! fusion pool start --automatic degraded "$uuid"
	[[ $output == *"all claim to be member 3"* ]]
	dm remove t-copy
	[ "$(state 4)" = complete ]
	# no more than half of it
	away 0 1 2 3
	[ "$(state 4)" = incomplete ]
	run ! fusion pool start --automatic degraded "$uuid"
	[[ $output == *"of the 8 members of pool t-pool only 4 are there"* ]]
}

@test "a pool with metadata of its own waits for that, too" {
	own_metadata
	uuid=$(uuid)
	crash
	dm remove t-meta
	[ "$(state 3)" = incomplete ]
	dm create t-meta --table "0 $meta_sectors $(meta_target)"
	[ "$(state 3)" = complete ]
}
