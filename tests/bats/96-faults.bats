#!/usr/bin/env bats
# Memory that is not to be had: what wants it ends with an error or goes on without.
# Nothing hangs, nothing is lost, nothing leaks.  For a kernel that injects faults (the
# debug kernel); others have none.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"

debug=/sys/kernel/debug
nth=${NTH:-$repo/build/fuzz/nth}
seed=${FUSION_SEED:-1}

test_setup() {
	[ -d $debug/failslab ] || skip "this kernel injects no faults"
	# its reads would meet the faults
	end_udev
	only_ours 16
	total=0
}
test_teardown() {
	[ ! -d $debug/failslab ] || enough_memory
}

# attributes KIND [FILE VALUE]...: of one kind of faults.
attributes() {
	local dir=$debug/$1
	shift
	while [ $# -gt 0 ]; do
		echo "$2" >"$dir/$1"
		shift 2
	done
}
# range MODULE: of its code, from and to.
range() {
	awk -v "module=[$1]" '$4 == module && $2 ~ /[tT]/ { print "0x" $1 }' /proc/kallsyms | sort | sed -n '1p;$p'
}
# only_ours DEPTH: allocations that dm-fusion asks for, itself or by what it calls: its
# code is among the last DEPTH calls on the stack.  Not those of the SSDs, which would fail.
only_ours() {
	local ours ssds kind
	mapfile -t ours < <(range dm_fusion)
	mapfile -t ssds < <(range dm_ssdsim)
	for kind in failslab fail_page_alloc; do
		attributes $kind require-start "${ours[0]}" require-end "$(printf 0x%x $((ours[1] + 4096)))" \
			reject-start "${ssds[0]}" reject-end "$(printf 0x%x $((ssds[1] + 4096)))" stacktrace-depth "$1" \
			task-filter N times -1 space 0 interval 1 probability 0 verbose 0 ignore-gfp-wait N
	done
	attributes fail_page_alloc min-order 0
}
# little_memory N: of all allocations in the machine each N-th fails, if it is ours.
little_memory() {
	attributes failslab interval "$1" probability 100
	attributes fail_page_alloc interval "$1" probability 100
}
enough_memory() {
	attributes failslab interval 1 probability 0
	attributes fail_page_alloc interval 1 probability 0
}

# each NAME CALL...: every allocation of it fails once, but of what the kernel does for
# all targets.  A pool that became read-only by that is started anew; then what was to be
# done may have been, or not: it is taken back.
each() {
	local from=1
	while :; do
		run "$nth" "$from" "$@"
		echo "$* from $from: $output"
		[ "$status" -eq 3 ] || break
		[ "$(mode)" = ro ]
		from=${output##*$'\n'}
		restart
		wait_for 20 none_deleting
		[ -z "${4:-}" ] || [ "$2" != message ] || message "$4" || :
	done
	[ "$status" -eq 0 ]
	[[ $output =~ ([0-9]+)\ allocations\ failed ]]
	total=$((total + BASH_REMATCH[1]))
}
none_deleting() { [[ "$(message volumes)" != *deleting* ]]; }
# As each(), and there are some.
all_of() {
	each "$@"
	[[ $output != "0 allocations failed"* ]]
}

table_of_pool() { read -r -a line <<<"$(pool_table)"; }
in_table() { all_of "$1" "$2" "${line[0]}" "${line[1]}" "${line[2]}" "${line[*]:3}"; }
# Of what is far away there is much, and it is not ours: devices, workqueues.
loaded() {
	only_ours 8
	in_table "$1" load
	only_ours 16
}

# Stripes of parity, replicas and patches; of one parity and of two.
volumes() {
	volume 0 8
	volume 1 4 4 2
	random_to 0 0 1536 768k
	random_to 1 0 512 512k
	message convert
	random_to 0 0 64 4k
	random_to 1 16 16 4k
	random_to 0 1600 64 32k
	flush
	sums=$(sum 0; sum 1)
}
restart() {
	stop_pool
	start_pool
	[ "$(mode)" = rw ]
	volume_device 0 $((8 << 11))
	volume_device 1 $((4 << 11))
}
is_unharmed() {
	echo "# $BATS_TEST_DESCRIPTION: $total" >&3
	[ "$total" -gt 0 ]
	[ "$(sum 0; sum 1)" = "$sums" ]
	parity_fits
	restart
	[ "$(sum 0; sum 1)" = "$sums" ]
	stop_pool
	fusion check /dev/mapper/t-meta
}

@test "each allocation of a new pool, and of the start of one, fails once" {
	make_members
	table_of_pool
	dm create "$pool" --notable
	loaded "$pool"
	dm remove --retry "$pool"
	# what was formatted in vain does not count
	blkdiscard /dev/mapper/t-meta
	start_pool
	volumes
	stop_pool
	in_table "$pool" start
	dm create "$pool" --notable
	loaded "$pool"
	dm remove --retry "$pool"
	start_pool
	volume_device 0 $((8 << 11))
	volume_device 1 $((4 << 11))
	is_unharmed
}

@test "each allocation of a table with which a pool would grow fails once" {
	members=7 spares=0
	make_pool
	volumes
	dm create t-m7 --table "0 $((data_offset + member_sectors)) linear /dev/mapper/ssd7 0"
	members=8
	table_of_pool
	members=7
	loaded "$pool"
	# in vain: nobody has resumed it
	[ "$(counter grows_from)" -eq 0 ]
	is_unharmed
}

@test "each allocation of what makes, binds, grows and deletes volumes fails once" {
	make_pool
	volumes
	all_of "$pool" message "create_volume 5 five 2048 5 1" "delete_volume 5"
	message create_volume 6 six 2048 3 2
	dm create t-v6 --notable
	line=(0 2048 fusion "/dev/mapper/$pool 6")
	loaded t-v6
	dm remove --retry t-v6
	each "$pool" message "resize_volume 6 4096"
	volume_device 6 4096
	random_to 6 0 512 4k
	dm remove --retry t-v6
	each "$pool" message "delete_volume 6" "create_volume 6 six 2048 3 2"
	is_unharmed
}

@test "each allocation of what messages do themselves fails once" {
	make_pool
	volumes
	for text in volumes settings "set age_s 200" resync convert scrub scrub_restart repair rebuild; do
		each "$pool" message "$text"
	done
	is_unharmed
}

@test "each allocation of a member's failure, rebuild and return fails once" {
	make_pool
	volumes
	message fail 2
	# what is there then does not count, and is marked in several attempts: that is known after
	# a start
	random $((member_sectors >> 3)) | dd of=/dev/mapper/t-m2 bs=1M iflag=fullblock oflag=direct status=none
	before=$total
	all_of "$pool" message "replace 2" "fail 2"
	# of some fifty stripes one more in each attempt than in the one before
	[ $((total - before)) -gt 4 ]
	message replace 2
	restart
	[ "$(states)" = oorooooo ]
	[ "$(sum 0; sum 1)" = "$sums" ]
	message rebuild
	[ "$(states)" = oooooooo ]
	each "$pool" message "fail 2" "replace 2"
	message fail 2
	[ "$(states)" = oofooooo ]
	[ "$(sum 0; sum 1)" = "$sums" ]
	each "$pool" message rebuild
	[ "$(sum 0; sum 1)" = "$sums" ]
	each "$pool" message "replace 2" "fail 2"
	message replace 2
	each "$pool" message rebuild
	[ "$(states)" = oooooooo ]
	is_unharmed
}

# Small and large, in place, new and patched; of what is read there is nothing in memory.
@test "each allocation of reads and writes fails once, as they are submitted" {
	make_pool
	volumes
	for io in "read 0 1" "read 0 256" "read 1600 16" "write 0 1" "write 100 1" "write 256 16" "write 512 256" \
		"write 1603 2" "write 1700 64"; do
		# shellcheck disable=SC2086
		each t-v0 $io
		flush
	done
	sums=$(sum 0; sum 1)
	is_unharmed
}

devs=(/dev/mapper/t-v0 /dev/mapper/t-v1)
# For so many operations, or until I/O fails.
workload() {
	"$oracle" run --state "$BATS_TEST_TMPDIR/state" --seed $((seed * 1000 + $1)) --threads 3 \
		--ops 300 --final-flush "${devs[@]}"
}
verify() { "$oracle" verify --state "$BATS_TEST_TMPDIR/state" "${devs[@]}"; }

# In workers, too, and those of the trees.
@test "allocations fail at random while a pool works" {
	background=auto
	only_ours 32
	make_pool
	volume 0 8
	volume 1 4 4 2
	for n in 3001 503 101 23; do
		little_memory $n
		workload $n
		for text in convert scrub "fail 5" rebuild "replace 5" rebuild repair; do
			message "$text" || :
		done
		enough_memory
		echo "1 of $n: $(mode) $(states)"
		[ "$(mode)" = rw ] || restart
		verify
		# what was begun can be ended
		[[ "$(states)" != ooooofoo ]] || message replace 5
		message rebuild
		[ "$(states)" = oooooooo ]
		message convert
		parity_fits
		verify
	done
	restart
	verify
	stop_pool
	fusion check /dev/mapper/t-meta
}
