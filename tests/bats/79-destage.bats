#!/usr/bin/env bats
# Destage: patches are merged into the RAID stripes of their blocks.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/power.bash
source "$BATS_TEST_DIRNAME/power.bash"
# shellcheck source=tests/bats/patches.bash
source "$BATS_TEST_DIRNAME/patches.bash"

cuts=${FUSION_DESTAGE_CUTS:-4}


@test "patches are merged into their stripes" {
	raid_volume 4
	for b in {0..40}; do
		write $((b * 16 + b % 14)) $((1 + b % 2))
	done
	[ "$(patched)" -eq 41 ]
	message convert
	[ "$(counter destaged)" -eq 61 ]
	flush
	[ "$(space replicated)" -eq 0 ]
	as_written
	parity_fits
	# and once more the same pages
	for b in {0..40}; do
		write $((b * 16 + b % 14)) $((1 + b % 2))
	done
	as_written
	message convert
	[ "$(counter destaged)" -eq 122 ]
	stop_pool
	start_pool
	volume_device 0 $((4 << 11))
	as_written
	parity_fits
	[ "$(counter patch_area)" -eq 0 ]
}

@test "patches are merged into stripes with two parities" {
	raid_volume 4 4 2
	for b in {0..40}; do
		write $((b * 16 + b % 14)) 1
	done
	message convert
	[ "$(counter destaged)" -eq 41 ]
	as_written
	parity_fits
}

# A page of a row of a stripe 3+1: by rmw two are read for the parity, as by rcw.
merge_rows() {
	before="$(counter destage_rmw) $(counter destage_rcw)"
	for b in {0..8}; do
		write $((b * 48 + 5)) 1
	done
	message convert
	read -r rmw rcw <<<"$before"
	chosen="$(($(counter destage_rmw) - rmw)) $(($(counter destage_rcw) - rcw))"
	as_written
	parity_fits
}

@test "how the new parity is computed can be chosen" {
	raid_volume 4
	in_stripes
	merge_rows
	[ "$chosen" = "0 9" ]
	message set rmw_bias 1
	merge_rows
	[ "$chosen" = "9 0" ]
	message set rmw_bias 0
	message set write_select 1
	merge_rows
	[ "$chosen" = "9 0" ]
	message set write_select 2
	message set rmw_bias 1
	merge_rows
	[ "$chosen" = "0 9" ]
	# each row: two of the others, its patch; parity, then data and parity
	read=$(counter destage_read_pages) written=$(counter destage_written_pages)
	merge_rows
	[ $(($(counter destage_read_pages) - read)) -eq $((9 * 3)) ]
	written=$(($(counter destage_written_pages) - written))
	# in both replicas where all places have a neighbour in the row: seldom more than one
	[ $written -ge $((9 * 3)) ]
	[ $written -le $((9 * 3 + 3)) ]
}

# All blocks of t-v0 have patches, more than the open sets have room for.
fill_sets() {
	message convert
	verified --rw=write:52k --bs=12k --size=8m --io_size=$((128 * 12))k
	dd if=/dev/mapper/t-v0 of="$model" bs=1M iflag=direct status=none
	merged=$(counter destaged)
}
some_merged() { [ "$(counter destaged)" -gt "$merged" ]; }

@test "patches are merged by themselves" {
	raid_volume 8
	message set age_s 0
	message set idle_ms 0
	message set paused 0
	fill_sets
	stays 2 some_merged
	message set idle_ms 500
	wait_for 20 some_merged
	message set idle_ms 0
	as_written
	fill_sets
	message set age_s 1
	wait_for 20 some_merged
	message set age_s 0
	as_written
	fill_sets
	# a percent of the pool are 80 blocks
	message set soft_percent 10
	message set patch_percent 1
	wait_for 20 some_merged
	as_written
	parity_fits
}

# The SSDs hold back what they are to read for a batch, and meanwhile its pages change.
@test "pages that are being merged are overwritten" {
	raid_volume 4
	in_stripes
	for b in {0..9}; do
		write $((b * 48 + b)) 1
	done
	flush
	hold reads
	message convert 3>&- &
	pid=$!
	# each patch, and two others of its row
	wait_for 20 held 30
	# no page of a batch is written in place
	for b in {0..3}; do
		write $((b * 48 + b)) 1
	done
	[ "$(patched)" -eq 14 ]
	# whole blocks, and what is nearly one
	write $((4 * 48)) 16
	write $((5 * 48 + 1)) 15
	blkdiscard -f -o $((6 * 48 << 12)) -l 64k /dev/mapper/t-v0
	dd if=/dev/zero of="$model" bs=64k seek=18 count=1 conv=notrunc status=none
	# beside them pages are patched as always
	write $((7 * 48)) 2
	flush
	release
	wait $pid
	as_written
	parity_fits
	message convert
	[ "$(counter patch_area)" -eq 0 ]
	as_written
	parity_fits
	stop_pool
	start_pool
	volume_device 0 $((4 << 11))
	as_written
}

# When the records cannot be committed the stripes stay as they were.
@test "nothing is written in place without a record" {
	raid_volume 4
	in_stripes
	for b in {0..3}; do
		write $((b * 48 + b)) 1
	done
	flush
	merge_to_commit 12
	meta_table error
	wait $pid && false
	[ "$(mode)" = ro ]
	# of each row the parity, once or twice
	[ "$(counter destage_written_pages)" -ge 4 ]
	[ "$(counter destage_written_pages)" -le 8 ]
	stop_pool
	meta_table "$(meta_target)"
	start_pool
	volume_device 0 $((4 << 11))
	as_written
	parity_fits
	message convert
	as_written
	parity_fits
}

# Steps of what SSDs write until all patches are merged, each on half of them first.
half_step() {
	local i
	for i in 0 2 4 6; do
		hand message "ssd$i" step
	done
}

@test "pages are overwritten at each step of merging" {
	raid_volume 4
	ends=0
	for ((n = 1 + turn; n < 40 && ends < 2; n += 2)); do
		for b in {0..5}; do
			write $((b * 16 + (b + n) % 16)) 1
		done
		hold writes
		message convert 3>&- &
		pid=$!
		for ((i = 1; i < n; i++)); do
			wait_for 20 held_or_ended $pid
			half_step
			step
		done
		running $pid || ends=$((ends + 1))
		{
			write $((n % 16)) 1
			write $((16 + (1 + n) % 16)) 3
			write $((32 + (2 + n) % 16)) 2
		} 3>&- &
		writer=$!
		release
		all_end $writer $pid
		as_written
		parity_fits
	done
	[ "$n" -gt 6 ]
	echo "$n steps"
}

# cut_at_merge N: the power fails when what the SSDs write for the Nth time is half done.
# Fails if the merge has ended before.
cut_at_merge() {
	local i pid
	hold writes
	message convert 3>&- 2>/dev/null &
	pid=$!
	for ((i = 1; i < $1; i++)); do
		wait_for 20 held_or_ended $pid
		running $pid || break
		step
	done
	wait_for 20 held_or_ended $pid
	running $pid || i=0
	half_step
	power_cut "$((seed * 1000 + $1))"
	release
	wait $pid || :
	stop_pool
	power_on
	[ "$i" -gt 0 ]
}

# And again, before the pool has started.
cut_at_start() {
	local i pid
	hold writes
	start_pool 2>/dev/null 3>&- &
	pid=$!
	for ((i = 1; i < $1; i++)); do
		wait_for 20 held_or_ended $pid
		step
	done
	wait_for 20 held_or_ended $pid
	half_step
	power_cut "$((seed * 2000 + $1))"
	release
	wait $pid || :
	[ ! -e /dev/mapper/t-pool ] || dm remove --retry t-pool
	power_on
}

# power_at_steps DATA PARITY
power_at_steps() {
	local cuts=0
	make_pool
	message set patch_percent 20
	volume 0 2 "$1" "$2"
	model=$BATS_TEST_TMPDIR/model
	random 512 >"$model"
	dd if="$model" of=/dev/mapper/t-v0 bs=64k oflag=direct iflag=fullblock status=none
	message convert
	for ((n = 1 + 2 * turn; n < 40; n += 4)); do
		for b in {0..5}; do
			write $((b * 48 + (b + n) % 14)) 3
		done
		flush
		cut_at_merge $n || break
		cuts=$((cuts + 1))
		if ((cuts % 2)); then
			cut_at_start $((cuts / 2 % 5 + 1))
		else
			# what it needs of an SSD is elsewhere, too, but the metadata of the last
			failing reads $((cuts / 2 % (members - 1)))
			start_pool
			failing reads
			[ "$(mode)" = rw ]
			stop_pool
		fi
		start_pool
		volume_device 0 $((2 << 11))
		message set patch_percent 20
		as_written
		parity_fits
	done
	echo "$cuts of $((n - 1)) steps"
	[ "$n" -gt 5 ]
}

@test "the power fails at every other step of merging" {
	power_at_steps 3 1
}

@test "the power fails at every other step of merging into stripes with two parities" {
	power_at_steps 4 2
}

# rows_again DATA PARITY [FAILED]: rows are written again though an SSD cannot be read, each in turn
# but that with the metadata.
rows_again() {
	raid_volume 4 "$1" "$2"
	[ $# -eq 2 ] || message fail "$3"
	rows_cut_short
	for ((i = 0; i < members - 1; i++)); do
		failing reads $i
		hold_members
		start_pool 2>/dev/null 3>&- &
		pid=$!
		wait_for 20 held_or_ended $pid
		# it has read all
		running $pid
		power_cut $i
		release
		wait $pid || :
		[ ! -e /dev/mapper/t-pool ] || dm remove --retry t-pool
		power_on
	done
	failing reads
	start_pool
	[ "$(mode)" = rw ]
	volume_device 0 $((4 << 11))
	as_written
	parity_fits
}

@test "rows are written again though an SSD cannot be read" {
	rows_again 3 1
}

@test "rows are written again though an SSD has failed and another cannot be read" {
	rows_again 4 2 3
}

# The last row of a stripe is followed by the first of the next.
@test "the power fails while the last pages of large blocks are merged" {
	block=512 member_sectors=$((128 << 11))
	raid_volume 6
	for n in 4 5 6; do
		for b in {0..7}; do
			write $((b * 192 + 61)) 3
		done
		flush
		cut_at_merge $n
		start_pool
		[ "$(mode)" = rw ]
		volume_device 0 $((6 << 11))
		message set patch_percent 20
		as_written
		parity_fits
		message convert
	done
}

@test "thousands of patches, of large blocks" {
	block=512 member_sectors=$((128 << 11))
	make_pool
	message set patch_percent 20
	volume 0 48
	dd if=/dev/zero of=/dev/mapper/t-v0 bs=1M count=48 oflag=direct status=none
	message convert
	# up to fifteen of the 64 pages of each block
	verified --rw=randwrite --bs=4k --iodepth=16 --io_size=10m --size=48m
	[ "$(patched)" -gt 2000 ]
	before=$(sum 0)
	message convert
	echo "$(counter destaged) merged, rmw $(counter destage_rmw), rcw $(counter destage_rcw)"
	[ "$(counter destaged)" -gt 1000 ]
	[ "$(counter destage_rcw)" -gt 0 ]
	[ "$(sum 0)" = "$before" ]
	parity_fits
}

# Until there is nothing to send messages to.
merge_on() {
	while message convert 2>/dev/null; do :; done
}

# bats test_tags=smp
@test "$cuts power cuts while patches are merged" {
	member_sectors=$((120 << 11))
	make_pool
	make_volumes
	destaged=0
	for ((round = 701; round <= 700 + cuts; round++)); do
		message set patch_percent 10
		message set soft_percent 0
		message convert
		merge_on 3>&- &
		pid=$!
		run_and_cut $round --max-size 8192 "${devs[@]}"
		wait $pid || :
		destaged=$((destaged + $(counter destaged)))
		stop_pool
		power_on
		start_pool
		start_volumes
		[ $((round % 2)) -eq 0 ] || message resync
		verify "${devs[@]}"
		parity_fits
	done
	echo "$destaged pages were merged"
	[ $destaged -gt 0 ]
}
