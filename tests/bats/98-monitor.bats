#!/usr/bin/env bats
# fusiond: who is told what happens to pools.

# shellcheck disable=SC2119

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/labels.bash
source "$BATS_TEST_DIRNAME/labels.bash"

test_setup() {
	told=$BATS_TEST_TMPDIR/told
	mails=$BATS_TEST_TMPDIR/mails
	entries=$BATS_TEST_TMPDIR/entries
	metrics=$BATS_TEST_TMPDIR/fusion.prom
	daemon='' journal=''
	: >"$told"
	mkdir "$BATS_TEST_TMPDIR/bin"
	# whole lines, each in one piece
	cat >"$BATS_TEST_TMPDIR/bin/hook" <<-END
		#!/bin/sh
		echo "\$*" >>$told
	END
	cat >"$BATS_TEST_TMPDIR/bin/sendmail" <<-END
		#!/bin/sh
		{ echo "sendmail \$*"; cat; } >>$mails
	END
	chmod +x "$BATS_TEST_TMPDIR/bin/"*
	ln -s "$(command -v fusion)" "$BATS_TEST_TMPDIR/bin/fusiond"
	PATH=$BATS_TEST_TMPDIR/bin:$PATH
}
test_teardown() {
	[ -z "$daemon" ] || kill -KILL "$daemon" 2>/dev/null
	[ -z "$journal" ] || kill "$journal" 2>/dev/null
	rm -rf /run/fusion /run/systemd/journal/socket
	resume_all
	fusion pool stop --all >/dev/null
}

# monitor OPTION...: begins, and has seen what there is when it has written metrics.
monitor() {
	rm -f "$metrics"
	FUSIOND_PROGRAM=hook fusiond --metrics "$metrics" "$@" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" 3>&- &
	daemon=$!
	wait_for 20 test -e "$metrics" || { cat "$BATS_TEST_TMPDIR/err"; return 1; }
}
# At once, unless there are programs to be waited for.
end_monitor() {
	local pid=$daemon
	daemon=
	kill -TERM "$pid"
	wait_for 2 ended "$pid"
	wait "$pid"
}
# It waits for none.
interrupt_twice() {
	local pid=$daemon status=0
	kill -TERM "$pid"
	stays 1 ended "$pid"
	daemon=
	kill -TERM "$pid"
	wait_for 2 ended "$pid"
	wait "$pid" || status=$?
	[ $status -eq 1 ]
}
# count EVENT [POOL [MEMBER]]: how often it was told
count() { grep -cx -e "$1 ${2:-t-pool}${3:+ $3}" "$told"; }
told() { [ "$(count "$@")" -ge 1 ]; }
# all_told EVENT...: this was told, and nothing else, in this order
all_told() {
	local events
	events=$(cut -d' ' -f1 "$told" | xargs)
	[ "$events" = "$*" ] || { echo "told: $events"; return 1; }
}

# A journal that writes down what it gets, an entry a line.
fake_journal() {
	mkdir -p /run/systemd/journal
	perl -MIO::Socket::UNIX -e '
		my $s = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => "/run/systemd/journal/socket") or die;
		$| = 1;
		while (defined $s->recv(my $entry, 65536)) { $entry =~ s/\n/\t/g; print "$entry\n" }
	' >"$entries" 3>&- &
	journal=$!
	wait_for 20 test -S /run/systemd/journal/socket
}

# A pool with data that has to be rebuilt.
used_pool() {
	labelled_pool
	fusion volume create t-pool v0 --size 24M >/dev/null
	random 4096 | dd of=/dev/mapper/t-pool-v0 bs=1M iflag=fullblock oflag=direct status=none
	message convert
}

# What promtool checks of a file, as far as ours may be wrong: each line, that metrics of a name are
# together behind their type, and that none is there twice.
valid_metrics() {
	awk '
	/^# HELP [a-z_0-9]+ .+$/ { help = $3; if (seen[help]++) bad("again"); next }
	/^# TYPE [a-z_0-9]+ (counter|gauge)$/ { name = $3; type = $4; if (name != help) bad("no help"); next }
	/^[a-z_0-9]+\{([a-z_]+="([^"\\]|\\.)*",?)+\} [0-9.e+-]+$/ {
		split($0, parts, "{")
		if (parts[1] != name) bad("not below its type")
		if ((type == "counter") != (name ~ /_total$/)) bad("its name does not fit its type")
		labels = $0; sub(/ [^ ]*$/, "", labels)
		if (all[labels]++) bad("twice")
		n++
		next
	}
	{ bad("no metric") }
	function bad(why) { print why ": " $0; wrong = 1 }
	END { exit wrong || !n }' "$1"
}
metric() { grep -qxF "$1" "$metrics"; }

@test "a member fails, is rebuilt, and comes back: each of it is told once" {
	used_pool
	fake_journal
	monitor --mail root@example.org
	all_told
	message fail 3
	wait_for 20 told Fail t-pool /dev/mapper/t-m3
	message set paused 0
	wait_for 60 told RebuildFinished
	all_told Fail RebuildStarted RebuildFinished
	fusion device readd t-pool 3 >/dev/null
	wait_for 60 told SpareActive t-pool /dev/mapper/t-m3
	[ "$(count Fail t-pool /dev/mapper/t-m3)" -eq 1 ]
	[ "$(count Returning t-pool /dev/mapper/t-m3)" -eq 1 ]

	# the journal has fields
	local uuid
	uuid=$(fusion pool status t-pool --json | jq -r .uuid)
	grep -F "FUSION_EVENT=Fail" "$entries" | tr '\t' '\n' >"$BATS_TEST_TMPDIR/entry"
	diff "$BATS_TEST_TMPDIR/entry" - <<-END
		MESSAGE=member 3, /dev/mapper/t-m3, of pool t-pool has failed: it is not used any more; 'fusion device replace' puts another there
		PRIORITY=3
		SYSLOG_IDENTIFIER=fusiond
		MESSAGE_ID=e48de2cc7d5c470da6173674da45eb8f
		FUSION_EVENT=Fail
		FUSION_POOL=t-pool
		FUSION_POOL_UUID=$uuid
		FUSION_MEMBER=3
		FUSION_DEVICE=/dev/mapper/t-m3

	END
	# only what somebody has to do something about is mailed
	wait_for 20 grep -q "^ *7 " "$mails"
	[ "$(grep -c '^sendmail -t -oi$' "$mails")" -eq 1 ]
	grep -qx "To: root@example.org" "$mails"
	grep -q "^Subject: Fail event on t-pool:" "$mails"
	# where there is a journal there is nothing else
	[ ! -s "$BATS_TEST_TMPDIR/err" ]
	end_monitor
}

@test "degraded at its start; and what it missed is told after a restart, and nothing twice" {
	used_pool
	message fail 3
	monitor
	wait_for 20 told DegradedArray
	all_told DegradedArray
	# no journal
	grep -q '^<4>pool t-pool is degraded: member 3, /dev/mapper/t-m3 is failed: ' "$BATS_TEST_TMPDIR/err"
	end_monitor
	: >"$told"
	message set paused 0
	message rebuild
	monitor
	wait_for 20 told DegradedArray
	all_told RebuildStarted RebuildFinished DegradedArray
	run ! fusiond
	[[ $output == *"pools are monitored already"* ]]
	end_monitor
	: >"$told"
	fusion pool stop t-pool
	monitor
	wait_for 20 told DeviceDisappeared
	all_told DeviceDisappeared
}

@test "what was seen is told before it ends; or not, if it is ended again" {
	local gate=$BATS_TEST_TMPDIR/gate
	mkfifo "$gate"
	# the first one waits until the gate is opened
	cat >"$BATS_TEST_TMPDIR/bin/hook" <<-END
		#!/bin/sh
		[ -e $gate.open ] || cat $gate
		echo "\$*" >>$told
	END
	labelled_pool
	monitor --json
	message fail 3
	wait_for 20 in_output Fail
	fusion device readd t-pool 3 >/dev/null
	wait_for 20 in_output SpareActive
	kill -TERM "$daemon"
	stays 1 ended "$daemon"
	all_told
	touch "$gate.open"
	echo >"$gate"
	wait_for 20 ended "$daemon"
	wait "$daemon"
	all_told Fail Returning SpareActive

	rm "$gate.open"
	monitor --json
	message fail 4
	wait_for 20 in_output Fail
	interrupt_twice
	all_told Fail Returning SpareActive
	echo >"$gate"
}
in_output() { grep -qF "\"$1\"" "$BATS_TEST_TMPDIR/out"; }

@test "a pool that appears later, and goes; without a timer" {
	# it would not look by itself within the test
	monitor --interval 3600
	[ ! -s "$told" ]
	labelled_pool
	wait_for 20 told NewArray
	fusion pool stop t-pool
	wait_for 20 told DeviceDisappeared
	away 6
	start
	wait_for 20 told DegradedArray
	all_told NewArray DeviceDisappeared NewArray DegradedArray
	# by dmsetup, without labels
	fusion pool stop t-pool
	wait_for 20 all_told NewArray DeviceDisappeared NewArray DegradedArray DeviceDisappeared
	away 0 1 2 3 4 5 7
	no_journal
	make_pool
	wait_for 20 all_told NewArray DeviceDisappeared NewArray DegradedArray DeviceDisappeared NewArray
	end_monitor
}

@test "what happens to the pool itself" {
	members=4 spares=0 member_sectors=$((16 << 11))
	no_journal
	features="unlabelled error_if_no_space"
	make_pool
	volume 0 256 2
	monitor --interval 3600 --json
	dd if=/dev/zero of=/dev/mapper/t-v0 bs=128k oflag=direct status=none || :
	wait_for 20 told OutOfSpace
	told LowSpace
	blkdiscard /dev/mapper/t-v0
	wait_for 20 told ReadWrite
	jq -se 'map(select(.event == "OutOfSpace")) | length == 1 and .[0].pool == "t-pool" and .[0].member == null' "$BATS_TEST_TMPDIR/out"
	# the metadata cannot be written
	meta_table error
	random_to 0 0 16
	hand flush /dev/mapper/t-v0 2>/dev/null || :
	wait_for 20 told ReadOnly
	meta_table "$(meta_target)"
	end_monitor
}

@test "a scrub that finds something; of all pools" {
	used_pool
	monitor --interval 3600
	run fusion scrub --all
	[ "$status" -eq 0 ]
	[[ $output == "pool t-pool: "*" stripes and "* ]]
	all_told
	spoil
	run ! fusion scrub --all
	[[ $output == *"of pool t-pool does not fit"* ]]
	wait_for 20 told ScrubMismatch
	all_told ScrubMismatch
	fusion scrub --all --repair
	[ "$(fusion scrub --all --json | jq -c 'map([.pool, .mismatches])')" = '[["t-pool",0]]' ]
}
# All that is on member 2, but for what is before the data.
spoil() {
	local offset
	offset=$(dmsetup table t-pool | awk '{ print $14 }')
	random $(((member_sectors - offset) / 8)) |
		dd of=/dev/mapper/t-m2 bs=64k seek=$((offset << 9)) iflag=fullblock oflag=direct,seek_bytes status=none conv=notrunc
}

@test "metrics" {
	used_pool
	message fail 3
	monitor --interval 0.2
	valid_metrics "$metrics"
	metric 'fusion_pool_state{pool="t-pool",state="degraded"} 1'
	metric 'fusion_pool_state{pool="t-pool",state="ok"} 0'
	metric 'fusion_pool_answers{pool="t-pool"} 1'
	metric 'fusion_member_state{pool="t-pool",member="3",device="/dev/mapper/t-m3",state="failed"} 1'
	metric 'fusion_member_ok{pool="t-pool",member="3"} 0'
	metric 'fusion_member_ok{pool="t-pool",member="4"} 1'
	metric 'fusion_volume_size_bytes{pool="t-pool",volume="v0"} 25165824'
	metric "fusion_pool_converted_total{pool=\"t-pool\"} $(counter converted)"
	[ "$(stat -c %a "$metrics")" = 644 ]
	# they are renewed
	dd if=/dev/mapper/t-pool-v0 of=/dev/null bs=64k count=16 iflag=direct status=none
	wait_for 20 metric "fusion_pool_reads_total{pool=\"t-pool\"} $(counter reads)"
	# whoever looks sees all of it, or none
	for ((i = 0; i < 20; i++)); do
		valid_metrics "$metrics"
	done
	fusion pool stop t-pool
	wait_for 20 no_metrics
	end_monitor
	fusiond --metrics /nowhere/x.prom 2>"$BATS_TEST_TMPDIR/err" 3>&- &
	daemon=$!
	wait_for 20 grep -q "metrics cannot be written to /nowhere/x.prom" "$BATS_TEST_TMPDIR/err"
	away {0..7}
}
no_metrics() { ! grep -q '^[^#]' "$metrics"; }

@test "a pool that is suspended, and a program that hangs, hold up nobody" {
	cat >"$BATS_TEST_TMPDIR/bin/hangs" <<-END
		#!/bin/sh
		echo "\$*" >>$told
		exec sleep 1000
	END
	chmod +x "$BATS_TEST_TMPDIR/bin/hangs"
	labelled_pool
	back {8..11}
	fusion pool create t-two --json /dev/mapper/t-m{8..11} >/dev/null
	fake_journal
	monitor --program hangs --mail root
	dm suspend t-pool
	hand message t-two fail 2
	wait_for 20 told Fail t-two /dev/mapper/t-m10
	wait_for 20 grep -q "^Subject: Fail event on t-two:" "$mails"
	dm resume t-pool
	message fail 3
	wait_for 20 entered Fail /dev/mapper/t-m3
	wait_for 20 grep -q "^Subject: Fail event on t-pool:" "$mails"
	# the program has not ended
	all_told Fail
	interrupt_twice
	pkill -x sleep
}
# entered EVENT DEVICE: in the journal
entered() { grep -q "FUSION_EVENT=$1.*FUSION_DEVICE=$2" "$entries"; }

@test "a test of what is told" {
	run -1 fusiond --test --program hook
	[[ $output == *"no pool is running that says how it is"* ]]
	labelled_pool
	FUSIOND_PROGRAM=hook FUSIOND_MAIL=root FUSIOND_METRICS='' fusion monitor --test
	all_told TestMessage
	grep -q "^Subject: TestMessage event on t-pool:" "$mails"
	run -2 fusiond --mail $'root\nTo: other'
}
