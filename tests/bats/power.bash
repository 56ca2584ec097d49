# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154
# Power cuts, and the oracle that knows what a page may hold afterwards.

# The seed of all: FUSION_SEED repeats a run.
seed=${FUSION_SEED:-1}

devs=(/dev/mapper/t-v0 /dev/mapper/t-v1 /dev/mapper/t-v2)
mib=(16 12 12)
data=(3 3 5)
parity=(1 1 1)

make_volumes() {
	local i
	for i in 0 1 2; do
		volume $i "${mib[i]}" "${data[i]}" "${parity[i]}"
	done
}
start_volumes() {
	local i
	for i in 0 1 2; do
		volume_device $i $((mib[i] << 11))
	done
}

verify() { "$oracle" verify --state "$BATS_TEST_TMPDIR/state" "$@"; }

# run_and_cut ROUND DEV...: the oracle works, then the power fails.
run_and_cut() {
	local round=$1 pid
	shift
	rm -f "$BATS_TEST_TMPDIR/ready"
	"$oracle" run --state "$BATS_TEST_TMPDIR/state" --seed $((seed * 1000 + round)) \
		--threads $((1 + round % 6)) --ready "$BATS_TEST_TMPDIR/ready" "$@" >"$BATS_TEST_TMPDIR/run" 2>&1 3>&- &
	pid=$!
	wait_for 30 test -e "$BATS_TEST_TMPDIR/ready"
	# The instant is what is random here.
	sleep "0.$(printf %03d $(((seed * 7919 + round * 611) % 900)))"
	power_cut $((seed * 1000 + round))
	# who waits for space does not notice: a commit does
	run ! message create_volume 1000 none 2048 3 1
	wait $pid || { cat "$BATS_TEST_TMPDIR/run"; return 1; }
	echo "round $round: $(cat "$BATS_TEST_TMPDIR/run")"
	grep -q 'failed: Input/output error' "$BATS_TEST_TMPDIR/run"
}
