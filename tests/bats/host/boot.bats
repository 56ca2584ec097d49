#!/usr/bin/env bats
# A Debian machine with our packages, real disks, and a pool that is in use: what it does at boot.

state=$BATS_FILE_TMPDIR/machine

# boot [OPTION...]: the machine, and the script that it runs, on stdin.
boot() { "$BATS_TEST_DIRNAME/../../vm/boot" --state "$state" "$@"; }

# What each boot is to have done, and to say if it has not.
checks='
	virtio=/dev/disk/by-id/virtio-disk nvme=/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_disk
	set -E
	trap "echo \"failed: \$BASH_COMMAND\"; lsblk; mount | grep /srv; systemctl --failed --no-pager
		journalctl -b --no-pager -u \"fusion*\" -u \"lvm*\" -u \"srv*\" | tail -n 60" ERR
	from_volume() { [ "$(findmnt -no SOURCE /)" -ef /dev/fusion/tank/root ] && [ "$(cat /proof)" = "moved" ]; }
	pool_is() { [ "$(fusion pool status tank | sed -n "s/^state: *//p")" = "$1" ]; }
	stopped_cleanly() { if dmesg | grep "not stopped cleanly"; then false; fi; }
	as_written() { [ "$(cat /srv/file)" = "written at first" ] && mountpoint -q /srv && mountpoint -q /srv/lvm; }
	patience=/etc/systemd/system/fusion-last-resort@.timer.d
	be_patient() { mkdir $patience; printf "[Timer]\nOnActiveSec=\nOnActiveSec=600\n" >$patience/slow.conf; }
	lab_says() { echo "$*" >/dev/console; }
	signed() {
		[ "$(modinfo -F sig_key dm_fusion | tr -d :)" = "$(openssl x509 -inform der -in /var/lib/dkms/mok.pub -noout -serial | sed s/.*=//)" ]
	}
	nothing_failed() { [ -z "$(systemctl --failed --no-legend)" ]; }
'

@test "a pool is made, one member of which is encrypted, with file systems and LVM on it, and in fstab" {
	boot <<<"$checks"'
		head -c 32 /dev/urandom >/etc/secret
		cryptsetup -q luksFormat --type luks1 --pbkdf-force-iterations 1000 "$virtio"5 /etc/secret
		echo "secret ${virtio}5 /etc/secret luks" >>/etc/crypttab
		systemctl daemon-reload
		systemctl start systemd-cryptsetup@secret
		fusion pool create tank "$virtio"[0-4] /dev/mapper/secret "$nvme"[67]
		fusion volume create tank data --size 128M
		fusion volume create tank pv --size 128M
		mkfs.ext4 -q /dev/fusion/tank/data
		pvcreate -q /dev/fusion/tank/pv
		vgcreate -q vg /dev/fusion/tank/pv
		lvcreate -q -L 64M -n lv vg
		mkfs.ext4 -q /dev/vg/lv
		echo "/dev/fusion/tank/data /srv ext4 defaults 0 2" >>/etc/fstab
		echo "/dev/vg/lv /srv/lvm auto defaults,x-systemd.requires-mounts-for=/srv 0 0" >>/etc/fstab
		# for the next boots: a slow machine is none that lacks a disk
		be_patient
		systemctl daemon-reload
		mount /srv
		mkdir /srv/lvm
		mount /srv/lvm
		echo "written at first" | tee /srv/file /srv/lvm/file
		[ "$(lsblk -dno FSTYPE /dev/disk/by-id/virtio-disk3)" = fusion_member ]
		[ "$(lsblk -dno FSTYPE /dev/mapper/secret)" = fusion_member ]
	'
}

@test "members come in any order, and the last one late" {
	boot --disks "5 2 7 0 6 3 1" --plug "4@fusion-last" <<<"$checks"'
		as_written
		pool_is ok
		stopped_cleanly
		nothing_failed
		signed
	'
}

@test "after an upgrade to another kernel" {
	boot --kernel 6.12 <<<"$checks"'
		[[ $(uname -r) == 6.12* ]]
		as_written
		pool_is ok
		stopped_cleanly
		nothing_failed
		signed
		rm -r $patience
	'
}

@test "without one of the disks it is degraded, after half a minute" {
	boot --disks "0 1 2 4 5 6 7" <<<"$checks"'
		as_written
		pool_is degraded
		nothing_failed
		journalctl -b --no-pager -u "fusion-last-resort@*" | grep "is started without its member 3"
		be_patient
	'
}

# What was missing has missed something.
@test "it is taken back, and another one is pulled and put back" {
	boot --unplug "7@pull it" --plug "7@put it back" <<<"$checks"'
		as_written
		pool_is degraded
		fusion device readd tank 3
		pool_is ok
		lab_says "pull it"
		udevadm wait --timeout=120 --removed "$nvme"7
		echo "without it" | tee /srv/file2 /srv/lvm/file2
		# all disks are written to
		dd if=/dev/urandom of=/srv/large bs=1M count=16 conv=fsync status=none
		while events=$(dmsetup info -c --noheadings -o events tank); ! pool_is degraded; do
			timeout 60 dmsetup wait tank "$events"
		done
		large=$(md5sum </srv/large)
		lab_says "put it back"
		udevadm wait --timeout=120 "$nvme"7
		fusion device readd tank 7
		pool_is ok
		echo 3 >/proc/sys/vm/drop_caches
		[ "$(md5sum </srv/large)" = "$large" ]
		[ "$(cat /srv/file2 /srv/lvm/file2)" = "$(echo "without it"; echo "without it")" ]
		as_written
		nothing_failed
	'
}

# A compiler stays where it is, and so do drivers: those that are needed are in the initramfs.
@test "the root file system is moved to a volume, and is there at the next boot" {
	state=$BATS_FILE_TMPDIR/root
	boot --disk-size 256M <<<"$checks"'
		fusion pool create tank "$virtio"[0-5] "$nvme"[67]
		fusion volume create tank root --size 800M
		mkfs.ext4 -q /dev/fusion/tank/root
		mount /dev/fusion/tank/root /mnt
		(cd / && tar --one-file-system -c --exclude=./usr/src --exclude=./usr/lib/gcc --exclude=./boot \
			--exclude="./usr/lib/modules/*/kernel/drivers" --exclude="*.a" .) | tar -C /mnt -x
		echo "/dev/fusion/tank/root / ext4 defaults 0 1" >/mnt/etc/fstab
		echo moved >/mnt/proof
		umount /mnt
	'
	boot --root /dev/fusion/tank/root <<<"$checks"'
		from_volume
		pool_is ok
		stopped_cleanly
		nothing_failed
		echo "written at first" >/file
	'
}

@test "so it is without one of the disks, after a while" {
	state=$BATS_FILE_TMPDIR/root
	boot --root /dev/fusion/tank/root --disks "0 1 2 3 4 5 7" <<<"$checks"'
		from_volume
		[ "$(cat /file)" = "written at first" ]
		pool_is degraded
		nothing_failed
		echo "and without a disk" >>/file
	'
}

@test "dracut finds it, too, and another kernel" {
	state=$BATS_FILE_TMPDIR/root
	boot --root /dev/fusion/tank/root --initrd dracut --kernel 6.12 <<<"$checks"'
		[[ $(uname -r) == 6.12* ]]
		from_volume
		[ "$(tail -n 1 /file)" = "and without a disk" ]
		pool_is degraded
		fusion device readd tank 6
		pool_is ok
		nothing_failed
	'
}
