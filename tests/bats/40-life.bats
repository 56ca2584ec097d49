#!/usr/bin/env bats
# Stop and start, suspend and resume, reload, removal: with I/O under way.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"

# Devices come and go beside udev, which opens them, too.
setup_file() { with_udev; }
teardown_file() { end_udev; }

test_teardown() { exec 7>&-; }

fill_data() { head -c "$1" /dev/urandom >"$BATS_TEST_TMPDIR/data"; }
write_data() { dd if="$BATS_TEST_TMPDIR/data" of="/dev/mapper/${1:-t-v0}" bs=1M oflag=direct conv=fsync status=none; }
same_data() { cmp "$BATS_TEST_TMPDIR/data" <(dd if="/dev/mapper/${1:-t-v0}" bs=1M iflag=direct status=none); }

# An oracle works on t-v0 (and more) until it is stopped.
start_oracle() {
	rm -f "$BATS_TEST_TMPDIR/ready"
	"$oracle" run --state "$BATS_TEST_TMPDIR/state" --seed "${seed:-1}" --ready "$BATS_TEST_TMPDIR/ready" "$@" \
		>"$BATS_TEST_TMPDIR/oracle" 2>&1 3>&- &
	oracle_pid=$!
	wait_for 30 test -e "$BATS_TEST_TMPDIR/ready"
}
stop_oracle() {
	kill -TERM $oracle_pid
	wait $oracle_pid || { cat "$BATS_TEST_TMPDIR/oracle"; return 1; }
	cat "$BATS_TEST_TMPDIR/oracle"
	grep -q 'ended by: signal' "$BATS_TEST_TMPDIR/oracle"
}

writes() { echo $(($(counter large) + $(counter in_place) + $(counter new_top))); }
more_writes() { [ "$(writes)" -gt "$1" ]; }

@test "a pool stops and starts, many times over" {
	make_pool
	volume 0 4
	fill_data $((4 << 20))
	write_data
	for _ in 1 2 3 4 5; do
		stop_pool
		start_pool
		[ "$(field 7)" = synced ]
		volume_device 0 8192
		same_data
		log_lacks "not stopped cleanly"
	done
}

# bats test_tags=smp
@test "suspend and resume of a volume, with I/O under way" {
	make_pool
	volume 0 8
	start_oracle /dev/mapper/t-v0
	for flag in "" --noflush --nolockfs "--noflush --nolockfs" ""; do
		# shellcheck disable=SC2086
		dm suspend $flag t-v0
		stopped=$(writes)
		dmsetup status "$pool" >/dev/null
		[ "$(writes)" -eq "$stopped" ]
		dm resume t-v0
		wait_for 20 more_writes "$stopped"
	done
	stop_oracle
	"$oracle" verify --state "$BATS_TEST_TMPDIR/state" /dev/mapper/t-v0
}

# bats test_tags=smp
@test "suspend and resume of the pool, with I/O under way" {
	make_pool
	volume 0 8
	volume 1 8 5
	start_oracle /dev/mapper/t-v0 /dev/mapper/t-v1
	for flag in "" --noflush ""; do
		# shellcheck disable=SC2086
		dm suspend $flag "$pool"
		dm resume "$pool"
		now=$(writes)
		wait_for 20 more_writes "$now"
	done
	stop_oracle
	"$oracle" verify --state "$BATS_TEST_TMPDIR/state" /dev/mapper/t-v0 /dev/mapper/t-v1
}

# bats test_tags=smp
@test "reload of a volume's and of the pool's table, with I/O under way" {
	make_pool
	volume 0 8
	start_oracle /dev/mapper/t-v0
	for _ in 1 2 3; do
		dm reload t-v0 --table "$(dmsetup table t-v0)"
		dm resume t-v0
		now=$(writes)
		wait_for 20 more_writes "$now"
	done
	[ "$(field 6)" = queue_if_no_space ]
	features+=" error_if_no_space"
	dm reload "$pool" --table "$(pool_table)"
	dm resume "$pool"
	[ "$(field 6)" = error_if_no_space ]
	now=$(writes)
	wait_for 20 more_writes "$now"
	dm reload "$pool" --table "$(pool_table)"
	dm clear "$pool"
	# The members may move: their devices are those of the new table.
	dm suspend "$pool"
	dm create t-m0-new --table "$(dmsetup table t-m0)"
	dm reload "$pool" --table "$(pool_table | sed 's,/t-m0 ,/t-m0-new ,')"
	dm resume "$pool"
	now=$(writes)
	wait_for 20 more_writes "$now"
	stop_oracle
	dm remove t-m0
	"$oracle" verify --state "$BATS_TEST_TMPDIR/state" /dev/mapper/t-v0
}

@test "a volume grows" {
	make_pool
	volume 0 4
	fill_data $((4 << 20))
	write_data
	message resize_volume 0 16384
	dm reload t-v0 --table "0 16384 fusion /dev/mapper/$pool 0"
	dm resume t-v0
	[ "$(blockdev --getsz /dev/mapper/t-v0)" -eq 16384 ]
	dd if=/dev/mapper/t-v0 of="$BATS_TEST_TMPDIR/all" bs=1M iflag=direct status=none
	cmp -n 4194304 "$BATS_TEST_TMPDIR/data" "$BATS_TEST_TMPDIR/all"
	cmp -n 4194304 /dev/zero <(tail -c 4194304 "$BATS_TEST_TMPDIR/all")
	fill_data $((8 << 20))
	write_data
	stop_pool
	start_pool
	volume_device 0 16384
	same_data
}

@test "what is in use is not removed, and deferred removal waits" {
	make_pool
	volume 0 4
	fill_data $((4 << 20))
	write_data
	exec 7<>/dev/mapper/t-v0
	run ! dmsetup remove t-v0
	run ! dmsetup remove "$pool"
	run ! message delete_volume 0
	dm remove --deferred t-v0
	dm remove --deferred "$pool"
	dmsetup info t-v0 | grep -q 'DEFERRED REMOVE'
	dmsetup info "$pool" | grep -q 'DEFERRED REMOVE'
	# Its name has gone already.
	cmp "$BATS_TEST_TMPDIR/data" <(dd if=/proc/self/fd/7 bs=1M iflag=direct status=none)
	exec 7>&-
	wait_for 10 no_module_users
	run ! dmsetup info "$pool"
	start_pool
	volume_device 0 8192
	same_data
}

@test "a volume is deleted, and one with its id begins with zeros" {
	make_pool
	volume 0 4
	fill_data $((4 << 20))
	before=$(space free)
	write_data
	write_data
	dd if=/dev/urandom of=/dev/mapper/t-v0 bs=4k seek=7 count=9 oflag=direct status=none
	dm remove t-v0
	message delete_volume 0
	[ -z "$(message volumes)" ]
	# Sets that are open stay so, with slots that were used.
	[ "$(space raid) $(space replicated)" = "0 0" ]
	[ "$(space dead)" -lt 64 ]
	stop_pool
	start_pool
	[ "$(space free) $(space dead)" = "$before 0" ]
	volume 0 4
	cmp -n 4194304 /dev/zero <(dd if=/dev/mapper/t-v0 bs=1M iflag=direct status=none)
}

# --- by the tools, from labels alone -----------------------------------------

tool_pool() {
	features=
	make_members
	fusion pool create t-pool --json /dev/mapper/t-m{0..7} >/dev/null
	fusion volume create t-pool a --size 8M --json >/dev/null
	fusion volume create t-pool b --size 8M --width 4 --json >/dev/null
}

@test "labels: a pool starts from them alone" {
	tool_pool
	fill_data $((8 << 20))
	write_data t-pool-a
	write_data t-pool-b
	fusion pool stop t-pool
	[ -z "$(devices_of fusion)$(devices_of fusion-pool)" ]
	no_module_users
	fusion pool start t-pool
	same_data t-pool-a
	same_data t-pool-b
	[ "$(fusion pool status t-pool --json | jq -r '.state, (.volumes | length)' | xargs)" = "ok 2" ]
	fusion pool stop --all
}

@test "labels: dmsetup makes the same devices of what 'fusion table' prints" {
	tool_pool
	fill_data $((8 << 20))
	write_data t-pool-a
	dmsetup table | grep '^t-pool' | sort >"$BATS_TEST_TMPDIR/before"
	concise=$(fusion table --concise t-pool)
	fusion pool stop t-pool
	dm create --concise "$concise"
	# Minor numbers may differ: compare what the tools print.
	[ "$(fusion table --concise t-pool)" = "$concise" ]
	dmsetup table | grep '^t-pool' | sort | cut -d' ' -f1-4 | diff - <(cut -d' ' -f1-4 "$BATS_TEST_TMPDIR/before")
	same_data t-pool-a
	fusion pool stop t-pool
}

@test "labels: metadata on a device of its own" {
	make_members
	features=
	fusion pool create t-pool --json --metadata /dev/mapper/t-meta /dev/mapper/t-m{0..7} >/dev/null
	fusion volume create t-pool a --size 8M --json >/dev/null
	fill_data $((8 << 20))
	write_data t-pool-a
	[ "$(dmsetup table t-pool_fmeta)" = "0 $meta_sectors fusion-metadata $(stat -L -c %Hr:%Lr /dev/mapper/t-meta) 0" ]
	fusion pool status t-pool --json | jq -e '.metadata.device == "/dev/mapper/t-meta" and .metadata.mirror == null'
	concise=$(fusion table --concise t-pool)
	fusion pool stop t-pool
	[[ $(dmsetup ls) != *t-pool* ]]
	fusion check t-pool
	dm create --concise "$concise"
	[ "$(fusion table --concise t-pool)" = "$concise" ]
	same_data t-pool-a
	fusion pool stop t-pool
	[[ $(dmsetup ls) != *t-pool* ]]
	# as of a start that was killed
	dm create --concise "${concise%%;*}"
	[[ $(dmsetup ls) == *t-pool_fmeta* ]]
	fusion pool start t-pool
	same_data t-pool-a
	fusion pool stop t-pool
	# and of one by hand, with nothing before it
	table=${concise#*;*,*,,rw,} && table=${table%%;*}
	dm create t-pool --table "${table/t-pool_fmeta/t-meta}"
	[[ $(dmsetup deps -o devname t-pool) == *t-meta* ]]
	[ "$(fusion pool status t-pool --json | jq -r .metadata.device)" = /dev/mapper/t-meta ]
	fusion pool stop t-pool
	dmsetup info t-meta >/dev/null
}

@test "the kernel's table lines make the same devices, with every feature" {
	members=4 spares=0
	make_members
	for features in unlabelled "error_if_no_space unlabelled" "error_if_no_space unlabelled no_discard_passdown"; do
		start_pool
		table=$(dmsetup table "$pool")
		[[ $table == *" $(wc -w <<<"$features") $features" ]]
		stop_pool
		dm create "$pool" --table "$table"
		[ "$(dmsetup table "$pool")" = "$table" ]
		stop_pool
	done
}
