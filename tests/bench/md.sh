# shellcheck shell=bash
# md RAID to compare with.  Sourced in the virtual machine.

# start_md MIB LEVEL LAYOUT DEVICE...: that much of each, as /dev/md_bench, or /dev/md_$array if that
# is set, without superblocks and a bitmap.  LEVEL raid5-ppl: with a partial parity log of 1 MiB
# behind it.
start_md() {
	local mib=$1 level=$2 layout=$3 name=md_${array:-bench} md slot=0 metadata=none d

	md=/sys/block/$name/md
	shift 3
	if [ "$level" = raid5-ppl ]; then
		level=raid5 metadata=external:bench
	fi
	modprobe "$level"
	echo "$name" >/sys/module/md_mod/parameters/new_array
	echo $metadata >"$md"/metadata_version
	echo "$level" >"$md"/level
	echo $# >"$md"/raid_disks
	echo 65536 >"$md"/chunk_size
	echo "$layout" >"$md"/layout
	echo $((mib * 1024)) >"$md"/component_size
	for d; do
		d=$(readlink -f "$d")
		d=${d##*/}
		cat "/sys/block/$d/dev" >"$md"/new_dev
		# these go by each device's own size
		if [ $metadata != none ] || [ "$level" = raid0 ]; then
			echo $((mib * 1024)) >"$md/dev-$d/size"
		fi
		if [ $metadata != none ]; then
			echo $((mib << 11)) >"$md/dev-$d/ppl_sector"
			echo 2048 >"$md/dev-$d/ppl_size"
		fi
		echo $slot >"$md/dev-$d/slot"
		slot=$((slot + 1))
	done
	if [ $metadata != none ]; then
		echo ppl >"$md"/consistency_policy
		# nobody is there to mark it clean and dirty
		echo 0 >"$md"/safe_mode_delay
	fi
	echo none >"$md"/resync_start
	echo active >"$md"/array_state
	[ $metadata = none ] || start_writes "$md" "$name"
	if [ -e "$md"/stripe_cache_size ]; then
		echo 1024 >"$md"/stripe_cache_size
		echo 0 >"$md"/group_thread_cnt
	fi
	[ ! -d /run/udev ] || udevadm settle
	if [ -e "$md/degraded" ] && { [ "$(<"$md/degraded")" != 0 ] || [ "$(<"$md/sync_action")" != idle ]; }; then
		echo "md: degraded, or being synchronised" >&2
		return 1
	fi
}

# The first write waits for somebody to say that the metadata are marked; none comes again.
start_writes() {
	local md=$1 pid

	dd if=/dev/zero of="/dev/$2" bs=4k count=1 oflag=direct status=none &
	pid=$!
	until [ "$(<"$md"/array_state)" = write-pending ]; do
		sleep 0.1
	done
	echo active >"$md"/array_state
	wait $pid
}

stop_md() {
	[ ! -d /run/udev ] || udevadm settle
	echo clear >"/sys/block/md_${array:-bench}/md/array_state"
}
