#!/usr/bin/env bats
# The oracle finds what a device does wrong, and nothing else.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"

state=
test_setup() {
	state=$BATS_TEST_TMPDIR/state
	dm create --concise 't-a,,,rw,0 32768 ssdsim 11;t-b,,,rw,0 16384 ssdsim 12'
	devs=(/dev/mapper/t-a /dev/mapper/t-b)
}

# Ended as it should, with everything durable.
workload() {
	"$oracle" run --state "$state" --seed "${1:-1}" --ops "${2:-300}" --discard-block 4096 --final-flush "${@:3}" "${devs[@]}"
}
verify() { "$oracle" verify --state "$state" "${devs[@]}"; }

# cut_power SEED: the power, when the workload has got somewhere.
cut_power() {
	"$oracle" run --state "$state" --seed "$1" --discard-block 4096 "${devs[@]}" >"$BATS_TEST_TMPDIR/run" &
	pid=$!
	flushes=$(flushes)
	wait_for 30 eval "[ \$(flushes) -gt $((flushes + 5 + $1 % 7)) ]"
	power_cut "$1"
	wait $pid
	cat "$BATS_TEST_TMPDIR/run"
	grep -q 'ended by: .*Input/output error' "$BATS_TEST_TMPDIR/run"
	power_on
}
flushes() { dmsetup status t-a | cut -d' ' -f7; }

# A page, to a device.
copy() { dd bs=4k count=1 conv=notrunc oflag=direct status=none "$@"; }

# The first page of t-a that is not zeros, nor is the next; with an argument,
# that also differs from the same page of that file, which is not zeros either.
written_page() {
	dd if=/dev/mapper/t-a bs=1M iflag=direct status=none of="$BATS_TEST_TMPDIR/t-a"
	perl -e '
		my ($new, $old) = map { open(my $f, "<", $_) or die; local $/; <$f> } @ARGV;
		my $zeros = "\0" x 4096;
		for my $p (0 .. length($new) / 4096 - 2) {
			next if substr($new, $p * 4096, 4096) eq $zeros;
			next if substr($new, $p * 4096 + 4096, 4096) eq $zeros;
			next if defined $old && substr($old, $p * 4096, 4096) eq $zeros;
			next if defined $old && substr($old, $p * 4096, 4096) eq substr($new, $p * 4096, 4096);
			print "$p\n";
			exit 0;
		}
		exit 1;
	' "$BATS_TEST_TMPDIR/t-a" "$@"
}

@test "a disk that keeps its contract passes, over power cuts" {
	for seed in 1 2 3 4 5 6; do
		cut_power $seed
		run -0 verify
		echo "$output"
		[[ $output == "all pages are right"* ]]
	done
	# Some pages must have had a choice, or this was no test.
	[[ $output != *" 0 had a choice" ]]
	run -0 "$oracle" show --state "$state"
}

@test "without a cut nothing has a choice after a flush, if no writes overlapped" {
	workload 1 300 --threads 1
	run -0 verify
	[ "$output" = "all pages are right; 0 had a choice" ]
}

@test "a signal ends it, and what it knows is right" {
	"$oracle" run --state "$state" --seed 3 --ready "$BATS_TEST_TMPDIR/ready" --discard-block 4096 "${devs[@]}" >"$BATS_TEST_TMPDIR/run" &
	pid=$!
	wait_for 30 test -e "$BATS_TEST_TMPDIR/ready"
	kill -TERM $pid
	wait $pid
	grep -q 'ended by: signal' "$BATS_TEST_TMPDIR/run"
	verify
}

@test "garbage is found" {
	workload
	p=$(written_page)
	copy if=/dev/urandom of=/dev/mapper/t-a seek="$p"
	run -1 verify
	[[ $output == *"t-a page $p: holds: garbage"* ]]
	[[ $output == *"1 pages are wrong" ]]
}

@test "one wrong bit is found" {
	workload
	p=$(written_page)
	dd if=/dev/mapper/t-a bs=4k skip="$p" count=1 of="$BATS_TEST_TMPDIR/page" iflag=direct status=none
	perl -0777 -pi -e 'substr($_, 3000, 1) ^= "\x10"' "$BATS_TEST_TMPDIR/page"
	copy if="$BATS_TEST_TMPDIR/page" of=/dev/mapper/t-a seek="$p"
	run -1 verify
	[[ $output == *"t-a page $p: holds: garbage"* ]]
}

@test "pages in each other's place are found" {
	workload
	p=$(written_page)
	copy if=/dev/mapper/t-a skip=$((p + 1)) iflag=direct of=/dev/mapper/t-a seek="$p"
	run -1 verify
	[[ $output == *"t-a page $p: holds: page $((p + 1)) of device 0"* ]]
}

@test "another volume's page is found" {
	workload
	p=$(written_page)
	copy if=/dev/mapper/t-a skip="$p" iflag=direct of=/dev/mapper/t-b seek="$p"
	run -1 verify
	[[ $output == *"t-b page $p: holds: page $p of device 0"* ]]
}

@test "zeros where data was flushed are found" {
	workload
	p=$(written_page)
	copy if=/dev/zero of=/dev/mapper/t-a seek="$p"
	run -1 verify
	[[ $output == *"t-a page $p: holds: write 0 (zeros), which cannot be here any more"* ]]
}

@test "old data where newer was flushed is found" {
	workload 1
	dd if=/dev/mapper/t-a of="$BATS_TEST_TMPDIR/old" bs=1M iflag=direct status=none
	workload 2
	verify
	p=$(written_page "$BATS_TEST_TMPDIR/old")
	copy if="$BATS_TEST_TMPDIR/old" skip="$p" of=/dev/mapper/t-a seek="$p"
	run -1 verify
	[[ $output == *"t-a page $p: holds: write "*", which cannot be here any more"* ]]
}

@test "a device that drops writes is found while it runs" {
	modprobe dm-flakey
	dm create t-flaky --table "0 32768 flakey /dev/mapper/t-a 0 0 1 1 drop_writes"
	devs=(/dev/mapper/t-flaky)
	run -1 "$oracle" run --state "$state" --seed 5 --ops 5000 --discard-block 0 "${devs[@]}"
	[[ $output == *"t-flaky page "*": read: write "*", which is over"* ]]
	[[ $output == *"ended by: contract broken"* ]]
	dm remove t-flaky
}

@test "a device that does not begin with zeros, and wrong arguments" {
	workload
	rm "$state"
	run -1 "$oracle" run --state "$state" --seed 1 --ops 500 --discard-block 0 "${devs[@]}"
	[[ $output == *"a page of another oracle's life"* ]]
	run -2 "$oracle" verify --state "$state" "${devs[@]}"
	run -2 "$oracle" run --seed 1 "${devs[@]}"
	run -2 "$oracle" nonsense --state "$state" "${devs[@]}"
	run -2 "$oracle" run --state "$state" --seed x "${devs[@]}"
	run -0 "$oracle" --help
}
