#!/usr/bin/env bats
# What is written is read back, whatever its size and place; what was not, or
# was discarded, reads as zeros.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"

file=
test_setup() {
	file=$BATS_FILE_TMPDIR/random
	[ -f "$file" ] || head -c $((8 << 20)) /dev/urandom >"$file"
	copy=$BATS_TEST_TMPDIR/copy
}

# put OFFSET LENGTH (pages): random data, to the volume and to the copy.
put() {
	local from=$(((put_at += 7) % (2048 - $2)))
	dd if="$file" bs=4k skip=$from count="$2" of="$copy" seek="$1" conv=notrunc status=none
	dd if="$copy" bs=$(($2 * 4096)) iflag=skip_bytes,fullblock skip=$(($1 * 4096)) count=1 status=none \
		of=/dev/mapper/t-v0 oflag=direct,seek_bytes seek=$(($1 * 4096))
}

same() { cmp "$copy" <(dd if=/dev/mapper/t-v0 bs=1M iflag=direct status=none); }

@test "a new volume reads as zeros" {
	make_pool
	volume 0 4
	truncate -s 4M "$copy"
	same
	[ "$(counter reads)" -gt 0 ]
	[ "$(message volumes)" = "0 v0 8192 3 1 0 0 ok" ]
}

@test "writes of all sizes at all places, and a start in between" {
	make_pool
	volume 0 24
	truncate -s 24M "$copy"
	# offset and length in pages; a block is 16, three make a large write
	while read -r offset length; do
		put "$offset" "$length"
	done <<-'END'
		0 1
		17 1
		31 2
		40 8
		48 16
		70 16
		96 32
		130 32
		192 48
		250 48
		320 64
		400 80
		512 256
		900 300
		1200 768
		2000 768
		2817 767
		3584 768
		5000 1
		6143 1
	END
	same
	flush
	same
	stop_pool
	start_pool
	volume_device 0 $((24 << 11))
	same
	[ "$(mode)" = rw ]
}

@test "small writes over large ones, large over small, again and again" {
	make_pool
	volume 0 4 4
	truncate -s 4M "$copy"
	put 0 1024
	for at in 3 15 16 100 101 333 1023; do
		put $at 1
	done
	put 60 8
	same
	put 64 512
	same
	for at in 65 66 70 90 200; do
		put $at 3
	done
	put 65 2
	flush
	put 66 2
	same
	put 0 1024
	same
	put 500 1
	stop_pool
	start_pool
	volume_device 0 8192
	same
}

@test "what writes count as, and what they take" {
	make_pool
	# for patches see 79-patches.bats
	message set patch_percent 0
	volume 0 8
	truncate -s 8M "$copy"
	zero=$(space free)
	put 0 48
	[ "$(counter large) $(counter in_place) $(counter new_top)" = "1 0 0" ]
	put 1 1
	[ "$(counter large) $(counter in_place) $(counter new_top)" = "1 0 1" ]
	put 1 1
	put 2 4
	[ "$(counter large) $(counter in_place) $(counter new_top)" = "1 2 1" ]
	# threshold: more than k/2 blocks in a row are a stripe, of four two are not
	put 160 32
	[ "$(counter large) $(counter in_place) $(counter new_top)" = "1 2 3" ]
	# three stripes of three blocks, and a block
	put 320 160
	[ "$(counter large) $(counter new_top)" = "4 4" ]
	flush
	[ "$(space replicated)" -eq 8 ]
	# 12 data, one of which has a top but lives on, and four parities
	[ "$(space raid)" -eq 16 ]
	[ "$(space free)" -lt "$zero" ]
	total=0
	for s in free replicated raid dead spare; do
		total=$((total + $(space $s)))
	done
	[ $total -eq "$(space total)" ]
	message volumes | grep -qx "0 v0 16384 3 1 15 4 ok"
	[ "$(dmsetup status t-v0)" = "0 16384 fusion 15 4 3 1 v0" ]
	commits=$(counter commits) flushes=$(counter flushes)
	put 0 1
	flush
	[ "$(counter commits)" -gt "$commits" ]
	[ "$(counter flushes)" -gt "$flushes" ]
	reads=$(counter reads)
	same
	[ "$(counter reads)" -gt "$reads" ]
	same
}

@test "discarded blocks read as zeros, parts of blocks stay" {
	make_pool
	volume 0 4
	truncate -s 4M "$copy"
	put 0 1024
	put 100 3
	put 700 1
	flush
	before=$(space free)
	# offset and length in KiB; what of it is whole blocks of 64 KiB
	while read -r offset length first blocks; do
		blkdiscard -o $((offset << 10)) -l $((length << 10)) /dev/mapper/t-v0
		[ "$blocks" -eq 0 ] || dd if=/dev/zero of="$copy" bs=64k seek="$first" count="$blocks" conv=notrunc status=none
		same
	done <<-'END'
		0 64 0 1
		68 60 0 0
		132 56 0 0
		200 200 4 2
		448 64 7 1
		1000 1000 16 15
	END
	flush
	same
	[ "$(counter discards)" -gt 0 ]
	put 20 3
	same
	blkdiscard /dev/mapper/t-v0
	cmp -n 4194304 /dev/zero <(dd if=/dev/mapper/t-v0 bs=1M iflag=direct status=none)
	flush
	message volumes | grep -qx "0 v0 8192 3 1 0 0 ok"
	[ "$(space raid) $(space replicated)" = "0 0" ]
	[ "$(space free)" -gt "$before" ]
}

@test "zeros written are zeros" {
	make_pool
	volume 0 2
	truncate -s 2M "$copy"
	put 0 512
	blkdiscard -z -o 4096 -l $((300 * 1024)) /dev/mapper/t-v0
	dd if=/dev/zero of="$copy" bs=4k seek=1 count=75 conv=notrunc status=none
	same
}

@test "volumes of different widths do not see each other's data" {
	make_pool
	for d in 2 3 4 5; do
		volume $d 8 $d
		tr '\0' "$d" </dev/zero | head -c $((8 << 20)) >"$BATS_TEST_TMPDIR/$d"
	done
	# Large, small and mixed, interleaved.
	for part in {0..7}; do
		for d in 2 3 4 5; do
			bs=$(((part + d) % 3 ? 1 << 20 : 32768))
			dd if="$BATS_TEST_TMPDIR/$d" of=/dev/mapper/t-v$d bs=$bs count=$((1048576 / bs)) \
				iflag=skip_bytes,fullblock skip=$((part << 20)) oflag=direct,seek_bytes seek=$((part << 20)) status=none
		done
	done
	for d in 2 3 4 5; do
		cmp "$BATS_TEST_TMPDIR/$d" <(dd if=/dev/mapper/t-v$d bs=1M iflag=direct status=none)
	done
	stop_pool
	start_pool
	for d in 2 3 4 5; do
		volume_device $d $((8 << 11))
		cmp "$BATS_TEST_TMPDIR/$d" <(dd if=/dev/mapper/t-v$d bs=1M iflag=direct status=none)
	done
}

@test "other block sizes, and other numbers of members" {
	truncate -s 3M "$BATS_TEST_TMPDIR/empty"
	while read -r members spares block data mib; do
		member_sectors=$((mib << 11))
		make_pool
		volume 0 3 "$data"
		cp "$BATS_TEST_TMPDIR/empty" "$copy"
		put 0 768
		put 5 1
		put 64 100
		put 3 300
		flush
		same
		stop_pool
		start_pool
		volume_device 0 6144
		same
		stop_pool
		dm remove -f t-meta
		for ((i = 0; i < members; i++)); do
			dm remove t-m$i
		done
	done <<-'END'
		4 0 8 2 16
		5 1 512 2 64
		7 1 128 4 64
		9 2 32 5 32
		16 3 8 11 16
	END
}

@test "the devices' limits" {
	make_pool
	volume 0 4
	q=/sys/block/$(dmsetup info -c --noheadings -o blkdevname t-v0)/queue
	[ "$(cat "$q/logical_block_size")" -eq 4096 ]
	[ "$(cat "$q/physical_block_size")" -eq 4096 ]
	[ "$(cat "$q/optimal_io_size")" -eq $((3 * 65536)) ]
	[ "$(cat "$q/discard_granularity")" -eq 65536 ]
	[ "$(cat "$q/stable_writes")" -eq 1 ]
	[ "$(cat "$q/fua")" -eq 1 ]
	[ "$(cat "$q/write_cache")" = "write back" ]
}
