# shellcheck shell=bash
# SSDs that take their time, and a pool of them.  Sourced in the virtual machine.
# shellcheck disable=SC2034,SC2154

# shellcheck source=tests/bench/pool.sh
. "$here/pool.sh"

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

# tell_drives WORD...: that message, to all and the metadata's.
tell_drives() {
	local d

	for d in "${members[@]}" "$meta"; do
		dmsetup message "$d" 0 "$@"
	done
}

# start_drives SLOWER [DRIVE [AGE]]: like that one (E), so many times slower; fresh or aged: with
# spikes, else without.
start_drives() {
	local slower=$1 speed

	read -ra speed <<<"${drive[${2:-E}]}"
	if [ -n "${3:-}" ]; then
		tell_drives drive "$2" "$3" "$slower"
	else
		tell_drives time $((speed[0] * slower)) $((speed[1] * slower)) $((speed[2] / slower)) $((speed[3] / slower))
	fi
}

# make_drives SLOWER [DRIVE [AGE]]: the same, and they keep no data.
make_drives() {
	local d

	start_drives "$@"
	for d in "${members[@]}"; do
		dmsetup message "$d" 0 keep_data no
	done
}

# They take no time.
stop_drives() { tell_drives time off; }

# stalls DRIVE...: how many of all, and microseconds of all, as JSON.
stalls() {
	local d
	for d; do
		dmsetup status "$d"
	done | awk '{ n += $14 + $15; us += $17 } END { printf "[%d,%d]\n", n, us }'
}

# Busy, and in all, in hundredths of a second.  What is not idle is busy: who is busy is known by ticks
# alone, of which there are none between one I/O and the next.  By the shell: while a program is read
# from the machine's disk the clock leaps.
cpu_time() {
	local up idle iowait

	read -r up _ </proc/uptime
	read -r _ _ _ _ idle iowait _ </proc/stat
	up=${up/./}
	echo "$((up - idle - iowait)) $up"
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
	blkdiscard "$meta"
	create_pool "$meta" "$spares" "${members[@]}"
}

# start_volume MIB [DATA [ID]]: bench-vID, of stripes DATA+1 (5); without an ID it is 0, and bench-v.
start_volume() {
	local id=${3:-0} name=v${3:-}

	dmsetup message bench-pool 0 create_volume "$id" "$name" $(($1 << 11)) "${2:-5}" 1
	dmsetup create "bench-$name" --table "0 $(($1 << 11)) fusion /dev/mapper/bench-pool $id"
}

stop_pool() {
	dmsetup remove --retry bench-v
	dmsetup remove --retry bench-pool
}
