#!/usr/bin/env bats
# Power cuts whatever goes on: pools of several shapes, with the oracle's workload on three volumes,
# the background at work, members that fail; see tests/power, which does many more of these.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"

# Each kernel has lives of its own: of RAID-5 and RAID-6, or RAID-6 and both.
case $(uname -r) in 6.1.*) lives=(0 5) ;; *) lives=(7 10) ;; esac

test_setup() { end_udev; }

# total KEY: of the last run.
total() { sed -n '$p' <<<"$output" | jq "$1"; }
cuts() { run "$repo/build/oracle/cuts" --oracle "${fake:-$oracle}" --seed "${FUSION_SEED:-1}" "$@"; }

# bats test_tags=smp
@test "power cuts, whatever goes on" {
	destaged=0 grew=0
	for life in "${lives[@]}"; do
		cuts --first "$life" --sets 2
		echo "$output"
		[ "$status" -eq 0 ]
		[ "$(total .cuts)" -eq 10 ]
		count_cuts 10
		[ "$(total '.lost + .garbage + .unstable + .unreadable + .mismatches + .failures')" -eq 0 ]
		[ "$(total .under_load)" -eq 2 ]
		[ "$(total '.done.converted > 0 and .done.scrubbed > 0 and .done.resynced > 0')" = true ]
		destaged=$((destaged + $(total .done.destaged)))
		grew=$((grew + $(total .rounds_of.grow)))
	done
	# those with seven or nine members are told to
	[ $grew -eq 1 ]
	# there are no patches of blocks of a page
	[ $destaged -gt 0 ]
}

# An oracle that does not like what it sees.
@test "what the oracle finds after a power cut is told" {
	fake=$BATS_TEST_TMPDIR/fake
	cat >"$fake" <<-END
		#!/bin/bash
		[ "\$1" = verify ] || exec $oracle "\$@"
		echo "1 garbage, 2 lost, 3 unstable"
		echo "6 pages are wrong"
		exit 1
	END
	chmod +x "$fake"
	cuts --rounds 1
	[ "$status" -eq 1 ]
	[ "$(total '[.cuts, .garbage, .lost, .unstable, .failures] | join(" ")')" = '"1 1 2 3 1"' ]
	[[ $output == *"FAILED life 0 round 0: pages are wrong"* ]]
	run ! "$repo/build/oracle/cuts"
	run -2 "$repo/build/oracle/cuts" --oracle "$oracle" --seed x
}
