#!/usr/bin/env bats
# The map's journal: flushes do not wait for the metadata.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/patches.bash
source "$BATS_TEST_DIRNAME/patches.bash"
# shellcheck source=tests/bats/power.bash
source "$BATS_TEST_DIRNAME/power.bash"

ring=2048		# the least there can be, in sectors
test_setup() {
	spares=0 member_sectors=$((64 << 11))
	data_offset=$ring features="unlabelled journal 0 $ring"
}
test_teardown() {
	[ ! -e /dev/mapper/t-meta ] || dm resume t-meta
}

# What was written is durable, and in the journal, if it can be: no commit, unlike flush.
flush_only() { sync /dev/mapper/t-v0; }
journaled() { counter journal_records; }
replayed() { log_has "what the journal had of $1 epochs has been replayed"; }

change_all_kinds() {
	write_all_kinds
	blkdiscard -f -o 3M -l 256K /dev/mapper/t-v0 2>/dev/null
	dd if=/dev/zero of="$model" bs=256K seek=12 count=1 conv=notrunc status=none
}

# newest: the number of the newest record, and the members that have it.
newest() {
	local i
	for i in {0..7}; do
		blockdev --flushbufs "/dev/mapper/t-m$i"
	done
	perl -e '
		my ($best, @on);
		for my $m (0 .. $#ARGV) {
			open(my $f, "<", $ARGV[$m]) or die;
			for (my $at = 0; $at < '$ring' * 512; $at += 4096) {
				read($f, my $page, 4096) == 4096 or die;
				my ($magic, $sequence) = unpack("a8 x24 q<", $page);
				next if $magic ne "fusnjrnl";
				($best, @on) = ($sequence) if !defined $best || $sequence > $best;
				push @on, $m if $sequence == $best && !grep { $_ == $m } @on;
			}
		}
		print "$best @on\n"' /dev/mapper/t-m{0..7}
}

# Nothing that is written from here on comes to the metadata: cut_power lets it.
without_metadata() {
	message commit
	message set paused 1
	suspend_meta
}
# The power fails, and the pool is started again, without SSD... .
cut_power() {
	power_cut 1
	dm resume t-meta
	stop_pool
	power_on
	missing=$*
	start_pool
	[ "$(mode)" = rw ]
	volume_device 0 $((${size_mib:-4} << 11))
}

@test "what was flushed is there after a power cut, though the metadata does not have it" {
	raid_volume 4
	without_metadata
	before=$(journaled)
	change_all_kinds
	flush_only
	write 900 3
	flush_only
	[ "$(journaled)" -ge $((before + 2)) ]
	cut_power
	log_has "epochs has been replayed"
	as_written
	parity_fits
	# it is in the metadata now
	restart rw 4
	as_written
	parity_fits
}

# FUA goes to the journal, too, where it is not in place.
@test "what was written with FUA is there after a power cut" {
	raid_volume 4
	without_metadata
	for page in 5 100 101 640; do
		random 1 >"$BATS_TEST_TMPDIR/pages"
		dd if="$BATS_TEST_TMPDIR/pages" of=/dev/mapper/t-v0 bs=4k seek=$page oflag=direct,dsync conv=notrunc status=none
		dd if="$BATS_TEST_TMPDIR/pages" of="$model" bs=4k seek=$page conv=notrunc status=none
	done
	before=$(journaled)
	# in place: it is known already
	dd if="$BATS_TEST_TMPDIR/pages" of=/dev/mapper/t-v0 bs=4k seek=640 oflag=direct,dsync conv=notrunc status=none
	[ "$(journaled)" -eq "$before" ]
	cut_power
	as_written
}

@test "any one SSD may be lost with the power, of RAID-6 any two" {
	for parity in 1 2; do
		raid_volume 4 3 $parity
		for lost in "$turn" $((turn + 2)) $((turn + 4)); do
			without_metadata
			change_all_kinds
			flush_only
			[ $parity -eq 1 ] || lost+=" $((lost + 1))"
			# shellcheck disable=SC2086
			cut_power $lost
			as_written
			missing=
			restart rw 4
			for i in $lost; do message replace "$i"; done
			message rebuild
			[ "$(states)" = oooooooo ]
		done
		clean_up
		log_mark
	done
}

@test "conversion, deletion and compaction come through the journal" {
	raid_volume 4
	change_all_kinds
	flush_only
	message set paused 1
	before=$(journaled)
	message convert 3>&- &
	pid=$!
	# what is being converted is flushed, and is not in the metadata yet, sometimes
	for i in {1..20}; do
		write $((i * 40)) 3
		flush_only
	done
	wait $pid
	[ "$(journaled)" -gt "$before" ]
	suspend_meta
	write 10 20
	flush_only
	cut_power
	as_written
	parity_fits
	message convert
	[ "$(space replicated)" -eq 0 ]
	as_written
	parity_fits
}

# Each step of a flush: the members', the record on each of three.
@test "the power fails at each step of a flush" {
	raid_volume 4
	for steps in {0..5}; do
		without_metadata
		cp "$model" "$BATS_TEST_TMPDIR/before"
		udevadm settle
		write 33 3
		write 320 16
		for i in {0..6}; do
			hand message "ssd$i" hold writes
			hand message "ssd$i" hold flushes
		done
		flush_only 2>/dev/null 3>&- &
		pid=$!
		for ((i = 0; i < steps; i++)); do
			wait_for 20 held_or_ended $pid
			step
		done
		wait_for 20 held_or_ended $pid
		power_cut 1
		release
		flushed=0
		# without a record it waits for that
		dm resume t-meta
		wait $pid && flushed=1
		stop_pool
		power_on
		start_pool
		volume_device 0 $((4 << 11))
		dd if=/dev/mapper/t-v0 of="$BATS_TEST_TMPDIR/read" bs=1M iflag=direct status=none
		# each page as it was, or as it was written; if that was flushed, that
		if [ $flushed -eq 1 ]; then
			cmp "$model" "$BATS_TEST_TMPDIR/read"
		else
			perl -e '
				my ($n, @f) = (0);
				for (@ARGV) { open(my $f, "<", $_) or die; push @f, $f }
				while (read($f[0], my $a, 4096)) {
					read($f[1], my $b, 4096); read($f[2], my $c, 4096);
					die "page $n is wrong\n" if $c ne $a && $c ne $b; $n++;
				}' "$BATS_TEST_TMPDIR/before" "$model" "$BATS_TEST_TMPDIR/read"
			cp "$BATS_TEST_TMPDIR/read" "$model"
		fi
		parity_fits
	done
}

@test "a flush does not wait for one SSD's journal" {
	raid_volume 4
	without_metadata
	for i in {0..6}; do
		write $((i * 16)) 2
		# it is on the SSDs; what is written from here on is the record
		hand message "ssd$i" hold writes
		timeout 20 sync /dev/mapper/t-v0
		hand message "ssd$i" release
	done
	cut_power
	as_written
}

@test "a flush does not wait for the metadata if sets have been closed" {
	raid_volume 4
	write 640 16
	without_metadata
	message convert 3>&- &
	pid=$!
	# it has closed the set, and commits that
	wait_for 20 tasks_in fusion_commit 1
	write 900 3
	flush_only 3>&- &
	flush=$!
	wait_for 20 ended $flush
	cut_power
	wait $pid || true
	log_has "epochs has been replayed"
	as_written
	parity_fits
}

# Each flush takes a page of the ring, which has 256.
@test "the ring goes round, and is emptied when half of it is in use" {
	raid_volume 4
	commits=$(counter commits) before=$(journaled)
	for ((i = 1; $(journaled) < before + 260; i++)); do
		# where commits are slow some find it full, and wait for one
		[ $i -le 600 ]
		write $((i % 60 * 16 + i / 60)) 1
		flush_only
	done
	[ $(($(journaled) - before + $(counter commits) - commits)) -ge $((i - 1)) ]
	[ "$(counter commits)" -ge $((commits + 2)) ]
	without_metadata
	write 7 3
	flush_only
	cut_power
	as_written
	parity_fits
}

flush_pages() {
	local i
	for i in {1..270}; do
		write $((i % 60 * 16 + i / 60)) 1
		sync /dev/mapper/t-v0
	done
}
is_still() { [ "$(journaled)" -eq "$1" ]; }
more() { ! is_still "$1"; }
none_more() { more "$before" && stays 2 more "$(journaled)"; }

@test "a full ring: flushes wait for the metadata" {
	raid_volume 4
	without_metadata
	before=$(journaled)
	flush_pages 3>&- &
	pid=$!
	# it has room for 256 pages, or the metadata for fewer changes
	wait_for 120 none_more
	running $pid
	dm resume t-meta
	wait $pid
	suspend_meta
	cut_power
	as_written
	parity_fits
}

@test "a pool whose members are not all there has no use for the journal, and others have again" {
	raid_volume 4
	message fail 2
	before=$(journaled)
	change_all_kinds
	flush_only
	[ "$(journaled)" -eq "$before" ]
	message replace 2
	message rebuild
	[ "$(states)" = oooooooo ]
	without_metadata
	change_all_kinds
	flush_only
	[ "$(journaled)" -gt "$before" ]
	dm resume t-meta
	as_written
}

# What cannot be flushed is known to the metadata before a flush is answered, and that one is not
# there any more by then: later flushes must not be in the journal before it.
@test "a flush that fails on an SSD waits for the metadata, and so do those behind it" {
	raid_volume 4
	without_metadata
	before=$(journaled)
	udevadm settle
	failing flushes 2
	write_stripes
	change_all_kinds
	flush_only 3>&- &
	pid=$!
	stays 1 ended $pid
	write 700 2
	flush_only 3>&- &
	second=$!
	stays 1 ended $second
	[ "$(journaled)" -eq "$before" ]
	dm resume t-meta
	wait $pid
	wait $second
	[ "$(states)" = oofooooo ]
	cut_power
	as_written
}

@test "a flush does not wait for an SSD that hangs, and is failed" {
	raid_volume 4
	udevadm settle
	# or the timer's commit may have flushed it
	hand message ssd2 hold flushes
	write_stripes
	change_all_kinds
	flush_only 3>&- &
	pid=$!
	wait_for 20 held 1
	message fail 2
	wait_for 20 ended $pid
	wait $pid
	release
	as_written
}

# RAID-6 wants a record on three before it is durable, of which two may be lost.
@test "a volume of RAID-6 comes to a pool of RAID-5" {
	raid_volume 4
	empty_ring
	write 5 2
	flush_only
	read -r -a on < <(newest)
	[ ${#on[@]} -eq $((1 + 3)) ]
	volume 1 4 3 2
	message commit
	suspend_meta
	random_to 1 0 16 64k
	sum=$(sum 1)
	sync /dev/mapper/t-v1
	read -r -a on < <(newest)
	[ ${#on[@]} -eq $((1 + 4)) ]
	power_cut 1
	dm resume t-meta
	stop_pool
	power_on
	missing="${on[1]} ${on[3]}"
	start_pool
	log_has "epochs has been replayed"
	volume_device 1 $((4 << 11))
	[ "$(sum 1)" = "$sum" ]
}

# As it is on its device; and so again.
meta_to() { dd if=/dev/mapper/t-meta of="$1" bs=1M iflag=direct status=none; }
meta_from() { dd if="$1" of=/dev/mapper/t-meta bs=1M oflag=direct status=none; }

# What is free by it may be in use.
@test "metadata that is older than its journal is not started" {
	raid_volume 4
	message commit
	old=$BATS_TEST_TMPDIR/old
	meta_to "$old"
	write 100 3
	flush_only
	without_metadata
	write 200 3
	flush_only
	[ "$(journaled)" -ge 2 ]
	power_cut 1
	dm resume t-meta
	stop_pool
	power_on
	new=$BATS_TEST_TMPDIR/new
	meta_to "$new"
	meta_from "$old"
	run ! start_pool
	log_has "the journal goes on after a commit that this metadata does not have"
	# as it was, it goes with the journal, also if it was restored from a dump
	meta_from "$new"
	fusion dump /dev/mapper/t-meta -o "$BATS_TEST_TMPDIR/dump"
	fusion restore -i "$BATS_TEST_TMPDIR/dump" -o /dev/mapper/t-meta --yes
	start_pool
	log_has "what the journal had of 1 epochs has been replayed"
	volume_device 0 $((4 << 11))
	as_written
	# and the old one does when the journal is not to be used
	stop_pool
	meta_from "$old"
	log_mark
	fusion dump /dev/mapper/t-meta -o "$BATS_TEST_TMPDIR/dump2"
	fusion restore -i "$BATS_TEST_TMPDIR/dump2" -o /dev/mapper/t-meta --discard-journal --yes
	start_pool
	log_lacks "replayed"
	[ "$(mode)" = rw ]
}

# Patches of 40 blocks, 15 each: the journal has for each write all patches of its block, and that is
# more than a record has room for.  In an epoch: the commit of the one before waits.
patch_much() {
	meta_sectors=$((64 << 11)) block=512 member_sectors=$((128 << 11)) size_mib=12 percent=50
	raid_volume $size_mib
	empty_ring
	without_metadata
	write 3000 1
	wait_for 20 tasks_in fusion_md_commit 1
	cp "$model" "$BATS_TEST_TMPDIR/before"
	fio --output-format=terse --output=/dev/null --name=p --filename=/dev/mapper/t-v0 --rw=write:12k --bs=4k \
		--size=10m --io_size=2560k --direct=1
	dd if=/dev/mapper/t-v0 of="$model" bs=1M iflag=direct status=none
	run ! cmp -s "$model" "$BATS_TEST_TMPDIR/before"
}

@test "an epoch of several records is there after a power cut" {
	patch_much
	read -r -a before < <(newest)
	[ ${#before[@]} -eq $((1 + 3)) ]
	epochs=$(journaled)
	flush_only
	[ "$(journaled)" -eq $((epochs + 1)) ]
	read -r -a on < <(newest)
	[ "${on[0]}" -ge $((before[0] + 2)) ]
	cut_power
	as_written
	parity_fits
}

@test "an epoch of which not all records are there is not there" {
	patch_much
	udevadm settle
	hold writes
	flush_only 3>&- &
	pid=$!
	wait_for 20 held 3
	# the first; the next one is for others
	mapfile -t on < <(dmsetup status "${ssds[@]}" | sed -n 's/^\(ssd[0-9]*\): .* 1$/\1/p')
	[ ${#on[@]} -eq 3 ]
	for ssd in "${on[@]}"; do
		hand message "$ssd" step
	done
	wait_for 20 held 3
	running $pid
	power_cut 1
	release
	dm resume t-meta
	wait $pid && false
	stop_pool
	power_on
	start_pool
	volume_device 0 $((size_mib << 11))
	cp "$BATS_TEST_TMPDIR/before" "$model"
	as_written
	parity_fits
}

# Flushes and records that are sent there come back, and are sent again.
@test "an SSD whose queue is full is waited for" {
	scsi_disk 66 max_queue=1 ndelay=1000000
	make_members
	dm create "$pool" --table "$(pool_table | sed "s,/dev/mapper/t-m2 ,/dev/$disk ,")"
	[[ $(dmsetup table "$pool") == *" $(stat -c %Hr:%Lr "/dev/$disk") "* ]]
	volume 0 8
	fio --output-format=terse --output=/dev/null --filename=/dev/mapper/t-v0 --rw=randwrite --bs=4k --direct=1 --fsync=1 \
		--thread --number_ios=64 --verify=crc32c --name=a --size=2m --name=b --size=2m --offset=2m \
		--name=c --size=2m --offset=4m --name=d --size=2m --offset=6m
	[ "$(journaled)" -gt 8 ]
	[ "$(states)" = oooooooo ]
	message convert
	parity_fits
	stop_pool
	no_scsi_disk
}

# What another pool has left in the ring is not taken for one's own.
@test "a new pool on SSDs with records of another" {
	raid_volume 4
	without_metadata
	change_all_kinds
	flush_only
	power_cut 1
	dm resume t-meta
	stop_pool
	power_on
	blkdiscard /dev/mapper/t-meta
	start_pool
	volume 1 4
	stop_pool
	start_pool
	log_lacks "replayed"
}

@test "table lines with a journal" {
	make_pool
	[[ "$(dmsetup table t-pool)" == *" 4 unlabelled journal 0 $ring" ]]
	stop_pool
	features="unlabelled"
	run ! start_pool
	log_has "Pool has a journal, and the line does not say where"
	features="unlabelled journal 0 $((ring * 2))"
	run ! start_pool
	log_has "Journal must end before the members' data offsets"
	data_offset=$((ring * 2))
	run ! start_pool
	log_has "Journal is elsewhere than the metadata says"
	for bad in "journal" "journal 0" "journal 0 x" "journal 4 $ring" "journal 0 8" "journal 0 $((ring + 1))"; do
		features="unlabelled $bad"
		run ! start_pool
		log_has "journal must be followed by"
	done
	data_offset=$ring features="journal 0 $ring unlabelled"
	start_pool
	[ "$(mode)" = rw ]
}

# A pool that had none gets one.
@test "a journal is added to a pool, and used" {
	features="unlabelled"
	raid_volume 4
	flush_only
	[ "$(journaled)" -eq 0 ]
	features="unlabelled journal 0 $ring"
	restart rw 4
	change_all_kinds
	flush_only
	[ "$(journaled)" -gt 0 ]
	without_metadata
	write 77 5
	flush_only
	cut_power
	as_written
}
