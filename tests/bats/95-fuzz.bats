#!/usr/bin/env bats
# Table lines and messages that are nearly right are refused or done, and nothing
# else comes of them.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"

fuzz=${FUZZ:-$repo/build/fuzz/fuzz}
seconds=${FUSION_FUZZ_SECONDS:-10}
# Of fewer none may be taken.
least=300
seed=${FUSION_SEED:-1}

# All that is refused is logged: not on the console, which would take longest.
test_setup() {
	examples=$BATS_TEST_TMPDIR/examples
	echo 3 >/proc/sys/kernel/printk
}
test_teardown() { echo 7 >/proc/sys/kernel/printk; }

# fuzzed KIND NAME OPTION...: of the kernel's log only what was looked at is skipped.
fuzzed() {
	log_update
	run "$fuzz" "$1" --seed "$seed" --seconds "$seconds" --least $least --examples "$examples" "${@:3}" "$2"
	log_skip
	echo "$output"
	[ "$status" -eq 0 ]
	# shellcheck disable=SC2154
	! grep -qE "^log: $trouble" <<<"$output"
	[[ $output != *"log was too fast"* ]]
	rate=$(sed -n 's/.* \([0-9]*\) a second.*/\1/p' <<<"$output")
	taken=$(sed -n 's/.* \([0-9]*\) were taken.*/\1/p' <<<"$output")
	echo "# $BATS_TEST_DESCRIPTION: ${output##*$'\n'}" >&3
	[ "$taken" -gt 2 ]
}

# Devices that no pool uses: t-f0 to t-f7, and t-fmeta.
free_devices() {
	local i table="t-fmeta,,,rw,0 16384 linear /dev/mapper/ssd6 $(($(ssd_sectors) - 16384))"
	for i in {0..7}; do
		# shellcheck disable=SC2017
		table+=";t-f$i,,,rw,0 65536 linear /dev/mapper/ssd$i $((128 << 11))"
	done
	dm create --concise "$table"
}
# free_table METADATA BLOCK SPARES N [FEATURE...]: of a pool of them.
free_table() {
	local i line="0 8 fusion-pool /dev/mapper/$1 $2 mols $3 $4"
	for ((i = 0; i < $4; i++)); do line+=" /dev/mapper/t-f$i 0"; done
	echo "$line $(($# - 4)) ${*:5}"
}

# Written in all ways: to stripes, replicas and patches.
write_some() {
	volume 0 8
	random_to 0 0 1536 768k
	message convert
	random_to 0 0 64 4k
	random_to 0 1600 64 32k
	flush
	before=$(sum 0)
}
is_unharmed() {
	[ "$(mode)" = rw ]
	[ "$(sum 0)" = "$before" ]
	message set paused 1
	message convert
	[ "$(counter scrub_mismatches)" -eq 0 ]
	parity_fits
	stop_pool
	start_pool
	volume_device 0 $((8 << 11))
	[ "$(sum 0)" = "$before" ]
	[ "$(states)" = oooooooo ]
}

@test "table lines" {
	make_pool
	message create_volume 1 v1 8192 5 1
	write_some
	free_devices
	{
		free_table t-fmeta 128 1 8 unlabelled
		free_table t-fmeta 8 0 4 unlabelled error_if_no_space
		free_table t-fmeta 64 2 7 unlabelled no_discard_passdown
		free_table t-fmeta 512 1 5 unlabelled no_discard_passdown error_if_no_space
		free_table t-fmeta 128 1 8
		echo "0 16384 fusion-metadata /dev/mapper/t-fmeta 0"
		echo "0 8 fusion-metadata /dev/mapper/t-f3 65528"
		# what is in use: its devices, in other places, too
		pool_table
		free_table t-meta 128 1 8 unlabelled
		free_table t-m0 128 1 8 unlabelled
		pool_table | sed 's/t-meta/t-fmeta/'
		echo "0 16384 fusion /dev/mapper/t-pool 0"
		echo "0 8192 fusion /dev/mapper/t-pool 1"
		echo "0 8 fusion /dev/mapper/t-v0 0"
	} >"$examples"
	fuzzed tables t-fuzz --resume /dev/mapper/t-f
	is_unharmed
}

some_messages() {
	cat <<-'END'
	create_volume 1 one 8192 3 1
	create_volume 2 two 8192 4 2
	create_volume 3 three 128 2 1
	delete_volume 1
	delete_volume 2
	delete_volume 3
	delete_volume 0
	resize_volume 0 16384
	resize_volume 1 16384
	resize_volume 2 8192
	volumes
	settings
	resync
	convert
	scrub
	scrub_restart
	repair
	rebuild
	fail 8
	set paused 1
	set paused 0
	set age_s 300
	set idle_ms 5000
	set limit_percent 10
	set soft_percent 50
	set load_kib 39062
	set rebuild_kib 20480
	set low_water_percent 5
	set patch_percent 1
	set write_select 0
	set rmw_bias 1
	set hang_ms 60000
	END
}
# What would take for ever by itself, or have members fail that only take their time.
not=(--not "set rate_kib" --not "set rebuild_kib" --not "set hang_ms")

@test "messages to a pool that nobody writes to" {
	make_pool
	write_some
	some_messages >"$examples"
	fuzzed messages t-pool "${not[@]}" --not fail
	is_unharmed
}

# Of eight members, with one parity, one may fail.
@test "messages to a pool that is written to, and that fail members" {
	make_pool
	volume 0 8
	"$oracle" run --state "$BATS_TEST_TMPDIR/state" --seed "$seed" --threads 2 \
		--final-flush /dev/mapper/t-v0 >"$BATS_TEST_TMPDIR/run" 2>&1 3>&- &
	pid=$!
	some_messages >"$examples"
	echo "fail 3" >>"$examples"
	# shellcheck disable=SC2154
	fuzzed messages t-pool "${not[@]}"
	kill -TERM $pid
	wait $pid || { cat "$BATS_TEST_TMPDIR/run"; false; }
	cat "$BATS_TEST_TMPDIR/run"
	grep -q 'ended by: signal' "$BATS_TEST_TMPDIR/run"
	[ "$(mode)" = rw ]
	"$oracle" verify --state "$BATS_TEST_TMPDIR/state" /dev/mapper/t-v0
	# what has been rebuilt lets another one fail
	[[ "$(states)" =~ ^[of]{8}$ ]] || { states; false; }
	stop_pool
	start_pool
	volume_device 0 $((8 << 11))
	"$oracle" verify --state "$BATS_TEST_TMPDIR/state" /dev/mapper/t-v0
}
