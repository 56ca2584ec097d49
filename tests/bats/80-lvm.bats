#!/usr/bin/env bats
# LVM with ext4 on a volume, XFS on another: what is copied there survives.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"

# LVM looks for the links that udev makes.
setup_file() { with_udev; }
teardown_file() { end_udev; }

tree=/usr/share/perl5

mnt=
test_setup() { mnt=$BATS_TEST_TMPDIR/mnt; mkdir -p "$mnt"; }
test_teardown() {
	! mountpoint -q "$mnt" || umount "$mnt"
	[ ! -e /dev/t-vg ] || vgchange -q -an t-vg
	no_lvs
}

sums() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 md5sum); }

small_tree() {
	mkdir "$BATS_TEST_TMPDIR/tree"
	(cd $tree && find . -type f -size -64k | sort | head -n 300 | cpio -pd --quiet "$BATS_TEST_TMPDIR/tree")
	dd if=/dev/urandom of="$BATS_TEST_TMPDIR/tree/large" bs=1M count=6 status=none
	sums "$BATS_TEST_TMPDIR/tree" >"$BATS_TEST_TMPDIR/sums"
}

restart() {
	stop_pool
	start_pool
	volume_device 0 "$1"
}

@test "LVM and ext4" {
	small_tree
	make_pool
	volume 0 64
	lvm=(--devices /dev/mapper/t-v0)
	pvcreate -q "${lvm[@]}" /dev/mapper/t-v0
	vgcreate -q "${lvm[@]}" t-vg /dev/mapper/t-v0
	lvcreate -q "${lvm[@]}" -y -n lv -L 48M t-vg
	mkfs.ext4 -q /dev/t-vg/lv
	mount /dev/t-vg/lv "$mnt"
	cp -r "$BATS_TEST_TMPDIR/tree" "$mnt/"
	umount "$mnt"
	vgchange -q "${lvm[@]}" -an t-vg
	restart $((64 << 11))
	vgchange -q "${lvm[@]}" -ay t-vg
	e2fsck -fn /dev/t-vg/lv
	mount /dev/t-vg/lv "$mnt"
	sums "$mnt/tree" | cmp - "$BATS_TEST_TMPDIR/sums"
	rm -r "$mnt/tree"
	fstrim "$mnt"
	[ "$(counter discards)" -gt 0 ]
	umount "$mnt"
	e2fsck -fn /dev/t-vg/lv
	vgchange -q "${lvm[@]}" -an t-vg
}

@test "XFS, also after a power cut" {
	small_tree
	modprobe xfs
	member_sectors=$((120 << 11))
	make_pool
	volume 0 320 5
	mkfs.xfs -q /dev/mapper/t-v0
	mount /dev/mapper/t-v0 "$mnt"
	cp -r "$BATS_TEST_TMPDIR/tree" "$mnt/"
	umount "$mnt"
	restart $((320 << 11))
	xfs_repair -n /dev/mapper/t-v0
	mount /dev/mapper/t-v0 "$mnt"
	sums "$mnt/tree" | cmp - "$BATS_TEST_TMPDIR/sums"
	cp -r "$BATS_TEST_TMPDIR/tree" "$mnt/again"
	sync -f "$mnt"
	cp -r "$BATS_TEST_TMPDIR/tree" "$mnt/lost"
	power_cut 5
	umount "$mnt"
	stop_pool
	power_on
	start_pool
	volume_device 0 $((320 << 11))
	mount /dev/mapper/t-v0 "$mnt"
	sums "$mnt/tree" | cmp - "$BATS_TEST_TMPDIR/sums"
	sums "$mnt/again" | cmp - "$BATS_TEST_TMPDIR/sums"
	umount "$mnt"
	xfs_repair -n /dev/mapper/t-v0
}
