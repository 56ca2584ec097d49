# shellcheck shell=bash
# Makes the systems (systems.sh) that are beside each other, on 28 or 29 drives.  Sourced in the
# virtual machine, after md.sh and drives.sh.
#
# start_NAME makes $devices, $count of them of $mib MiB each, on the first of $members, whose drives
# should take no time meanwhile; stop_NAME removes all of it.
# shellcheck disable=SC2154

data=6 array_drives=7

# cut_up DEVICE: into as many.
cut_up() {
	local i

	devices=()
	for ((i = 0; i < count; i++)); do
		dmsetup create "bench-$i" --table "0 $((mib << 11)) linear $1 $((i * mib << 11))"
		devices+=("/dev/mapper/bench-$i")
	done
}
uncut() {
	local i

	for ((i = 0; i < count; i++)); do
		dmsetup remove --retry "bench-$i"
	done
}

# Each as large as one device.
start_raid5s() {
	local i

	devices=()
	for ((i = 0; i < 4; i++)); do
		array=bench$i start_md "$1" raid5 2 "${members[@]:i * array_drives:array_drives}"
		devices+=("/dev/md_bench$i")
	done
}
stop_raid5s() {
	local i

	for ((i = 0; i < 4; i++)); do
		array=bench$i stop_md
	done
}

start_raid5() {
	start_raid5s $(((mib + data - 1) / data))
	devices=("${devices[@]:0:count}")
}
stop_raid5() { stop_raid5s; }

# /dev/md_bench, a quarter of all on each of them.
stripe_raid5s() {
	local quarter=$(((mib * count + 3) / 4))

	start_raid5s $(((quarter + data - 1) / data + 1))
	start_md $quarter raid0 0 "${devices[@]}"
}
unstripe_raid5s() {
	stop_md
	stop_raid5s
}

start_raid50() {
	stripe_raid5s
	cut_up /dev/md_bench
}
stop_raid50() {
	uncut
	unstripe_raid5s
}

start_raid10() {
	start_md $((mib * count / 14 + 1)) raid10 $((0x102)) "${members[@]:0:28}"
	cut_up /dev/md_bench
}
stop_raid10() {
	uncut
	stop_md
}

# write_all DEVICE: $mib of it, as large as stripes are.
write_all() {
	dd if=/dev/zero of="$1" bs=$((data * 64))k count=$((mib << 20)) iflag=count_bytes oflag=direct status=none
}

# One pool of it on that, full; its metadata are where dm-fusion has those of its pool.
start_thin() {
	local i table

	stripe_raid5s
	dd if=/dev/zero of="$meta" bs=4k count=1 oflag=direct status=none
	table="0 $((mib * count << 11)) thin-pool $meta /dev/md_bench 128 0 1 skip_block_zeroing"
	dmsetup create bench-thin --table "$table"
	devices=()
	for ((i = 0; i < count; i++)); do
		dmsetup message bench-thin 0 "create_thin $i"
		dmsetup create "bench-$i" --table "0 $((mib << 11)) thin /dev/mapper/bench-thin $i"
		devices+=("/dev/mapper/bench-$i")
		write_all "${devices[i]}"
	done
}
stop_thin() {
	uncut
	dmsetup remove --retry bench-thin
	unstripe_raid5s
}

# What a pool takes from the clock is for drives at full speed; they are $slower times slower.
slow_down_settings() {
	local name value
	local -A most=([window_min_us]=1000000 [window_max_us]=1000000 [idle_ms]=3600000 [age_s]=604800)

	while read -r name value; do
		case $name in
		load_kib) value=$((value / slower)) ;;
		*)
			[ -n "${most[$name]:-}" ] || continue
			value=$((value * slower))
			[ "$value" -le "${most[$name]}" ] || value=${most[$name]}
			;;
		esac
		dmsetup message bench-pool 0 set "$name" "$value"
	done < <(dmsetup message bench-pool 0 settings)
}

# Full of stripes.
start_fusion() {
	local i

	start_pool
	slow_down_settings
	devices=()
	for ((i = 0; i < count; i++)); do
		start_volume "$mib" $data $i
		devices+=("/dev/mapper/bench-v$i")
		write_all "${devices[i]}"
	done
	[ ! -d /run/udev ] || udevadm settle
}
stop_fusion() {
	local i

	for ((i = 0; i < count; i++)); do
		dmsetup remove --retry "bench-v$i"
	done
	dmsetup remove --retry bench-pool
}
start_fusion-unhedged() {
	start_fusion
	dmsetup message bench-pool 0 set hedge 0
}
stop_fusion-unhedged() { stop_fusion; }
start_fusion-blind() {
	start_fusion
	dmsetup message bench-pool 0 set monitor 0
}
stop_fusion-blind() { stop_fusion; }
