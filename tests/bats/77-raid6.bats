#!/usr/bin/env bats
# Volumes of two parities: three replicas, P and Q, and RAID-5 beside them.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/power.bash
source "$BATS_TEST_DIRNAME/power.bash"

cuts=${FUSION_RAID6_CUTS:-8}

test_setup() { no_journal; }

member_devices() {
	for ((i = 0; i < members; i++)); do
		echo "/dev/mapper/t-m$i"
	done
}
# Of pages that are not zeros: how many are on how many members.
copies() {
	local devices
	mapfile -t devices < <(member_devices)
	"$members_bytes" copies "${devices[@]}"
}
# stripes DATA PARITY: those with good P, "good" or "bad" (Q) and their slots.
stripes() {
	local devices
	mapfile -t devices < <(member_devices)
	"$members_bytes" parity "$1" "$2" "$spares" "$block" "${devices[@]}"
}
# Small, for those that look at all of it; half of what may be replicated is more
# than they write, so that nothing is converted that they did not ask for.
small_pool() {
	member_sectors=$((64 << 11))
	make_pool
}

@test "each page is on three members, and on one with P and Q after conversion" {
	small_pool
	before_free=$(space free)
	volume 0 8 4 2
	random_to 0 0 2048
	flush
	[ "$(copies)" = "3 2048" ]
	[ "$(counter new_top) $(space replicated) $(space raid)" = "128 384 0" ]
	# In place, too, and in pages that the top did not have.
	random_to 0 3 1 4k
	random_to 0 2000 9 36k
	flush
	[ "$(copies)" = "3 2048" ]
	before=$(sum 0)
	message convert
	[ "$(sum 0)" = "$before" ]
	parity_fits
	stripes=$(counter scrubbed)
	# 128 blocks, four to a set; what the open ones held was put together
	[ "$stripes" -ge 32 ]
	[ "$stripes" -le 34 ]
	[ "$(space replicated) $(space raid)" = "0 $((128 + 2 * stripes))" ]
	[ "$(counter convert_written_pages)" -eq $((32 * $(counter converted))) ]
	# By its definition, not by ours.
	stripes 4 2 >"$BATS_TEST_TMPDIR/stripes"
	# what was put together is also where it was
	[ "$(grep -c '^good ' "$BATS_TEST_TMPDIR/stripes")" -ge "$stripes" ]
	[ "$(grep -c '^bad ' "$BATS_TEST_TMPDIR/stripes")" -eq 0 ]
	stop_pool
	start_pool
	volume_device 0 16384
	[ "$(sum 0)" = "$before" ]
	parity_fits
	# All of it comes back, exactly.
	blkdiscard /dev/mapper/t-v0
	message convert
	[ "$(space raid) $(space replicated) $(space dead)" = "0 0 0" ]
	dm remove t-v0
	message delete_volume 0
	[ "$(space free)" -eq "$before_free" ]
}

@test "the narrowest and the widest stripes, few members and many" {
	while read -r members spares data; do
		block=8 member_sectors=$((16 << 11))
		make_pool
		volume 0 1 "$data" 2
		random_to 0 0 256 4k
		flush
		[ "$(copies)" = "3 256" ]
		before=$(sum 0)
		message convert
		[ "$(sum 0) $(space replicated)" = "$before 0" ]
		parity_fits
		[ "$(stripes "$data" 2 | grep -c '^good ')" -ge "$(counter scrubbed)" ]
		clean_up
	done <<-'END'
		5 0 2
		7 1 3
		9 0 6
		13 0 2
		13 1 9
	END
}

@test "a start with tops and open sets of before" {
	small_pool
	before_free=$(space free)
	volume 0 4 3 2
	random_to 0 0 1024
	stop_pool
	start_pool
	volume_device 0 8192
	before=$(sum 0)
	message convert
	[ "$(sum 0) $(space replicated)" = "$before 0" ]
	parity_fits
	random_to 0 0 512
	flush
	dm remove t-v0
	# Tops and bases.
	message delete_volume 0
	[ "$(space raid) $(space replicated) $(space dead)" = "0 0 0" ]
	[ "$(space free)" -eq "$before_free" ]
}

@test "large writes, whole stripes and parts" {
	small_pool
	volume 0 8 4 2
	# More than 6 / 3 blocks make a stripe.
	random_to 0 0 32 128k
	[ "$(counter large) $(counter new_top)" = "0 2" ]
	random_to 0 64 48 192k
	random_to 0 128 64 256k
	[ "$(counter large) $(counter new_top)" = "2 2" ]
	random_to 0 1024 1024 1M
	[ "$(counter large) $(counter new_top)" = "18 2" ]
	flush
	[ "$(space replicated) $(space raid)" = "6 $((3 + 2 + 17 * 6))" ]
	[ "$(stripes 4 2 | cut -d' ' -f1 | uniq -c | awk '{ printf "%s %s", $2, $1 }')" = "good 18" ]
	parity_fits
	[ "$(counter scrubbed)" -eq 18 ]
	before=$(sum 0)
	stop_pool
	start_pool
	volume_device 0 16384
	[ "$(sum 0)" = "$before" ]
}

# spoil MEMBER:SECTOR: one page there, behind the pool's back; the old one is kept.
spoil() {
	dd if=/dev/mapper/t-m"${1%:*}" of="$BATS_TEST_TMPDIR/page" bs=4k count=1 iflag=direct,skip_bytes \
		skip=$((${1#*:} << 9)) status=none
	random 1 | page_to "$1"
}
page_to() {
	dd of=/dev/mapper/t-m"${1%:*}" bs=4k count=1 iflag=fullblock oflag=direct,seek_bytes \
		seek=$((${1#*:} << 9)) conv=notrunc status=none
}

@test "a scrub finds a wrong page of data, of P and of Q" {
	small_pool
	volume 0 4 4 2
	# Stripes with all of their slots and, the last, with three.
	random_to 0 0 $((3 * 64 + 48)) $((15 << 16))
	flush
	stripes 4 2 >"$BATS_TEST_TMPDIR/stripes"
	[ "$(grep -c '^good ' "$BATS_TEST_TMPDIR/stripes")" -eq 4 ]
	parity_fits
	wrong=0
	# data slots 0 to 3, P, Q
	while read -r _ slots; do
		for at in $slots; do
			spoil "$at"
			if cmp -s "$BATS_TEST_TMPDIR/page" /dev/zero -n 4096; then
				# Not written, so not covered either.
				message scrub
			else
				run ! message scrub
				wrong=$((wrong + 1))
				# Of many in a row, the kernel's log has only the first.
				[ $wrong -gt 1 ] || log_has "the parity does not fit"
			fi
			[ "$(counter scrub_mismatches)" -eq $wrong ]
			page_to "$at" <"$BATS_TEST_TMPDIR/page"
			message scrub
			[ "$(counter scrub_mismatches)" -eq $wrong ]
		done
	done <"$BATS_TEST_TMPDIR/stripes"
	[ $wrong -eq $((3 * 6 + 5)) ]
}

@test "RAID-5 and RAID-6 volumes of different widths in one pool" {
	member_sectors=$((120 << 11))
	make_pool
	before_free=$(space free)
	jobs=()
	i=0
	while read -r d p; do
		volume $i 12 "$d" "$p"
		jobs+=(--name="v$i" --filename="/dev/mapper/t-v$i")
		i=$((i + 1))
	done <<-'END'
		2 2
		4 2
		3 1
		5 1
	END
	run fio --output-format=terse --direct=1 --ioengine=libaio --verify=crc32c --verify_fatal=1 \
		--verify_backlog=64 --randrepeat=1 --group_reporting --thread --rw=randrw --bsrange=4k-512k \
		--iodepth=8 --io_size=12m "${jobs[@]}"
	[ "$status" -eq 0 ] || { echo "$output"; return 1; }
	[ "$(counter large)" -gt 0 ]
	[ "$(counter in_place)" -gt 0 ]
	[ "$(counter new_top)" -gt 0 ]
	sums() { for i in 0 1 2 3; do sum $i; done; }
	before=$(sums)
	message convert
	[ "$(space replicated)" -eq 0 ]
	[ "$(sums)" = "$before" ]
	parity_fits
	stop_pool
	start_pool
	for i in 0 1 2 3; do
		volume_device $i $((12 << 11))
	done
	[ "$(sums)" = "$before" ]
	[ "$(message volumes | cut -d' ' -f4,5 | tr '\n' ' ')" = "2 2 4 2 3 1 5 1 " ]
	[ "$(dmsetup status t-v1 | cut -d' ' -f6-)" = "4 2 v1" ]
	for i in 0 1 2 3; do
		dm remove t-v$i
		message delete_volume $i
	done
	[ "$(space free)" -eq "$before_free" ]
}

@test "three replicas that a cut made differ are made equal" {
	small_pool
	volume 0 4 4 2
	random_to 0 0 1024
	flush
	# In place, nothing flushed: each replica's page is lost or kept by itself.
	random_to 0 0 1024
	power_cut 77
	stop_pool
	power_on
	[ "$(copies)" != "3 1024" ]
	log_mark
	start_pool
	log_has "not stopped cleanly"
	volume_device 0 8192
	# Some by a read, before the walk comes to them.
	before=$(sum 0)
	message resync
	[ "$(field 7) $(counter resynced)" = "synced 64" ]
	[ "$(copies)" = "3 1024" ]
	for i in 1 2 3 4; do
		sum 0 >"$BATS_TEST_TMPDIR/sum$i" 3>&- &
		pids[i]=$!
	done
	all_end "${pids[@]}"
	[ "$(sort -u "$BATS_TEST_TMPDIR"/sum[1-4])" = "$before" ]
	message convert
	[ "$(sum 0) $(space replicated)" = "$before 0" ]
	parity_fits
}

# member_table NUMBER TARGET [ARGUMENT...]: of all but the last 4 KiB, which stay.
member_table() {
	local rest=$((member_sectors - 8)) table
	table="0 $rest ${*:2}"$'\n'"$rest 8 linear /dev/mapper/ssd$1 $rest"
	dm load "t-m$1" --table "$table"
	dm suspend --noflush "t-m$1"
	dm resume "t-m$1"
}

@test "fusion volume create --raid raid6" {
	features=
	member_sectors=$((100 << 11))
	make_members
	fusion pool create t-pool --json /dev/mapper/t-m{0..7} >/dev/null
	run -0 --separate-stderr fusion volume create t-pool a --size 8M --raid raid6
	[ "$output" = "/dev/mapper/t-pool-a is created: 8 MiB, raid6 of width 6" ]
	fusion volume create t-pool b --size 8M --raid raid6 --data 2 --json >"$BATS_TEST_TMPDIR/json"
	[ "$(jq -r '"\(.raid) \(.width)"' "$BATS_TEST_TMPDIR/json")" = "raid6 4" ]
	run -1 --separate-stderr fusion volume create t-pool c --size 8M --raid raid6 --width 3
	[[ $stderr == *"they are 4 to 6 wide"* ]]
	fusion volume create t-pool c --size 8M --width 3 >/dev/null
	[ "$(message volumes | cut -d' ' -f2,4,5 | tr '\n' ' ')" = "a 4 2 b 2 2 c 2 1 " ]
	for v in a b c; do
		random 1024 | dd of=/dev/mapper/t-pool-$v bs=64k iflag=fullblock oflag=direct status=none
	done
	before=$(cat /dev/mapper/t-pool-[abc] | md5sum)
	fusion pool stop t-pool
	fusion pool start t-pool
	fusion convert t-pool
	[ "$(fusion pool status t-pool --json | jq .space.replicated_bytes)" -eq 0 ]
	fusion scrub t-pool
	[ "$(cat /dev/mapper/t-pool-[abc] | md5sum)" = "$before" ]
	for v in a b c; do
		fusion volume remove t-pool $v --yes
	done
	[ "$(fusion pool status t-pool --json | jq '.space | .raid_bytes + .dead_bytes')" -eq 0 ]
	fusion pool stop t-pool
}

# Until there is nothing to send messages to.
convert_on() {
	while message convert 2>/dev/null; do :; done
}

# bats test_tags=smp
@test "$cuts power cuts over RAID-6 and RAID-5, while sets are converted and not" {
	member_sectors=$((120 << 11))
	data=(4 2 3) parity=(2 2 1)
	make_pool
	make_volumes
	resynced=0 converted=0
	for ((round = 401; round <= 400 + cuts; round++)); do
		pid=
		if [ $((round % 2)) -eq 0 ]; then
			convert_on 3>&- &
			pid=$!
		fi
		run_and_cut $round "${devs[@]}"
		[ -z "$pid" ] || wait $pid || :
		converted=$((converted + $(counter converted)))
		stop_pool
		power_on
		start_pool
		start_volumes
		[ $((round % 3)) -eq 0 ] || message resync
		verify "${devs[@]}"
		message resync
		resynced=$((resynced + $(counter resynced)))
		parity_fits
	done
	echo "$converted sets were converted, $resynced blocks resynced"
	[ $converted -gt 0 ]
	[ $resynced -gt 0 ]
	message convert
	[ "$(space replicated)" -eq 0 ]
	verify "${devs[@]}"
	parity_fits
}
