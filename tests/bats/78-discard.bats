#!/usr/bin/env bats
# Discards, and the freed space that is passed down to the members.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"

# Four members, stripes of two data slots: two templates of 12 stripes a band,
# each 9 blocks of every member.
test_setup() {
	no_journal
	members=4 spares=0 member_sectors=$((16 << 11))
	template_sectors=$((9 * block))
	mnt=$BATS_TEST_TMPDIR/mnt
}
test_teardown() {
	! mountpoint -q "$mnt" || umount "$mnt"
}

fail_discards() {
	local i
	for ((i = 0; i < members; i++)); do
		hand message "ssd$i" fail discards "$1"
	done
}


# What the members were told to discard since discards_mark: requests and sectors
# of each.
discards() {
	local i
	for ((i = 0; i < members; i++)); do
		dmsetup status "ssd$i"
	done | awk '{ print $9, $10 }'
}
discards_mark() {
	mapfile -t marked < <(discards)
}
discarded() {
	local i now
	mapfile -t now < <(discards)
	for i in "${!now[@]}"; do
		echo $((${now[i]% *} - ${marked[i]% *})) $((${now[i]#* } - ${marked[i]#* }))
	done
}
discarded_sectors() { discarded | awk '{ n += $2 } END { print n }'; }
members_are_zeros() {
	local i
	for ((i = 0; i < members; i++)); do
		cmp -n $((member_sectors << 9)) /dev/zero \
			<(dd if=/dev/mapper/t-m$i bs=1M iflag=direct status=none) || return 1
	done
}

delete() {
	dm remove "t-v$1"
	message delete_volume "$1"
}
# The message waits; sets $deleter.
delete_begin() {
	dm remove "t-v$1"
	message delete_volume "$1" 3>&- &
	deleter=$!
}

@test "the space of a volume that is deleted is passed down, all of it" {
	make_pool
	before=$(space free)
	discards_mark
	volume 0 8 2
	random_to 0 0 2048 128k
	flush
	[ "$(counter large)" -eq 64 ]
	[ "$(discarded_sectors)" -eq 0 ]
	run ! members_are_zeros
	delete 0
	[ "$(space free) $(space dead)" = "$before 0" ]
	discarded
	# 64 stripes are six templates, of three bands
	[ "$(counter passdown_blocks)" -eq $((6 * 9 * 4)) ]
	[ "$(discarded_sectors)" -eq $((6 * 9 * 4 * block)) ]
	[ "$(counter passdowns)" -le 6 ]
	while read -r count sectors; do
		[ "$count" -eq "$(counter passdowns)" ]
		[ $((sectors / count)) -ge "$template_sectors" ]
	done < <(discarded)
	members_are_zeros
}

@test "and that of a volume which was there before the start" {
	make_pool
	before=$(space free)
	volume 0 8 2
	random_to 0 0 2048 128k
	stop_pool
	start_pool
	discards_mark
	# No volume is open: no band is loaded.
	message delete_volume 0
	[ "$(space free) $(space dead)" = "$before 0" ]
	[ "$(discarded_sectors)" -eq $((6 * 9 * 4 * block)) ]
	members_are_zeros
	# A band of one class before, of another now.
	volume 1 4 2
	random_to 1 0 1024 64k
	sum=$(sum 1)
	message convert
	[ "$(sum 1)" = "$sum" ]
	parity_fits
}

compacted() { [ "$(counter compacted)" -gt 0 ]; }

@test "nothing is written to a band while it is passed down, loaded or not" {
	make_pool
	before=$(space free)
	volume 1 8 2
	random_to 1 0 256 128k
	for ((at = 0; at < 1024; at += 128)); do
		blkdiscard -f -o $((at << 10)) -l 65536 /dev/mapper/t-v1
	done
	# The first band has something of both, the next ones of volume 0 alone.
	volume 0 8 2
	random_to 0 0 2048 128k
	flush
	stop_pool
	start_pool
	hold discards
	message delete_volume 0 3>&- &
	deleter=$!
	wait_for 20 held 4
	# Compaction loads all bands of the class: not those, though.
	message convert 3>&- &
	converter=$!
	wait_for 20 compacted
	volume_device 1 $((8 << 11))
	random_to 1 256 1024 128k
	sum=$(sum 1)
	running $deleter
	release
	wait $deleter
	wait $converter
	[ "$(sum 1)" = "$sum" ]
	random_to 1 1280 512 128k
	sync /dev/mapper/t-v1
	parity_fits
	delete 1
	[ "$(space free) $(space dead)" = "$before 0" ]
	members_are_zeros
}

first_stripe() { dd if=/dev/mapper/t-v1 bs=128k count=1 iflag=direct status=none | md5sum; }

@test "templates of which a stripe is live are not passed down" {
	make_pool
	before=$(space free)
	volume 0 4 2
	volume 1 4 2
	discards_mark
	# Stripes of both in every template; some replicated, too.
	for ((at = 0; at < 1024; at += 64)); do
		random_to 0 $at 64 128k
		random_to 1 $at 64 128k
	done
	random_to 1 128 32 64k
	sum=$(sum 1)
	delete 0
	[ "$(sum 1)" = "$sum" ]
	parity_fits
	scrubbed=$(counter scrubbed)
	# What is left of it has 32 stripes of 64; few templates are without one.
	[ "$(counter passdowns)" -le 3 ]
	# All but one stripe goes.
	random_to 1 0 32 128k
	kept=$(first_stripe)
	passed=$(counter passdowns)
	blkdiscard -o $((128 << 10)) -l $((3968 << 10)) /dev/mapper/t-v1
	message convert
	[ "$(counter passdowns)" -gt "$passed" ]
	[ "$(first_stripe)" = "$kept" ]
	message scrub
	[ "$(counter scrubbed) $(counter scrub_mismatches)" = "$((scrubbed + 1)) 0" ]
	delete 1
	[ "$(space free) $(space dead)" = "$before 0" ]
	members_are_zeros
}

@test "a writer that needs the space waits for the discards; it is not given out before" {
	features+=" error_if_no_space"
	make_pool
	volume 0 64 2
	volume 1 4 2
	random_to 1 0 512 128k
	random_to 1 0 16 64k
	run dd if=/dev/urandom of=/dev/mapper/t-v0 bs=128k oflag=direct
	[[ $output == *"No space left on device"* ]]
	flush
	discards_mark
	hold discards
	blkdiscard /dev/mapper/t-v0
	flush
	wait_for 20 held 4
	# What is free now are the other stripes of v1's templates.
	commits=$(counter commits)
	random 5120 >"$BATS_TEST_TMPDIR/data"
	dd if="$BATS_TEST_TMPDIR/data" of=/dev/mapper/t-v0 bs=128k oflag=direct status=none 3>&- &
	writer=$!
	wait_for 20 nothing_is_free
	# Who needs none goes on, and so do commits.
	first_stripe
	blkdiscard -f -o 65536 -l 65536 /dev/mapper/t-v1
	sync /dev/mapper/t-v1
	[ "$(counter commits)" -gt "$commits" ]
	running $writer
	[ "$(discarded_sectors)" -eq 0 ]
	sum=$(sum 1)
	release
	wait $writer
	[ "$(discarded_sectors)" -gt 0 ]
	cmp "$BATS_TEST_TMPDIR/data" <(dd if=/dev/mapper/t-v0 bs=1M count=20 iflag=direct status=none)
	[ "$(sum 1)" = "$sum" ]
	parity_fits
}

# What is left but the reserve, and as much again, is for blocks that are there.
nothing_is_free() { [ $(($(space free) - 2 * $(counter reserve))) -lt 6 ]; }

@test "a discard that fails does not keep the space" {
	make_pool
	before=$(space free)
	volume 0 8 2
	random_to 0 0 2048 128k
	fail_discards yes
	discards_mark
	delete 0
	[ "$(space free) $(space dead)" = "$before 0" ]
	[ "$(counter passdowns) $(counter passdown_blocks) $(discarded_sectors)" = "0 0 0" ]
	log_has "a discard failed on"
	# Each of them says so once.
	[ "$(grep -c "a discard failed on" <<<"$log_text")" -eq 4 ]
	log_mark
	# One is well again: the others do not keep it from its discards.
	hand message ssd2 fail discards no
	volume 0 8 2
	random_to 0 0 2048 128k
	delete 0
	[ "$(space free)" -eq "$before" ]
	log_lacks "a discard failed on"
	[ "$(counter passdown_blocks)" -eq $((6 * 9)) ]
	[ "$(discarded_sectors)" -eq $((6 * 9 * block)) ]
}

@test "no_discard_passdown, and back by a reload" {
	features+=" no_discard_passdown"
	make_pool
	before=$(space free)
	discards_mark
	volume 0 8 2
	random_to 0 0 2048 128k
	delete 0
	[ "$(space free)" -eq "$before" ]
	[ "$(discarded_sectors) $(counter passdowns)" = "0 0" ]
	features=${features/ no_discard_passdown}
	dm reload "$pool" --table "$(pool_table)"
	dm resume "$pool"
	volume 0 8 2
	random_to 0 0 2048 128k
	delete 0
	[ "$(space free)" -eq "$before" ]
	[ "$(counter passdown_blocks)" -eq $((6 * 9 * 4)) ]
}

@test "nothing is passed down before the commit that frees it" {
	make_pool
	volume 0 8 2
	random_to 0 0 2048 128k
	flush
	sum=$(sum 0)
	discards_mark
	udevadm settle
	hold flushes
	# It waits for a commit when it has filled an epoch.
	blkdiscard -f /dev/mapper/t-v0 3>&- &
	discarder=$!
	wait_for 20 held 1
	power_cut 3
	[ "$(discarded_sectors)" -eq 0 ]
	release
	wait $discarder || :
	stop_pool
	power_on
	start_pool
	volume_device 0 $((8 << 11))
	[ "$(sum 0)" = "$sum" ]
}

@test "a power cut while discards are under way" {
	make_pool
	before=$(space free)
	volume 0 8 2
	volume 1 4 2
	random_to 0 0 2048 128k
	random_to 1 0 1024 64k
	flush
	sum=$(sum 1)
	for round in 1 2 3; do
		hold discards
		delete_begin 0
		wait_for 20 held 4
		# Some are done on some members.
		for ((i = 0; i < round; i++)); do
			hand message ssd$i release
		done
		power_cut $round
		release
		wait $deleter || :
		stop_pool
		power_on
		start_pool
		volume_device 1 $((4 << 11))
		[ "$(message volumes | cut -d' ' -f1)" = 1 ]
		[ "$(sum 1)" = "$sum" ]
		volume 0 8 2
		random_to 0 0 2048 128k
		flush
		[ "$(sum 1)" = "$sum" ]
	done
	delete 0
	delete 1
	[ "$(space free) $(space dead)" = "$before 0" ]
}

# Replicas of it may have become stripes.
all_is_free_but_v1() {
	[ $(($(space free) + $(space replicated) + $(space raid) + $(space dead))) -eq "$before" ] &&
		[ "$(space dead)" -lt 64 ]
}

@test "the pool is suspended and stopped while discards are under way" {
	make_pool
	before=$(space free)
	volume 0 8 2
	volume 1 4 2
	# Each in templates of its own: v1's go first.
	random_to 1 0 1024 64k
	random_to 0 0 2048 128k
	flush
	sum=$(sum 1)
	hold discards
	delete_begin 0
	wait_for 20 held 4
	dm suspend "$pool" 3>&- &
	suspender=$!
	# The message goes on, and the suspend waits.
	wait_for 20 ended $deleter
	wait $deleter
	running $suspender
	release
	wait $suspender
	dm resume "$pool"
	# What was left over is passed down now.
	wait_for 20 all_is_free_but_v1
	[ "$(sum 1)" = "$sum" ]
	passed=$(counter passdown_blocks)
	[ "$passed" -ge $((4 * 9 * 4)) ]

	volume 0 8 2
	random_to 0 0 2048 128k
	flush
	hold discards
	delete_begin 0
	wait_for 20 held 4
	dm remove t-v1
	dm remove "$pool" 3>&- &
	remover=$!
	wait_for 20 ended $deleter
	running $remover
	release
	wait $remover
	start_pool
	volume_device 1 $((4 << 11))
	[ "$(sum 1)" = "$sum" ]
	delete 1
	[ "$(space free) $(space dead)" = "$before 0" ]
}
freed() { [ "$(space free)" -ge "$1" ]; }

@test "fstrim of a file system frees space" {
	members=8 spares=1 member_sectors=$((64 << 11))
	make_pool
	volume 0 64 3
	discards_mark
	mkfs.ext4 -q -E nodiscard /dev/mapper/t-v0
	mkdir "$mnt"
	mount /dev/mapper/t-v0 "$mnt"
	random 1024 >"$mnt/kept"
	random 8192 >"$mnt/gone"
	sync -f "$mnt/gone"
	sum=$(md5sum <"$mnt/kept")
	full=$(space free)
	rm "$mnt/gone"
	# Only what the journal has forgotten is trimmed.
	sync -f "$mnt"
	fstrim "$mnt"
	message convert
	echo "free: $full, then $(space free)"
	# 32 MiB are 512 blocks, and those of parity.
	[ "$(space free)" -ge $((full + 500)) ]
	[ "$(counter passdowns)" -gt 0 ]
	[ "$(discarded_sectors)" -eq $(($(counter passdown_blocks) * block)) ]
	umount "$mnt"
	e2fsck -fn /dev/mapper/t-v0
	echo 3 >/proc/sys/vm/drop_caches
	mount -o ro /dev/mapper/t-v0 "$mnt"
	[ "$(md5sum <"$mnt/kept")" = "$sum" ]
	umount "$mnt"
}

@test "fusion pool create --no-discard-passdown" {
	members=8 member_sectors=$((100 << 11))
	make_members
	fusion pool create t-pool --no-discard-passdown --json /dev/mapper/t-m{0..7} >/dev/null
	[[ $(dmsetup table t-pool) == *" 4 no_discard_passdown journal "* ]]
	fusion pool stop t-pool
	fusion pool start t-pool
	[[ $(dmsetup table t-pool) == *" 4 no_discard_passdown journal "* ]]
	fusion pool stop t-pool
}
