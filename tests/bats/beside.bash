# shellcheck shell=bash
# The oracle as load beside a test.

# load_begins DEVICE: it works, as $load.
load_begins() {
	"$oracle" run --state "$BATS_TEST_TMPDIR/state" --seed 7 --threads 4 --final-flush \
		--ready "$BATS_TEST_TMPDIR/ready" "$1" >"$BATS_TEST_TMPDIR/run" 2>&1 3>&- &
	load=$!
	wait_for 30 test -e "$BATS_TEST_TMPDIR/ready"
}
# It has had no error.
load_ends() {
	kill "$load"
	wait "$load" || { cat "$BATS_TEST_TMPDIR/run"; return 1; }
	grep "ended by: signal" "$BATS_TEST_TMPDIR/run" || { cat "$BATS_TEST_TMPDIR/run"; return 1; }
	load=
}
# all_written DEVICE: all that it wrote is there.
all_written() { "$oracle" verify --state "$BATS_TEST_TMPDIR/state" "$1"; }
