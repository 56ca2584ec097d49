#!/usr/bin/env bats
# Conversion: replicated sets become RAID stripes in position.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/power.bash
source "$BATS_TEST_DIRNAME/power.bash"

cuts=${FUSION_CONVERT_CUTS:-12}

@test "sets become RAID stripes, and the mirrors' space comes back" {
	make_pool
	volume 0 8 3
	random_to 0 0 2048
	before=$(sum 0)
	[ "$(counter new_top)" -eq 128 ]
	message convert
	[ "$(sum 0)" = "$before" ]
	# 128 blocks, three to a set; what the open ones held was put together
	[ "$(counter convert_gave_up)" -eq 0 ]
	converted=$(counter converted) compacted=$(counter compacted)
	stripes=$(($(space raid) - 128))
	echo "$converted converted, $compacted compacted, $stripes stripes"
	[ $stripes -ge 43 ]
	[ $stripes -le 44 ]
	[ $((converted + compacted)) -ge $stripes ]
	[ "$(space replicated)" -eq 0 ]
	[ "$(message volumes)" = "0 v0 16384 3 1 128 0 ok" ]
	message scrub
	[ "$(counter scrubbed)" -eq $stripes ]
	[ "$(counter scrub_mismatches)" -eq 0 ]
	# full blocks were read once, and parity alone was written; what was in stripes that were
	# not full enough was read again
	read=$(counter convert_read_pages) moved=$(counter compact_read_pages)
	[ $((read + moved)) -ge 2048 ]
	[ $((read + moved)) -eq 2048 ] || [ $((converted + compacted)) -gt $stripes ]
	[ "$(counter convert_written_pages)" -eq $((16 * converted)) ]
	[ "$(counter compact_written_pages)" -eq $((moved + 16 * compacted)) ]
	stop_pool
	start_pool
	volume_device 0 16384
	[ "$(sum 0)" = "$before" ]
	parity_fits
}

@test "pages that a top has not come from its base, or are zeros" {
	make_pool
	volume 0 8 4
	# bases below the first half
	random_to 0 0 1024 256k
	[ "$(counter large)" -eq 16 ]
	for at in 0 17 40 63 500 1023 1024 1030 1500 2047; do
		random_to 0 $at 1 4k
	done
	random_to 0 100 7 28k
	random_to 0 1600 3 12k
	before=$(sum 0)
	message convert
	[ "$(space replicated)" -eq 0 ]
	[ "$(sum 0)" = "$before" ]
	parity_fits
	stop_pool
	start_pool
	volume_device 0 16384
	[ "$(sum 0)" = "$before" ]
}

@test "sets that were there before a start" {
	make_pool
	volume 0 8 3
	volume 1 8 5
	random_to 0 0 1024
	random_to 1 300 500
	stop_pool
	start_pool
	volume_device 0 16384
	volume_device 1 16384
	random_to 1 0 200
	before="$(sum 0) $(sum 1)"
	[ "$(space replicated)" -gt 0 ]
	message convert
	[ "$(space replicated)" -eq 0 ]
	[ "$(sum 0) $(sum 1)" = "$before" ]
	parity_fits
}

@test "converted blocks are written again, discarded and converted again" {
	make_pool
	volume 0 8 3
	random_to 0 0 2048
	message convert
	for at in 0 5 100 777 2000; do
		random_to 0 $at 2 8k
	done
	blkdiscard -o $((1 << 20)) -l $((1 << 20)) /dev/mapper/t-v0
	random_to 0 300 16
	before=$(sum 0)
	message convert
	[ "$(space replicated)" -eq 0 ]
	[ "$(sum 0)" = "$before" ]
	parity_fits
	blkdiscard /dev/mapper/t-v0
	message convert
	[ "$(space raid) $(space replicated)" = "0 0" ]
}

@test "a scrub finds parity that does not fit" {
	make_pool
	volume 0 4 3
	random_to 0 0 1024
	message convert
	message scrub
	# Some page of the pool's data changes behind its back.
	before=$(sum 0)
	for ((i = 0; i < members; i++)); do
		random 2048 | dd of=/dev/mapper/t-m$i bs=1M iflag=fullblock oflag=direct status=none
	done
	[ "$(sum 0)" != "$before" ]
	run ! message scrub
	[ "$(counter scrub_mismatches)" -gt 0 ]
	log_has "the parity does not fit"
}

# At least as many sets as there are jobs: of each block so many bytes are an a.
many_sets() {
	volume 0 4 3
	[ -z "${2:-}" ] || letter "$2" $((192 << 10)) 0 8
	for ((i = 0; i < 24; i++)); do
		letter a "$1" $((i << 16))
	done
	flush
}
# Two sets with a block each: they are put together in one stripe.
two_blocks() {
	make_pool
	volume 0 4 3
	letter a 4096
	letter a 4096 65536
	flush
}
# held_back COUNT COMMAND...: the SSDs keep so many of its I/Os back, too.
held_back() {
	local before
	before=$(held_count)
	"${@:2}" 3>&- &
	writer=$!
	wait_for 20 held $((before + $1))
}
# go_on_until KIND: what is kept back goes on, up to I/Os of that kind.
go_on_until() {
	hold "$1"
	step
	wait_for 20 held 1
}
page() { dd if=/dev/mapper/t-v0 bs=4k skip="$1" count=1 iflag=direct status=none | head -c 1; }

# every_block_is LETTERS: of its first pages.
every_block_is() {
	local last=$((${#1} - 1))
	[ "$(dd if=/dev/mapper/t-v0 bs=64k count=24 iflag=direct status=none |
		perl -0777 -ne 'for $b (unpack "(a65536)*", $_) {
			print +(map { substr $b, $_ << 12, 1 } 0 .. '$last'), "\n";
		}' |
		sort -u)" = "$1" ]
}
all_fits() {
	every_block_is ba
	message convert
	[ "$(space replicated)" -eq 0 ]
	parity_fits
	every_block_is ba
}

# bats test_tags=smp
@test "a write waits for the fill of its own block alone" {
	make_pool
	message set patch_percent 0
	many_sets 4096 c
	udevadm settle
	hold reads
	message convert 3>&- &
	pid=$! pids=
	# Eight jobs fill a block each: what its top has not is read from its base.
	wait_for 60 held 8
	for ((i = 0; i < 24; i++)); do
		(letter b 4096 $(((i << 16) + 4096)) && echo >>"$BATS_TEST_TMPDIR/done") 3>&- &
		pids+=" $!"
	done
	wait_for 60 sixteen_done
	release
	# shellcheck disable=SC2086
	all_end $pid $pids
	[ "$(wc -l <"$BATS_TEST_TMPDIR/done")" -eq 24 ]
	every_block_is abc
	message convert
	parity_fits
	every_block_is abc
}
sixteen_done() { [ "$(wc -l <"$BATS_TEST_TMPDIR/done")" -eq 16 ]; }

# bats test_tags=smp
@test "writes in place while their set's data is read for the parity" {
	make_pool
	many_sets 65536
	stalled reads every_block
	[ "$(counter convert_gave_up)" -ge 1 ]
	all_fits
}

# bats test_tags=smp
@test "writes in place while their set's parity is written" {
	make_pool
	many_sets 65536
	stalled reads at_the_parity
	wait "$writer"
	[ "$(counter convert_gave_up)" -ge 1 ]
	all_fits
}
at_the_parity() {
	go_on_until writes
	held_back 24 every_block
}

# bats test_tags=smp
@test "writes while the commit of a conversion is flushed" {
	make_pool
	many_sets 65536
	stalled reads at_the_flush
	[ "$(counter converted)" -ge 8 ]
	all_fits
}
# They go to new places, and wait for nothing.
at_the_flush() {
	go_on_until flushes
	every_block
}

@test "a write in place while two sparse sets are put together" {
	two_blocks
	stalled reads letter b 4096
	[ "$(counter compact_gave_up) $(counter compacted) $(counter converted)" = "1 1 0" ]
	[ "$(page 0)$(page 16)" = ba ]
	message convert
	message scrub
	[ "$(counter converted) $(counter scrub_mismatches)" = "1 0" ]
	[ "$(page 0)$(page 16)" = ba ]
}

@test "a block moves away while its set's data is read for the parity" {
	two_blocks
	# A large write takes both of them elsewhere.
	stalled reads letter c $((192 << 10))
	message convert
	message scrub
	[ "$(counter scrub_mismatches) $(counter scrubbed)" = "0 1" ]
	[ "$(page 0)$(page 16)" = cc ]
}

# What the parity was computed from is not what is there, and nobody is there to ask.
# Without compaction, which would take the stripe apart.
@test "blocks are written, and then gone, when the parity of their set is computed" {
	make_pool
	volume 0 4 3
	message set soft_percent 0
	for ((round = 0; round < 4; round++)); do
		for ((i = 0; i < 24; i++)); do
			letter a 65536 $((i << 16))
		done
		flush
		# A set has a block on one of these, and has read those that are not.
		for name in ssd{0..5}; do
			dmsetup message "$name" 0 hold reads
		done
		message set paused 0
		wait_for 20 held 1
		# One of each set: its blocks are eight apart.
		for ((i = 0; i < 24; i += 3)); do
			letter b 4096 $((i << 16))
			blkdiscard -f -o $((i << 16)) -l 65536 /dev/mapper/t-v0 2>/dev/null
		done
		release
		wait_for 20 none_replicated
		message set paused 1
		parity_fits
	done
	[ "$(counter convert_gave_up)" -ge 1 ]
}

@test "a discard, and the volume's deletion, while its set is converted" {
	two_blocks
	stalled reads blkdiscard -f -l 65536 /dev/mapper/t-v0
	message convert
	parity_fits
	dm remove t-v0
	message delete_volume 0
	[ "$(space raid) $(space replicated)" = "0 0" ]
}

sets_tried() { [ $(($(counter converted) + $(counter convert_gave_up) - before)) -ge 3 ]; }

# What it has in a set is live by the metadata until it is deleted there, and parity must cover that.
@test "sets that a volume has blocks in which is being deleted" {
	make_pool
	volume 0 4
	volume 1 4
	for i in {0..29}; do
		random_to 0 $((i * 16)) 16
		random_to 1 $((i * 16)) 16
	done
	flush
	sum=$(sum 1)
	dm remove t-v0
	message set soft_percent 0
	before=$(($(counter converted) + $(counter convert_gave_up)))
	suspend_meta
	# it waits for the commit that says so
	message delete_volume 0 3>&- &
	pid=$!
	wait_for 20 tasks_in fusion_md_commit 1
	message set paused 0
	wait_for 20 sets_tried
	dm resume t-meta
	wait $pid
	[ "$(mode)" = rw ]
	wait_for 20 none_replicated
	[ "$(sum 1)" = "$sum" ]
	parity_fits
	stop_pool
	start_pool
	[ "$(mode)" = rw ]
	volume_device 1 $((4 << 11))
	[ "$(sum 1)" = "$sum" ]
}

# A labelled pool with 4 MiB of replicas.
labelled_pool() {
	features=
	member_sectors=$((100 << 11))
	make_members
	fusion pool create t-pool --json /dev/mapper/t-m{0..7} >/dev/null
	fusion volume create t-pool a --size 8M --width 4 --json >/dev/null
	random 1024 | dd of=/dev/mapper/t-pool-a bs=64k iflag=fullblock oflag=direct status=none
}

@test "fusion convert and fusion scrub" {
	labelled_pool
	before=$(md5sum </dev/mapper/t-pool-a)
	fusion convert t-pool --json >"$BATS_TEST_TMPDIR/json"
	[ "$(jq -r '"\(.pool) \(.gave_up) \(.replicated_bytes)"' "$BATS_TEST_TMPDIR/json")" = "t-pool 0 0" ]
	[ "$(jq .converted "$BATS_TEST_TMPDIR/json")" -ge 22 ]
	[ "$(fusion pool status t-pool --json | jq .space.replicated_bytes)" -eq 0 ]
	run -0 --separate-stderr fusion convert t-pool
	[ "$output" = "pool t-pool: 0 sets converted, 0 B are replicated still" ]
	run -0 fusion scrub t-pool
	[[ $output == "pool t-pool: "*" stripes and 0 replicated blocks looked at" ]]
	echo 3 >/proc/sys/vm/drop_caches
	[ "$(md5sum </dev/mapper/t-pool-a)" = "$before" ]
	# Behind the pool's back, where its first band begins.
	read -r -a table <<<"$(dmsetup table t-pool)"
	for i in 0 1 2; do
		random 2048 | dd of=/dev/mapper/t-m$i bs=1M iflag=fullblock oflag=direct,seek_bytes \
			seek=$((table[9] << 9)) conv=notrunc status=none
	done
	run -1 --separate-stderr fusion scrub t-pool --json
	[ "$(jq .mismatches <<<"$output")" -gt 0 ]
	[[ $(jq -r .error <<<"$stderr") == "the parity of "*" stripes of pool t-pool does not fit their data, or replicas differ"* ]]
	run -0 --separate-stderr fusion scrub t-pool --repair
	[[ $stderr == *"does not fit their data"*"; they are written again"* ]]
	[ "$(fusion scrub t-pool --json | jq -r '"\(.mismatches) \(.repaired)"')" = "0 0" ]
	[ "$(fusion scrub t-pool --restart --json | jq .stripes)" -ge 22 ]
	[ "$(fusion pool status t-pool --json | jq -c '[.members[].errors]')" = "[0,0,0,0,0,0,0,0]" ]
	run -1 --separate-stderr fusion convert t-none
	[[ $stderr == *"pool t-none is not running"* ]]
	fusion pool stop t-pool
}

@test "fusion convert is interrupted, and goes on when it is called again" {
	labelled_pool
	udevadm settle
	hold reads
	fusion convert t-pool 3>&- &
	pid=$!
	wait_for 20 held 1
	kill -TERM $pid
	release
	status=0
	wait $pid || status=$?
	[ $status -eq 143 ]
	# what the jobs had in hand was done
	[ "$(space replicated)" -gt 0 ]
	[ "$(counter converted)" -le 8 ]
	fusion convert t-pool
	[ "$(space replicated)" -eq 0 ]
	fusion scrub t-pool
	fusion pool stop t-pool
}

# bats test_tags=smp
@test "conversion while the volumes are being written" {
	member_sectors=$((120 << 11))
	make_pool
	volume 0 16 3
	volume 1 16 5
	fio --output-format=terse --direct=1 --ioengine=libaio --verify=crc32c --verify_fatal=1 \
		--verify_backlog=64 --randrepeat=1 --group_reporting --thread --rw=randrw --bsrange=4k-128k \
		--iodepth=8 --io_size=24m --name=a --filename=/dev/mapper/t-v0 \
		--name=b --filename=/dev/mapper/t-v1 >"$BATS_TEST_TMPDIR/fio" 2>&1 3>&- &
	pid=$!
	passes=0
	while kill -0 $pid 2>/dev/null; do
		message convert
		passes=$((passes + 1))
	done
	wait $pid || { cat "$BATS_TEST_TMPDIR/fio"; return 1; }
	echo "$passes passes, $(counter converted) converted, $(counter convert_gave_up) given up"
	[ "$(counter converted)" -gt 0 ]
	message convert
	[ "$(space replicated)" -eq 0 ]
	parity_fits
}

# Until there is nothing to send messages to.
convert_on() {
	while message convert 2>/dev/null; do :; done
}

# bats test_tags=smp
@test "$cuts power cuts while sets are converted" {
	member_sectors=$((120 << 11))
	make_pool
	make_volumes
	converted=0
	for ((round = 301; round <= 300 + cuts; round++)); do
		convert_on 3>&- &
		pid=$!
		run_and_cut $round "${devs[@]}"
		wait $pid || :
		converted=$((converted + $(counter converted)))
		stop_pool
		power_on
		start_pool
		start_volumes
		# Every other time before resync is done.
		[ $((round % 2)) -eq 0 ] || message convert
		verify "${devs[@]}"
		parity_fits
	done
	echo "$converted sets were converted"
	[ $converted -gt 0 ]
	message convert
	[ "$(space replicated)" -eq 0 ]
	verify "${devs[@]}"
	parity_fits
}
