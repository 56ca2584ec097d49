#!/usr/bin/env bats
# Scrubs: what cannot be read, and what has changed by itself, is found and written again.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/patches.bash
source "$BATS_TEST_DIRNAME/patches.bash"


# 12 MiB are about 64 stripes: of each SSD there are more than a few, whichever are drawn; and of
# 24 some whose parity it has.

# bad SSD FIRST COUNT [STEP]: pages that cannot be read until they are written, of the member.
bad() { dmsetup message "ssd$1" 0 bad "${@:2}"; }

# repairs MESSAGE: pages, and stripes whose parity was written, by that.
repairs() {
	local pages parity
	pages=$(counter repaired) parity=$(counter scrub_repaired)
	message "$1"
	echo $(($(counter repaired) - pages)) $(($(counter scrub_repaired) - parity))
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
