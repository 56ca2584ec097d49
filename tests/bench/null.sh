# shellcheck shell=bash
# Devices that take no time and keep no data, and a pool of the first seven.  Sourced in the virtual machine,
# after rows.sh.
# shellcheck disable=SC2154

# shellcheck source=tests/bench/pool.sh
. "$here/pool.sh"

members=(/dev/nullb{0..6})

# make_members N QUEUES: so many of them, with so many queues each.
make_members() {
	local i d

	modprobe null_blk nr_devices=0
	for ((i = 0; i < $1; i++)); do
		d=/sys/kernel/config/nullb/nullb$i
		mkdir "$d"
		echo "$member_mb" >"$d/size"
		echo 4096 >"$d/blocksize"
		echo 2 >"$d/queue_mode"
		echo "$2" >"$d/submit_queues"
		echo 0 >"$d/irqmode"
		echo 0 >"$d/completion_nsec"
		echo 0 >"$d/memory_backed"
		echo 1 >"$d/power"
		echo none >"/sys/block/nullb$i/queue/scheduler"
	done
}

# fill DEVICE FIO'S-OPTION...
fill() {
	fio --name=fill --filename="$1" --direct=1 --ioengine=libaio --rw=write --thread \
		--scramble_buffers=0 --end_fsync=1 --output=/dev/null "${@:2}"
}

# start_pool: with nothing in it, on fresh metadata.
start_pool() {
	modprobe brd rd_nr=1 rd_size=$((2 << 20))
	create_pool /dev/ram0 0 "${members[@]}"
}

# stop_pool VOLUME...
stop_pool() {
	local v

	for v; do
		dmsetup remove --retry "bench-$v"
	done
	dmsetup remove --retry bench-pool
	modprobe -r brd
}

# start_volume ID NAME MIB
start_volume() {
	local sectors=$(($3 * 2048))

	dmsetup message bench-pool 0 create_volume "$1" "$2" $sectors 5 1
	dmsetup create "bench-$2" --table "0 $sectors fusion /dev/mapper/bench-pool $1"
}
