#!/usr/bin/env bats
# A pool on disks that survive a reboot of the machine: each run of the virtual
# machine is a boot.

bats_require_minimum_version 1.5.0

state=$BATS_FILE_TMPDIR/disks
oracle=$BATS_TEST_DIRNAME/../../../build/oracle/oracle
# So many times the machine goes down while space is reclaimed.
reboots=${FUSION_REBOOTS:-1}

# boot SCRIPT [OPTION...]: in a machine with the disks.
boot() {
	local script=$1
	shift
	"$BATS_TEST_DIRNAME/../../vm/run" "$@" --disks 5 --disk-size 192M --state "$state" --timeout 180 -- \
		bash -euc "sum() { dd if=\$1 bs=1M iflag=direct status=none | md5sum | cut -c1-32; }; $script"
}

@test "a pool is made, written to and stopped; the next boot finds it" {
	boot '
		fusion pool create pool --json /dev/vd[a-e] >/dev/null
		fusion volume create pool a --size 24M --json >/dev/null
		fusion volume create pool b --size 16M --width 3 --json >/dev/null
		dd if=/dev/urandom of=/dev/mapper/pool-a bs=1M count=24 oflag=direct conv=fsync status=none
		dd if=/dev/urandom of=/dev/mapper/pool-a bs=4k seek=99 count=50 oflag=direct conv=fsync status=none
		dd if=/dev/urandom of=/dev/mapper/pool-b bs=4k count=500 oflag=direct conv=fsync status=none
		sum /dev/mapper/pool-a
		sum /dev/mapper/pool-b
		fusion pool stop pool
	' >"$BATS_FILE_TMPDIR/sums"
	[ "$(grep -cE '^[0-9a-f]{32}$' "$BATS_FILE_TMPDIR/sums")" -eq 2 ]
	boot '
		fusion pool start pool >/dev/null
		! dmesg | grep "not stopped cleanly" >&2
		sum /dev/mapper/pool-a
		sum /dev/mapper/pool-b
	' | diff - <(grep -E '^[0-9a-f]{32}$' "$BATS_FILE_TMPDIR/sums")
}

# The boot before ended without a stop, with nothing under way.
@test "the machine goes down with the pool running; the next boot has what was flushed" {
	[ -s "$BATS_FILE_TMPDIR/sums" ] || skip "needs the test before"
	boot '
		fusion pool start pool >/dev/null
		dmesg | grep -q "not stopped cleanly"
		dd if=/dev/urandom of=/dev/mapper/pool-a bs=512k count=48 oflag=direct status=none
		dd if=/dev/urandom of=/dev/mapper/pool-a bs=4k seek=10 count=300 oflag=direct conv=fsync status=none
		dd if=/dev/urandom of=/dev/mapper/pool-b bs=64k count=20 oflag=direct conv=fsync status=none
		sum /dev/mapper/pool-a
		sum /dev/mapper/pool-b
		# and now in the middle of writes
		fusion volume create pool c --size 8M --json >/dev/null
		dd if=/dev/zero of=/dev/mapper/pool-c bs=4k oflag=direct status=none &
	' --kernel 6.12 >"$BATS_FILE_TMPDIR/sums"
	echo "# power cuts: 2" >&3
	[ "$(grep -cE '^[0-9a-f]{32}$' "$BATS_FILE_TMPDIR/sums")" -eq 2 ]
	boot '
		fusion pool start pool >/dev/null
		dmesg | grep -q "not stopped cleanly"
		dmsetup message pool 0 resync
		sum /dev/mapper/pool-a
		sum /dev/mapper/pool-b
		cmp -n 8388608 /dev/zero <(dd if=/dev/mapper/pool-c bs=1M iflag=direct status=none) >&2
		fusion pool status pool --json | jq -r .state >&2
		fusion pool stop pool >/dev/null
	' | diff - <(grep -E '^[0-9a-f]{32}$' "$BATS_FILE_TMPDIR/sums")
}

# The oracle says what was flushed, the pool whether the parity of all stripes fits, and fusion
# check whether what the metadata says of blocks is what it says of stripes.
@test "the machine goes down while sets are converted and space is reclaimed" {
	local n converted=0 compacted=0
	state=$BATS_TEST_TMPDIR/disks
	boot "
		fusion pool create pool --json /dev/vd[a-e] >/dev/null
		fusion volume create pool a --size 32M --json >/dev/null
		fusion volume create pool b --size 24M --width 3 --json >/dev/null
		fusion volume create pool c --size 16M --json >/dev/null
		fusion pool stop pool >/dev/null"
	for ((n = 1; n <= reboots; n++)); do
		boot "
			counter() { fusion pool status pool --json | jq .counters.\$1; }
			under_load() { while dmsetup message pool 0 convert; do :; done; }
			fusion check pool >&2
			fusion pool start pool >/dev/null
			if [ $n -gt 1 ]; then
				dmesg | grep -q 'not stopped cleanly'
				$oracle verify --state \$OUT/state /dev/mapper/pool-{a,b} >&2
				dmsetup message pool 0 scrub
				[ \$(counter scrub_mismatches) -eq 0 ]
			fi
			dmsetup message pool 0 set soft_percent 0
			under_load &
			while dd if=/dev/urandom of=/dev/mapper/pool-c bs=64k oflag=direct; do :; done 2>/dev/null &
			$oracle run --torn --state \$OUT/state --seed $n --seconds $((4 + n % 3)) /dev/mapper/pool-{a,b} >&2
			counter converted
			counter compacted" \
			--kernel "$([ $((n % 2)) -eq 0 ] && echo 6.1 || echo 6.12)" --out "$BATS_TEST_TMPDIR" >"$BATS_TEST_TMPDIR/counters"
		converted=$((converted + $(sed -n 1p "$BATS_TEST_TMPDIR/counters")))
		echo "# power cuts: 1" >&3
		compacted=$((compacted + $(sed -n 2p "$BATS_TEST_TMPDIR/counters")))
	done
	echo "$converted sets were converted, $compacted stripes filled"
	[ $converted -gt 0 ]
	[ $compacted -gt 0 ]
	boot "
		fusion check pool >&2
		fusion pool start pool >/dev/null
		$oracle verify --state \$OUT/state /dev/mapper/pool-{a,b} >&2
		dmsetup message pool 0 scrub
		fusion pool status pool --json | jq -e '.counters.scrub_mismatches == 0' >&2
		fusion pool stop pool >/dev/null" --out "$BATS_TEST_TMPDIR"
}
