#!/usr/bin/env bats
# Power cuts on all members at one instant: what was flushed is there, what was
# not is as it was before or as it was written, and replicas are equal.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"

# shellcheck source=tests/bats/power.bash
source "$BATS_TEST_DIRNAME/power.bash"

rounds=${FUSION_POWER_CUTS:-26}

# bats test_tags=smp
@test "$rounds power cuts over three volumes of two widths" {
	member_sectors=$((120 << 11))
	make_pool
	make_volumes
	resynced=0
	for ((round = 1; round <= rounds; round++)); do
		run_and_cut $round "${devs[@]}"
		stop_pool
		power_on
		log_mark
		start_pool
		log_has "not stopped cleanly"
		start_volumes
		# Every other time it is checked while resync runs.
		[ $((round % 2)) -eq 0 ] || message resync
		verify "${devs[@]}"
		message resync
		[ "$(field 7)" = synced ]
		resynced=$((resynced + $(counter resynced)))
		[ "$(mode)" = rw ]
	done
	echo "$resynced blocks were resynced"
	[ $resynced -gt 0 ]
	stop_pool
	start_pool
	start_volumes
	[ "$(counter resynced)" -eq 0 ]
	verify "${devs[@]}"
}

# bats test_tags=smp
@test "power cuts while it starts and resyncs" {
	make_pool
	make_volumes
	for round in 101 102 103 104; do
		run_and_cut $round "${devs[@]}"
		stop_pool
		power_on
		# Again at once: the start may fail, and must do no harm.
		start_pool
		message resync 3>&- &
		pid=$!
		power_cut $round
		wait $pid || :
		stop_pool
		power_on
		start_pool
		start_volumes
		verify "${devs[@]}"
	done
}

@test "pools that start from labels, after power cuts" {
	features=
	member_sectors=$((100 << 11))
	make_members
	fusion pool create t-pool --json /dev/mapper/t-m{0..7} >/dev/null
	fusion volume create t-pool a --size 8M --width 4 --json >/dev/null
	fusion volume create t-pool b --size 8M --width 6 --json >/dev/null
	for round in 201 202 203 204; do
		run_and_cut $round /dev/mapper/t-pool-a /dev/mapper/t-pool-b
		fusion pool stop t-pool || :
		power_on
		fusion pool start t-pool
		verify /dev/mapper/t-pool-a /dev/mapper/t-pool-b
	done
	fusion pool stop t-pool
}

# page_letter PAGE [LETTER]: what page PAGE of t-pool-a is all of; written first.
page_letter() {
	[ -z "${2-}" ] || head -c 4096 /dev/zero | tr '\0' "$2" |
		dd of=/dev/mapper/t-pool-a bs=4k seek="$1" oflag=direct status=none
	dd if=/dev/mapper/t-pool-a bs=4k skip="$1" count=1 iflag=direct status=none | tr -s '\0-\377' | tr '\0' 0
}

# Pages that the first SSD would lose or keep.
first_cached() { dmsetup status ssd0 | awk '{ print $12 }'; }

# cut_at_flush N: the power fails when the first SSD is to flush something for the Nth
# time, and nothing survives that was not flushed.  Fails if the sync has ended before;
# sets $synced to what it says.
cut_at_flush() {
	local n=$1 syncer
	hold flushes
	sync /dev/mapper/t-pool-a 3>&- &
	syncer=$!
	while wait_for 20 held_or_ended $syncer && running $syncer; do
		# md flushes before it writes its own superblocks, too.
		[ "$(first_cached)" -eq 0 ] || [ $((--n)) -gt 0 ] || break
		step
	done
	power_cut lose
	release
	synced=yes
	wait $syncer || synced=no
	fusion pool stop t-pool || :
	power_on
	fusion pool start t-pool
	message set paused 1
	[ "$n" -eq 0 ]
}

# The metadata is on a RAID-1 of md, with a leg on the first SSD.  md answers a flush
# with success even if no leg has done it.  Of one that goes to the journal see 85-journal.bats.
@test "the power fails at each step of a flush" {
	features=
	member_sectors=$((100 << 11))
	make_members
	fusion pool create t-pool --no-journal --json /dev/mapper/t-m{0..7} >/dev/null
	fusion volume create t-pool a --size 8M --json >/dev/null
	message set paused 1
	cut=1
	while page_letter $((cut * 16)) a && cut_at_flush $cut; do
		# A block that was new: without the commit it is not found.
		holds=$(page_letter $((cut * 16)))
		echo "flush $cut: synced: $synced; holds: $holds"
		[ "$synced" = no ] || [ "$holds" = a ]
		cut=$((cut + 1))
	done
	[ "$synced" = yes ]
	[ "$(page_letter $((cut * 16)))" = a ]
	[ $cut -gt 1 ]
}

# --- replicas ----------------------------------------------------------------

# All four read the same, at the same time: so they read of both replicas.
readers_agree() {
	local i pids=()
	for i in 1 2 3 4; do
		dd if=/dev/mapper/t-v0 bs=4k iflag=direct status=none | md5sum >"$BATS_TEST_TMPDIR/sum$i" 3>&- &
		pids+=($!)
	done
	all_end "${pids[@]}"
	[ "$(cat "$BATS_TEST_TMPDIR"/sum[1-4] | sort -u | wc -l)" -eq 1 ]
}

letters() {
	dd if=/dev/mapper/t-v0 bs=64k iflag=direct status=none | perl -e '
		while (read(STDIN, $page, 4096) == 4096) {
			$c = substr($page, 0, 1);
			print $page ne $c x 4096 ? "?" : $c eq "\0" ? "0" : $c, "\n";
		}' | sort | uniq -c | awk '{ printf "%s%s=%d", s, $2, $1; s = " " }'
}
write_letter() {
	head -c $((4 << 20)) /dev/zero | tr '\0' "$1" |
		dd of=/dev/mapper/t-v0 bs="${2:-16k}" iflag=fullblock oflag=direct status=none
}

# Pages that the SSDs would lose or keep.
cached_pages() { dmsetup status --target ssdsim | awk '{ n += $13 } END { print n }'; }

@test "what changes no mapping is not flushed unasked" {
	make_pool
	volume 0 4
	write_letter a
	flush
	[ "$(cached_pages)" -eq 0 ]
	commits=$(counter commits)
	write_letter b
	# Longer than the period of commits.
	sleep 2.5
	[ "$(cached_pages)" -eq 2048 ]
	[ "$(counter commits)" -eq "$commits" ]
}

@test "replicas that a cut made differ are made equal" {
	make_pool
	volume 0 4
	write_letter a
	flush
	# In place, nothing flushed: each replica's page is lost or kept by itself.
	write_letter b
	power_cut 77
	stop_pool
	power_on
	log_mark
	start_pool
	log_has "not stopped cleanly"
	volume_device 0 8192
	readers_agree
	message resync
	log_has "all replicas are in sync"
	[ "$(field 7)" = synced ]
	[ "$(counter resynced)" -eq 64 ]
	readers_agree
	letters
	[[ $(letters) =~ ^a=[0-9]+\ b=[0-9]+$ ]]
	before=$(letters)
	# It is done once: not after a clean stop, nor after another cut.
	stop_pool
	start_pool
	volume_device 0 8192
	[ "$(field 7) $(counter resynced)" = "synced 0" ]
	[ "$(letters)" = "$before" ]
	flush
	power_cut 78
	stop_pool
	power_on
	start_pool
	volume_device 0 8192
	message resync
	[ "$(letters)" = "$before" ]
}

@test "a write to replicas that differ, before resync comes to them" {
	make_pool
	volume 0 4
	write_letter a
	flush
	write_letter b
	power_cut 79
	stop_pool
	power_on
	start_pool
	volume_device 0 8192
	for at in 0 100 500 1023; do
		head -c 4096 /dev/zero | tr '\0' c | dd of=/dev/mapper/t-v0 bs=4k seek=$at oflag=direct status=none
	done
	flush
	message resync
	readers_agree
	[[ $(letters) == a=*" b="*" c=4" ]]
}
