# shellcheck shell=bash
# SSDs that take their time, and a pool of them.  Sourced in the virtual machine.
# shellcheck disable=SC2034

# Of the last SSD, which has the pool's metadata, data are kept.
members=(/dev/mapper/ssd{0..6})
meta=/dev/mapper/ssd7
member_mib=$(($(blockdev --getsize64 "${members[0]}") >> 20))

# FusionRAID's table 3: microseconds to read and write a page, MB/s read and written.
declare -A drive=([A]="50 60 550 500" [E]="36 37 560 280")

# make_drives TIMES [DRIVE]: like that one (E), so many times slower.
make_drives() {
	local i slower=$1 speed

	read -ra speed <<<"${drive[${2:-E}]}"
	for i in {0..7}; do
		dmsetup message "ssd$i" 0 time $((speed[0] * slower)) $((speed[1] * slower)) \
			$((speed[2] / slower)) $((speed[3] / slower))
	done
	for i in {0..6}; do
		dmsetup message "ssd$i" 0 keep_data no
	done
}

# busy_us DEVICE...: how long they have been busy in sum, in microseconds.
busy_us() {
	local d
	for d; do
		dmsetup status "$d"
	done | awk '{ n += $11 } END { printf "%.0f\n", n }'
}

# start_pool: with nothing in it, on fresh metadata.
start_pool() {
	local table m

	blkdiscard $meta
	table="0 8 fusion-pool $meta 128 mols 0 ${#members[@]}"
	for m in "${members[@]}"; do
		table+=" $m 0"
	done
	dmsetup create bench-pool --table "$table 1 unlabelled"
}

# start_volume MIB: of stripes 5+1.
start_volume() {
	dmsetup message bench-pool 0 create_volume 0 v $(($1 << 11)) 5 1
	dmsetup create bench-v --table "0 $(($1 << 11)) fusion /dev/mapper/bench-pool 0"
}

stop_pool() {
	dmsetup remove --retry bench-v
	dmsetup remove --retry bench-pool
}
