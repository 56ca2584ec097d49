#!/usr/bin/env bats
# fusion top: what a pool does, once for scripts and live on a terminal.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/labels.bash
source "$BATS_TEST_DIRNAME/labels.bash"
# shellcheck source=tests/bats/monitor.bash
source "$BATS_TEST_DIRNAME/monitor.bash"

test_setup() {
	json=$BATS_TEST_TMPDIR/json
	typescript=$BATS_TEST_TMPDIR/typescript
	keys=$BATS_TEST_TMPDIR/keys
	mkfifo "$keys"
}
test_teardown() {
	# what a test that failed has left
	hand message ssd5 release
	resume_all
	[ ! -e /dev/mapper/t-pool ] || fusion pool stop t-pool >/dev/null
}

# A pool with a volume of 24 MiB, and spikes of this machine are none of its members.
used_pool() {
	labelled_pool
	one_straggler_after 300000
	fusion volume create t-pool v0 --size 24M >/dev/null
	fill 16
	wait_for 20 windows_are_set
}
# fill MIB
fill() {
	random $(($1 << 8)) | dd of=/dev/mapper/t-pool-v0 bs=64k iflag=fullblock oflag=direct status=none
}
# They are set one after the other, while there is I/O.
windows_are_set() {
	fill 1
	[ "$(message pulse | awk '{ print $10 }' | sort -u)" = 300000 ]
}

# top OPTION...: its JSON, once.
top() { fusion top --once --json --interval 0.5 "$@" >"$json"; }
# is FILTER...: all of them are true of the JSON.
is() {
	local filter
	for filter; do
		jq -e "$filter" "$json" >/dev/null || { echo "not so: $filter"; cat "$json"; return 1; }
	done
}

@test "once: a pool as text and in JSON" {
	used_pool
	top t-pool
	is '.pools | length == 1' \
		'.pools[0].name == "t-pool"' \
		'.pools[0].state == "ok"' \
		'.pools[0].elapsed_seconds >= 0.5' \
		'[.pools[0].members[] | select(.state == "ok" and .responsive)] | length == 8' \
		'.pools[0].members[5].device == "/dev/mapper/t-m5"' \
		'[.pools[0].members[].window_us] | unique == [300000]' \
		'[.pools[0].members[].write_median_us | numbers] | length > 0' \
		'[.pools[0].volumes[] | .name, .size_bytes, .data, .parity] == ["v0", 25165824, 5, 1]' \
		'.pools[0].volumes[0].mapped_bytes >= 16777216' \
		'.pools[0].volumes[0].writes_per_second == 0' \
		'.pools[0].space | .total_bytes == .free_bytes + .replicated_bytes + .raid_bytes + .dead_bytes + .spare_bytes' \
		'.pools[0].work.rebuild.todo_stripes == 0'

	# all that are running
	fusion top --once --interval 0.1 >"$BATS_TEST_TMPDIR/text"
	cat "$BATS_TEST_TMPDIR/text"
	grep -q '^t-pool: ok ' "$BATS_TEST_TMPDIR/text"
	grep -q '^ 7 t-m7 *ok ' "$BATS_TEST_TMPDIR/text"
	grep -q '^v0 *24M .* 5+1 ' "$BATS_TEST_TMPDIR/text"
	[ "$(wc -L <"$BATS_TEST_TMPDIR/text")" -le 80 ]

	# and the rates are there when there is something to do
	while [ ! -e "$BATS_TEST_TMPDIR/enough" ]; do
		fill 1
		dd if=/dev/mapper/t-pool-v0 of=/dev/null bs=64k count=16 iflag=direct status=none
	done 3>&- &
	load=$!
	wait_for 60 busy
	touch "$BATS_TEST_TMPDIR/enough"
	wait $load
	message fail 3
	top t-pool
	is '.pools[0].state == "degraded"' '.pools[0].members[3].state == "failed"'
}
busy() {
	top t-pool
	is '.pools[0].volumes[0] | .writes_per_second > 0 and .written_bytes_per_second >= 65000 * .writes_per_second' \
		'.pools[0].requests.reads_per_second > 0'
}

@test "a member that does not answer is shown, and so is the pool while a commit waits" {
	used_pool
	hand message ssd5 hold writes
	fill 24 3>&- &
	writer=$!
	wait_for 20 shown_unresponsive
	is '.pools[0].members[5] | .stragglers >= 1 and .spikes >= 1 and .state == "ok"'
	fusion top t-pool --once --interval 0.1 | grep '^ 5 t-m5 *unresponsive '
	hand message ssd5 release
	wait "$writer"
	wait_for 20 shown_responsive
	is '.pools[0].members[5].spikes_us > 0'

	udevadm settle
	dm suspend --noflush --nolockfs t-pool_fmeta
	# the map changes by that
	{ blkdiscard -f -l 1M /dev/mapper/t-pool-v0; message commit; } 3>&- &
	commit=$!
	wait_for 20 tasks_in fusion_md_commit 1
	timeout $((20 * slow)) fusion top t-pool --once --json >"$json"
	is '.pools[0].volumes[0].name == "v0"'
	running "$commit"
	dm resume t-pool_fmeta
	wait "$commit"

	dm suspend t-pool
	log_mark
	top t-pool
	is '.pools[0].suspended' '.pools[0].members[0].responsive == null'
	# it is not asked what it would not answer
	log_lacks "the pool is suspended"
	dm resume t-pool
}
shown_unresponsive() { top t-pool && is '.pools[0].members[5].responsive == false' >/dev/null; }
shown_responsive() { top t-pool && is '.pools[0].members[5].responsive' >/dev/null; }

@test "what cannot be shown" {
	run -1 fusion top nothing --once
	[[ $output == "fusion: pool nothing is not running: start it with 'fusion pool start nothing'" ]]
	run -1 fusion top nothing --once --json
	[ "$(jq -r .error <<<"$output")" = "pool nothing is not running: start it with 'fusion pool start nothing'" ]
	run -1 fusion top --once
	[[ $output == "fusion: no pool is running: "* ]]
	run -2 fusion top --json
	[[ $output == *"--once"* ]]
	run -2 fusion --json top
	run -2 fusion top --once --interval 0
	used_pool
	run -1 fusion top t-pool
	[[ $output == *"standard output is no terminal: give --once"* ]]
}

# live [ARGUMENT...]: on a terminal of its own, that keys go to; begins when it has drawn.
live() {
	rm -f "$typescript"
	cat >"$BATS_TEST_TMPDIR/run" <<-END
		stty rows 24 cols 80
		stty -a >"$BATS_TEST_TMPDIR/before"
		sh -c 'echo \$\$ >"$BATS_TEST_TMPDIR/pid"; exec fusion top --interval 0.2 $*' 2>"$BATS_TEST_TMPDIR/errors"
		echo \$? >"$BATS_TEST_TMPDIR/status"
		stty -a >"$BATS_TEST_TMPDIR/after"
	END
	# somebody has it open to write, or script would see its end
	exec {key}<>"$keys"
	TERM=xterm SHELL=/bin/bash script -qfec "bash $BATS_TEST_TMPDIR/run" "$typescript" <"$keys" >/dev/null 3>&- &
	script=$!
	wait_for 20 drawn members: || { cat -v "$typescript" "$BATS_TEST_TMPDIR/errors"; return 1; }
}
# Blanks are not drawn, but where there is colour.
drawn() { grep -qa "$1" "$typescript" 2>/dev/null; }
grown() { [ "$(stat -c %s "$typescript")" -gt "$1" ]; }
# last_of SEQUENCE LETTER: the alternate screen, or the cursor, is so at last.
last_of() {
	local all
	all=$(cat -v "$typescript" | grep -oF -e "$(cat -v <<<"$1")l" -e "$(cat -v <<<"$1")h")
	[ "${all: -1}" = "$2" ] || { echo "${1#?}: $all"; return 1; }
}
# ended_with STATUS: and the terminal is what it was.
ended_with() {
	wait_for 20 ended "$script"
	wait "$script" || :
	exec {key}>&-
	[ "$(<"$BATS_TEST_TMPDIR/status")" -eq "$1" ] || { cat "$BATS_TEST_TMPDIR/errors"; return 1; }
	diff "$BATS_TEST_TMPDIR/before" "$BATS_TEST_TMPDIR/after"
	last_of $'\e[?1049' l
	last_of $'\e[?25' h
}

@test "live: on a terminal, which is as before when it ends" {
	used_pool
	live t-pool
	drawn "every 0.2 s"
	drawn "t-m7"
	printf '\t\e[B' >&$key
	# another picture
	size=$(stat -c %s "$typescript")
	fill 8
	wait_for 20 grown "$size"
	running "$script"
	printf q >&$key
	ended_with 0
	live
	printf '\003' >&$key
	ended_with 0
	live t-pool
	kill -TERM "$(<"$BATS_TEST_TMPDIR/pid")"
	ended_with 143
	# and if there is nothing to be seen any more
	live t-pool
	fusion pool stop t-pool
	ended_with 1
	[[ $(<"$BATS_TEST_TMPDIR/errors") == *"fusion: pool t-pool is not running any more: start it with 'fusion pool start t-pool'"* ]]
	away {0..7}
}
