# shellcheck shell=bash
# SSDs that take their time, and a pool of them.  Sourced in the virtual machine.
# shellcheck disable=SC2034

# use_drives N: the pool is on the first N, with so many spares.  Of the one after them, which
# has its metadata, data are kept.
use_drives() {
	local i

	members=() spares=${2:-0} meta=/dev/mapper/ssd$1
	for ((i = 0; i < $1; i++)); do
		members+=("/dev/mapper/ssd$i")
	done
	member_mib=$(($(blockdev --getsize64 "${members[0]}") >> 20))
}
use_drives 7

# FusionRAID's table 3: microseconds to read and write a page, MB/s read and written.
declare -A drive=([A]="50 60 550 500" [E]="36 37 560 280")

# make_drives SLOWER [DRIVE [AGE]]: like that one (E), so many times slower; fresh or aged: with
# spikes, else without.
make_drives() {
	local d slower=$1 speed message

	read -ra speed <<<"${drive[${2:-E}]}"
	message="time $((speed[0] * slower)) $((speed[1] * slower)) $((speed[2] / slower)) $((speed[3] / slower))"
	[ -z "${3:-}" ] || message="drive $2 $3 $slower"
	for d in "${members[@]}" "$meta"; do
		# shellcheck disable=SC2086
		dmsetup message "$d" 0 $message
	done
	for d in "${members[@]}"; do
		dmsetup message "$d" 0 keep_data no
	done
}

# They take no time.
stop_drives() {
	local d

	for d in "${members[@]}" "$meta"; do
		dmsetup message "$d" 0 time off
	done
}

# busy_us DEVICE...: how long they have been busy in sum, in microseconds.
busy_us() {
	local d
	for d; do
		dmsetup status "$d"
	done | awk '{ n += $11 } END { printf "%.0f\n", n }'
}

# in_memory PROGRAM...: they are, with what they need, from now on.  While one is looked for on the
# machine's disk, and nothing else runs, its clock goes from one timer to the next, which may be
# minutes later.
in_memory() {
	local p path

	mkdir -p /run/bench
	for p; do
		path=$(type -P "$p")
		ldd "$path" | grep -o '/[^ ]*' | xargs cp -t /run/bench "$path"
		eval "$p() { LC_ALL=C /run/bench/ld-linux-x86-64.so.2 --library-path /run/bench /run/bench/$p \"\$@\"; }"
	done
}

# start_pool: with nothing in it, on fresh metadata.
start_pool() {
	local table m

	blkdiscard "$meta"
	table="0 8 fusion-pool $meta 128 mols $spares ${#members[@]}"
	for m in "${members[@]}"; do
		table+=" $m 0"
	done
	dmsetup create bench-pool --table "$table 1 unlabelled"
}

# start_volume MIB [DATA]: of stripes DATA+1 (5).
start_volume() {
	dmsetup message bench-pool 0 create_volume 0 v $(($1 << 11)) "${2:-5}" 1
	dmsetup create bench-v --table "0 $(($1 << 11)) fusion /dev/mapper/bench-pool 0"
}

stop_pool() {
	dmsetup remove --retry bench-v
	dmsetup remove --retry bench-pool
}
