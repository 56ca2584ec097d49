#!/usr/bin/env bats
# Metadata that is not right: the pool is refused, becomes read-only, or goes on.  Nothing
# hangs, the kernel has nothing to complain of, and what a checksum finds makes no page
# read as something else.
#
# What dm-persistent-data cannot bear is left out: see tests/fuzz/spoil.c.
#
# FUSION_SPOILED_ROUNDS=300: so many, of each kind, on the debug kernel for example.
# FUSION_SPOILED_FIRST, FUSION_SPOILED_SEEDS: these, and what comes of each is printed.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/patches.bash
source "$BATS_TEST_DIRNAME/patches.bash"

spoil=${SPOIL:-$repo/build/fuzz/spoil}
records=${RECORDS:-$repo/build/fuzz/records}
bear=${BEAR:-$repo/build/fuzz/bear}
rounds=${FUSION_SPOILED_ROUNDS:-12}
first=${FUSION_SPOILED_FIRST:-1}
# If it is said which seeds: what comes of each.
all=${FUSION_SPOILED_SEEDS:-}${FUSION_SPOILED_FIRST:-}
read -r -a seeds <<<"${FUSION_SPOILED_SEEDS:-$(seq -s ' ' "$first" $((first + rounds - 1)))}"

# All that is wrong is logged: not on the console, which would take longest.
test_setup() {
	# it would read what is not right
	end_udev
	expected_trouble='^device-mapper: (block manager|btree[a-z ]*|space map[a-z ]*|array): '
	echo 3 >/proc/sys/kernel/printk
}
test_teardown() { echo 7 >/proc/sys/kernel/printk; }

image_to() { dd if=/dev/mapper/t-meta of="$1" bs=1M iflag=direct status=none; }
has_rows() {
	image_to "$unclean"
	fusion dump "$unclean" | grep -q '^row '
}

# Of everything something: stripes, sets, patches, rows that are being written, and what
# has been discarded, of one parity and of two; a member that has failed and is rebuilt,
# and one of which only some is.  $older, $unclean, $clean, and what the volumes hold.
images() {
	local i pid fio=(--filename=/dev/mapper/t-v1 --direct=1 --size=128m --randrepeat=1 --output=/dev/null)
	older=$BATS_TEST_TMPDIR/older unclean=$BATS_TEST_TMPDIR/unclean clean=$BATS_TEST_TMPDIR/clean
	spares=2 features="unlabelled no_discard_passdown"
	make_pool
	message set patch_percent 20
	volume 0 8
	# so sparse that trees have more than one node: a stripe in each 4 MiB, a page in each 1 MiB
	volume 1 128
	volume 2 4 3 2
	random_to 0 0 1536
	random_to 2 0 512
	fio --name=stripes --rw=write:3904k --bs=192k --number_ios=32 "${fio[@]}"
	message convert
	message fail 2
	message rebuild
	random_to 0 1536 96 4k
	random_to 0 35 2 4k
	# the last tops are of a volume with an odd number
	fio --name=pages --rw=write:1020k --bs=4k --offset=32k --number_ios=127 "${fio[@]}"
	flush
	image_to "$older"
	message fail 5
	random_to 0 1632 64 4k
	random_to 2 600 64 384k
	random_to 2 70 2 4k
	blkdiscard -o $((1 << 20)) -l $((1 << 19)) /dev/mapper/t-v0
	for i in {0..5}; do
		random_to 0 $((i * 48 + i)) 3 4k
	done
	flush
	for i in 0 1 2; do
		dd if=/dev/mapper/t-v$i of="$BATS_TEST_TMPDIR/v$i" bs=1M iflag=direct conv=sparse status=none
	done
	hold_members
	message convert 2>/dev/null 3>&- &
	pid=$!
	for i in {1..20}; do
		wait_for 20 held_or_ended $pid
		! wait_for 1 has_rows >/dev/null || break
		step
	done
	power_cut
	release
	wait $pid || :
	stop_pool
	power_on
	has_rows
	fusion check "$unclean"
	start_pool
	stop_pool
	image_to "$clean"
	fusion check "$clean"
	table=$(pool_table)
}

# What a seed comes to depends on the images, which differ from run to run.
keep() {
	cat "$BATS_TEST_TMPDIR/spoiled"
	[ -z "${OUT:-}" ] || cp "$BATS_TEST_TMPDIR"/{older,clean,unclean} "$OUT"
	false
}

# round read|use IMAGE SEED [OPTION]: with metadata that SEED says; sets output and checked.
round() {
	"$spoil" "$2" "$older" "$3" /dev/mapper/t-meta "${@:4}" >"$BATS_TEST_TMPDIR/spoiled"
	[ -z "$all" ] || echo "# $(<"$BATS_TEST_TMPDIR/spoiled")" >&3
	checked=0
	fusion check --quiet /dev/mapper/t-meta >/dev/null 2>"$BATS_TEST_TMPDIR/check" || checked=$?
	run "$bear" "$1" $((30 * slow)) "$pool" 8 "${table#* * * }" "$BATS_TEST_TMPDIR"/v[0-2]
	[ -z "$all" ] || echo "#   $output; check: $checked" >&3
	if [ "$status" -ne 0 ]; then
		echo "# $(<"$BATS_TEST_TMPDIR/spoiled") $output" >&3
		[ "$status" -ne 3 ] || grep -H fusion /proc/[0-9]*/stack >&3 || :
		keep
	fi
	# 1: it is not right; anything else would be trouble with the tool
	[ "$checked" -le 1 ] || { cat "$BATS_TEST_TMPDIR/check"; keep; }
	[[ $output == *rw,* ]] || [ "$checked" -eq 1 ] ||
		{ echo "the module has found it, and fusion check has not"; keep; }
	check_log || keep
	no_module_users
}

# spoiled read|use [OPTION]: in each round other metadata.
spoiled() {
	local refused=0 not_rw=0 found=0 seed from
	images
	for seed in "${seeds[@]}"; do
		from=$clean
		# what is read must be on the members, which a start of that one writes to
		[ "$1" = read ] || [[ $seed =~ ^[0-9]*[02468]$ ]] || from=$unclean
		round "$1" "$from" "$seed" "${@:2}"
		found=$((found + checked))
		case $output in
		*refused*) refused=$((refused + 1)) ;;
		*rw,*) ;;
		*) not_rw=$((not_rw + 1)) ;;
		esac
	done
	echo "# $BATS_TEST_DESCRIPTION: of ${#seeds[@]}, $refused were refused and $not_rw became read-only; fusion check found $found" >&3
	# no other outcome would show that anything was read
	[ $((refused + not_rw)) -gt 0 ] || [ ${#seeds[@]} -lt 10 ]
	# and what was not spoiled is what it was
	[ "$1" = use ] || {
		dd if="$clean" of=/dev/mapper/t-meta bs=1M oflag=direct status=none
		"$bear" read $((30 * slow)) "$pool" 8 "${table#* * * }" "$BATS_TEST_TMPDIR"/v[0-2]
	}
}

@test "damage that checksums find" {
	spoiled read --found
}

@test "damage of all kinds" {
	spoiled use
}

# said OUTCOME IMAGE PART,ENTRY,WHAT,AT,BYTES,NUMBER: see spoil.
said() {
	round use "$2" "$3"
	[[ $output == *$1* ]] || { echo "$3: $output"; false; }
	[ "$checked" -eq 1 ]
}
super_at() { od -A n -t u8 -j "$1" -N 8 "$clean" | tr -d ' '; }

@test "numbers that cannot be" {
	images
	# a band that is not in use, which stripes and rows are in
	said ro "$unclean" bands,0,key,0,8,0x29
	# fewer stripes in a band than there are: all of it would be free with the last of those
	said refused "$clean" bands,0,value,4,4,1
	# the last block of a volume, behind which others would be looked for as if it were the first
	said rw "$older" tops,-1,key,0,8,0x1ffffffffff
	# more blocks than a volume has; more replicated than mapped
	said refused "$clean" volumes,0,value,8,8,0xffffffff
	said refused "$clean" volumes,0,value,16,8,0xffffffff
	# another volume: what is found to be moved is not there, however often it is looked for; that
	# ends, with whatever mode
	said '' "$older" volumes,0,key,0,2,1
	# no state; slots that the class does not have; live ones that were never written
	said refused "$clean" stripes,0,value,0,1,0
	said refused "$clean" stripes,0,value,8,8,-1
	said refused "$clean" stripes,0,value,16,8,0x1000000
	# patches that cannot be: nothing is converted then, and writes would wait for that
	said ro "$unclean" patches,25,value,84,1,0x8f
	# the root of another tree, whose values are longer or shorter, and none
	said refused "$clean" "superblock,0,h,216,8,$(super_at 224)"
	said refused "$clean" "superblock,0,h,232,8,$(super_at 224)"
	said refused "$clean" "superblock,0,h,208,8,0"
}

# A device says of sectors that it has lost that they are lost: that is -ENODATA in the kernel,
# as what is not in a tree.
@test "metadata that cannot be read" {
	local number part at looked=0 refused=0 failed=0
	declare -A seen
	images
	meta_table "$(meta_target | sed s/^linear/fusion-metadata/)"
	# shellcheck disable=SC2017
	at=$((($(ssd_sectors) - meta_sectors) / 8))
	while read -r number part; do
		seen[$part]=$((${seen[$part]:-0} + 1))
		[ "${seen[$part]}" -le 3 ] || continue
		dd if="$clean" of=/dev/mapper/t-meta bs=1M oflag=direct status=none
		hand message ssd7 bad $((at + number)) 1
		run "$bear" read $((30 * slow)) "$pool" 8 "${table#* * * }" "$BATS_TEST_TMPDIR"/v[0-2]
		[ -z "$all" ] || echo "# block $number, $part: $output" >&3
		[ "$status" -eq 0 ] || { echo "# block $number, $part: $output" >&3; keep; }
		check_log || keep
		looked=$((looked + 1))
		case $output in
		*refused*) refused=$((refused + 1)) ;;
		*" 0 calls failed"*) ;;
		*) failed=$((failed + 1)) ;;
		esac
	done < <("$spoil" "$clean")
	echo "# $BATS_TEST_DESCRIPTION: of $looked blocks, for $refused the pool was refused, and for $failed reads failed" >&3
	[ $refused -gt 2 ]
	[ $failed -gt 2 ]
}

# With right checksums: nothing that they say is believed.
@test "records of the journal that are not right" {
	local ring=2048 refused=0 seed
	data_offset=$ring features="unlabelled no_discard_passdown journal 0 $ring"
	make_pool
	empty_ring
	message set patch_percent 20
	volume 0 8
	volume 1 4 3 2
	random_to 0 0 1024
	message convert
	message commit
	suspend_meta
	# one after the other: patches, tops, discards, large writes, of one parity and of two
	for at in {0..9}; do
		random_to 0 $((at * 48)) 2
		random_to 0 $((1024 + at * 16)) 16
		random_to 1 $((at * 16)) 8
		[ $((at % 3)) -ne 0 ] || sync /dev/mapper/t-v0
	done
	blkdiscard -f -o $((1 << 20)) -l $((1 << 19)) /dev/mapper/t-v0
	random_to 0 1536 96 384k
	sync /dev/mapper/t-v0
	for i in 0 1; do
		dd if=/dev/mapper/t-v$i of="$BATS_TEST_TMPDIR/v$i" bs=1M iflag=direct status=none
	done
	power_cut
	dm resume t-meta
	stop_pool
	power_on
	clean=$BATS_TEST_TMPDIR/clean
	image_to "$clean"
	table=$(pool_table)
	for i in {0..7}; do
		dd if="/dev/mapper/t-m$i" bs=1M count=1 iflag=direct status=none
	done >"$BATS_TEST_TMPDIR/rings"
	for seed in "${seeds[@]}"; do
		"$records" "$BATS_TEST_TMPDIR/rings" 8 "$seed" /dev/mapper/t-m{0..7} >"$BATS_TEST_TMPDIR/spoiled"
		dd if="$clean" of=/dev/mapper/t-meta bs=1M oflag=direct status=none
		run "$bear" use $((30 * slow)) "$pool" 8 "${table#* * * }" "$BATS_TEST_TMPDIR"/v[01]
		[ -z "$all" ] || echo "# $(<"$BATS_TEST_TMPDIR/spoiled") $output" >&3
		[ "$status" -eq 0 ] || { echo "# $(<"$BATS_TEST_TMPDIR/spoiled") $output" >&3; keep; }
		[[ $output != *refused* ]] || refused=$((refused + 1))
		check_log || keep
		no_module_users
	done
	echo "# $BATS_TEST_DESCRIPTION: of ${#seeds[@]} $refused were refused" >&3
	[ ${#seeds[@]} -lt 10 ] || [ "$refused" -gt 0 ]
	[ ${#seeds[@]} -lt 10 ] || [ "$refused" -lt ${#seeds[@]} ]
}

@test "a band that has more stripes than it is said to have is not freed with the last of them" {
	clean=$BATS_TEST_TMPDIR/clean
	make_pool
	volume 0 4
	random_to 0 0 1024 768k
	flush
	before=$(sum 0)
	stop_pool
	image_to "$clean"
	"$spoil" "$clean" "$clean" bands,0,value,4,4,1 /dev/mapper/t-meta
	start_pool
	volume_device 0 $((4 << 11))
	[ "$(sum 0)" = "$before" ]
	# all that is in one stripe
	blkdiscard -o 0 -l $((192 << 10)) /dev/mapper/t-v0
	flush && false
	in_ro
	stop_pool
	dd if="$clean" of=/dev/mapper/t-meta bs=1M oflag=direct status=none
	start_pool
	volume_device 0 $((4 << 11))
	[ "$(sum 0)" = "$before" ]
}
