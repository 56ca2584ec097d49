# shellcheck shell=bash
# md RAID to compare with.  Sourced in the virtual machine.

# start_md MIB LEVEL LAYOUT DEVICE...: that much of each, as /dev/md_bench, without
# superblocks and a bitmap.
start_md() {
	local mib=$1 level=$2 layout=$3 md=/sys/block/md_bench/md slot=0 d

	shift 3
	modprobe "$level"
	echo md_bench >/sys/module/md_mod/parameters/new_array
	echo none >$md/metadata_version
	echo "$level" >$md/level
	echo $# >$md/raid_disks
	echo 65536 >$md/chunk_size
	echo "$layout" >$md/layout
	echo $((mib * 1024)) >$md/component_size
	for d; do
		d=$(readlink -f "$d")
		d=${d##*/}
		cat "/sys/block/$d/dev" >$md/new_dev
		echo $slot >"$md/dev-$d/slot"
		slot=$((slot + 1))
	done
	echo none >$md/resync_start
	echo active >$md/array_state
	if [ -e $md/stripe_cache_size ]; then
		echo 1024 >$md/stripe_cache_size
		echo 0 >$md/group_thread_cnt
	fi
	[ ! -d /run/udev ] || udevadm settle
	if [ "$(<$md/degraded)" != 0 ] || [ "$(<$md/sync_action)" != idle ]; then
		echo "md: degraded, or being synchronised" >&2
		return 1
	fi
}

stop_md() {
	[ ! -d /run/udev ] || udevadm settle
	echo clear >/sys/block/md_bench/md/array_state
}
