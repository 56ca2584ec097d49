#!/usr/bin/env bats
# The simulated SSD keeps what was flushed and may lose the rest.

bats_require_minimum_version 1.5.0

dev=/dev/mapper/ssdsim-test
# Without udev, who makes a device makes its node.
[ -e /run/udev/control ] || export DM_DISABLE_UDEV=1
pages=256

setup() {
	dmsetup create ssdsim-test --table "0 $((pages * 8)) ssdsim 1"
}

teardown() {
	dmsetup message ssd0 0 power_on_all || :
	dmsetup remove --retry ssdsim-test2 2>/dev/null || :
	dmsetup remove --retry ssdsim-test
}

# fill LETTER [DD-OPTION...]: write the letter all over the device.
fill() {
	local letter=$1
	shift
	head -c $((pages * 4096)) /dev/zero | tr '\0' "$letter" |
		dd of=$dev bs=64k iflag=fullblock oflag=direct status=none "$@"
}

# What each page holds, one letter a line (0: zeros, ?: not all the same).
letters() {
	dd if=$dev bs=64k iflag=direct status=none | perl -e '
		while (read(STDIN, $page, 4096) == 4096) {
			$c = substr($page, 0, 1);
			print $page ne $c x 4096 ? "?" : $c eq "\0" ? "0" : $c, "\n";
		}'
}

count() { grep -cx "$1" || :; }

# field N: of the status, counted from 1 after the target's name.
field() { dmsetup status ssdsim-test | cut -d' ' -f$((3 + $1)); }

@test "reads zeros, then what was written" {
	[ "$(letters | count 0)" -eq $pages ]
	fill a
	[ "$(letters | count a)" -eq $pages ]
	[ "$(field 9)" -eq $pages ]
}

@test "a power cut loses some unflushed pages and keeps others, whole" {
	fill a conv=fsync
	fill b
	[ "$(field 9)" -eq $pages ]
	dmsetup message ssdsim-test 0 power_cut 7
	dmsetup message ssdsim-test 0 power_on
	letters >"$BATS_TEST_TMPDIR/after"
	a=$(count a <"$BATS_TEST_TMPDIR/after")
	b=$(count b <"$BATS_TEST_TMPDIR/after")
	echo "$a old, $b new"
	[ "$a" -gt $((pages / 4)) ]
	[ "$b" -gt $((pages / 4)) ]
	[ $((a + b)) -eq $pages ]
	[ "$(field 9)" -eq 0 ]
}

@test "the seed alone decides what is lost" {
	for seed in 1 1 2; do
		fill a conv=fsync
		fill b
		dmsetup message ssdsim-test 0 power_cut $seed
		dmsetup message ssdsim-test 0 power_on
		letters | md5sum
	done >"$BATS_TEST_TMPDIR/sums"
	mapfile -t sums <"$BATS_TEST_TMPDIR/sums"
	[ "${sums[0]}" = "${sums[1]}" ]
	[ "${sums[0]}" != "${sums[2]}" ]
}

@test "a power cut that is to lose it loses all that was not flushed" {
	fill a conv=fsync
	fill b
	dmsetup message ssdsim-test 0 power_cut lose
	dmsetup message ssdsim-test 0 power_on
	[ "$(letters | count a)" -eq $pages ]
}

@test "flushed data survives a power cut" {
	fill a conv=fsync
	[ "$(field 4)" -gt 0 ]
	dmsetup message ssdsim-test 0 power_cut 3
	dmsetup message ssdsim-test 0 power_on
	[ "$(letters | count a)" -eq $pages ]
}

@test "FUA data survives a power cut" {
	fill b
	# O_DSYNC with direct I/O is FUA where the device has it.
	fill a oflag=direct,dsync
	[ "$(field 5)" -gt 0 ]
	dmsetup message ssdsim-test 0 power_cut 3
	dmsetup message ssdsim-test 0 power_on
	[ "$(letters | count a)" -eq $pages ]
}

@test "without power there is no I/O" {
	fill a conv=fsync
	dmsetup message ssdsim-test 0 power_cut
	[ "$(field 1)" = off ]
	run dd if=$dev of=/dev/null bs=4k count=1 iflag=direct
	[ "$status" -ne 0 ]
	run dd if=/dev/zero of=$dev bs=4k count=1 oflag=direct
	[ "$status" -ne 0 ]
	dmsetup message ssdsim-test 0 power_on
	[ "$(letters | count a)" -eq $pages ]
}

@test "discarded pages read as zeros, and give their memory back" {
	fill a conv=fsync
	blkdiscard -o $((16 * 4096)) -l $((64 * 4096)) $dev
	[ "$(letters | count 0)" -eq 64 ]
	[ "$(letters | count a)" -eq $((pages - 64)) ]
	[ "$(field 6) $(field 7)" = "1 512" ]
	# A discard that was not flushed may be lost: till then memory is kept.
	[ "$(field 10)" -eq $pages ]
	sync $dev
	[ "$(field 10)" -eq $((pages - 64)) ]
}

@test "writes of less than a page keep the rest of it" {
	fill a conv=fsync
	printf 'b%.0s' {1..512} | dd of=$dev bs=512 seek=1 oflag=direct status=none
	dd if=$dev bs=4k count=1 iflag=direct status=none | tr -d '\n' >"$BATS_TEST_TMPDIR/page"
	[ "$(tr -cd a <"$BATS_TEST_TMPDIR/page" | wc -c)" -eq 3584 ]
	[ "$(dd if="$BATS_TEST_TMPDIR/page" bs=512 skip=1 count=1 status=none | tr -cd b | wc -c)" -eq 512 ]
}

@test "power_cut_all cuts every device, also under load" {
	dmsetup create ssdsim-test2 --table "0 $((pages * 8)) ssdsim 2"
	fill a &
	dd if=/dev/zero of=/dev/mapper/ssdsim-test2 bs=4k count=$pages oflag=direct status=none &
	dmsetup message ssd0 0 power_cut_all 5
	wait || :
	for d in ssd0 ssdsim-test ssdsim-test2; do
		dmsetup status $d | grep -q 'ssdsim off'
	done
	dmsetup message ssdsim-test2 0 power_on_all
	for d in ssd0 ssdsim-test ssdsim-test2; do
		dmsetup status $d | grep -q 'ssdsim on'
	done
}

@test "bad tables and messages are refused" {
	run ! dmsetup message ssdsim-test 0 power_cut x
	run ! dmsetup message ssdsim-test 0 nonsense
	run ! dmsetup create ssdsim-test2 --table "0 8 ssdsim x"
	run ! dmsetup create ssdsim-test2 --table "0 8 ssdsim 1 2"
	[ "$(dmsetup table ssdsim-test)" = "0 $((pages * 8)) ssdsim 1" ]
}

# Some I/O is held; udev's probing may be, too.
await_held() {
	local deadline=$((SECONDS + 20))
	until [ "$(field 15)" -ge 1 ]; do
		[ $SECONDS -le $deadline ]
		sleep 0.05
	done
}

@test "holds back what it is told to, and does it when released" {
	fill a
	udevadm settle
	dmsetup message ssdsim-test 0 hold reads
	dd if=$dev of="$BATS_TEST_TMPDIR/read" bs=4k count=1 iflag=direct status=none 3>&- &
	pid=$!
	await_held
	# Writes go on, and the read sees what is there when it is done.
	fill b
	[ ! -s "$BATS_TEST_TMPDIR/read" ]
	dmsetup message ssdsim-test 0 step
	wait $pid
	[ "$(head -c 1 "$BATS_TEST_TMPDIR/read")" = b ]
	# They are held still.
	dd if=$dev of=/dev/null bs=4k count=1 iflag=direct status=none 3>&- &
	pid=$!
	await_held
	dmsetup message ssdsim-test 0 release
	wait $pid
	udevadm settle
	[ "$(field 15)" -eq 0 ]
	dmsetup message ssdsim-test 0 hold writes
	dd if=/dev/zero of=$dev bs=4k count=1 oflag=direct status=none 3>&- &
	pid=$!
	await_held
	[ "$(letters | count b)" -eq $pages ]
	# A device that is suspended lets everything go.
	dmsetup suspend ssdsim-test
	dmsetup resume ssdsim-test
	wait $pid
	[ "$(letters | count 0)" -eq 1 ]
}

@test "discards are held back apart from writes, and fail when told to" {
	fill a
	# blkdiscard locks the device that it is given, so it is given another
	dmsetup create ssdsim-test2 --table "0 $((pages * 8)) linear $dev 0"
	udevadm settle
	dmsetup message ssdsim-test 0 hold discards
	blkdiscard -l 65536 /dev/mapper/ssdsim-test2 3>&- &
	pid=$!
	await_held
	dd if=/dev/zero of=$dev bs=4k seek=100 count=1 oflag=direct status=none
	[ "$(field 7)" -eq 0 ]
	dmsetup message ssdsim-test 0 release
	wait $pid
	[ "$(letters | count 0)" -eq 17 ]
	dmsetup remove --retry ssdsim-test2
	dmsetup message ssdsim-test 0 fail discards yes
	run ! blkdiscard $dev
	[ "$(letters | count 0)" -eq 17 ]
	dmsetup message ssdsim-test 0 fail discards no
	blkdiscard $dev
	[ "$(letters | count 0)" -eq $pages ]
}

page_reads() { dd if=$dev of=/dev/null bs=4k count=1 skip="$1" iflag=direct status=none; }
page_writes() { dd if=/dev/zero of=$dev bs=4k count=1 seek="$1" oflag=direct status=none; }

@test "reads and writes fail when told to" {
	fill a
	dmsetup message ssdsim-test 0 fail reads yes
	run ! page_reads 0
	page_writes 0
	dmsetup message ssdsim-test 0 fail reads no
	page_reads 0
	dmsetup message ssdsim-test 0 fail writes yes
	run ! page_writes 1
	dmsetup message ssdsim-test 0 fail writes no
	page_writes 1
	[ "$(letters | count 0)" -eq 2 ]
}

@test "bad pages cannot be read until they are written or discarded" {
	fill a
	dmsetup message ssdsim-test 0 bad 3 2
	page_reads 2
	run ! page_reads 3
	page_writes 3
	page_reads 3
	run ! page_reads 4
	page_reads 5
	dmsetup message ssdsim-test 0 good
	page_reads 4
	dmsetup message ssdsim-test 0 bad 1 3 100
	page_reads 100
	for page in 1 101 201; do
		run ! page_reads $page
	done
	blkdiscard -f $dev
	[ "$(letters | count 0)" -eq $pages ]
}

# microseconds COMMAND...: how long it takes.
microseconds() {
	local start=${EPOCHREALTIME/[.,]/}
	"$@"
	echo $((${EPOCHREALTIME/[.,]/} - start))
}
# For a figure of at least so many.
at_least() { [ "$2" -ge "$1" ] || { echo "$2 is less than $1"; return 1; }; }

@test "I/O takes the time of its bytes, one after the other" {
	udevadm settle
	# udev reads, too, when somebody has written: that takes none.
	dmsetup message ssdsim-test 0 time 0 0 0 5
	took=$(microseconds fill a)
	at_least 209715 "$took"
	[ "$(field 8)" -eq 209715 ]
	# Many at once take no less.
	took=$(microseconds fio --name=a --filename=$dev --rw=write --bs=4k --ioengine=libaio --iodepth=64 --direct=1 \
		--output=/dev/null)
	at_least 209715 "$took"
	[ "$(field 8)" -eq $((2 * 209715)) ]
	udevadm settle
	dmsetup message ssdsim-test 0 time 0 0 10 5
	took=$(microseconds dd if=$dev of=/dev/null bs=64k iflag=direct status=none)
	at_least 104857 "$took"
	busy=$(field 8)
	at_least $((2 * 209715 + 104857)) "$busy"
	dmsetup message ssdsim-test 0 time off
	[ "$(letters | wc -l)" -eq $pages ]
	[ "$(field 8)" -eq "$busy" ]
}

@test "I/O takes its latency, which overlaps" {
	udevadm settle
	dmsetup message ssdsim-test 0 time 300000 200000 0 0
	took=$(microseconds dd if=/dev/zero of=$dev bs=4k count=3 oflag=direct status=none)
	at_least 600000 "$took"
	took=$(microseconds dd if=$dev of=/dev/null bs=4k count=2 iflag=direct status=none)
	at_least 600000 "$took"
	# a minute, one after the other
	took=$(microseconds fio --name=a --filename=$dev --rw=randread --bs=4k --ioengine=libaio --iodepth=256 --direct=1 \
		--output=/dev/null)
	at_least 300000 "$took"
	at_least "$took" 40000000
	[ "$(field 8)" -eq 0 ]
	dmsetup message ssdsim-test 0 time off
}

@test "reset_all and erase_all: as at first" {
	fill a conv=fsync
	dmsetup message ssdsim-test 0 bad 3 2
	dmsetup message ssdsim-test 0 time 0 0 0 5
	dmsetup message ssdsim-test 0 hold discards
	dmsetup message ssdsim-test 0 fail_all reads yes
	dmsetup message ssdsim-test 0 fail flushes yes
	dmsetup message ssdsim-test 0 power_cut_all 1
	run ! fill b
	dmsetup message ssdsim-test 0 reset_all
	[ "$(letters | count a)" -eq $pages ]
	[ "$(dd if=/dev/mapper/ssd0 bs=4k count=1 iflag=direct status=none | wc -c)" -eq 4096 ]
	fill b conv=fsync
	blkdiscard -l 4096 $dev
	[ "$(letters | sort | uniq -c | tr -s ' \n' ' ')" = " 1 0 $((pages - 1)) b " ]
	dmsetup message ssd0 0 erase_all
	[ "$(letters | count 0)" -eq $pages ]
	[ "$(field 9) $(field 10)" = "0 0" ]
	fill a
	[ "$(letters | count a)" -eq $pages ]
	run ! dmsetup message ssdsim-test 0 fail_all reads perhaps
	run ! dmsetup message ssdsim-test 0 fail_all nonsense yes
}

# What was cached then is not there either.
@test "what was stable is saved, and put back" {
	fill a conv=fsync
	fill b count=1
	dmsetup message ssdsim-test 0 save_all
	fill c conv=fsync
	fill d
	for _ in 1 2; do
		dmsetup message ssdsim-test 0 restore_all
		[ "$(letters | count a)" -eq $pages ]
		[ "$(field 9)" -eq 0 ]
		blkdiscard -l 40960 $dev
		fill e conv=fsync
		[ "$(field 10)" -eq $pages ]
	done
	dmsetup message ssdsim-test 0 forget_all
	dmsetup message ssdsim-test 0 restore_all
	[ "$(letters | count 0)" -eq $pages ]
	[ "$(field 10)" -eq 0 ]
}

@test "data that is not kept takes no memory" {
	fill a
	stored=$(field 10)
	dmsetup message ssdsim-test 0 keep_data no
	fill b
	[ "$(field 10)" -eq "$stored" ]
	dmsetup message ssdsim-test 0 keep_data yes
	[ "$(letters | count a)" -eq $pages ]
	run ! dmsetup message ssdsim-test 0 keep_data perhaps
	run ! dmsetup message ssdsim-test 0 time 1 2 3
	run ! dmsetup message ssdsim-test 0 time 1000001 0 0 0
	run ! dmsetup message ssdsim-test 0 time 0 0 a 0
}

# written MIB: so much is written; sets $took, $buffers, $garbage and $stalled.
written() {
	dmsetup message ssdsim-test 0 drive A aged
	took=$(microseconds dd if=/dev/zero of=$dev bs=1M count="$1" oflag=direct,seek_bytes seek=0 status=none)
	buffers=$(field 11) garbage=$(field 12) stalled=$(field 14)
	dmsetup message ssdsim-test 0 time off
}

@test "a drive flushes its buffer and collects garbage, after what the seed says" {
	udevadm settle
	dmsetup remove ssdsim-test
	dmsetup create ssdsim-test --table "0 $((192 << 11)) ssdsim 1"
	dmsetup message ssdsim-test 0 keep_data no
	written 192
	first="$buffers $garbage $stalled"
	echo "$first in $took us"
	at_least 12 "$buffers"
	at_least "$buffers" 13
	at_least 2 "$garbage"
	at_least "$garbage" 4
	at_least $((buffers * 3000 + garbage * 54000)) "$stalled"
	at_least "$stalled" $((buffers * 12000 + garbage * 216000))
	at_least "$stalled" "$took"
	written 192
	[ "$buffers $garbage $stalled" = "$first" ]
	dmsetup remove ssdsim-test
	dmsetup create ssdsim-test --table "0 $((192 << 11)) ssdsim 2"
	dmsetup message ssdsim-test 0 keep_data no
	written 192
	[ "$buffers $garbage $stalled" != "$first" ]
}

@test "what is under way to a drive that stands still comes after that" {
	udevadm settle
	run ! dmsetup message ssdsim-test 0 stall 1000
	dmsetup message ssdsim-test 0 time 1000000 0 0 0
	start=${EPOCHREALTIME/[.,]/}
	dd if=$dev of=/dev/null bs=4k count=1 iflag=direct status=none 3>&- &
	# it may not have come yet: then all of the stall is before it
	dmsetup message ssdsim-test 0 stall 2000000
	dmsetup message ssdsim-test 0 stall 1000000 1
	wait $!
	took=$((${EPOCHREALTIME/[.,]/} - start))
	at_least 4000000 "$took"
	[ "$(field 13) $(field 14)" = "2 3000000" ]
	for bad in "stall" "stall a" "stall 1 2 3" "drive" "drive A" "drive B aged" "drive A old" "drive A aged 0" \
		"drive A aged 1001" "drive A aged 1 2"; do
		# shellcheck disable=SC2086
		run ! dmsetup message ssdsim-test 0 $bad
	done
	dmsetup message ssdsim-test 0 time off
}

@test "load comes at its time, though what came before it has not ended" {
	[[ $(uname -r) != *-debug-* ]] || skip "a kernel that checks all that it does is too slow for this load"
	load=${LOAD:-$BATS_TEST_DIRNAME/../../build/load/load}
	udevadm settle
	dmsetup message ssdsim-test 0 time 2000 2000 0 0
	# it begins soon after that
	dmsetup message ssdsim-test 0 stall 2000000
	"$load" --seconds 6 --cdf $dev:200:50:8 >"$BATS_TEST_TMPDIR/load"
	cat "$BATS_TEST_TMPDIR/load"
	[ "$(jq '.all.p50 > 2000000 and .all.p50 < 500000000' "$BATS_TEST_TMPDIR/load")" = true ]
	[ "$(jq '.devices[0].all.max >= 900000000 and .devices[0].all.p90 > 200000000' "$BATS_TEST_TMPDIR/load")" = true ]
	# all of the six seconds' came, and those of two of these were late
	[ "$(jq '.all.ios > 1000 and .all.ios < 1400 and (.devices[0] | .read.ios + .write.ios == .all.ios)' \
		"$BATS_TEST_TMPDIR/load")" = true ]
	[ "$(jq '.devices[0].worst | length' "$BATS_TEST_TMPDIR/load")" -eq 400 ]
	[ "$(jq '.devices[0].worst | max' "$BATS_TEST_TMPDIR/load")" = "$(jq .all.max "$BATS_TEST_TMPDIR/load")" ]
	"$load" --seconds 2 --ramp 1.5 $dev:200:100:4.096:same >"$BATS_TEST_TMPDIR/load"
	[ "$(jq '.all.ios > 60 and .all.ios < 140 and .all.ios * 4096 < .devices[0].write_bytes / 2 and
		.devices[0].read.ios == 0' "$BATS_TEST_TMPDIR/load")" = true ]
	dmsetup message ssdsim-test 0 time off
	# errors are told
	dmsetup message ssdsim-test 0 fail writes yes
	run -1 "$load" --seconds 1 $dev:100:50:8
	[[ "$output" == *"$dev: write: Input/output error"* ]]
	dmsetup message ssdsim-test 0 fail writes no
	echo "0,0,4096,X,0.1" >"$BATS_TEST_TMPDIR/trace"
	run -1 "$load" --seconds 1 "$dev:spc:$BATS_TEST_TMPDIR/trace"
	[[ "$output" == *"record 1"* ]]
	for bad in "" $dev "$dev:1:2" "$dev:0:2:3" "$dev:1:101:3" "$dev:1:2:3:4" "$dev:1:2:3same" "$dev:msr:/nowhere" /nowhere:1:2:3; do
		run -2 "$load" "$bad"
	done
	run -2 "$load" --seconds 0 $dev:1:2:3
}
