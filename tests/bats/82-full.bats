#!/usr/bin/env bats
# File systems and LVM in a pool that is full, with little memory.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"

# LVM looks for the links that udev makes.
setup_file() { with_udev; }
teardown_file() { end_udev; }

groups=/sys/fs/cgroup/t-small

test_setup() {
	spares=0 member_sectors=$((64 << 11))
	a=$BATS_TEST_TMPDIR/a b=$BATS_TEST_TMPDIR/b
	mkdir "$a" "$b"
	echo +memory >/sys/fs/cgroup/cgroup.subtree_control
}
test_teardown() {
	local group
	for group in "$groups"-*; do
		echo 1 >"$group/cgroup.kill"
	done
	parameter no_space_timeout 60
	! mountpoint -q "$a" || umount "$a"
	! mountpoint -q "$b" || umount "$b"
	[ ! -e /dev/t-vg ] || vgchange -q -an t-vg
	no_lvs
	rmdir "$groups"-* || :
}

# squeezed COMMAND...: in a group of its own, which has hardly any memory.
squeezed() {
	local group=$groups-$BASHPID-$RANDOM
	mkdir "$group"
	echo 24M >"$group/memory.high"
	bash -c "echo \$\$ >$group/cgroup.procs; exec \"\$@\"" - "$@"
}

mib() { head -c $(($1 << 20)) /dev/urandom; }
all_is_well() {
	message convert
	parity_fits
}

# ext4 on LVM on t-v0: on $a.  What the journal has been written over is there.
ext4_on_lvm() {
	lvm=(--devices /dev/mapper/t-v0)
	pvcreate -q "${lvm[@]}" /dev/mapper/t-v0
	vgcreate -q "${lvm[@]}" t-vg /dev/mapper/t-v0
	lvcreate -q "${lvm[@]}" -y -n lv -l 100%FREE t-vg
	mkfs.ext4 -q -J size=4 /dev/t-vg/lv
	mount -o data=journal /dev/t-vg/lv "$a"
	dd if=/dev/zero of="$a/once" bs=1M count=10 conv=fsync status=none
	rm "$a/once"
	umount "$a"
	mount /dev/t-vg/lv "$a"
}

@test "ext4 on LVM waits in a full pool until XFS beside it has trimmed" {
	modprobe xfs
	make_pool
	volume 0 256 3
	volume 1 320 3
	ext4_on_lvm
	mkfs.xfs -q /dev/mapper/t-v1
	mount /dev/mapper/t-v1 "$b"
	mib 8 >"$a/kept"
	mib 8 >"$b/kept"
	mib 80 >"$b/gone"
	sync -f "$b"
	sync -f "$a"
	sums=$(cd "$BATS_TEST_TMPDIR" && md5sum a/kept b/kept)
	# Half of what is removed then is what there is too much of.
	mib=$(($(space free) * 3 * block / 8192 + 40))
	squeezed dd if=/dev/zero of="$a/big" bs=1M count=$mib conv=fsync status=none 3>&- &
	writer=$!
	wait_for 60 out_of_space
	kill -0 $writer
	# What frees the space has little memory, too.
	squeezed rm "$b/gone"
	squeezed sync -f "$b"
	squeezed fstrim "$b"
	wait $writer
	[ "$(stat -c %s "$a/big")" -eq $((mib << 20)) ]
	in_rw
	umount "$a" "$b"
	e2fsck -fn /dev/t-vg/lv
	xfs_repair -n /dev/mapper/t-v1
	all_is_well
	mount /dev/t-vg/lv "$a"
	mount /dev/mapper/t-v1 "$b"
	[ "$(cd "$BATS_TEST_TMPDIR" && md5sum a/kept b/kept)" = "$sums" ]
	cmp -n $((mib << 20)) /dev/zero "$a/big"
}

@test "ext4 is told that there is no space, removes a file, trims and goes on" {
	features+=" error_if_no_space"
	make_pool
	volume 0 512 3
	ext4_on_lvm
	mib 8 >"$a/kept"
	mib 30 >"$a/gone"
	# A block of extents, which an inode has no room for, while there is space.
	for at in 0 1 2 3 4 5; do
		dd if=/dev/zero of="$a/big" bs=4k seek=$((at << 12)) count=1 conv=notrunc status=none
	done
	sync -f "$a"
	sum=$(md5sum <"$a/kept")
	run ! squeezed dd if=/dev/zero of="$a/big" bs=1M count=450 conv=notrunc,fsync
	echo "$output"
	out_of_space
	# Its journal and inodes are written all the same.
	squeezed rm "$a/big" "$a/gone"
	# (which says once more what dd was told)
	squeezed sync -f "$a" || :
	squeezed fstrim "$a"
	wait_for 20 in_rw
	mib 30 >"$a/new"
	sync -f "$a"
	new=$(md5sum <"$a/new")
	umount "$a"
	e2fsck -fn /dev/t-vg/lv
	all_is_well
	mount /dev/t-vg/lv "$a"
	[ "$(md5sum <"$a/kept")" = "$sum" ]
	[ "$(md5sum <"$a/new")" = "$new" ]
}
