#!/usr/bin/env bats
# Pools are made to grow by the tool: hot spares become members.

# shellcheck disable=SC2119

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/labels.bash
source "$BATS_TEST_DIRNAME/labels.bash"

test_setup() {
	end_udev
	members=7
}
test_teardown() { [ ! -e /dev/mapper/t-pool ] || fusion pool stop t-pool >/dev/null; }

# A pool of seven, with a volume that is half in stripes.
used_pool() {
	labelled_pool
	fusion volume create t-pool v0 --size 24M --width 4 >/dev/null
	random 6144 | dd of=/dev/mapper/t-pool-v0 bs=1M iflag=fullblock oflag=direct status=none
	message convert
	random 512 | dd of=/dev/mapper/t-pool-v0 bs=4k iflag=fullblock oflag=direct seek=1024 status=none
	hand flush /dev/mapper/t-pool-v0
	written=$(sum_v0)
}
sum_v0() { dd if=/dev/mapper/t-pool-v0 bs=1M iflag=direct status=none | md5sum; }
as_written() { [ "$(sum_v0)" = "$written" ]; }
# More SSDs: hot spares, by number.
add() {
	local i
	for i; do
		back "$i"
		fusion device add t-pool "/dev/mapper/t-m$i" >/dev/null
	done
}
grows_from() { counter grows_from; }
grown() { [ "$(grows_from)" -eq 0 ]; }
of_status() { fusion pool status t-pool --json | jq -rc "$1"; }
# labels [MEMBER...]: the number of members that theirs have.
labels() {
	local i
	for i in "${@:-0}"; do
		od -A n -t u2 -j 138 -N 2 "/dev/mapper/t-m$i" | tr -d ' '
	done | sort -u | xargs
}
checked() {
	fusion pool stop t-pool
	fusion check t-pool
	start
}

@test "hot spares become members" {
	used_pool
	run ! fusion pool grow t-pool
	[[ $output == *"to grow to 8 members it needs 1 more"*"fusion device add t-pool"* ]]
	add 7
	run ! fusion pool grow t-pool --members 9
	[[ $output == *"needs 1 more"* ]]
	run ! fusion pool grow t-pool --members 10
	[[ $output == *"the next is 8"* ]]
	run fusion pool grow t-pool --no-wait
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(grows_from)" -eq 7 ]
	[ "$(states)" = oooooooo ]
	[ "$(labels {0..7})" = 8 ]
	[ "$(of_status '.growing != null')" = true ]
	run fusion pool status t-pool
	[[ $output == *"from 7 to 8 members"* ]]
	members=8
	[ "$(generations | tr ' ' '\n' | sort -u | wc -l)" -eq 1 ]
	as_written
	run ! fusion pool grow t-pool
	[[ $output == *"grows from 7 to 8 members already"* ]]
	# it goes on where it was
	checked
	[ "$(grows_from)" -eq 7 ]
	as_written
	message set paused 0
	wait_for 60 grown
	as_written
	[ "$(of_status '.growing')" = null ]
	[ "$(of_status '[.members[].state] | unique')" = '["ok"]' ]
	checked
	as_written
	message fail 7
	as_written
}

@test "to grow is waited for, and told" {
	used_pool
	add 7
	message set paused 0
	run fusion pool grow t-pool
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"8 members"* ]]
	grown
	as_written
	message convert
	message scrub
	[ "$(counter scrub_mismatches)" -eq 0 ]
}

# attempt STEPS: what was saved is there again, the pool is told to grow, and after so many flushes, one
# after the other, the power fails; then it is started, with $count members.
attempt() {
	local pid states

	fusion pool stop t-pool
	hand message ssd0 restore_all
	start
	hold flushes
	fusion pool grow t-pool --no-wait >"$BATS_TEST_TMPDIR/grow" 2>&1 3>&- &
	pid=$!
	for ((steps = 0; steps < $1; steps++)); do
		wait_for 30 held_or_ended $pid
		running $pid || break
		step
	done
	wait_for 30 held_or_ended $pid
	power_cut "$steps"
	release
	wait $pid || :
	crash
	power_on
	start >/dev/null
	states=$(states)
	count=${#states}
	echo "$steps flushes: $count members"
	[[ $states =~ ^o{7,8}$ ]]
	as_written
	[ "$(labels)" -eq "$count" ]
}

@test "what is not committed has not grown; what is has, whatever the labels say" {
	used_pool
	add 7
	fusion pool stop t-pool
	hand message ssd0 save_all
	start
	attempt 1000
	[ "$count" -eq 8 ]
	# the first with which it has grown
	low=0 high=$steps
	while [ $((high - low)) -gt 1 ]; do
		attempt $(((low + high) / 2))
		if [ "$count" -eq 8 ]; then high=$steps; else low=$steps; fi
	done
	# and around that: how many go at once differs
	for steps in "$low" "$high" $((high + 1)) $((high + 2)) $((high + 4)) 1000; do
		attempt "$steps"
	done
	[ "$count" -eq 8 ]
	[ "$(labels {0..7})" = 8 ]
	message set paused 0
	wait_for 60 grown
	as_written
	checked
	hand message ssd0 forget_all
}
