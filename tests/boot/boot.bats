#!/usr/bin/env bats
# A Debian machine with our packages, real disks, and a pool that is in use: what it does at boot.

state=$BATS_FILE_TMPDIR/machine

# boot [OPTION...]: the machine, and the script that it runs, on stdin.
boot() { "$BATS_TEST_DIRNAME/../vm/boot" --state "$state" "$@"; }

# What each boot is to have done, and to say if it has not.
checks='
	set -E
	trap "echo \"failed: \$BASH_COMMAND\"; lsblk; mount | grep /srv; systemctl --failed --no-pager
		journalctl -b --no-pager -u \"fusion*\" -u \"lvm*\" -u \"srv*\" | tail -n 60" ERR
	pool_is() { [ "$(fusion pool status tank | sed -n "s/^state: *//p")" = "$1" ]; }
	stopped_cleanly() { if dmesg | grep "not stopped cleanly"; then false; fi; }
	as_written() { [ "$(cat /srv/file)" = "written at first" ] && mountpoint -q /srv && mountpoint -q /srv/lvm; }
	nothing_failed() { [ -z "$(systemctl --failed --no-legend)" ]; }
'

@test "a pool is made, with file systems and LVM on it, and in fstab" {
	boot <<<"$checks"'
		fusion pool create tank $(for i in 0 1 2 3 4 5 6 7; do echo /dev/disk/by-id/virtio-disk$i; done)
		fusion volume create tank data --size 128M
		fusion volume create tank pv --size 128M
		mkfs.ext4 -q /dev/fusion/tank/data
		pvcreate -q /dev/fusion/tank/pv
		vgcreate -q vg /dev/fusion/tank/pv
		lvcreate -q -L 64M -n lv vg
		mkfs.ext4 -q /dev/vg/lv
		echo "/dev/fusion/tank/data /srv ext4 defaults 0 2" >>/etc/fstab
		echo "/dev/vg/lv /srv/lvm auto defaults,x-systemd.requires-mounts-for=/srv 0 0" >>/etc/fstab
		systemctl daemon-reload
		mount /srv
		mkdir /srv/lvm
		mount /srv/lvm
		echo "written at first" | tee /srv/file /srv/lvm/file
		[ "$(lsblk -dno FSTYPE /dev/disk/by-id/virtio-disk3)" = fusion_member ]
	'
}

@test "it is there after a boot, and was stopped before all ended" {
	boot <<<"$checks"'
		as_written
		pool_is ok
		stopped_cleanly
		nothing_failed
	'
}

@test "members come in any order, and the last one late" {
	boot --disks "5 2 7 0 6 3 1" --late 4 --when "fusion-last" <<<"$checks"'
		as_written
		pool_is ok
		stopped_cleanly
		nothing_failed
	'
}

@test "after an upgrade to another kernel" {
	boot --kernel 6.12 <<<"$checks"'
		[[ $(uname -r) == 6.12* ]]
		as_written
		pool_is ok
		stopped_cleanly
		nothing_failed
	'
}

@test "without one of the disks it is degraded, after half a minute" {
	boot --disks "0 1 2 4 5 6 7" <<<"$checks"'
		as_written
		pool_is degraded
		nothing_failed
		journalctl -b --no-pager -u "fusion-last-resort@*" | grep "is started without its member 3"
	'
	boot <<<"$checks"'
		as_written
		# it has missed something
		pool_is degraded
		fusion device readd tank 3
		pool_is ok
	'
}
