#!/usr/bin/env bats
# Scrubs: what cannot be read, and what has changed by itself, is found and written again.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/patches.bash
source "$BATS_TEST_DIRNAME/patches.bash"


# 12 MiB are about 64 stripes: of each SSD there are more than a few, whichever are drawn; and of
# 24 some whose parity it has.

# bad SSD FIRST COUNT [STEP]: pages that cannot be read until they are written, of the member.
# What udev reads of them would be repaired, and not by a scrub.
bad() {
	udevadm settle
	hand message "ssd$1" bad "${@:2}"
}

# repairs MESSAGE: pages, and stripes whose parity was written, by that.
repairs() {
	local pages parity
	pages=$(counter repaired) parity=$(counter scrub_repaired)
	message "$1"
	echo $(($(counter repaired) - pages)) $(($(counter scrub_repaired) - parity))
}

# Pages that each member could not read.
errors() { status | awk '{ for (i = 1; i < NF; i++) if ($i ~ /:|^-$/ && $(i + 1) ~ /^(ok|failed)$/)
	printf "%s%s", n++ ? " " : "", $(i + 4) } END { print "" }'; }

# Of t-v0, whichever of the members cannot be read.
same_from_all() {
	local ssd before
	before=$(sum 0)
	for ((ssd = turn; ssd < members; ssd += 2)); do
		failing reads "$ssd"
		[ "$(sum 0)" = "$before" ] || { echo "not the same without SSD $ssd"; return 1; }
	done
	all_work
}

@test "what a scrub cannot read it writes again" {
	raid_volume 24
	[ "$(repairs scrub)" = "0 0" ]
	for ssd in 1 4; do
		bad $ssd 0 $((member_sectors / 8))
		read -r pages parity < <(repairs scrub)
		echo "$pages pages, parity of $parity stripes"
		[ "$pages" -gt 16 ]
		[ "$parity" -gt 0 ]
		[ "$(repairs scrub)" = "0 0" ]
		recovered=$(counter recovered)
		as_written
		[ "$(counter recovered)" -eq "$recovered" ]
	done
	# what has been written is right
	for ssd in $((2 + turn)) $((5 + turn)); do
		failing reads $ssd
		as_written
	done
	[ "$(mode)" = rw ]
}

# Of each block all SSDs have bad pages, but no two the same.
@test "a scrub repairs page by page" {
	raid_volume 12
	for ssd in {0..6}; do
		bad "$ssd" "$ssd" $((member_sectors / block)) $((block / 8))
	done
	read -r pages parity < <(repairs scrub)
	[ "$pages" -gt 30 ]
	[ "$(repairs scrub)" = "0 0" ]
	recovered=$(counter recovered)
	as_written
	[ "$(counter recovered)" -eq "$recovered" ]
}

@test "a stripe that dies while a scrub computes it is no error" {
	members=7
	make_pool
	volume 0 4
	letter a 196608
	flush
	find_ssd 0
	bad "$ssd" 0 $((member_sectors / 8))
	hand message "ssd$ssd" hold reads
	message scrub 3>&- &
	pid=$!
	wait_for 20 held 1
	# what it cannot read it reads again, page by page
	hand message "ssd$ssd" step
	wait_for 20 held 1
	letter b 196608
	flush
	release
	wait $pid
	parity_fits
}

# In patches; and in stripes, of data and of parity.
@test "a scrub goes on where a member fails under it" {
	raid_volume 4
	for ssd in "$turn" $((turn + 2)); do
		for b in {0..31}; do write $((b * 16 + b % 16)) 1; done
		fails_under_scrub "$ssd"
		[ "$blocks" -gt 0 ]
	done
	for ssd in "$turn" $((turn + 1)) $((turn + 2)) $((turn + 4)); do
		message convert
		fails_under_scrub "$ssd"
		[ "$blocks" -eq 0 ]
		[ "$stripes" -gt 0 ]
	done
	# it answers with errors, of which nobody knows before something is written
	dead "$turn"
	message scrub
	[[ "$(states)" = *f* ]]
	dead
	as_written
	[ "$(counter scrub_mismatches)" -eq 0 ]
}
# fails_under_scrub SSD: while that keeps what the scrub reads of it.  What is counted by it is in
# $blocks and $stripes.
fails_under_scrub() {
	local before pid
	blocks=$(counter scrub_blocks) stripes=$(counter scrubbed)
	before="$(counter repaired) $(counter scrub_repaired) $(counter scrub_mismatches) $(errors)"
	udevadm settle
	hand message "ssd$1" hold reads
	message scrub 3>&- &
	pid=$!
	wait_for 20 held 1
	message fail "$1"
	wait $pid
	release
	blocks=$(($(counter scrub_blocks) - blocks)) stripes=$(($(counter scrubbed) - stripes))
	[ "$(counter repaired) $(counter scrub_repaired) $(counter scrub_mismatches) $(errors)" = "$before" ]
	message replace "$1"
	message rebuild
	[ "$(states)" = oooooooo ]
}

@test "a scrub goes on behind what is lost" {
	raid_volume 12
	for ssd in 1 4; do
		bad $ssd 0 $((member_sectors / 8))
	done
	scrubbed=$(counter scrubbed)
	run ! message scrub
	[ $(($(counter scrubbed) - scrubbed)) -gt 15 ]
	repaired=$(counter repaired)
	[ "$repaired" -gt 16 ]
	read_what_can_be
	[ "$lost" -gt 0 ]
	[ "$lost" -lt 1536 ]
	# what was repaired was so by the scrub
	[ "$(counter repaired)" -eq "$repaired" ]
	[ "$(states)" = oooooooo ]
}

# Of each block the first page cannot be read from the one, of which all others can.
@test "a scrub repairs all that can be beside pages that are lost" {
	raid_volume 12
	bad 1 0 $((member_sectors / block)) $((block / 8))
	bad 4 0 $((member_sectors / 8))
	run ! message scrub
	for ssd in $((2 + turn)) $((5 + turn)) 1 4; do
		failing reads $ssd
		read_what_can_be
		[ "$lost" -gt 0 ]
		for page in $lost_pages; do
			[ $((page % 16)) -eq 0 ]
		done
	done
}

# Which of them was wrong nobody knows; but what is read does not depend on who reads it.
@test "parity that does not fit is written again if that is asked for" {
	raid_volume 12
	random $((member_sectors / 8)) | dd of=/dev/mapper/t-m2 bs=1M iflag=fullblock oflag=direct status=none
	run ! message scrub
	wrong=$(counter scrub_mismatches)
	[ "$wrong" -gt 8 ]
	before=$(sum 0)
	[ "$before" != "$(md5sum <"$model")" ]
	run ! message scrub
	[ "$(counter scrub_mismatches)" -eq $((2 * wrong)) ]
	[ "$(repairs repair)" = "0 $wrong" ]
	[ "$(counter scrub_mismatches)" -eq $((3 * wrong)) ]
	message scrub
	[ "$(counter scrub_mismatches)" -eq $((3 * wrong)) ]
	for ssd in $((1 + turn)) $((4 + turn)); do
		failing reads $ssd
		[ "$(sum 0)" = "$before" ]
	done
}

# The pages of all members that are as FILE, as MEMBER:PAGE.
places_of() {
	perl -e '
		my ($page, $b);
		open(my $file, "<:raw", shift) or die; read($file, $page, 4096) == 4096 or die;
		for my $m (0 .. $#ARGV) {
			open(my $member, "<:raw", $ARGV[$m]) or die;
			for (my $n = 0; read($member, $b, 4096); $n++) {
				print "$m:$n\n" if $b eq $page;
			}
		}' "$1" /dev/mapper/t-m{0..7}
}

@test "replicas that differ are found, and made the same" {
	make_pool
	fill_volume 12
	message scrub
	[ "$(counter scrub_blocks) $(counter scrub_mismatches)" = "192 0" ]
	random $((member_sectors / 8)) | dd of=/dev/mapper/t-m2 bs=1M iflag=fullblock oflag=direct status=none
	run ! message scrub
	wrong=$(counter scrub_mismatches)
	echo "$wrong of 192"
	[ "$wrong" -gt 16 ]
	[ "$wrong" -lt 96 ]
	# nothing was written
	run ! message scrub
	[ "$(counter scrub_mismatches)" -eq $((2 * wrong)) ]
	[ "$(repairs repair)" = "0 $wrong" ]
	message scrub
	[ "$(counter scrub_blocks) $(counter scrub_mismatches)" = "$((5 * 192)) $((3 * wrong))" ]
	[ "$(errors)" = "0 0 0 0 0 0 0 0" ]
	same_from_all
	# all that was read then is still so when it has become stripes
	before=$(sum 0)
	message convert
	[ "$(sum 0)" = "$before" ]
}

@test "replicas of patches that differ are found, and made the same" {
	raid_volume 12
	write 100 1
	dd if="$model" of="$BATS_TEST_TMPDIR/page" bs=4k skip=100 count=1 status=none
	mapfile -t places < <(places_of "$BATS_TEST_TMPDIR/page")
	[ ${#places[@]} -eq 2 ]
	message scrub
	[ "$(counter scrub_blocks)" -eq 1 ]
	for at in "${places[@]}"; do
		random 1 | dd of="/dev/mapper/t-m${at%:*}" bs=4k seek="${at#*:}" oflag=direct status=none
		wrong=$(counter scrub_mismatches)
		run ! message scrub
		[ "$(counter scrub_mismatches)" -eq $((wrong + 1)) ]
		[ "$(repairs repair)" = "0 1" ]
		message scrub
		same_from_all
	done
}

@test "what a scrub cannot read of replicas it writes again" {
	make_pool
	fill_volume 12
	message scrub
	bad 1 0 $((member_sectors / 8))
	read -r pages parity < <(repairs scrub)
	echo "$pages pages"
	[ "$pages" -gt 16 ]
	[ "$parity" -eq 0 ]
	[ "$(errors)" = "0 $pages 0 0 0 0 0 0" ]
	[ "$(repairs scrub)" = "0 0" ]
	[ "$(errors)" = "0 $pages 0 0 0 0 0 0" ]
	for ssd in $((2 + turn)) $((5 + turn)); do
		failing reads $ssd
		as_written
	done
	all_work
	# Page by page: all members have some, and no two the same, of a block.
	for ssd in {0..7}; do
		bad "$ssd" "$ssd" $((member_sectors / block)) $((block / 8))
	done
	[ "$(repairs scrub)" = "384 0" ]
	[ "$(repairs scrub)" = "0 0" ]
	# Nothing is left of most, and that is no reason to end.
	for ssd in {0..6}; do
		bad "$ssd" 0 $((member_sectors / 8))
	done
	blocks=$(counter scrub_blocks)
	run ! message scrub
	[ $(($(counter scrub_blocks) - blocks)) -eq 192 ]
	read_what_can_be
	[ "$lost" -gt 1536 ]
	[ "$lost" -lt 3072 ]
	[ "$(states)" = oooooooo ]
}

# What was scrubbed, until more than COUNT stripes were.
scrub_until() {
	local before
	before=$(counter scrubbed)
	udevadm settle
	hold reads
	dmsetup message t-pool 0 scrub 3>&- &
	pid=$!
	while [ $(($(counter scrubbed) - before)) -le "$1" ]; do
		wait_for 20 held 1
		step
	done
	kill -TERM $pid
	release
	wait $pid && return 1
	scrubbed=$(($(counter scrubbed) - before))
}

@test "a scrub that was interrupted goes on where it was" {
	raid_volume 12
	message scrub
	all=$(counter scrubbed)
	[ "$all" -ge 64 ]
	scrub_until 4
	[ "$scrubbed" -lt "$all" ]
	[ "$(counter scrub_at)" -lt "$(counter scrub_end)" ]
	# where it was, it may not have ended
	first=$scrubbed
	scrub_until 4
	stop_pool
	start_pool
	message scrub
	rest=$(counter scrubbed)
	echo "$first, $scrubbed and $rest of $all"
	[ $((first + scrubbed + rest)) -ge "$all" ]
	[ $((first + scrubbed + rest)) -le $((all + 2)) ]
	# the next looks at all of it, and one that is begun anew
	message scrub
	[ $(($(counter scrubbed) - rest)) -eq "$all" ]
	scrub_until 4
	before=$(counter scrubbed)
	message scrub_restart
	message scrub
	[ $(($(counter scrubbed) - before)) -eq "$all" ]
}

# bats test_tags=smp
@test "scrubs beside writes and conversion find nothing wrong" {
	raid_volume 12
	begin_load --io_size=64m
	passes=0
	while running "$load"; do
		message scrub_restart
		message scrub
		[ $((passes % 3)) -ne 2 ] || message convert
		passes=$((passes + 1))
	done
	wait "$load" || { cat "$BATS_TEST_TMPDIR/fio"; return 1; }
	echo "$passes passes, $(counter scrub_blocks) blocks, $(counter scrubbed) stripes"
	[ "$passes" -gt 1 ]
	[ "$(counter scrub_blocks)" -gt 0 ]
	[ "$(counter scrub_mismatches)" -eq 0 ]
}

@test "what has changed by itself under dm-integrity is repaired" {
	modprobe dm-integrity
	make_members
	# it formats what begins with zeros, and says there how much of it is left
	params="/dev/mapper/ssd2 0 - D 2 internal_hash:crc32c block_size:4096"
	dm create t-integrity --table "0 8 integrity $params"
	dm remove t-integrity
	sectors=$(dd if=/dev/mapper/ssd2 bs=4k count=1 iflag=direct status=none | od -An -tu8 -j16 -N8)
	[ "$sectors" -ge "$member_sectors" ]
	dm create t-integrity --table "0 $((sectors)) integrity $params"
	dm reload t-m2 --table "0 $member_sectors linear /dev/mapper/t-integrity 0"
	dm resume t-m2
	start_pool
	fill_volume 24
	message convert
	[ "$(repairs scrub)" = "0 0" ]
	flush
	random 8192 | dd of=/dev/mapper/ssd2 bs=1M seek=1 iflag=fullblock oflag=direct status=none
	echo 3 >/proc/sys/vm/drop_caches
	read -r pages parity < <(repairs scrub)
	echo "$pages pages, parity of $parity stripes"
	[ "$pages" -gt 16 ]
	[ "$parity" -gt 0 ]
	[ "$(repairs scrub)" = "0 0" ]
	[ "$(counter scrub_mismatches)" -eq 0 ]
	as_written
	[ "$(states)" = oooooooo ]
	stop_pool
	dm remove --retry t-m2
	dm remove --retry t-integrity
}
