#!/usr/bin/env bats
# tests/vm/run keeps its promises.

bats_require_minimum_version 1.5.0

run_vm() { "$BATS_TEST_DIRNAME/../../vm/run" "$@"; }

@test "arguments, output, status, \$OUT and disks come through" {
	cd "$BATS_TEST_DIRNAME"
	cat >"$BATS_TEST_TMPDIR/script" <<-'END'
		printf '[%s]' "$@"
		printf 'bytes \001\377\r\n' >&2
		pwd >"$OUT/pwd"
		echo "$FUSION_TEST_WORD" >"$OUT/word"
		cat /sys/block/vdb/serial >"$OUT/serial"
		echo "kept by the disk" | dd of=/dev/vdb bs=4k conv=sync oflag=direct status=none
		exit 7
	END
	FUSION_TEST_WORD="a word" run --separate-stderr run_vm --disks 2 --disk-size 8M \
		--state "$BATS_FILE_TMPDIR/state" --out "$BATS_TEST_TMPDIR/out" --timeout 120 -- \
		bash "$BATS_TEST_TMPDIR/script" "two words" "" "'\"\$x*" $'new\nline'
	[ "$status" -eq 7 ]
	[ "$output" = "[two words][]['\"\$x*]["$'new\nline]' ]
	[ "$stderr" = "$(printf 'bytes \001\377\r')" ]
	[ "$(cat "$BATS_TEST_TMPDIR/out/pwd")" = "$BATS_TEST_DIRNAME" ]
	[ "$(cat "$BATS_TEST_TMPDIR/out/word")" = "a word" ]
	[ "$(cat "$BATS_TEST_TMPDIR/out/serial")" = disk1 ]
}

@test "disks survive, and more output than any buffer arrives" {
	[ -f "$BATS_FILE_TMPDIR/state/disk1" ] || skip "needs the test before"
	run_vm --kernel 6.12 --disks 2 --state "$BATS_FILE_TMPDIR/state" --timeout 120 -- \
		sh -c 'head -n 1 /dev/vdb | tr -d "\0" >&2; head -c 20000000 /dev/zero; sleep 1000 &' \
		>"$BATS_TEST_TMPDIR/stdout" 2>"$BATS_TEST_TMPDIR/stderr"
	grep -qx "kept by the disk" "$BATS_TEST_TMPDIR/stderr"
	[ "$(stat -c %s "$BATS_TEST_TMPDIR/stdout")" -eq 20000000 ]
}

@test "a command that takes too long is ended with status 124" {
	run -124 run_vm --timeout 10 -- sh -c 'echo before; sleep 1000'
	[ "${lines[0]}" = before ]
	[[ $output == *"timed out"* ]]
}

@test "a warning of the kernel is status 125, whatever the command says" {
	run -125 run_vm --timeout 120 -- sh -c 'echo "WARNING: CPU: 0 PID: 1 at test" >/dev/kmsg'
	[[ $output == *"| "*"WARNING: CPU: 0 PID: 1 at test"* ]]
}

@test "a kernel that dies is status 125, with its last words" {
	# What the command has said is here before it dies: a pipe's contents die with the kernel.
	run_vm --out "$BATS_TEST_TMPDIR/out" --timeout 120 -- sh -c 'echo before
		until [ -e "$OUT/die" ]; do sleep 0.1; done
		echo c >/proc/sysrq-trigger; sleep 1000' >"$BATS_TEST_TMPDIR/said" 2>&1 3>&- &
	pid=$!
	until grep -qx before "$BATS_TEST_TMPDIR/said"; do
		kill -0 $pid
		sleep 0.1
	done
	touch "$BATS_TEST_TMPDIR/out/die"
	status=0
	wait $pid || status=$?
	[ "$status" -eq 125 ]
	[ "$(head -n 1 "$BATS_TEST_TMPDIR/said")" = before ]
	grep "Kernel panic" "$BATS_TEST_TMPDIR/said"
}

# dies FLAGS: a kernel that dies of a double fault with those flags.
dies() {
	FUSION_ACCEL=tcg run "-$2" run_vm --timeout 120 -- sh -c "
		echo 'traps: PANIC: double fault, error_code: 0x0' >/dev/kmsg
		echo 'RSP: 0018:ffffc90002ab7690 EFLAGS: $1' >/dev/kmsg
		echo c >/proc/sysrq-trigger; sleep 1000"
}

@test "an emulator that errs is status 126, a kernel that does is not" {
	dies 08d2c20a 126
	dies 00010246 125
	# What comes first counts.
	FUSION_ACCEL=tcg run -125 run_vm --timeout 120 -- sh -c "
		echo 'BUG: kernel NULL pointer dereference' >/dev/kmsg
		echo 'traps: PANIC: double fault, error_code: 0x0' >/dev/kmsg
		echo 'EFLAGS: 08d2c20a' >/dev/kmsg"
}

# breaks BYTE STATUS: a kernel that dies of an int3 after that byte.
breaks() {
	FUSION_ACCEL=tcg run "-$2" run_vm --timeout 120 -- sh -c "
		echo 'Oops: int3: 0000 [#1] PREEMPT SMP NOPTI' >/dev/kmsg
		echo 'RIP: 0010:sched_clock_cpu+0x9/0x190' >/dev/kmsg
		echo 'Code: 00 e9 b8 fe ff ff 66 53 $1 <90> e8 41 ac f0 ff' >/dev/kmsg
		echo c >/proc/sysrq-trigger; sleep 1000"
}

@test "a breakpoint where there is none is the emulator's, one that is there is not" {
	breaks 66 126
	breaks cc 125
}

@test "an emulator that errs before the command begins is given another try" {
	# A stand-in for QEMU that is one only the second time.
	mkdir "$BATS_TEST_TMPDIR/bin"
	cat >"$BATS_TEST_TMPDIR/bin/qemu-system-x86_64" <<-'END'
		#!/bin/bash
		echo . >>"$TRIES"
		if [ "$(wc -l <"$TRIES")" -gt "$FAILURES" ]; then
			exec /usr/bin/qemu-system-x86_64 "$@"
		fi
		[[ "$*" =~ id=console,path=([^ ]*) ]]
		cat >"${BASH_REMATCH[1]}" <<-'LOG'
			[    2.409490] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI
			[    2.409977] RIP: 0010:sched_clock_cpu+0x9/0x190
			[    2.410218] Code: 00 e9 b8 fe ff ff 66 53 66 <90> e8 41 ac f0 ff
		LOG
	END
	chmod +x "$BATS_TEST_TMPDIR/bin/qemu-system-x86_64"
	export PATH="$BATS_TEST_TMPDIR/bin:$PATH" TRIES="$BATS_TEST_TMPDIR/tries" FAILURES=1
	FUSION_ACCEL=tcg run -7 run_vm --timeout 120 -- sh -c 'exit 7'
	[[ $output == *"another machine"* ]]
	rm "$TRIES"
	FAILURES=5 FUSION_ACCEL=tcg run -126 run_vm --timeout 120 -- sh -c 'exit 7'
	[ "$(wc -l <"$TRIES")" -eq 2 ]
}

@test "the virtual machine dies with its runner" {
	# Killed so, it cannot remove its files either.
	TMPDIR=$BATS_TEST_TMPDIR "$BATS_TEST_DIRNAME/../../vm/run" --timeout 120 \
		--out "$BATS_TEST_TMPDIR/out" -- sh -c 'echo up >$OUT/up; sleep 1000' 3>&- &
	pid=$!
	for _ in {1..3000}; do
		[ ! -e "$BATS_TEST_TMPDIR/out/up" ] || break
		sleep 0.1
	done
	[ -e "$BATS_TEST_TMPDIR/out/up" ]
	qemu=$(pgrep -P $pid -f qemu-system)
	kill -KILL $pid
	for _ in {1..50}; do
		kill -0 "$qemu" 2>/dev/null || break
		sleep 0.1
	done
	run ! kill -0 "$qemu"
}

@test "mistakes on the command line are status 125" {
	run -125 run_vm
	run -125 run_vm --nonsense 1 -- true
	run -125 run_vm --disks 1 -- true
	run -125 run_vm --ssds x -- true
	run -0 run_vm --help
}
