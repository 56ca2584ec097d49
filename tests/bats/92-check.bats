#!/usr/bin/env bats
# Metadata of pools that do not run: checked, dumped, restored, repaired.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/power.bash
source "$BATS_TEST_DIRNAME/power.bash"

meta=/dev/mapper/t-meta

# Some of everything: stripes, sets, patches and what is dead, of one parity and of two.
busy_pool() {
	spares=1
	make_pool
	message set patch_percent 20
	volume 0 8
	volume 1 4 4 2
	random_to 0 0 1536
	random_to 1 0 512
	message convert
	random_to 0 1536 96 4k
	random_to 0 35 2 4k
	random_to 1 70 2 4k
	random_to 0 64 16
	random_to 1 600 64 384k
	blkdiscard -o $((1 << 20)) -l $((1 << 19)) /dev/mapper/t-v0
	sync /dev/mapper/t-v0
}
start_busy() {
	start_pool
	volume_device 0 $((8 << 11))
	volume_device 1 $((4 << 11))
}
sums() { sum 0; sum 1; }

# super_at OFFSET FILE: a number of eight bytes of the superblock.
super_at() { od -A n -t u8 -j "$1" -N 8 "$2" | tr -d ' '; }
# damage FILE BLOCK [OFFSET]: a byte is changed.
damage() {
	local at=$(($2 * 4096 + ${3:-100})) byte
	byte=$(od -A n -t u1 -j $at -N 1 "$1")
	# shellcheck disable=SC2059
	printf "\\x$(printf %x $((byte ^ 255)))" | dd of="$1" bs=1 seek=$at conv=notrunc status=none
}

@test "what a pool leaves is right; a dump gives it back" {
	busy_pool
	run ! fusion check $meta
	[[ $output == *"is in use: stop the pool"* ]]
	before=$(sums)
	stop_pool
	fusion check $meta
	ln -s "$(command -v fusion)" "$BATS_TEST_TMPDIR/fusion_check"
	ln -s "$(command -v fusion)" "$BATS_TEST_TMPDIR/fusion_dump"
	"$BATS_TEST_TMPDIR/fusion_check" --quiet $meta
	"$BATS_TEST_TMPDIR/fusion_dump" $meta >"$BATS_TEST_TMPDIR/dump"
	for kind in run block row stripe; do
		echo "$kind: $(grep -c "^$kind " "$BATS_TEST_TMPDIR/dump")"
	done
	grep -q '^block .* top=' "$BATS_TEST_TMPDIR/dump"
	grep -q '^block .* patches=' "$BATS_TEST_TMPDIR/dump"
	# nothing is there but what comes from the dump
	dd if=/dev/urandom of=$meta bs=1M count=8 oflag=direct status=none
	run ! fusion check -q $meta
	run ! fusion restore -i "$BATS_TEST_TMPDIR/dump" -o $meta
	[[ $output == *"loses data: give --yes"* ]]
	fusion restore -i "$BATS_TEST_TMPDIR/dump" -o $meta --yes
	fusion dump $meta | cmp "$BATS_TEST_TMPDIR/dump" -
	start_busy
	[ "$(mode)" = rw ]
	[ "$(sums)" = "$before" ]
	# and it can be gone on with
	random_to 0 0 256
	random_to 0 400 100 4k
	message convert
	parity_fits
	stop_pool
	fusion check $meta
}

# bats test_tags=smp
@test "it is right after power cuts, and with a member that has failed" {
	member_sectors=$((120 << 11))
	make_pool
	message set patch_percent 20
	make_volumes
	for round in 1 2 3; do
		run_and_cut $round "${devs[@]}"
		stop_pool
		power_on
		fusion check $meta
		start_pool
		start_volumes
		[ $round -ne 2 ] || message fail 3
		verify "${devs[@]}"
	done
	message convert
	stop_pool
	fusion check $meta
}

@test "damage is found; what is left is saved" {
	busy_pool
	before=$(sums)
	stop_pool
	image=$BATS_TEST_TMPDIR/image copy=$BATS_TEST_TMPDIR/copy new=$BATS_TEST_TMPDIR/new
	dd if=$meta of="$image" bs=1M status=none
	fusion dump "$image" -o "$BATS_TEST_TMPDIR/dump"
	# the roots of stripes, bases, bands and volumes, and the space map's index: see format.h
	for at in 224 232 216 208 96; do
		root=$(super_at $at "$image")
		cp "$image" "$copy"
		damage "$copy" "$root"
		run ! fusion check "$copy"
		[[ $output == *"block $root, "* ]]
		rm -f "$new"
		fusion repair -i "$copy" -o "$new"
		fusion check "$new"
	done
	# of the space map nothing is lost
	fusion dump "$new" | sed 's/transaction=[0-9]* clean=0/x/' |
		cmp - <(sed 's/transaction=[0-9]* clean=1/x/' "$BATS_TEST_TMPDIR/dump")
	dd if="$new" of=$meta bs=1M oflag=direct status=none
	start_busy
	[ "$(mode)" = rw ]
	[ "$(sums)" = "$before" ]
	stop_pool
	# there is no pool without a superblock
	cp "$image" "$copy"
	damage "$copy" 0
	run ! fusion repair -i "$copy" -o "$BATS_TEST_TMPDIR/none"
	[[ $output == *"its superblock is damaged"* ]]
	[ ! -e "$BATS_TEST_TMPDIR/none" ]
}

@test "metadata that fails: read-only, until a check has found it right" {
	busy_pool
	before=$(sums)
	target=$(meta_target)
	# all but the superblock
	dm reload t-meta --table "0 8 $target
8 $((meta_sectors - 8)) error"
	dm resume t-meta
	random_to 0 0 16 || :
	run ! flush
	wait_for 20 in_ro
	[ "$(field 2)" = needs_check ]
	stop_pool
	meta_table "$target"
	start_busy
	[ "$(mode)" = ro ]
	[ "$(field 2)" = needs_check ]
	run ! random_to 0 0 1
	stop_pool
	run -0 fusion check $meta
	[[ $output == *"--clear-needs-check-flag changes that"* ]]
	fusion check --clear-needs-check-flag $meta
	run -0 fusion check --json $meta
	[ "$(jq -c '[.good, .needs_check]' <<<"$output")" = "[true,false]" ]
	start_busy
	[ "$(mode)" = rw ]
	[ "$(field 2)" = - ]
	random_to 0 0 16
	sync /dev/mapper/t-v0
	# what is wrong is not cleared
	stop_pool
	"$BATS_TEST_DIRNAME/patch.pl" super $meta 4 03000000
	dd if=$meta of="$BATS_TEST_TMPDIR/image" bs=1M status=none
	damage "$BATS_TEST_TMPDIR/image" "$(super_at 216 "$BATS_TEST_TMPDIR/image")"
	run ! fusion check --clear-needs-check-flag "$BATS_TEST_TMPDIR/image"
	[ "$(od -A n -t u1 -j 4 -N 1 "$BATS_TEST_TMPDIR/image")" -eq 3 ]
}

@test "by a pool's name, without the members that one slice is on" {
	features=
	make_members
	dm remove t-meta
	fusion pool create t-pool --json /dev/mapper/t-m{0..7} >/dev/null
	fusion volume create t-pool a --size 4M --json >/dev/null
	dd if=/dev/urandom of="$BATS_TEST_TMPDIR/data" bs=1M count=4 status=none
	dd if="$BATS_TEST_TMPDIR/data" of=/dev/mapper/t-pool-a bs=1M oflag=direct conv=fsync status=none
	run ! fusion check t-pool
	[[ $output == *"pool t-pool is running: stop it first"* ]]
	fusion pool stop t-pool
	fusion check t-pool
	dm remove t-m0
	fusion check t-pool
	fusion dump t-pool -o "$BATS_TEST_TMPDIR/dump"
	fusion repair -i t-pool -o "$BATS_TEST_TMPDIR/image"
	fusion restore -i "$BATS_TEST_TMPDIR/dump" -o t-pool --yes
	[[ $(dmsetup ls) != *_fmeta* ]]
	fusion pool start t-pool
	cmp "$BATS_TEST_TMPDIR/data" <(dd if=/dev/mapper/t-pool-a bs=1M iflag=direct status=none)
	fusion pool stop t-pool
	fusion check t-pool
}

@test "a pool that was not stopped, and what its journal has" {
	features=
	make_members
	dm remove t-meta
	fusion pool create t-pool --json /dev/mapper/t-m{0..7} >/dev/null
	fusion volume create t-pool a --size 4M --json >/dev/null
	message set paused 1
	message commit
	# what comes now is in the journal only
	meta=t-pool_fmeta
	udevadm settle
	dm suspend --noflush --nolockfs "$meta"
	random 16 >"$BATS_TEST_TMPDIR/data"
	dd if="$BATS_TEST_TMPDIR/data" of=/dev/mapper/t-pool-a bs=64k oflag=direct conv=fsync status=none
	power_cut lose
	dm resume "$meta"
	fusion pool stop t-pool || :
	power_on
	run -0 fusion check t-pool
	[[ $output == *"the next start replays 1 epochs from the journal"* ]]
	run -0 fusion check --json t-pool
	[ "$(jq -c '[.good, .journal_epochs, .journal_stale]' <<<"$output")" = "[true,1,false]" ]
	fusion pool start t-pool
	log_has "what the journal had of 1 epochs has been replayed"
	cmp -n 64K "$BATS_TEST_TMPDIR/data" /dev/mapper/t-pool-a
	fusion pool stop t-pool
	run -0 fusion check t-pool
	[[ $output != *journal* ]]
}
