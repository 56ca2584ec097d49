#!/usr/bin/env bats
# Members that other machines have, over NVMe/TCP, with the kernel's own target and host; see docs/fabrics.rst.
#
# Members 1 and 6 are on a machine that is a network namespace, and can go away; the others are on one that
# cannot.

# shellcheck disable=SC2119

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/beside.bash
source "$BATS_TEST_DIRNAME/beside.bash"

far="1 6"
nvmet=/sys/kernel/config/nvmet
host_id=6f1c2b9e-3c55-4a5e-9d5f-2f6b8d1f0a01

setup_file() {
	[ $slow -eq 1 ] || skip "the debug kernel has no network"
	modprobe -a nvmet nvmet-tcp nvme-tcp veth brd
	ip netns add far
	ip link add near type veth peer name far netns far
	ip address add 10.9.0.1/24 dev near
	ip link set near up
	ip -n far address add 10.9.0.2/24 dev far
	ip -n far link set far up
	export disks=/dev/shm/disks
	mkdir -p $disks
	for i in {0..7}; do
		truncate -s 128M "$disks/$i"
		if is_far "$i"; then on_far offer "$i" 10.9.0.2; else offer "$i" 127.0.0.1; fi
	done
}
teardown_file() {
	local i
	for i in {0..7}; do
		withdraw "$i"
		rmdir "$nvmet/ports/$i"
		echo 0 >"$nvmet/subsystems/disk$i/namespaces/1/enable"
		rmdir "$nvmet/subsystems/disk$i/namespaces/1" "$nvmet/subsystems/disk$i"
	done
	ip link delete near
	ip netns delete far
	rm -r "$disks"
}

test_setup() {
	load=
	for i in {0..7}; do
		: >"$disks/$i"
		truncate -s 128M "$disks/$i"
	done
}
test_teardown() {
	[ -z "$load" ] || kill $load 2>/dev/null || :
	line_up
	for i in $far; do
		offered "$i" || on_far again "$i"
	done
	[ ! -e /dev/mapper/t-pool ] || fusion pool stop t-pool >/dev/null
	disconnect
}

# --- the other machines ------------------------------------------------------

is_far() { [[ " $far " == *" $1 "* ]]; }
# What is to be reached there by its network is done in it.
on_far() {
	export -f offer again
	nvmet=$nvmet ip netns exec far bash -c 'mount -t configfs none /sys/kernel/config && "$@"' - "$@"
}
# offer N ADDRESS: that disk, as a subsystem of its name, on a port of its own.  It is a file: what is a
# device here would be a member, too.
offer() {
	local subsystem=$nvmet/subsystems/disk$1 port=$nvmet/ports/$1
	mkdir "$subsystem" "$subsystem/namespaces/1" "$port"
	echo 1 >"$subsystem/attr_allow_any_host"
	echo "$disks/$1" >"$subsystem/namespaces/1/device_path"
	echo 1 >"$subsystem/namespaces/1/buffered_io"
	echo 1 >"$subsystem/namespaces/1/enable"
	echo tcp >"$port/addr_trtype"
	echo ipv4 >"$port/addr_adrfam"
	echo "$2" >"$port/addr_traddr"
	echo $((4420 + $1)) >"$port/addr_trsvcid"
	again "$1"
}
again() { ln -s "$nvmet/subsystems/disk$1" "$nvmet/ports/$1/subsystems/"; }
# Its port is closed, and so are its connections.
withdraw() { rm "$nvmet/ports/$1/subsystems/disk$1"; }
offered() { [ -e "$nvmet/ports/$1/subsystems/disk$1" ]; }

# What lies between: what is sent is lost while it is down.
line_down() { ip -n far link set far down; }
line_up() { ip -n far link set far up; }

# --- this one ----------------------------------------------------------------

# connect SECONDS N...: what is under way or comes fails so long after a connection has been lost; -1: never.
connect() {
	local seconds=$1 i address
	shift
	for i; do
		address=127.0.0.1
		! is_far "$i" || address=10.9.0.2
		echo "transport=tcp,traddr=$address,trsvcid=$((4420 + i)),nqn=disk$i,hostid=$host_id,\
hostnqn=nqn.2014-08.org.nvmexpress:uuid:$host_id,reconnect_delay=1" >/dev/nvme-fabrics
		echo "$seconds" | tee "$(subsystem "$i")"/nvme*/fast_io_fail_tmo >/dev/null
	done
}
disconnect() {
	local controller
	for controller in /sys/class/nvme/*/delete_controller; do
		[ ! -e "$controller" ] || echo 1 >"$controller"
	done
}
# subsystem N: where the kernel has it.
subsystem() {
	local at
	for at in /sys/class/nvme-subsystem/*; do
		[ "$(<"$at/subsysnqn")" != "disk$1" ] || echo "$at"
	done
}
# node N: its device.
node() {
	local at
	at=$(echo "$(subsystem "$1")"/nvme*n1)
	echo "/dev/${at##*/}"
}
# live N...: they are connected.
live() {
	local i
	for i; do
		[ "$(cat "$(subsystem "$i")"/nvme*/state)" = live ] || return
	done
}
lost() { ! live "$@"; }

# remote_pool SECONDS [OPTION...]: of all of them, with volumes that two members may be missing of: v0 is for the
# load, what is in the other does not change.
remote_pool() {
	local i devices=()
	connect "$1" {0..7}
	shift
	for i in {0..7}; do
		devices+=("$(node "$i")")
	done
	fusion pool create t-pool "$@" "${devices[@]}" >/dev/null
	message set paused 1
	fusion volume create t-pool v0 --size 24M --raid raid6 --data 3 >/dev/null
	fusion volume create t-pool still --size 96M --raid raid6 --data 3 >/dev/null
	random $((96 << 8)) | dd of=$still bs=1M iflag=fullblock oflag=direct status=none
	sum=$(sum_still)
}
vol=/dev/mapper/t-pool-v0 still=/dev/mapper/t-pool-still
# 96 MiB, three blocks of 64 KiB in each
still_stripes=512
sum_still() { dd if=$still bs=1M iflag=direct status=none | md5sum; }

all_there() {
	all_written $vol
	[ "$(sum_still)" = "$sum" ]
}
# It goes on.
requests() { echo $(($(counter reads) + $(counter in_place) + $(counter new_top))); }
more_requests() { [ "$(requests)" -gt $((before + 50)) ]; }
goes_on() {
	before=$(requests)
	wait_for 20 more_requests
}

@test "a pool is made, used, and started again from where its members are then" {
	remote_pool -1
	# while it runs, nobody takes its devices away from it
	run ! fusion pool create t-other --force "$(node 1)" "$(node 2)" "$(node 3)" "$(node 4)"
	fusion pool stop t-pool
	disconnect
	connect -1 6 3 1 0 7 2 5 4
	fusion pool start t-pool
	[ "$(states)" = oooooooo ]
	[ "$(sum_still)" = "$sum" ]
}

@test "a line that is cut for a moment costs no member" {
	remote_pool 60
	load_begins $vol
	line_down
	wait_for 60 lost 1
	wait_for 60 lost 6
	line_up
	wait_for 60 live 1 6
	goes_on
	load_ends
	all_there
	[ "$(states)" = oooooooo ]
	[ "$(counter degraded)" -eq 0 ]
	message convert
	parity_fits
}

# What was written meanwhile, and not all there is, is written to those that are back.
come_back() {
	local stripes
	wait_for 60 live 1 6
	[ "$(counter degraded)" -ne 0 ]
	stripes=$(counter rebuilt)
	# beside the load, and the first one while the other is out
	fusion device readd t-pool 1
	[ "$(states)" = oooooofo ]
	fusion device readd t-pool 6
	[ "$(states)" = oooooooo ]
	load_ends
	all_there
	[ "$(counter degraded)" -eq 0 ]
	stripes=$(($(counter rebuilt) - stripes))
	echo "$stripes stripes were written again"
	[ $stripes -gt 0 ]
	[ $stripes -lt "$still_stripes" ]
	message convert
	parity_fits
	fusion pool stop t-pool
	fusion pool start t-pool
	[ "$(states)" = oooooooo ]
	all_there
}

@test "a machine goes away under load, its members fail when the kernel gives up, and are back" {
	remote_pool 1
	load_begins $vol
	line_down
	wait_for 30 states_are ofoooofo
	goes_on
	line_up
	come_back
	[ "$(fusion pool status t-pool --json | jq -r .metadata.mirror)" = AAA ]
}

@test "it is not waited for if the kernel does not give up" {
	remote_pool -1 --metadata /dev/ram0
	message set hang_ms 2000
	load_begins $vol
	for i in $far; do
		withdraw "$i"
	done
	wait_for 30 states_are ofoooofo
	goes_on
	for i in $far; do
		on_far again "$i"
	done
	come_back
}
