#!/usr/bin/env bats
# Reclaim by itself: conversion, compaction, limits, and pools that are full.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/power.bash
source "$BATS_TEST_DIRNAME/power.bash"

cuts=${FUSION_RECLAIM_CUTS:-12}
# The full pool is overwritten so many times.
times=${FUSION_RECLAIM_TIMES:-2}

test_setup() {
	background=auto
	spares=0 member_sectors=$((32 << 11))
}
test_teardown() {
	parameter no_space_timeout 60
	dmsetup resume t-meta 2>/dev/null || :
}

# overwrite VOLUME SIZE [OPTION...]: at random, with data that is verified.
overwrite() {
	local volume=$1 size=$2
	shift 2
	fio --output-format=terse --direct=1 --ioengine=libaio --verify=crc32c --verify_fatal=1 --do_verify=1 \
		--verify_backlog=512 --randrepeat=1 --group_reporting --thread --rw=randwrite --norandommap --serialize_overlap=1 \
		--iodepth=16 --bs=64k --io_size="$size" --name=o --filename=/dev/mapper/t-v"$volume" "$@" \
		>"$BATS_TEST_TMPDIR/fio" 2>&1 || { cat "$BATS_TEST_TMPDIR/fio"; return 1; }
}

# full_pool PERCENT DATA PARITY: a volume, t-v0, with so much of the data that fits.
# Seven of eight members are the widest stripes: nothing of a band is left over.
full_pool() {
	make_pool
	volume 0 400 "$2" "$3"
	blocks=$(($(space free) * $1 * $2 / 700))
	dd if=/dev/urandom of=/dev/mapper/t-v0 bs=$((64 * $2))k oflag=direct iflag=fullblock count=$((blocks / $2)) status=none
	blocks=$((blocks / $2 * $2))
}
# Sets of 2 MiB of data: 32 blocks.
some_sets() {
	make_pool
	message set idle_ms 0
	message set age_s 0
	message set soft_percent 100
	message set limit_percent 50
	volume 0 8 3
	random_to 0 0 512
	flush
	area=$(counter replica_area)
	[ "$area" -gt 0 ]
}
# always SECONDS COMMAND...: true all the time.
always() {
	local deadline=$((SECONDS + $1))
	shift
	while [ $SECONDS -lt $deadline ]; do
		"$@"
	done
}
unchanged() { [ "$(counter replica_area) $(counter converted)" = "$area 0" ]; }

@test "nothing is converted as long as no setting says so" {
	some_sets
	always 2 unchanged
	message set paused 1
	message set soft_percent 1
	message set age_s 1
	message set idle_ms 1
	always 3 unchanged
	message set paused 0
	wait_for 10 none_replicated
	parity_fits
}

@test "old sets are converted" {
	some_sets
	message set age_s 1
	wait_for 10 none_replicated
}

@test "idle members' sets are converted" {
	some_sets
	message set idle_ms 300
	wait_for 10 none_replicated
}

@test "sets beyond half of the limit are converted, the oldest first" {
	some_sets
	message set limit_percent 1
	# a hundredth of 4096 blocks
	[ "$(counter replica_limit)" -le 41 ]
	message set soft_percent 50
	random_to 0 512 512
	wait_for 10 below_half
	parity_fits
}
below_half() { [ $((2 * $(counter replica_area))) -le "$(counter replica_limit)" ]; }

@test "sets on members with other load wait for its end" {
	some_sets
	message set load_kib 1
	volume 1 8 3
	# It reads all members, as its blocks are on all.
	random_to 1 0 2048 192k
	read_on 3>&- &
	reader=$!
	wait_for 10 reading
	message set age_s 1
	always 3 unchanged
	kill $reader
	wait $reader || :
	wait_for 10 none_replicated
}
read_on() {
	exec fio --output-format=terse --direct=1 --ioengine=libaio --thread --rw=randread --bs=64k --iodepth=16 \
		--time_based --runtime=60 --name=r --filename=/dev/mapper/t-v1 --output=/dev/null
}
reading() { [ "$(counter reads)" -gt 500 ]; }

@test "but not for load that is little for what is near the limit" {
	some_sets
	random_to 0 512 1536
	volume 1 8 3
	random_to 1 0 2048 192k
	flush
	area=$(counter replica_area)
	# 8 MiB a second of each member, evenly; the area may be so near its limit that 1500 KiB become as many
	fio --output-format=terse --direct=1 --thread --rw=read --bs=1m --rate=64m --time_based --runtime=60 --name=r \
		--filename=/dev/mapper/t-v1 --output=/dev/null 3>&- &
	reader=$!
	wait_for 10 read_often
	message set load_kib 1500
	# of 4096 blocks; at the limit it would be whatever the load
	message set limit_percent $((area / 40 + 1))
	[ "$area" -lt "$(counter replica_limit)" ]
	unchanged
	message set soft_percent 0
	wait_for 10 converting
	[ "$(counter replica_area)" -gt 0 ]
	kill $reader
	wait $reader || :
}
read_often() { [ "$(counter reads)" -gt 1000 ]; }
converting() { [ "$(counter converted)" -gt 0 ]; }

@test "the background's rate is limited" {
	some_sets
	# 512 pages read and a third as many written: 2.7 MiB
	message set rate_kib 512
	SECONDS=0
	message convert
	[ "$SECONDS" -ge 3 ]
	none_replicated
	parity_fits
}

# bats test_tags=smp
@test "at the limit writes wait for conversion" {
	make_pool
	message set limit_percent 1
	volume 0 64 3
	random_to 0 0 $((64 << 8))
	most=$(counter replica_area)
	flush
	# what was open was not counted
	[ "$most" -le $(($(counter replica_limit) + 8 * 8)) ]
	[ "$(counter converted)" -gt 100 ]
	# At none at all, every set is converted when it is closed.
	message set limit_percent 0
	random_to 0 0 1024 4k
	parity_fits
}

some_grouped() { [ "$(counter grouped)" -gt 0 ]; }

@test "whole blocks that wait together at the limit become stripes" {
	make_pool
	message set limit_percent 0
	volume 0 64 5
	# as long as conversion does not come to its end they wait
	hold reads
	overwrite 0 48m --size=64m 3>&- &
	writer=$!
	wait_for 20 some_grouped
	release
	wait $writer
	grouped=$(counter grouped)
	echo "$grouped of 768 blocks in $(counter large) groups"
	# four or five of them in each
	[ "$grouped" -ge $((4 * $(counter large))) ]
	[ "$grouped" -le $((5 * $(counter large))) ]
	# some in a stripe are FUA, some are written again at once, some are parts of blocks
	fio --output-format=terse --direct=1 --ioengine=libaio --thread --verify=crc32c --verify_fatal=1 --do_verify=1 \
		--serialize_overlap=1 --rw=randwrite --iodepth=16 --io_size=16m --size=24m --norandommap --verify_backlog=64 \
		--bssplit=64k/80:4k --name=a --filename=/dev/mapper/t-v0 \
		--name=b --offset=24m --sync=dsync --filename=/dev/mapper/t-v0 >"$BATS_TEST_TMPDIR/fio" 2>&1 ||
		{ cat "$BATS_TEST_TMPDIR/fio"; return 1; }
	parity_fits
}

# --- company, where space is scarce ---

# so many writes to t-v0
in_flight() {
	local number
	number=$(dmsetup info -c --noheadings --separator : -o major,minor t-v0)
	[ "$(awk '{ print $2 }' "/sys/dev/block/$number/inflight")" -eq "$1" ]
}
# write_at BYTES OFFSET: in the background.
write_at() {
	head -c "$1" /dev/urandom | dd of=/dev/mapper/t-v0 bs="$1" iflag=fullblock oflag=direct,seek_bytes seek="$2" \
		status=none 3>&- &
	writers+=($!)
}
# write_blocks FIRST COUNT: each by itself.
write_blocks() {
	local i
	for ((i = $1; i < $1 + $2; i++)); do
		write_at 65536 $((i << 16))
	done
}
# A stripe is being written; nothing else is, not even a commit.
begin_stripe() {
	flush
	large=$(counter large) grouped=$(counter grouped) new_top=$(counter new_top)
	writers=()
	hold writes
	write_at $((6 << 16)) 0
	wait_for 20 held 7
}
# end_writes LARGE GROUPED NEW_TOP: so many more of each, since it began.
end_writes() {
	release
	all_end "${writers[@]}"
	large=$(($(counter large) - large)) grouped=$(($(counter grouped) - grouped)) new_top=$(($(counter new_top) - new_top))
	echo "$large large writes, $grouped blocks grouped, $new_top new tops"
	[ "$large $grouped $new_top" = "$*" ]
}

@test "where space is scarce, whole blocks wait for company while a stripe is written" {
	background=paused
	full_pool 93 6 1
	message set limit_percent 50
	# Three are no stripe: when there is nothing more to wait for they are replicated.
	begin_stripe
	write_blocks 12 3
	wait_for 20 in_flight 4
	[ "$(held_count)" -eq 7 ]
	end_writes 1 0 3
	# Six are one at once, and what waits then waits for both.
	begin_stripe
	write_blocks 18 6
	wait_for 20 held 14
	write_blocks 24 5
	wait_for 20 in_flight 12
	[ "$(held_count)" -eq 14 ]
	end_writes 3 11 0
	# Twice the same block is no company.
	begin_stripe
	write_blocks 30 1
	write_blocks 30 1
	write_blocks 31 2
	wait_for 20 in_flight 5
	[ "$(held_count)" -eq 7 ]
	end_writes 1 0 3
	[ "$(counter in_place)" -eq 1 ]
	parity_fits
}

@test "new blocks and parts of blocks do not wait for company" {
	background=paused
	full_pool 93 6 1
	message set limit_percent 50
	message set patch_percent 0
	begin_stripe
	write_blocks $blocks 1
	wait_for 20 held 9
	write_at 4096 $((12 << 16))
	wait_for 20 held 11
	end_writes 1 0 2
}

@test "nor do others where there is space" {
	background=paused
	full_pool 50 6 1
	begin_stripe
	write_blocks 12 1
	wait_for 20 held 9
	end_writes 1 0 1
}

@test "nobody waits for company longer than for the stripes that were under way" {
	background=paused
	full_pool 93 6 1
	message set limit_percent 50
	flush
	new_top=$(counter new_top)
	# Always some, one after the other.
	fio --output-format=terse --direct=1 --ioengine=libaio --thread --rw=write --bs=384k --iodepth=16 --size=12m \
		--time_based --runtime=100 --name=w --filename=/dev/mapper/t-v0 --output=/dev/null 3>&- &
	stream=$!
	wait_for 20 in_flight 16
	for ((i = 1000; i < 1004; i++)); do
		writers=()
		write_blocks $i 1
		wait_for 20 ended "${writers[0]}"
		wait "${writers[0]}"
	done
	running $stream
	kill $stream
	wait $stream || :
	[ "$(counter new_top)" -gt "$new_top" ]
}

# bats test_tags=smp
@test "company and the limit together" {
	full_pool 91 6 1
	message set limit_percent 1
	grouped=$(counter grouped)
	overwrite 0 48m --size=$((blocks << 16)) --iodepth=32
	[ "$(counter grouped)" -gt "$grouped" ]
	[ "$(counter new_top)" -gt 0 ]
	in_flight 0
	parity_fits
}

@test "a device can be suspended and removed while its writes wait at the limit" {
	make_pool
	message set limit_percent 0
	volume 0 64 5
	fio --output-format=terse --direct=1 --ioengine=libaio --thread --rw=randwrite --bs=64k --iodepth=16 \
		--time_based --runtime=60 --name=w --filename=/dev/mapper/t-v0 --output=/dev/null 3>&- &
	writer=$!
	for ((i = 0; i < 3; i++)); do
		wait_for 20 grouped_after "$(counter grouped)"
		dm suspend --nolockfs t-v0
		dm resume t-v0
		dm suspend --noflush --nolockfs t-v0
		dm resume t-v0
	done
	kill $writer
	wait $writer || :
	dm remove --retry t-v0
	message delete_volume 0
	in_rw
}
grouped_after() { [ "$(counter grouped)" -gt "$1" ]; }

@test "what was written in random order takes what RAID takes" {
	make_pool
	volume 0 64 5
	fio --output-format=terse --direct=1 --ioengine=libaio --thread --rw=randwrite --bsrange=4k-512k --iodepth=8 \
		--randrepeat=1 --name=w --filename=/dev/mapper/t-v0 --output=/dev/null
	message convert
	[ "$(message volumes)" = "0 v0 131072 5 1 1024 0 ok" ]
	used=$(($(space raid) + $(space replicated) + $(space dead)))
	echo "$used blocks for 1024 of data, 5 + 1"
	# at most 2 % more
	[ $((used * 5 * 100)) -le $((1024 * 6 * 102)) ]
	parity_fits
}

@test "sets are converted after a suspend that committed something" {
	some_sets
	random_to 0 600 1 4k
	dm suspend "$pool"
	dm resume "$pool"
	message set limit_percent 0
	wait_for 20 none_replicated
}

# bats test_tags=smp
@test "space comes back though somebody always writes to it" {
	background=paused
	full_pool 80 6 1
	message set paused 1
	fio --output-format=terse --direct=1 --ioengine=libaio --thread --rw=randwrite --bs=4k --iodepth=16 --size=2m \
		--time_based --runtime=60 --name=w --filename=/dev/mapper/t-v0 --output=/dev/null 3>&- &
	writer=$!
	# All the rest, in single blocks: more than could be replicated at once.
	overwrite 0 32m --offset=4m --size=64m
	kill $writer
	wait $writer || :
	in_rw
	parity_fits
}

# bats test_tags=smp
@test "a pool that is 90 % full is overwritten again and again" {
	full_pool 90 6 1
	overwrite 0 $((blocks * times / 16))m --size=$((blocks * 64))k
	in_rw
	[ "$(counter compacted)" -gt 0 ]
	parity_fits
}

# bats test_tags=smp
@test "RAID-6: a pool that is 90 % full is overwritten" {
	full_pool 90 5 2
	overwrite 0 $((blocks / 16))m --size=$((blocks * 64))k
	in_rw
	[ "$(counter compacted)" -gt 0 ]
	parity_fits
}

# take_all_bands DATA: t-v0 does; $stripes.
take_all_bands() {
	member_sectors=$((16 << 11))
	make_pool
	volume 0 256 "$1"
	stripe=$((64 * $1 << 10))
	parameter no_space_timeout 1
	run ! dd if=/dev/urandom of=/dev/mapper/t-v0 bs=$stripe oflag=direct iflag=fullblock
	stripes=$(sed -n 's/^\([0-9]*\)+.* records out/\1/p' <<<"$output")
	parameter no_space_timeout 60
}
# Two stripes of five are left in each of its bands: none is free.
leave_some_of_each() {
	local i
	for ((i = 0; i + 5 <= stripes; i += 5)); do
		blkdiscard -o $((i * stripe)) -l $((3 * stripe)) /dev/mapper/t-v0
	done
}

@test "bands of a class that has room are emptied for one that has none" {
	take_all_bands 5
	leave_some_of_each
	flush
	before=$(sum 0)
	volume 1 16 3
	random_to 1 0 4096
	random_to 1 0 2048 192k
	in_rw
	[ "$(counter compacted)" -gt 0 ]
	[ "$(sum 0)" = "$before" ]
	parity_fits
	# And back: what the other class has left is this one's.
	dm remove t-v1
	message delete_volume 1
	dd if=/dev/urandom of=/dev/mapper/t-v0 bs=320k oflag=direct iflag=fullblock count=$((stripes * 3 / 4)) status=none
	in_rw
	parity_fits
}

@test "and while that class is written all the time" {
	take_all_bands 5
	leave_some_of_each
	flush
	volume 1 16 3
	# Else it is reclaimed faster than it is written, and there are pauses.
	ssd_time 360 370 56 28
	fio --name=w --filename=/dev/mapper/t-v0 --direct=1 --ioengine=libaio --iodepth=256 --thread --rw=randwrite --bs=64k \
		--size=$((40 * stripe)) --time_based --runtime=300 --norandommap >/dev/null 2>&1 3>&- &
	writer=$!
	random_to 1 0 4096 3>&- &
	other=$!
	wait_for 60 ended $other || late=1
	kill $writer
	wait $writer || :
	wait $other
	[ -z "${late-}" ]
	in_rw
	[ "$(counter compacted)" -gt 0 ]
	parity_fits
}

@test "and for one that has been waiting since before there was room" {
	take_all_bands 3
	volume 1 16 5 2
	random_to 1 0 4096 3>&- &
	writer=$!
	wait_for 20 out_of_space
	leave_some_of_each
	wait $writer
	wait_for 20 in_rw
	parity_fits
}

@test "a band that was taken and is not used goes to another class" {
	features+=" error_if_no_space"
	member_sectors=$((16 << 11))
	make_pool
	# One stripe more than a band of 56 gives away: another band is taken.
	volume 0 64 3
	dd if=/dev/urandom of=/dev/mapper/t-v0 bs=192k oflag=direct iflag=fullblock count=53 status=none
	blkdiscard /dev/mapper/t-v0
	flush
	volume 1 256 5
	run ! dd if=/dev/urandom of=/dev/mapper/t-v1 bs=320k oflag=direct iflag=fullblock
	[[ $output == *"No space left on device"* ]]
	# Its reserve of 8 stripes, and 10 for blocks that are there.
	[ "$(space free)" -le $((18 * 6)) ]
}

freed() { [ "$(space free)" -ge "$1" ]; }

@test "compaction that lacks even a reserve ends, and goes on when there is one" {
	background=paused
	take_all_bands 5
	# The last band is emptied, with all that this class had free: another takes it.
	# Of its 56 stripes 8 are the reserve, and 9 for blocks that are there.
	last=$(((stripes - 39) * stripe))
	blkdiscard -o $last -l $((39 * stripe)) /dev/mapper/t-v0
	flush
	wait_for 20 freed 300
	volume 1 16 3
	random_to 1 0 48 192k
	for ((at = 0; at < last; at += 4 * stripe)); do
		blkdiscard -f -o $at -l 65536 /dev/mapper/t-v0
	done
	flush
	dm remove t-v1
	timeout 30 dmsetup message "$pool" 0 convert
	[ "$(counter compacted)" -eq 0 ]
	# that there was no place for them, however often, does not put off what comes when there is
	for ((i = 0; i < 20; i++)); do
		message convert
	done
	message delete_volume 1
	message convert
	[ "$(counter compacted)" -gt 0 ]
	parity_fits
}

@test "what a commit that failed would have freed is not written to" {
	no_journal
	background=paused
	take_all_bands 3
	flush
	sum=$(sum 0)
	suspend_meta
	# More than makes writes slow, and where stripes are drawn next.
	kept=$(((stripes - 24) * stripe))
	blkdiscard -f -o $kept -l $((24 * stripe)) /dev/mapper/t-v0
	wait_for 20 tasks_in fusion_md_commit 1
	fio --output-format=terse --direct=1 --ioengine=libaio --thread --rw=randwrite --bs=$stripe --iodepth=16 \
		--size=$kept --name=w --filename=/dev/mapper/t-v0 --output=/dev/null 3>&- &
	writer=$!
	wait_for 20 tasks_in fusion_space_refill 4
	meta_table error
	wait $writer && false
	[ "$(mode)" = ro ]
	stop_pool
	meta_table "$(meta_target)"
	start_pool
	volume_device 0 $((256 << 11))
	[ "$(sum 0)" = "$sum" ]
	parity_fits
}

# Small: what the oracle's volumes hold is most of what bands of three classes do.
oracle_pool() {
	member_sectors=$((16 << 11))
	make_pool
	make_volumes
}
# Until $1 is there: volumes that come and go, each with data of its own, which
# is converted when it is there.
come_and_go() {
	local i
	for ((i = 10; ; i++)); do
		[ ! -e "$1" ] || return 0
		volume $i 2 $((3 + i % 3))
		random 512 >"$BATS_TEST_TMPDIR/passing"
		dd if="$BATS_TEST_TMPDIR/passing" of=/dev/mapper/t-v$i bs=96k oflag=direct iflag=fullblock status=none
		message convert
		cmp "$BATS_TEST_TMPDIR/passing" /dev/mapper/t-v$i
		dm remove --retry t-v$i
		message delete_volume $i
	done
}

# bats test_tags=smp
@test "volumes are written, discarded, made and deleted while space is reclaimed" {
	oracle_pool
	message set soft_percent 0
	come_and_go "$BATS_TEST_TMPDIR/stop" 3>&- &
	passing=$!
	"$oracle" run --state "$BATS_TEST_TMPDIR/state" --seed "$seed" --threads 4 --seconds 30 "${devs[@]}"
	touch "$BATS_TEST_TMPDIR/stop"
	wait $passing
	flush
	in_rw
	[ "$(counter converted)" -gt 0 ]
	[ "$(counter compacted)" -gt 0 ]
	verify "${devs[@]}"
	parity_fits
	stop_pool
	start_pool
	start_volumes
	verify "${devs[@]}"
	parity_fits
}

# Whole blocks that wait together at the limit, until there is no power.
group_on() {
	exec fio --output-format=terse --direct=1 --ioengine=libaio --thread --rw=randwrite --bs=64k --iodepth=16 \
		--rate_iops=300 --time_based --runtime=60 --name=g --filename=/dev/mapper/t-v9 --output=/dev/null
}
grouping() { [ "$(counter grouped)" -gt 0 ]; }
# Until there is nothing to send messages to.
convert_on() {
	while message convert 2>/dev/null; do :; done
}

# bats test_tags=smp
@test "$cuts power cuts while space is reclaimed" {
	oracle_pool
	volume 9 3
	converted=0 compacted=0
	for ((round = 401; round <= 400 + cuts; round++)); do
		message set soft_percent 0
		pids=()
		if [ $((round % 3)) -eq 0 ]; then
			message set limit_percent 0
			group_on 3>&- &
			pids+=($!)
			wait_for 20 grouping
		fi
		if [ $((round % 2)) -eq 0 ]; then
			convert_on 3>&- &
			pids+=($!)
		fi
		run_and_cut $round "${devs[@]}"
		for pid in "${pids[@]}"; do
			wait "$pid" || :
		done
		converted=$((converted + $(counter converted)))
		compacted=$((compacted + $(counter compacted)))
		stop_pool
		power_on
		start_pool
		start_volumes
		volume_device 9 $((3 << 11))
		verify "${devs[@]}"
		parity_fits
	done
	echo "$converted sets were converted, $compacted stripes filled"
	[ $converted -gt 0 ]
	[ $compacted -gt 0 ]
}
