#!/usr/bin/env bats
# LVM on volumes of pools that the tool has made: what it takes for what, and what is done with it while it
# is in use.  See docs/lvm.rst.
#
# It looks at all devices, as on any machine, not at those that it is told to.

# shellcheck disable=SC2119

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/labels.bash
source "$BATS_TEST_DIRNAME/labels.bash"

setup_file() { with_rules; }
teardown_file() { without_rules; }

# bats has files open that LVM would remark on.
export LVM_SUPPRESS_FD_WARNINGS=1

discarding=(--config devices/issue_discards=1)
mixed=(--config devices/allow_mixed_block_sizes=1)

test_setup() {
	mnt=$BATS_TEST_TMPDIR/mnt other=$BATS_TEST_TMPDIR/other
	mkdir "$mnt" "$other"
}
test_teardown() {
	! mountpoint -q "$mnt" || umount "$mnt"
	! mountpoint -q "$other" || umount "$other"
	no_lvs
	[ ! -e /dev/mapper/t-pool ] || fusion pool stop t-pool >/dev/null
	rm -rf /run/fusion
}

# pv NAME SIZE [OPTION...]: a new volume, for LVM.
pv() {
	fusion volume create t-pool "$1" --size "$2" "${@:3}" >/dev/null
	pvcreate -q "/dev/mapper/t-pool-$1"
}
# group SIZE: the group t-vg, on one volume.
group() {
	labelled_pool
	pv pv "$1"
	vgcreate -q t-vg /dev/mapper/t-pool-pv
}
lv() { lvcreate -q -y "$@"; }

# Which devices LVM takes for its own, as what the kernel calls them.
pv_names() { pvs --noheadings -o pv_name | xargs -r readlink -f; }

# fill DEVICE MIB [AT MIB]
fill() { random $(($2 << 8)) | dd of="$1" bs=1M seek="${3:-0}" iflag=fullblock oflag=direct status=none; }
sum_of() { dd if="$1" bs=1M iflag=direct status=none "${@:2}" | md5sum; }

# mapped VOLUME: its blocks that take space.
mapped() {
	message commit
	hand status "t-pool-$1" | cut -d' ' -f1
}
# Where its extents begin, in blocks: before that is what LVM says of them.
first_block() {
	local bytes
	bytes=$(pvs --noheadings --units b --nosuffix -o pe_start "/dev/mapper/t-pool-$1")
	[ $((bytes % (block << 9))) -eq 0 ] || return
	echo $((bytes / (block << 9)))
}
# writes DEVICE: how many it has had.
writes() {
	local stat
	read -r -a stat <"/sys/block/$(basename "$(readlink -f "$1")")/stat"
	echo "${stat[4]}"
}
wrote_since() { [ "$(writes "$1")" -gt "$2" ]; }

# The power fails, and everything is started again.
power_fails() {
	power_cut 3
	for at in "$mnt" "$other"; do
		! mountpoint -q "$at" || umount "$at"
	done
	no_lvs
	crash
	power_on
	start
	vgchange -q -ay t-vg
}

@test "a volume is taken for what is on it, members and the pool for nothing" {
	group 64M
	[ "$(pv_names)" = "$(readlink -f /dev/mapper/t-pool-pv)" ]
	pvck /dev/mapper/t-pool-pv
	# what marks it is on members, too, where that means nothing
	message commit
	grep -q LABELONE /dev/mapper/t-m[0-7]
	# nor has it anything to complain of, as that the pool cannot be read (this it looks into all for), or that
	# there are two of it
	complaints=$({ pvs -o pv_name && pvs -a; } 2>&1 >/dev/null)
	[ -z "$complaints" ] || { echo "$complaints"; false; }
	run ! pvck /dev/mapper/t-m3
	run ! pvcreate -y /dev/mapper/t-m3
	[[ $output == *"Can't open /dev/mapper/t-m3 exclusively"* ]]

	seen t-m3 t-pool-pv
	[ "$(property t-m3 ID_FS_TYPE)" = fusion_member ]
	[ "$(lsblk -dno FSTYPE /dev/mapper/t-m3)" = fusion_member ]
	[ "$(lsblk -dno FSTYPE /dev/mapper/t-pool-pv)" = LVM2_member ]
	[ "$(blkid -o value -s TYPE /dev/mapper/t-pool-pv)" = LVM2_member ]
	# it does not know of pools by itself
	run ! blkid -p /dev/mapper/t-m3

	lv -n lv -L 16M t-vg
	fill /dev/t-vg/lv 16
	sum=$(sum_of /dev/t-vg/lv)
	refused="t-pool-pv is in use (used by t--vg-lv): deactivate it with vgchange -an t-vg and try again"
	run ! fusion pool stop t-pool
	[[ $output == *"pool t-pool is not stopped: $refused"* ]]
	run ! fusion volume remove t-pool pv --yes
	[[ $output == *"$refused"* ]]
	vgchange -q -an t-vg
	fusion pool stop t-pool
	[ -z "$(pv_names)" ]
	start
	vgchange -q -ay t-vg
	[ "$(sum_of /dev/t-vg/lv)" = "$sum" ]
}

@test "what was LVM's becomes a member only by force, and then is not LVM's" {
	back 3
	pvcreate -q /dev/mapper/t-m3
	away 3
	run ! labelled_pool
	echo "$output"
	[[ $output == *"/dev/mapper/t-m3 carries a signature of LVM2_member: give --force"* ]]
	away {0..7}
	labelled_pool --force
	[ -z "$(pv_names)" ]
}

@test "extents begin with a block, whatever the size of stripes" {
	member_sectors=$((200 << 11)) block=512
	labelled_pool --block-size 256K
	for data in 2 3 5; do
		pv v$data 64M --data $data
		[ "$(first_block v$data)" -gt 0 ]
	done
}

@test "pvmove from a volume that is being written to another one" {
	labelled_pool
	pv a 64M
	pv b 64M
	vgcreate -q t-vg /dev/mapper/t-pool-{a,b}
	lv -n lv -L 16M t-vg /dev/mapper/t-pool-a
	fill /dev/t-vg/lv 12
	sum=$(sum_of /dev/t-vg/lv count=12)
	enough=$BATS_TEST_TMPDIR/enough
	fio --name=lv --filename=/dev/t-vg/lv --offset=12M --size=4M --rw=randwrite --bsrange=4k-64k --blockalign=4k \
		--direct=1 --ioengine=libaio --iodepth=4 --verify=crc32c --verify_fatal=1 --verify_backlog=32 \
		--time_based --runtime=$((600 * slow)) --trigger-file="$enough" --aux-path="$BATS_TEST_TMPDIR" \
		>"$BATS_TEST_TMPDIR/fio" 2>&1 3>&- &
	fio=$!
	wait_for 60 wrote_since /dev/t-vg/lv "$(writes /dev/t-vg/lv)"
	before=$(writes /dev/t-vg/lv)
	pvmove -q -i 0 /dev/mapper/t-pool-a
	wrote_since /dev/t-vg/lv "$before"
	# it goes on, on the other one
	wait_for 60 wrote_since /dev/t-vg/lv "$(writes /dev/t-vg/lv)"
	running $fio
	touch "$enough"
	wait $fio || { cat "$BATS_TEST_TMPDIR/fio"; false; }
	vgreduce -q t-vg /dev/mapper/t-pool-a
	pvremove -q /dev/mapper/t-pool-a
	fusion volume remove t-pool a --yes
	[ "$(sum_of /dev/t-vg/lv count=12)" = "$sum" ]
}

@test "a disk of 512-byte sectors gives way to a volume, if LVM is told that it may" {
	labelled_pool
	pv pv 64M
	dm create t-disk --table "0 $((32 << 11)) linear /dev/mapper/ssd1 $((4096 + member_sectors))"
	pvcreate -q /dev/mapper/t-disk
	vgcreate -q t-vg /dev/mapper/t-disk
	lv -n lv -L 16M t-vg
	mkfs.ext4 -q -b 4096 /dev/t-vg/lv
	mount /dev/t-vg/lv "$mnt"
	random 256 | tee "$mnt/before" | md5sum >"$BATS_TEST_TMPDIR/sum"
	run ! vgextend -q t-vg /dev/mapper/t-pool-pv
	[[ $output == *"inconsistent logical block sizes"* ]]
	vgextend -q "${mixed[@]}" t-vg /dev/mapper/t-pool-pv
	pvmove -q -i 0 "${mixed[@]}" /dev/mapper/t-disk
	vgreduce -q t-vg /dev/mapper/t-disk
	dm remove t-disk
	echo after >"$mnt/after"
	umount "$mnt"
	e2fsck -fn /dev/t-vg/lv
	mount /dev/t-vg/lv "$mnt"
	md5sum <"$mnt/before" | cmp - "$BATS_TEST_TMPDIR/sum"
	[ "$(<"$mnt/after")" = after ]
}

@test "a volume grows, and the file systems on it while they are mounted" {
	modprobe xfs
	member_sectors=$((120 << 11))
	group 400M
	lv -n e -L 16M t-vg
	lv -n x -L 320M t-vg
	mkfs.ext4 -q /dev/t-vg/e
	mkfs.xfs -q /dev/t-vg/x
	mount /dev/t-vg/e "$mnt"
	mount /dev/t-vg/x "$other"
	random 256 | tee "$mnt/before" "$other/before" | md5sum >"$BATS_TEST_TMPDIR/sum"
	fusion volume resize t-pool pv 640M >/dev/null
	pvresize -q /dev/mapper/t-pool-pv
	lvextend -q -r -L 64M t-vg/e
	lvextend -q -r -L 448M t-vg/x
	# more than there was room for
	head -c 24M /dev/zero | tr '\0' n >"$mnt/after"
	[ $(($(stat -fc %b*%S "$other"))) -gt $((320 << 20)) ]
	umount "$mnt" "$other"
	e2fsck -fn /dev/t-vg/e
	xfs_repair -n /dev/t-vg/x
	mount /dev/t-vg/e "$mnt"
	mount /dev/t-vg/x "$other"
	for at in "$mnt" "$other"; do
		md5sum <"$at/before" | cmp - "$BATS_TEST_TMPDIR/sum"
	done
	head -c 24M /dev/zero | tr '\0' n | cmp - "$mnt/after"
}

@test "a snapshot, a power cut, and what it had comes back" {
	group 128M
	lv -n lv -L 16M t-vg
	fill /dev/t-vg/lv 16
	before=$(sum_of /dev/t-vg/lv)
	lv -s -n snap -L 12M t-vg/lv
	fill /dev/t-vg/lv 2 5
	fill /dev/t-vg/lv 1 13
	after=$(sum_of /dev/t-vg/lv)
	[ "$after" != "$before" ]
	[ "$(sum_of /dev/t-vg/snap)" = "$before" ]
	hand flush /dev/t-vg/lv
	power_fails
	[ "$(sum_of /dev/t-vg/lv)" = "$after" ]
	[ "$(sum_of /dev/t-vg/snap)" = "$before" ]
	lvconvert -q -i 0 --merge t-vg/snap
	[ "$(lvs --noheadings -o lv_name t-vg | xargs)" = lv ]
	[ "$(sum_of /dev/t-vg/lv)" = "$before" ]
	# it is told that nothing is there any more only if LVM is to
	full=$(mapped pv)
	lvremove -q -y t-vg/lv
	[ "$(mapped pv)" -eq "$full" ]
	lv -n lv -L 16M t-vg
	lvremove -q -y "${discarding[@]}" t-vg/lv
	[ "$(mapped pv)" -lt "$full" ]
}

@test "a thin pool: snapshots, discards that come through it, and a power cut" {
	group 192M
	lvcreate -q -y --type thin-pool -L 64M -n tp t-vg
	[ "$(lvs --noheadings --units k --nosuffix -o chunk_size t-vg/tp | xargs)" = 64.00 ]
	lvcreate -q -y -V 96M --thinpool tp -n thin t-vg
	mkfs.ext4 -q /dev/t-vg/thin
	mount /dev/t-vg/thin "$mnt"
	random 1024 | tee "$mnt/kept" | md5sum >"$BATS_TEST_TMPDIR/kept"
	random 2048 >"$mnt/gone"
	sync -f "$mnt"
	full=$(mapped pv) discards=$(counter discards)
	rm "$mnt/gone"
	fstrim "$mnt"
	[ "$(counter discards)" -gt "$discards" ]
	trimmed=$(mapped pv)
	[ "$trimmed" -lt "$full" ]

	lvcreate -q -y -s -kn -n snap t-vg/thin
	random 1024 | tee "$mnt/new" | md5sum >"$BATS_TEST_TMPDIR/new"
	rm "$mnt/kept"
	fstrim "$mnt"
	sync -f "$mnt"
	power_fails
	mount /dev/t-vg/thin "$mnt"
	mount /dev/t-vg/snap "$other"
	md5sum <"$mnt/new" | cmp - "$BATS_TEST_TMPDIR/new"
	md5sum <"$other/kept" | cmp - "$BATS_TEST_TMPDIR/kept"
	[ ! -e "$mnt/kept" ]
	[ ! -e "$other/new" ]
	umount "$mnt" "$other"
	e2fsck -fn /dev/t-vg/thin
	e2fsck -fn /dev/t-vg/snap

	# who removes a thin volume frees its chunks for others, and tells nobody
	full=$(mapped pv)
	lvremove -q -y "${discarding[@]}" t-vg/snap
	[ "$(mapped pv)" -ge "$full" ]
	blkdiscard -f /dev/t-vg/thin
	[ "$(mapped pv)" -lt "$full" ]
	lvremove -q -y "${discarding[@]}" t-vg/tp
	[ "$(mapped pv)" -le "$(first_block pv)" ]
}
