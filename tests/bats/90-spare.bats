#!/usr/bin/env bats
# Distributed spares: what an SSD that has failed would hold is on the others.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/patches.bash
source "$BATS_TEST_DIRNAME/patches.bash"
# shellcheck source=tests/bats/power.bash
source "$BATS_TEST_DIRNAME/power.bash"

test_setup() { spares=1; }
test_teardown() { all_work; }

# all_there SSD...: what is written can be read without any one of these, which do not fail by that.
all_there() {
	local before ssd
	before=$(states)
	for ssd in "$@"; do
		failing reads "$ssd"
		as_written
	done
	failing reads
	[ "$(states)" = "$before" ]
}

@test "what is written after an SSD has failed has all its copies" {
	raid_volume 4
	write 0 16
	message fail 2
	# in place of what is there, as tops, and as patches of these
	write 0 1024
	write 160 8
	flush
	all_there 0 1 3 4 5 6
	message convert
	[ "$(space replicated)" -eq 0 ]
	for b in {0..15}; do write $((b * 16 + b)) 2; done
	all_there 0 1 3 4 5 6
	restart rw 4
	[ "$(states)" = oofooooo ]
	all_there "$turn" $((turn + 3)) 6
	message set patch_percent 0
	message convert
	scrubbed=$(counter scrubbed)
	parity_fits
	[ $(($(counter scrubbed) - scrubbed)) -gt 15 ]
	all_there 0 1 3 4 5 6
}
