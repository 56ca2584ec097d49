#!/usr/bin/env bats
# Every bad table line and every bad message is refused, says why in the
# kernel's log, and leaves nothing behind.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"

patch=$BATS_TEST_DIRNAME/patch.pl

# What is said of offsets is of pools that have no journal.
test_setup() { no_journal; }

# refused TEXT TABLE: dm create fails, for that reason.
refused() {
	local users
	users=$(module_users)
	log_mark
	run dm create t-x --table "$2"
	[ "$status" -ne 0 ] || { echo "accepted: $2"; return 1; }
	log_has "$1" || { echo "for: $2"; return 1; }
	[ ! -e /dev/mapper/t-x ]
	[ "$(module_users)" -eq "$users" ]
}

# refused_reload TEXT TABLE: for a device that is there.
refused_reload() {
	local before
	before=$(dmsetup table "$pool")
	log_mark
	run dm load "$pool" --table "$2"
	[ "$status" -ne 0 ] || { echo "accepted: $2"; return 1; }
	log_has "$1" || { echo "for: $2"; return 1; }
	[ "$(dmsetup table "$pool")" = "$before" ]
	[ -z "$(dmsetup table --inactive "$pool")" ]
}

# refused_message TEXT MESSAGE...
refused_message() {
	local text=$1 before
	shift
	before=$(message volumes)
	log_mark
	run message "$@"
	[ "$status" -ne 0 ] || { echo "accepted: $*"; return 1; }
	log_has "$text" || { echo "for: $*"; return 1; }
	[ "$(message volumes)" = "$before" ]
}

@test "pool: arguments" {
	make_members
	m=/dev/mapper/t-m
	meta=/dev/mapper/t-meta
	head="0 8 fusion-pool $meta"
	four="${m}0 0 ${m}1 0 ${m}2 0 ${m}3 0"
	refused "Fewer arguments than <metadata dev>" "0 8 fusion-pool"
	refused "Fewer arguments than <metadata dev>" "$head 128 mols 0"
	for length in 1 7; do
		refused "Pool device must be at least 8 sectors long" "0 $length fusion-pool $meta 128 mols 0 4 $four"
	done
	refused "Could not open the metadata device" "0 8 fusion-pool /dev/none 128 mols 0 4 $four"
	refused "Block size must be a number of sectors" "$head x mols 0 4 $four"
	refused "Block size must be a number of sectors" "$head -8 mols 0 4 $four"
	for size in 0 4 24 1024; do
		refused "Block size must be a power of two from 8 to 512 sectors" "$head $size mols 0 4 $four"
	done
	refused "Layout must be mols" "$head 128 raid5 0 4 $four"
	refused "Number of spares must be a number" "$head 128 mols x 4 $four"
	refused "Number of members must be a number" "$head 128 mols 0 x $four"
	for n in 0 1 2 3 6 65 128; do
		refused "Number of members must be a prime power from 4 to 64" "$head 128 mols 0 $n $four"
	done
	refused "Too many spares for the number of members" "$head 128 mols 1 4 $four"
	refused "Too many spares for the number of members" "$head 128 mols 4294967295 4 $four"
	refused "Fewer members than their number says" "$head 128 mols 0 4 ${m}0 0 ${m}1 0"
	refused "Fewer members than their number says" "$head 128 mols 0 4 ${m}0 0 ${m}1 0 ${m}2 0 ${m}3"
	refused "Data offset of a missing member must be 0" "$head 128 mols 0 4 ${m}0 0 ${m}1 0 - 8 ${m}3 0"
	refused "A new pool needs all its members" "$head 128 mols 0 4 ${m}0 0 ${m}1 0 - 0 ${m}3 0 1 unlabelled"
	for offset in x -8 4; do
		refused "Data offset must be a number of sectors, a multiple of 8" \
			"$head 128 mols 0 4 ${m}0 $offset ${m}1 0 ${m}2 0 ${m}3 0"
	done
	refused "Could not open a member device" "$head 128 mols 0 4 ${m}0 0 ${m}1 0 ${m}2 0 /dev/none 0"
	refused "Metadata device is a member, too" "$head 128 mols 0 4 ${m}0 0 ${m}1 0 ${m}2 0 $meta 0"
	refused "The same device is a member twice" "$head 128 mols 0 4 ${m}0 0 ${m}1 0 ${m}2 0 ${m}1 0"
	refused "A member ends before its data offset" "$head 128 mols 0 4 ${m}0 $member_sectors ${m}1 0 ${m}2 0 ${m}3 0 1 unlabelled"
	refused "Members are too small for one band" "$head 128 mols 0 4 ${m}0 $((member_sectors - 128)) ${m}1 0 ${m}2 0 ${m}3 0 1 unlabelled"
	refused "A member has no good label" "$head 128 mols 0 4 $four"
	log_has "has no dm-fusion label"
}

@test "pool: features" {
	members=4 spares=0
	make_members
	while read -r text; do
		read -r list
		features=
		refused "$text" "$(pool_table) $list"
	done <<-'END'
		Invalid number of feature arguments
		x
		Invalid number of feature arguments
		7 unlabelled error_if_no_space no_discard_passdown journal 0 2048 unlabelled
		Invalid number of feature arguments
		2 unlabelled
		Unknown feature argument
		1 nonsense
		Unknown feature argument
		2 unlabelled nonsense
		Too many arguments
		1 unlabelled error_if_no_space
		Too many arguments
		0 unlabelled
	END
	# Refused before anything was formatted.
	[ "$(head -c 4096 /dev/mapper/t-meta | tr -d '\0' | wc -c)" -eq 0 ]
}

@test "pool: metadata that does not fit the table line" {
	expected_trouble='block manager: .* check failed'
	make_pool
	stop_pool
	# What 'super' patches below is put right again by this copy.
	dd if=/dev/mapper/t-meta of="$BATS_TEST_TMPDIR/super" bs=4k count=1 status=none
	good=$(pool_table)
	while read -r offset hex text; do
		"$patch" super /dev/mapper/t-meta "$offset" "$hex"
		refused "$text" "$good"
		dd if="$BATS_TEST_TMPDIR/super" of=/dev/mapper/t-meta bs=4k conv=notrunc status=none
	done <<-'END'
		40 02000000 Metadata is of a format this module does not know
		52 00000080 Metadata has features this module does not know
		48 00000080 Metadata has features this module cannot write
		68 02000000 Metadata has an unknown geometry
		64 10000000 Metadata has an unknown geometry
		288 01000000 Metadata has an unknown layout
		292 0700 Number of members differs from the metadata's
		294 0000 Number of spares differs from the metadata's
		296 40000000 Block size differs from the metadata's
		44 01000000 Pool has labels: feature unlabelled is not allowed
		300 00000000 Metadata has a damaged band geometry
		300 ffffffff Metadata has a damaged band geometry
		304 00000000 Metadata has a damaged band geometry
		304 ff000000 A member is smaller than the metadata needs
		72 0000000001000000 Metadata device is smaller than it was
		440 0303000000000000 Metadata has a damaged class table
		440 0300000000000000 Metadata has a damaged class table
		440 0102000000000000 Metadata has a damaged class table
		440 0502000000000000 Metadata has a damaged class table
		440 3f01000000000000 Metadata has a damaged class table
		sum 00 Superblock of the metadata is damaged or of something else
		32 0011223344556677 Superblock of the metadata is damaged or of something else
		8 0100000000000000 Superblock of the metadata is damaged or of something else
		80 ffffffffffffffffffffffffffffffffffffffff Space map of the metadata is damaged
	END
	spares=0 refused "Number of spares differs from the metadata's" "$(spares=0 pool_table)"
	refused "Block size differs from the metadata's" "$(block=64 pool_table)"
	refused "Number of members differs from the metadata's" "$(members=7 pool_table)"
	dd if=/dev/urandom of=/dev/mapper/t-meta bs=4k count=1 status=none
	refused "Superblock of the metadata is damaged or of something else" "$good"
	# And right again it starts.
	dd if="$BATS_TEST_TMPDIR/super" of=/dev/mapper/t-meta bs=4k conv=notrunc status=none
	start_pool
	[ "$(mode)" = rw ]
}

@test "pool: metadata devices that cannot be used" {
	make_members
	good=$(pool_table)
	dm reload t-meta --table "0 8 linear /dev/mapper/ssd7 0"
	dm resume t-meta
	refused "Could not format the metadata" "$good"
	dm reload t-meta --table "0 $meta_sectors error"
	dm resume t-meta
	refused "Could not read the metadata device" "$good"
}

@test "pool: metadata in use by another pool" {
	make_pool
	refused "Metadata device is in use by another pool" "$(pool_table)"
}

# Device-mapper lets two tables have the same device.  Where a member's first page is
# zeros, metadata would be made there.
@test "pool: devices of another pool" {
	make_pool
	volume 0 2
	random_to 0 0 256
	flush
	before=$(sum 0)
	table="t-fmeta,,,rw,0 $meta_sectors linear /dev/mapper/ssd6 $(($(ssd_sectors) - meta_sectors))"
	for i in 0 1 2 3; do
		table+=";t-f$i,,,rw,0 65536 linear /dev/mapper/ssd$i $((128 << 11))"
	done
	dm create --concise "$table"
	m=/dev/mapper/t-m f=/dev/mapper/t-f
	three="${f}1 0 ${f}2 0 ${f}3 0 1 unlabelled"
	refused "Metadata device is in use by another pool" \
		"0 8 fusion-pool /dev/mapper/t-meta 128 mols 0 4 ${f}0 0 $three"
	refused "Metadata device is a member of another pool" \
		"0 8 fusion-pool ${m}7 128 mols 0 4 ${f}0 0 $three"
	refused "A member is a member of another pool, too" \
		"0 8 fusion-pool ${f}meta 128 mols 0 4 ${m}3 0 $three"
	refused "A member has the metadata of another pool" \
		"0 8 fusion-pool ${f}meta 128 mols 0 4 /dev/mapper/t-meta 0 $three"
	head -c 4096 ${f}meta | cmp -n 4096 - /dev/zero
	# also for a pool that is there, and that has not been resumed yet
	dm create t-other --notable
	dm load t-other --table "0 8 fusion-pool ${f}meta 128 mols 0 4 ${f}0 0 $three"
	refused "A member is a member of another pool, too" \
		"0 8 fusion-pool /dev/mapper/ssd7 128 mols 0 4 ${f}0 0 ${m}5 0 ${m}6 0 ${m}7 0 1 unlabelled"
	log_mark
	run -1 dm load t-other --table "0 8 fusion-pool ${f}meta 128 mols 0 4 ${m}3 0 $three"
	log_has "A member is a member of another pool, too"
	dm remove t-other
	message convert
	[ "$(sum 0)" = "$before" ]
	parity_fits
}

@test "pool: a reload must describe the same pool" {
	make_pool
	dm create t-meta2 --table "0 $meta_sectors ssdsim"
	good=$(pool_table)
	refused_reload "Pool has another metadata device" "${good/t-meta/t-meta2}"
	refused_reload "Pool has another geometry" "$(block=64 pool_table)"
	refused_reload "Pool has another geometry" "$(members=7 pool_table)"
	refused_reload "Pool has another geometry" "$(spares=2 pool_table)"
	refused_reload "A member is too small for the pool" "${good/t-m3 0/t-m3 $((member_sectors / 2 & ~7))}"
	refused_reload "Layout must be mols" "${good/mols/raid}"
	# The pool works as before.
	volume 0 1
	dd if=/dev/zero of=/dev/mapper/t-v0 bs=64k count=4 oflag=direct status=none
}

@test "pool: labels" {
	members=4 spares=0 features=
	make_members
	fusion pool create t-pool --spares 0 --metadata /dev/mapper/t-meta /dev/mapper/t-m{0,1,2,3} >/dev/null
	read -r -a w <<<"$(dmsetup table t-pool)"
	fusion pool stop t-pool >/dev/null
	# what was before it has gone with the pool
	w[3]=/dev/mapper/t-meta
	good="${w[*]}"
	offset=${w[9]}
	[ "${w[10]}" != "${w[8]}" ]
	# words 8 10 12 14 are the members
	swapped=("${w[@]}")
	swapped[8]=${w[10]} swapped[10]=${w[8]}
	refused "A member's label has another index" "${swapped[*]}"
	w2=("${w[@]}")
	w2[9]=$((offset + 128))
	refused "A member's label has another geometry" "${w2[*]}"
	refused "Pool has labels: feature unlabelled is not allowed" "${good/ 3 journal/ 4 unlabelled journal}"
	dd if=/dev/mapper/t-m2 of="$BATS_TEST_TMPDIR/label" bs=4k count=1 status=none
	while read -r at hex text; do
		for copy in 0 524288; do
			"$patch" label /dev/mapper/t-m2 "$at" "$hex" $copy
		done
		refused "$text" "$good"
		dd if="$BATS_TEST_TMPDIR/label" of=/dev/mapper/t-m2 bs=4k conv=notrunc status=none
		dd if="$BATS_TEST_TMPDIR/label" of=/dev/mapper/t-m2 bs=4k seek=128 conv=notrunc status=none
	done <<-'END'
		40 00112233445566778899aabbccddeeff A member's label is of another pool
		56 00112233445566778899aabbccddeeff A member is not the one the metadata knows
		136 0300 A member's label has another index
		148 40000000 A member's label has another geometry
		28 01000000 A member's label has features this module cannot write
		32 01000000 has a dm-fusion label with unknown features
		20 02000000 has a dm-fusion label of a newer version
		138 0600 has a corrupt dm-fusion label
		sum 00 has a corrupt dm-fusion label
		0 00 has no dm-fusion label
	END
	# Another pool's metadata with these members.
	dd if=/dev/mapper/t-meta of="$BATS_TEST_TMPDIR/super" bs=4k count=1 status=none
	"$patch" super /dev/mapper/t-meta 16 00112233445566778899aabbccddeeff
	refused "Metadata belongs to another pool than the members" "$good"
	"$patch" super /dev/mapper/t-meta 44 00000000
	refused "Pool was formatted without labels: use feature unlabelled" "$good"
	dd if="$BATS_TEST_TMPDIR/super" of=/dev/mapper/t-meta bs=4k conv=notrunc status=none
	# One copy of a label is enough, whichever it is.
	dd if=/dev/urandom of=/dev/mapper/t-m0 bs=4k count=1 status=none
	"$patch" label /dev/mapper/t-m1 sum 00 524288
	dm create t-pool --table "$good"
	# A reload looks at the labels, too.
	refused_reload "A member's label has another index" "${swapped[*]}"
	refused_reload "Feature unlabelled does not fit the pool" "${good/ 3 journal/ 4 unlabelled journal}"
	for copy in 0 524288; do
		"$patch" label /dev/mapper/t-m2 56 00112233445566778899aabbccddeeff $copy
	done
	refused_reload "Members are not those of the pool" "$good"
}

@test "pool: metadata that needs a check is only read" {
	make_pool
	volume 0 1
	dd if=/dev/urandom of="$BATS_TEST_TMPDIR/data" bs=64k count=16 status=none
	dd if="$BATS_TEST_TMPDIR/data" of=/dev/mapper/t-v0 bs=64k oflag=direct conv=fsync status=none
	stop_pool
	"$patch" super /dev/mapper/t-meta 4 03000000
	log_mark
	start_pool
	log_has "metadata needs a check: the pool starts read-only"
	[ "$(mode)" = ro ]
	[ "$(field 2)" = needs_check ]
	volume_device 0 2048
	cmp "$BATS_TEST_TMPDIR/data" <(dd if=/dev/mapper/t-v0 bs=64k iflag=direct status=none)
	run ! dd if=/dev/zero of=/dev/mapper/t-v0 bs=4k count=1 oflag=direct
	run ! blkdiscard /dev/mapper/t-v0
	cmp "$BATS_TEST_TMPDIR/data" <(dd if=/dev/mapper/t-v0 bs=64k iflag=direct status=none)
	for m in "create_volume 1 v1 2048 3 1" "delete_volume 0" "resize_volume 0 4096"; do
		# shellcheck disable=SC2086
		refused_message "the pool is read-only: ${m%% *} is not possible" $m
	done
}

@test "a pool whose metadata cannot be written when it is resumed is read-only" {
	members=7
	make_pool
	volume 0 4
	random_to 0 0 1024
	flush
	sum=$(sum 0)
	dm suspend "$pool"
	hand message ssd7 fail writes yes
	dm resume "$pool"
	[ "$(mode)" = ro ]
	log_has "the pool is read-only"
	# its volumes answer
	[ "$(sum 0)" = "$sum" ]
	run ! random_to 0 0 1
}

@test "metadata: arguments" {
	make_members
	refused "Needs a device and where the metadata begins on it" "0 8 fusion-metadata"
	refused "Needs a device and where the metadata begins on it" "0 8 fusion-metadata /dev/mapper/t-meta"
	refused "Needs a device and where the metadata begins on it" "0 8 fusion-metadata /dev/mapper/t-meta 0 0"
	refused "Where the metadata begins is not a number of sectors" "0 8 fusion-metadata /dev/mapper/t-meta x"
	refused "Where the metadata begins is not a number of sectors" "0 8 fusion-metadata /dev/mapper/t-meta -1"
	refused "Could not open the device that the metadata is on" "0 8 fusion-metadata /dev/none 0"
	run ! dm create t-other --table "0 $((meta_sectors + 8)) fusion-metadata /dev/mapper/t-meta 0"
	run ! dm create t-other --table "0 8 fusion-metadata /dev/mapper/t-meta $meta_sectors"
	dm create t-other --table "0 8 fusion-metadata /dev/mapper/t-meta 16"
	[ "$(dmsetup table t-other)" = "0 8 fusion-metadata $(stat -L -c %Hr:%Lr /dev/mapper/t-meta) 16" ]
	random 1 | dd of=/dev/mapper/t-other bs=4k oflag=direct status=none
	cmp <(dd if=/dev/mapper/t-other bs=4k iflag=direct status=none) \
		<(dd if=/dev/mapper/t-meta bs=4k skip=2 count=1 iflag=direct status=none)
}

@test "volume: arguments" {
	make_pool
	message create_volume 5 five 2048 3 1
	p=/dev/mapper/$pool
	refused "Arguments must be <pool dev> <volume id>" "0 2048 fusion $p"
	refused "Arguments must be <pool dev> <volume id>" "0 2048 fusion $p 5 x"
	refused "Volume id must be a number" "0 2048 fusion $p x"
	refused "Volume id must be a number" "0 2048 fusion $p -1"
	refused "Could not open the pool's device" "0 2048 fusion /dev/none 5"
	refused "Not the device of a fusion-pool" "0 2048 fusion /dev/mapper/t-m0 5"
	refused "No volume with this id in the pool" "0 2048 fusion $p 4"
	refused "No volume with this id in the pool" "0 2048 fusion $p 4294967295"
	refused "Device would be larger than the volume" "0 2056 fusion $p 5"
	refused "Target must begin at sector 0" "0 8 linear /dev/mapper/t-m0 0
8 1024 fusion $p 5"
	volume_device 5 1024
	refused "Volume is in use by another device" "0 2048 fusion $p 5"
	dm remove t-v5
	dm suspend "$pool"
	refused "Pool is suspended" "0 2048 fusion $p 5"
	dm resume "$pool"
	message delete_volume 5
	refused "No volume with this id in the pool" "0 2048 fusion $p 5"
}

@test "volume: a resume waits for the pool's" {
	make_pool
	volume 0 1
	dm suspend t-v0
	dm suspend "$pool"
	dm resume t-v0 3>&- &
	dm resume "$pool"
	wait $!
	dd if=/dev/zero of=/dev/mapper/t-v0 bs=64k count=1 oflag=direct status=none
}

@test "messages" {
	make_pool
	volume 0 1
	message create_volume 1 one 2048 3 1
	refused_message "unknown message 'nonsense'" nonsense
	refused_message "unknown message 'volumes'" volumes x
	refused_message "usage: create_volume <id> <name> <sectors> <data> <parity>" create_volume 1 x 2048 3
	refused_message "usage: create_volume <id> <name> <sectors> <data> <parity>" create_volume 1 x 2048 3 1 1
	refused_message "usage: delete_volume <id>" delete_volume
	refused_message "usage: resize_volume <id> <sectors>" resize_volume 1
	refused_message "usage: resync" resync now
	refused_message "volume id must be a number, not 'x'" create_volume x x 2048 3 1
	refused_message "size must be a number, not 'x'" create_volume 2 x x 3 1
	refused_message "size must be a number, not '-2048'" create_volume 2 x -2048 3 1
	refused_message "data slots must be a number, not 'x'" create_volume 2 x 2048 x 1
	refused_message "parity slots must be a number, not 'x'" create_volume 2 x 2048 3 x
	refused_message "volume id must be a number, not 'x'" delete_volume x
	refused_message "volume id must be a number, not '4294967296'" delete_volume 4294967296
	refused_message "volume id must be a number, not 'x'" resize_volume x 4096
	refused_message "size must be a number, not 'x'" resize_volume 1 x
	refused_message "a volume's id is at most 16777215" create_volume 16777216 x 2048 3 1
	for name in .x -x a/b 'a*' "$(printf 'n%.0s' {1..64})"; do
		refused_message "a volume's name has 1 to 63 of A-Z" create_volume 2 "$name" 2048 3 1
	done
	for size in 0 8 2049 9223372036854775808 18446744073709551488; do
		refused_message "size of volume x must be a multiple of 128 sectors and not too large" \
			create_volume 2 x $size 3 1
	done
	for parity in 0 3 4294967295; do
		refused_message "volume x: parity slots are 1 to 2" create_volume 2 x 2048 3 $parity
	done
	for data in 0 1 6 4294967295; do
		refused_message "volume x: with 8 members and 1 spares, data slots are 2 to 5" create_volume 2 x 2048 $data 1
	done
	for data in 0 1 5 4294967295; do
		refused_message "volume x: with 8 members and 1 spares, data slots are 2 to 4" create_volume 2 x 2048 $data 2
	done
	refused_message "volume id 1 is in use already" create_volume 1 x 2048 3 1
	refused_message "a volume named one exists already" create_volume 2 one 2048 3 1
	refused_message "there is no volume with id 7" delete_volume 7
	refused_message "volume v0 is in use: remove its device first" delete_volume 0
	refused_message "there is no volume with id 7" resize_volume 7 4096
	for size in 0 2056; do
		refused_message "size of volume one must be a multiple of 128 sectors" resize_volume 1 $size
	done
	refused_message "volume one cannot be made smaller than its 2048 sectors" resize_volume 1 1024
	# The longest name, the largest id, and a size of one block are right.
	name=$(printf 'n%.0s' {1..63})
	message create_volume 16777215 "$name" 128 5 1
	message volumes | grep -qx "16777215 $name 128 5 1 0 0 ok"
	message resize_volume 1 4096
	message resize_volume 1 4096
	message volumes | grep -qx "1 one 4096 3 1 0 0 ok"
}

@test "messages to a suspended pool" {
	make_pool
	dm suspend "$pool"
	for m in "create_volume 1 x 2048 3 1" "volumes" "resync"; do
		log_mark
		# shellcheck disable=SC2086
		run ! message $m
		log_has "the pool is suspended: resume it first"
	done
	dm resume "$pool"
	message create_volume 1 x 2048 3 1
}

@test "too few members for two parities" {
	members=4 spares=0
	make_pool
	refused_message "volume x: with 4 members and 0 spares, stripes are at most 3 wide, too narrow for 2 data and 2 parity slots" \
		create_volume 2 x 2048 2 2
	message create_volume 2 x 2048 2 1
}

@test "no more than 16 widths in a pool" {
	members=23 spares=1 block=8 member_sectors=$((6 << 11))
	make_pool
	for d in {2..17}; do
		message create_volume "$d" "v$d" 2048 "$d" 1
	done
	refused_message "no more than 16 different widths fit in a pool" create_volume 99 x 2048 18 1
	message create_volume 99 x 2048 17 1
}

@test "the pool's own device carries no data" {
	make_pool
	run ! dd "if=/dev/mapper/$pool" of=/dev/null bs=4k count=1 iflag=direct
	run ! dd if=/dev/zero "of=/dev/mapper/$pool" bs=4k count=1 oflag=direct
}
