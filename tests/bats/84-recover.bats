#!/usr/bin/env bats
# What an SSD cannot read is read elsewhere.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/patches.bash
source "$BATS_TEST_DIRNAME/patches.bash"
# shellcheck source=tests/bats/power.bash
source "$BATS_TEST_DIRNAME/power.bash"


# Patches, tops over some pages and over whole blocks, and RAID stripes.
a_bit_of_all() {
	local b
	for b in {0..9}; do
		write $((b * 16 + b)) 2
	done
	for b in {10..15}; do
		write $((b * 16 + b % 8)) 8
	done
	for b in {16..20}; do
		write $((b * 16)) 16
	done
}

# The one with the metadata works.
@test "reads are answered though an SSD cannot be read" {
	raid_volume 4
	a_bit_of_all
	for ((i = turn; i < members - 1; i += 2)); do
		before=$(counter recovered)
		failing reads $i
		as_written
		failing reads
		[ "$(counter recovered)" -gt "$before" ]
	done
	parity_fits
	failing reads 2
	for bytes in 4k 12k 60k 260k; do
		cmp "$model" <(dd if=/dev/mapper/t-v0 bs=$bytes iflag=direct status=none)
	done
}

# Volume 1's stripe is not full, and what its parity does not cover holds something, too.
@test "and of stripes with two parities though two cannot" {
	member_sectors=$((16 << 11))
	make_members
	for ((i = 0; i < members; i++)); do
		random $((member_sectors / 8)) | dd of=/dev/mapper/t-m$i bs=1M oflag=direct iflag=fullblock status=none
	done
	start_pool
	fill_volume 4 4 2
	volume 1 1 5 2
	random_to 1 0 48
	sum=$(sum 1)
	message convert
	a_bit_of_all
	message convert
	a_bit_of_all
	for ((i = 0; i < members - 1; i++)); do
		for ((j = i; j < members - 1; j++)); do
			if (((i + j) % 2 != turn)); then continue; fi
			failing reads $i $j
			as_written
			[ "$(sum 1)" = "$sum" ]
		done
	done
	failing reads
	parity_fits
}

# Each page has two SSDs, or one in a stripe that one may fail of: three lose what their pairs do.
@test "what is lost is answered with an error, and nothing else is" {
	raid_volume 4
	a_bit_of_all
	lost_by_pairs=
	for pair in "1 4" "1 6" "4 6"; do
		# shellcheck disable=SC2086
		failing reads $pair
		read_what_can_be
		lost_by_pairs+=" $lost_pages"
	done
	failing reads 1 4 6
	read_what_can_be
	[ "$lost" -gt 0 ]
	[ "$lost_pages" = "$(tr ' ' '\n' <<<"$lost_by_pairs" | sed /^$/d | sort -nu | paste -sd ' ')" ]
	failing reads
	as_written
	parity_fits
}

# Of the stripe of the first blocks two SSDs fail, of others none, one, two or three.
@test "of stripes only the blocks are lost that are on two or more that fail" {
	raid_volume 4
	in_stripes
	for ((b = 0; b < 24; b++)); do
		find_ssd $((b * 16))
		home[b]=$ssd
	done
	for ((b = 0; b < 24; b += 3)); do
		find_others $((b * 16)) "${home[b]}"
		stripe[b / 3]="${home[b]} $others"
	done
	failing_ssds="${home[0]} ${home[1]}"
	for ssd in {0..7}; do
		if [[ " ${stripe[0]} " != *" $ssd "* ]]; then
			failing_ssds+=" $ssd"
			break
		fi
	done
	expected=
	for ((b = 0; b < 24; b++)); do
		dead_there=0
		for ssd in ${stripe[b / 3]}; do
			if [[ " $failing_ssds " == *" $ssd "* ]]; then dead_there=$((dead_there + 1)); fi
		done
		if [[ $dead_there -gt 1 && " $failing_ssds " == *" ${home[b]} "* ]]; then
			expected+=" $(seq -s ' ' $((b * 16)) $((b * 16 + 15)))"
		fi
	done
	# shellcheck disable=SC2086
	failing reads $failing_ssds
	read_what_can_be
	[ "$(tr ' ' '\n' <<<"$lost_pages" | awk '$1 < 24 * 16' | paste -sd ' ')" = "${expected# }" ]
	failing reads
	as_written
}

# Of replicas any may be read.
read_a_lot() {
	fio --name=r --filename=/dev/mapper/t-v0 --rw=randread --bs=16k --io_size=24m --size=4m --direct=1 --ioengine=libaio \
		--iodepth=32 --thread --randseed="$1" --output=/dev/null
}

# errors MEMBER: so many of its pages could not be read.
errors() { status | awk -v behind=$((members - 1 - $1)) '{ print $(NF - 5 * behind) }'; }

@test "pages that cannot be read are written again" {
	raid_volume 4
	a_bit_of_all
	for i in 1 4; do
		repaired=$(counter repaired) errors=$(errors $i)
		hand message ssd$i bad 0 $((member_sectors / 8))
		as_written
		[ "$(errors $i)" -gt "$errors" ]
		[ $(($(counter repaired) - repaired)) -eq $(($(errors $i) - errors)) ]
		read_a_lot $i
		recovered=$(counter recovered)
		read_a_lot $((i + 1))
		[ "$(counter recovered)" -eq "$recovered" ]
		# parity has not been read
		hand message ssd$i good
	done
	as_written
	parity_fits
}

@test "each page is read from where it can be" {
	raid_volume 4
	in_stripes
	# in each row of pages of a stripe another cannot be read
	for ((i = 0; i < members - 1; i++)); do
		hand message ssd$i bad $i $((member_sectors / block)) $((block / 8))
	done
	as_written
	[ "$(counter repaired)" -gt 0 ]
}

# What parity covers is not known to the last commit.
@test "stripes are read though they are younger than the last commit" {
	raid_volume 4
	flush
	suspend_meta
	write 0 1024
	failing reads 3
	as_written 3>&- &
	pid=$!
	wait_for 20 tasks_in fusion_read_recover 1
	dm resume t-meta
	wait $pid
	failing reads
	[ "$(counter recovered)" -gt 0 ]
	as_written
	parity_fits
}

# First it is younger than the last commit.  When that is made, and it is looked for again, it has
# died, and the next one has seen that.
@test "stripes are read that are young first, and die then" {
	members=7
	make_pool
	volume 0 4
	flush
	suspend_meta
	letter a 196608
	find_ssd 0
	failing reads "$ssd"
	dd if=/dev/mapper/t-v0 of="$BATS_TEST_TMPDIR/read" bs=4k count=1 iflag=direct status=none 3>&- &
	pid=$!
	wait_for 20 tasks_in fusion_read_recover 1
	hand message "ssd$ssd" hold reads
	dm resume t-meta
	wait_for 20 held 1
	letter b 196608
	flush
	[ "$(counter large)" -eq 2 ]
	release
	wait $pid
	failing reads
	[ "$(tr -s '\0-\377' <"$BATS_TEST_TMPDIR/read")" = b ]
	parity_fits
}

# A page of each of the first stripes.
patch_stripes() {
	local b
	in_stripes
	for ((b = 0; b < $1; b++)); do
		write $((b * 48 + b % 16)) 1
	done
	flush
	udevadm settle
}

@test "who reads instead of an SSD waits while patches are merged" {
	raid_volume 4
	patch_stripes 21
	hold_members
	message convert 3>&- &
	merge=$!
	wait_for 20 held 1
	failing reads 5
	cmp "$model" <(dd if=/dev/mapper/t-v0 bs=4M iflag=direct status=none) 3>&- &
	pid=$!
	wait_for 20 tasks_in fusion_gate_enter_wait 1
	release
	wait $pid
	wait $merge || message convert
	failing reads
	as_written
	parity_fits
}

# Rows are written in place in parts.
tear_rows() {
	merge_to_commit 18
	hold_members
	dm resume t-meta
	wait_for 20 held 1
	# that the SSDs have failed cannot be recorded
	meta_table error
	failing writes 0 1 2
	release
	wait $pid && false
	[ "$(mode)" = ro ]
	meta_table "$(meta_target)"
	failing writes
}
# torn_until MIB: after a start that cannot write them, either, they are not computed from; the
# next one can.
torn_until() {
	local all=0 i
	failing reads {0..6}
	restart ro "$1"
	for i in {0..6}; do
		failing reads "$i"
		read_what_can_be
		all=$((all + lost))
	done
	[ $all -gt 0 ]
	[ $all -lt 100 ]
	failing reads
	as_written
	restart rw "$1"
	as_written
	parity_fits
}

@test "and does not when they could not be; nor when the next start cannot" {
	raid_volume 4
	patch_stripes 6
	tear_rows
	failing reads 5
	read_what_can_be
	[ "$lost" -lt 100 ]
	failing reads
	torn_until 4
}

@test "nor of the last pages of large blocks, which the next stripe follows" {
	block=512 member_sectors=$((128 << 11))
	raid_volume 6
	# of two of the three in each stripe: the third is computed
	for b in {0..7}; do
		write $((b * 192 + 61)) 3
		write $((b * 192 + 125)) 3
	done
	flush
	tear_rows
	torn_until 6
}

# All that is not in its stripe yet, and the rest of what is overwritten.
@test "blocks are moved and patches merged though an SSD cannot be read" {
	raid_volume 4
	elsewhere=0
	for ((i = turn; i < members - 1; i += 2)); do
		a_bit_of_all
		recovered=$(counter recovered)
		failing reads $i
		message convert
		elsewhere=$((elsewhere + $(counter recovered) - recovered))
		[ "$(space replicated)" -eq 0 ]
		[ "$(counter patch_area)" -eq 0 ]
		as_written
		failing reads
		as_written
		parity_fits
	done
	echo "$elsewhere pages were read elsewhere"
	[ "$elsewhere" -gt 10 ]
	[ "$(counter destaged)" -gt 0 ]
	[ "$(counter compacted)" -gt 0 ]
}

# Each page of patches that become a top, and of a top that others are written to.
@test "patches become a top though an SSD cannot be read" {
	raid_volume 4
	for ((i = turn; i < members - 1; i += 2)); do
		for b in {0..7}; do
			for page in 0 2 4; do
				write $((b * 16 + page)) 1
			done
		done
		failing reads $i
		for b in {0..7}; do
			write $((b * 16 + 8)) 5
		done
		failing reads
		as_written
		message convert
	done
	parity_fits
}

@test "replicas are made equal though an SSD cannot be read" {
	make_pool
	make_volumes
	for ((ssd = turn; ssd < members - 1; ssd += 2)); do
		run_and_cut $((ssd + 1)) "${devs[@]}"
		stop_pool
		power_on
		failing reads $ssd
		start_pool
		start_volumes
		message resync
		verify "${devs[@]}"
		failing reads
		all=$(cat "${devs[@]}" | md5sum)
		# the same, whatever is read
		for other in $(((ssd + 1) % (members - 1))) $(((ssd + 3) % (members - 1))); do
			failing reads $other
			blockdev --flushbufs "${devs[0]}" "${devs[1]}" "${devs[2]}"
			[ "$(cat "${devs[@]}" | md5sum)" = "$all" ]
		done
		failing reads
		parity_fits
	done
}

# A block of which there is nothing left.
@test "what is lost does not keep the rest from being converted, nor conversion from its end" {
	raid_volume 4
	a_bit_of_all
	for ssd in 1 4 6; do
		hand message ssd$ssd bad 0 $((member_sectors / 8))
	done
	timeout 100 dmsetup message "$pool" 0 convert || [ $? -lt 124 ]
	all_work
	message convert
	[ "$(space replicated)" -eq 0 ]
	as_written
	parity_fits
}

none_recovered() { ! tasks_in fusion_read_recover 1; }
recovered_or_ended() { [ "$(counter recovered)" -gt "$recovered" ] || ended "$pid"; }

# bats test_tags=smp
@test "SSDs fail reads in turn, under load" {
	raid_volume 4
	begin_load --io_size=768m
	pid=$load
	for ((i = 0; ; i++)); do
		failing reads $((i % (members - 1)))
		recovered=$(counter recovered)
		wait_for 20 recovered_or_ended
		if ended $pid; then break; fi
		# no two of them fail the same read
		failing reads
		wait_for 20 none_recovered
	done
	wait $pid || { cat "$BATS_TEST_TMPDIR/fio"; return 1; }
	echo "$i failures"
	[ "$i" -ge 1 ]
	failing reads
	parity_fits
}
