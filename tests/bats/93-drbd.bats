#!/usr/bin/env bats
# Volumes that DRBD replicates, with the kernel's own DRBD 8.4; see docs/drbd.rst.
#
# Both ends are on this machine: "near" is on a volume of t-pool, on members 0 to 3, "far" on one of t-far, on
# members 4 to 7.  They speak with each other by the loopback interface.

# shellcheck disable=SC2119

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/beside.bash
source "$BATS_TEST_DIRNAME/beside.bash"

near=/dev/drbd0 far=/dev/drbd1
drbd=/lib/drbd/drbdsetup-84
ends=(near far) pools=(t-pool t-far)

setup_file() {
	[ $slow -eq 1 ] || skip "the debug kernel has no network"
	modprobe drbd minor_count=2 usermode_helper=/bin/true
	ip link set lo up
}
teardown_file() { [ $slow -ne 1 ] || modprobe -r drbd; }

test_setup() {
	local i
	load=
	features=
	member_sectors=$((100 << 11))
	make_members
	fusion pool create t-pool /dev/mapper/t-m{0..3} >/dev/null
	fusion pool create t-far /dev/mapper/t-m{4..7} >/dev/null
	for i in 0 1; do
		fusion volume create "${pools[i]}" v --size 24M >/dev/null
		drbdmeta --force $i v08 "/dev/mapper/${pools[i]}-v" internal create-md >/dev/null
		$drbd new-resource "${ends[i]}"
		$drbd new-minor "${ends[i]}" $i 0
		attach $i
	done
	meet
	$drbd primary 0 --force
	wait_for 60 same
}
test_teardown() {
	local i
	if [ -n "$load" ]; then
		kill $load || :
		wait $load || :
	fi
	for i in 0 1; do
		$drbd down "${ends[i]}" || :
		[ ! -e "/dev/mapper/${pools[i]}" ] || fusion pool stop "${pools[i]}" >/dev/null
	done
}

# attach END: it has its disk, as drbdadm does it.
attach() {
	local disk=/dev/mapper/${pools[$1]}-v
	drbdmeta "$1" v08 "$disk" internal apply-al >/dev/null
	$drbd attach "$1" "$disk" "$disk" internal --on-io-error detach --rs-discard-granularity 65536 \
		--c-plan-ahead 0 --resync-rate 100M
}
address=(ipv4:127.0.0.1:7788 ipv4:127.0.0.1:7789)
meet() {
	$drbd connect near "${address[@]}" --protocol C
	$drbd connect far "${address[1]}" "${address[0]}" --protocol C
}
part() {
	$drbd disconnect "${address[@]}"
	$drbd disconnect "${address[1]}" "${address[0]}"
}
same() { [ "$($drbd dstate 0) $($drbd dstate 1)" = "UpToDate/UpToDate UpToDate/UpToDate" ]; }
diskless() { [[ $($drbd dstate 0) = Diskless/* ]]; }

committed() {
	message commit
	hand message t-far commit
}
# What is mapped of a pool's volume, as of the last commit, in KiB.
mapped() { fusion volume list --json | jq --arg pool "$1" '.[] | select(.pool == $pool).mapped_bytes / 1024'; }
# received, or behind, END: what was sent to it by the other, or that has to be sent to the other, in KiB.
received() { statistic "$1" nr; }
behind() { statistic "$1" oos; }
statistic() { sed -n "/^ $1:/{n;s/.* $2:\([0-9]*\).*/\1/p}" /proc/drbd; }

written() {
	local stat
	read -r -a stat </sys/block/drbd0/stat
	echo "${stat[4]}"
}
more_written() { [ "$(written)" -gt $((before + 50)) ]; }
goes_on() {
	before=$(written)
	wait_for 30 more_written
}
# What was written at one end is at the other.
both_have_it() {
	all_written $near
	$drbd secondary 0
	$drbd primary 1
	all_written $far
}

# Of what it had before it grew.
sum_far() { dd if=$far bs=1M count=23 iflag=direct status=none | md5sum; }

@test "what is written to one volume is on the other, and takes no more there" {
	local sum
	# the first synchronisation has brought what is there, which is DRBD's own
	[ "$(mapped t-far)" -eq "$(mapped t-pool)" ]
	[ "$(mapped t-far)" -le 128 ]
	[ "$(received 1)" -le 128 ]
	load_begins $near
	goes_on
	load_ends
	wait_for 60 same
	committed
	[ "$(mapped t-far)" -eq "$(mapped t-pool)" ]
	[ "$(mapped t-far)" -gt 1024 ]
	both_have_it
	sum=$(sum_far)
	fusion volume resize t-pool v 32M >/dev/null
	fusion volume resize t-far v 32M >/dev/null
	$drbd resize 1
	wait_for 60 same
	[ "$(blockdev --getsize64 $far)" -gt $((31 << 20)) ]
	[ "$(sum_far)" = "$sum" ]
	blkdiscard $far
	committed
	[ "$(mapped t-far)" -eq "$(mapped t-pool)" ]
	[ "$(mapped t-far)" -le 128 ]
}

@test "who was away for a time gets what has changed, and no more" {
	local before changed
	load_begins $near
	goes_on
	part
	goes_on
	load_ends
	before=$(received 1)
	changed=$(behind 0)
	[ "$changed" -gt 0 ]
	meet
	wait_for 60 same
	[ $(($(received 1) - before)) -le "$changed" ]
	both_have_it
}

@test "the load goes on without a pool that has lost its power, and what that lost comes from the other" {
	local i
	load_begins $near
	goes_on
	for i in {0..3}; do hand message "ssd$i" power_cut lose; done
	wait_for 60 diskless
	goes_on
	fusion pool stop t-pool
	for i in {0..3}; do hand message "ssd$i" power_on; done
	fusion pool start t-pool
	attach 0
	wait_for 60 same
	load_ends
	both_have_it
	fusion scrub t-pool
	fusion scrub t-far
}
