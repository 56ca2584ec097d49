#!/usr/bin/env bats
# Members that are unresponsive are noticed, and avoided.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/patches.bash
source "$BATS_TEST_DIRNAME/patches.bash"
# shellcheck source=tests/bats/monitor.bash
source "$BATS_TEST_DIRNAME/monitor.bash"

test_setup() {
	monitor=on
}

# ios MEMBER: reads and writes that its SSD has done.
ios() { dmsetup status "ssd$1" | awk '{ print $5 + $6 }'; }

# write_held MEMBER: it is sent a write of the volume's first block, of which it has a replica, and
# does not answer.  Sets $writer.
write_held() {
	hand message "ssd$1" hold writes
	dd if=/dev/zero of=/dev/mapper/t-v0 bs=4k count=1 oflag=direct conv=notrunc status=none 3>&- &
	writer=$!
}
# stuck MEMBER: the same, until it is unresponsive.
stuck() {
	write_held "$1"
	wait_for 20 unresponsive "$1"
}
# unstuck MEMBER
unstuck() {
	hand message "ssd$1" release
	wait "$writer"
	wait_for 20 responsive "$1"
}

# A pool of one volume whose first block is replicated.
replica() {
	make_pool
	volume 0 64 3
	random_to 0 0 16
}
# Its first replica is on $ssd, alone there.
apart() {
	find_ssd 0
	# ssd7 has the metadata, too; and others may have two members
	while [ "$ssd" -eq 7 ] || [ $((ssd + 8)) -lt "$members" ]; do
		blkdiscard -f -l 65536 /dev/mapper/t-v0
		random_to 0 0 16
		find_ssd 0
	done
}
# Both, and one straggler makes a member unresponsive.
replicated() {
	replica
	one_straggler
	apart
}

# ended_or_held PID: it has ended, or something else waits, too.
ended_or_held() { ended "$1" || held 2; }
# new_blocks FIRST COUNT: written, one after the other.
new_blocks() {
	exec dd if=/dev/zero of=/dev/mapper/t-v0 bs=64k seek="$1" count="$2" oflag=direct conv=notrunc status=none
}

@test "of the open sets a write takes one on whose members nothing is pending" {
	members=13 monitor=off
	# its records would be sent there, too
	no_journal
	replica
	apart
	# nothing that has been written is moved
	message set limit_percent 100
	second=0
	for ((at = 1; at < 800; at += 20)); do
		# those that were passed over have their turn
		new_blocks $at 16 3>&- &
		wait $!
		# and no commit flushes that SSD, which would be held, too
		sync /dev/mapper/t-v0
		before=$(ios "$ssd")
		write_held "$ssd"
		wait_for 20 held 1
		new_blocks $((at + 16)) 4 3>&- &
		wait_for 20 ended_or_held $!
		hand message "ssd$ssd" release
		wait "$writer" $!
		[ "$(ios "$ssd")" -eq $((before + 1)) ] || second=$((second + 1))
	done
	# eight sets hardly ever all have their turn there, one time in 6000; two of them, one time in 10
	[ $second -le 1 ]
}

@test "new blocks go elsewhere while a member is unresponsive" {
	# a band has enough stripes without one of them
	members=13
	replicated
	stuck "$ssd"
	[ "$(pulse "$ssd" 3)" -eq 1 ]
	[ "$(pulse "$ssd" 4)" -ge 1 ]
	[ "$(counter spikes)" -ge 1 ]
	before=$(ios "$ssd")
	# one after the other: none is sent there, or it would not end
	dd if=/dev/urandom of="$BATS_TEST_TMPDIR/new" bs=64k count=60 status=none
	dd if="$BATS_TEST_TMPDIR/new" of=/dev/mapper/t-v0 bs=64k seek=1 oflag=direct status=none
	[ "$(ios "$ssd")" -eq "$before" ]
	[ "$(counter avoided_writes)" -gt 0 ]
	unstuck "$ssd"
	[ "$(pulse "$ssd" 3)" -eq 0 ]
	[ "$(pulse "$ssd" 5)" -gt 0 ]
	cmp "$BATS_TEST_TMPDIR/new" <(dd if=/dev/mapper/t-v0 bs=64k skip=1 count=60 iflag=direct status=none)
	message convert
	cmp "$BATS_TEST_TMPDIR/new" <(dd if=/dev/mapper/t-v0 bs=64k skip=1 count=60 iflag=direct status=none)
	# and it is used again
	before=$(ios "$ssd")
	random_to 0 8192 1536
	[ "$(ios "$ssd")" -gt "$before" ]
}

@test "stripes are written elsewhere, if there are any" {
	members=13
	replicated
	stuck "$ssd"
	before=$(counter avoided_writes)
	# 13 members, four of each stripe: nearly always; what is sent there waits, and is done later
	fio --name=w --filename=/dev/mapper/t-v0 --offset=8m --size=48m --bs=192k --rw=write --direct=1 \
		--ioengine=libaio --iodepth=64 --output=/dev/null 3>&- &
	fio=$!
	wait_for 60 many_stripes
	wait_for 20 avoided_more "$before"
	unstuck "$ssd"
	wait "$fio"
	message convert
	parity_fits
}
many_stripes() { [ "$(counter large)" -ge 128 ]; }
avoided_more() { [ "$(counter avoided_writes)" -gt "$1" ]; }

write_stripe() {
	dd if=/dev/zero of=/dev/mapper/t-v0 bs=192k seek=$(($1 + 40)) count=1 oflag=direct status=none 3>&- &
	pids+=($!)
	sleep 0.05
}

@test "stripes are written elsewhere, too, while a member is silent" {
	members=13
	# a record of the journal would be held, too
	no_journal
	replicated
	# it will not be unresponsive
	message set straggler_enter 65535
	before=$(counter avoided_writes)
	spikes=$(pulse "$ssd" 4)
	write_held "$ssd"
	wait_for 20 held 1
	# two of ten slots of 300 ms, and the first that asks
	for i in {1..40}; do
		write_stripe "$i"
	done
	# without that 13 of 40; those of the first 60 ms, and one in 300
	[ "$(held_count)" -le 5 ]
	for ((i = 41; $(counter avoided_writes) <= before + 3; i++)); do
		# they are in its way by chance
		[ $i -le 200 ]
		write_stripe "$i"
	done
	[ "$(pulse "$ssd" 4)" -eq "$spikes" ]
	hand message "ssd$ssd" release
	wait "$writer" "${pids[@]}"
	message convert
	parity_fits
}

@test "the other replica is read while a member is unresponsive" {
	# a record of the journal would be held, too
	no_journal
	replicated
	sum=$(sum 0)
	stuck "$ssd"
	# of other pages of the block: nobody reads what is being written
	hand message "ssd$ssd" hold reads
	before=$(counter avoided_reads)
	for i in {1..20}; do
		dd if=/dev/mapper/t-v0 of=/dev/null bs=4k count=1 skip=$((i % 15 + 1)) iflag=direct status=none
	done
	[ "$(held_count)" -eq 1 ]
	avoided_reads=$(counter avoided_reads)
	[ "$avoided_reads" -gt "$before" ]
	unstuck "$ssd"
	[ "$(sum 0)" != "$sum" ]
}

# What is in stripes of DATA+PARITY.
computed() {
	make_pool
	model=
	volume 0 16 "$@"
	random_to 0 0 4096 512k
	message convert
	sum=$(sum 0)
	one_straggler
	for page in {0..63}; do
		find_ssd $((page * 16))
		[ "$ssd" -eq 7 ] || break
	done
	hand message "ssd$ssd" hold reads
	dd if=/dev/mapper/t-v0 of="$BATS_TEST_TMPDIR/late" bs=64k skip="$page" count=1 iflag=direct status=none 3>&- &
	reader=$!
	wait_for 20 unresponsive "$ssd"
	before=$(counter avoided_reads)
	[ "$(sum 0)" = "$sum" ]
	[ "$(counter avoided_reads)" -gt $((before + 16)) ]
	[ "$(held_count)" -eq 1 ]
	# parts of blocks, and what is partly there and partly patched
	random_to 0 $((page * 16 + 3)) 2 4k
	dd if=/dev/mapper/t-v0 of="$BATS_TEST_TMPDIR/block" bs=64k skip="$page" count=1 iflag=direct status=none
	dd if=/dev/mapper/t-v0 of="$BATS_TEST_TMPDIR/pages" bs=4k skip=$((page * 16)) count=16 iflag=direct status=none
	cmp "$BATS_TEST_TMPDIR/block" "$BATS_TEST_TMPDIR/pages"
	[ "$(held_count)" -eq 1 ]
	hand message "ssd$ssd" release
	wait "$reader"
	wait_for 20 responsive "$ssd"
	cmp -n 12288 "$BATS_TEST_TMPDIR/block" "$BATS_TEST_TMPDIR/late"
	[ "$(counter recovered) $(counter repaired)" = "0 0" ]
	parity_fits
}
@test "what only an unresponsive member has is computed" {
	computed 3
}
@test "and so with two parities, while another member is missing" {
	computed 3 2
	message fail $(((ssd + 1) % 7))
	hand message "ssd$ssd" hold reads
	dd if=/dev/mapper/t-v0 of=/dev/null bs=64k skip="$page" count=1 iflag=direct status=none 3>&- &
	reader=$!
	wait_for 20 unresponsive "$ssd"
	# what is before the patch and what is behind it
	before=$(held_count)
	sum=$(sum 0)
	[ "$(held_count)" -eq "$before" ]
	hand message "ssd$ssd" release
	wait "$reader"
	[ "$(sum 0)" = "$sum" ]
}

@test "the background leaves an unresponsive member alone" {
	background=auto
	replicated
	message set age_s 1
	message set idle_ms 0
	stuck "$ssd"
	before=$(ios "$ssd")
	dd if=/dev/zero of=/dev/mapper/t-v0 bs=64k seek=1 count=30 oflag=direct status=none
	stays 3 more_ios "$before"
	unstuck "$ssd"
	wait_for 30 more_ios "$before"
}
more_ios() { [ "$(ios "$ssd")" -gt "$1" ]; }

@test "the window of a member of which nothing is known is the longest" {
	make_pool
	[ "$(message pulse | awk '{ print $10 }' | sort -u)" = 20000 ]
}

@test "a window sets itself by the member's own latency" {
	make_pool
	volume 0 64 3
	for i in {0..7}; do
		hand message "ssd$i" time 1000 1000 0 0
	done
	hand message ssd2 time 1000 4000 0 0
	fio --name=w --filename=/dev/mapper/t-v0 --size=32m --bs=4k --rw=randwrite --direct=1 --ioengine=libaio \
		--iodepth=16 --time_based --runtime=6 --output=/dev/null
	message pulse
	for i in {0..7}; do
		median=$(pulse "$i" 8) window=$(pulse "$i" 10)
		[ "$median" -ge 1000 ]
		[ "$window" -ge 7000 ]
		[ "$window" -le 20000 ]
		[ "$(pulse "$i" 11)" -ge 1 ]
		[ "$(pulse "$i" 11)" -le 6 ]
		[ "$(pulse "$i" 13)" -gt 0 ]
	done
	[ "$(pulse 2 8)" -ge 4000 ]
	[ "$(pulse 2 10)" -eq 20000 ]
	for i in {0..7}; do
		hand message "ssd$i" time off
	done
}

# look_while_reading US: windows are so long; $looks is how often the timer has come in 4 s, in which something is
# read, and $hedges how often what waits was looked for.  After $gap us it comes again, if that is not late: one
# in ten does, however slow the machine is.
look_while_reading() {
	local tracing=/sys/kernel/tracing event events=(timer/hrtimer_expire_entry workqueue/workqueue_execute_start)

	message set window_us "$1"
	wait_for 20 all_windows_are "$1"
	echo >$tracing/trace
	for event in "${events[@]}"; do
		echo 1 >"$tracing/events/$event/enable"
	done
	fio --name=read --filename=/dev/mapper/t-v0 --direct=1 --rw=randread --bs=4k --time_based --runtime=4 --output=/dev/null
	for event in "${events[@]}"; do
		echo 0 >"$tracing/events/$event/enable"
	done
	looks=$(grep -c "function=monitor_timer" $tracing/trace)
	gap=$(sed -n 's/.*function=monitor_timer.* now=\([0-9]*\).*/\1/p' $tracing/trace |
		awk 'last { print int(($1 - last) / 1000) } { last = $1 }' | sort -n | sed -n "$((looks / 10 + 1))p")
	hedges=$(grep -c "function hedge_work" $tracing/trace) || true
	echo "looked $looks times, again after $gap us, and $hedges times for what waits"
}

@test "while all answer, its timer comes twice in a window" {
	make_pool
	volume 0 4 3
	random_to 0 0 1024
	# and a few times more, if one is late to answer
	look_while_reading 20000
	[ "$looks" -ge 20 ]
	[ "$looks" -le 600 ]
	[ "$gap" -le 15000 ]
	look_while_reading 200000
	[ "$looks" -ge 10 ]
	[ "$looks" -le 60 ]
	[ "$gap" -le 150000 ]
}

@test "of one that is out nothing is told" {
	replica
	apart
	random_to 0 16 1024
	message set hang_ms 1000
	log_mark
	write_held "$ssd"
	wait_for 20 log_has ": it is not used any more"
	look_while_reading 20000
	[ "$looks" -ge 20 ]
	[ "$gap" -le 15000 ]
	[ "$hedges" -le 100 ]
	hand message "ssd$ssd" release
	wait "$writer"
}

@test "settings: the window and its thresholds, and none at all" {
	replicated
	message set window_us 200000
	message set window_slots 5
	random_to 0 16 64
	wait_for 20 all_windows_are 200000
	message set monitor 0
	write_held "$ssd"
	wait_for 20 held 1
	stays 1 unresponsive "$ssd"
	# a straggler it is
	[ "$(pulse "$ssd" 3)" -eq 1 ]
	# and by that one again
	message set monitor 1
	wait_for 20 unresponsive "$ssd"
	message set monitor 0
	wait_for 20 responsive "$ssd"
	hand message "ssd$ssd" release
	wait "$writer"
	# by itself, within bounds, if some latency is known
	message set window_us 0
	message set window_max_us 500000
	message set window_min_us 400000
	read_all() {
		dd if=/dev/mapper/t-v0 of=/dev/null bs=1M count=1 iflag=direct status=none
		[ "$(pulse "$ssd" 10)" -eq 400000 ]
	}
	wait_for 20 read_all
	for bad in "monitor 2" "window_us 1000001" "window_min_us 1000001" "window_max_us 1000001" "window_slots 13" "straggler_enter 65536" "straggler_exit 65536"; do
		# shellcheck disable=SC2086
		run ! message set $bad
	done
}
