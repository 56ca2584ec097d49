# shellcheck shell=bash
# shellcheck disable=SC2154
# A volume all of which is in RAID stripes, single pages of which are written.

# What takes long is tried with every other SSD, or at every other step, on one kernel, and with the
# others on the other.
case $(uname -r) in 6.1.*) turn=0 ;; *) turn=1 ;; esac

test_setup() {
	spares=0 member_sectors=$((64 << 11))
}

# raid_volume MIB [DATA PARITY]: t-v0, all of it in RAID stripes, and what it holds in $model.
raid_volume() {
	make_pool
	fill_volume "$@"
	message convert
	[ "$(space replicated)" -eq 0 ]
}
# As above, in a pool that is there, and in replicas.
fill_volume() {
	message set patch_percent "${percent:-20}"
	volume 0 "$@"
	model=$BATS_TEST_TMPDIR/model
	rm -f "$model"
	hand write /dev/mapper/t-v0 "$model" 0 $(($1 << 8)) 64k
}
# restart MODE MIB: the pool, which has that mode then, and t-v0.
restart() {
	stop_pool
	start_pool
	[ "$(mode)" = "$1" ]
	volume_device 0 $(($2 << 11))
}
# write PAGE PAGES: to volume and, if that takes it, model.
write() {
	hand write /dev/mapper/t-v0 "$model" "$1" "$2" $(($2 << 2))k
}
# In blocks without a top, part of one, and whole; and in those that have one; and a large one.
write_all_kinds() {
	local b
	for b in {0..3}; do
		write $((b * 16 + b)) 2
		write $((b * 16 + 160)) 8
		write $((b * 16 + 320)) 16
	done
	write 480 96
}
# And in whole stripes behind those: each SSD is written to, but for one time in a hundred thousand.
write_stripes() { write 576 448; }
# What other pools have left in the journal's ring on the members.
empty_ring() {
	local i
	for ((i = 0; i < members; i++)); do
		blkdiscard -f -l $((data_offset << 9)) "/dev/mapper/t-m$i" 2>/dev/null
	done
}
# scsi_disk MIB [PARAMETER...]: a disk with a request queue, as $disk.
scsi_disk() {
	modprobe sd_mod
	modprobe scsi_debug dev_size_mb="$1" sector_size=4096 "${@:2}"
	wait_for 20 scsi_disk_is_there "$1"
}
# It has been looked at.
scsi_disk_is_there() {
	disk=$(echo /sys/bus/pseudo/drivers/scsi_debug/adapter0/host*/target*/*/block/*)
	disk=${disk##*/}
	[ -b "/dev/$disk" ] && [ "$(blockdev --getsz "/dev/$disk")" -eq $(($1 << 11)) ]
}
no_scsi_disk() { wait_for 20 modprobe -q -r scsi_debug; }
# sectors read|written MEMBER, since it was made.
sectors() {
	local stat
	read -r -a stat <"/sys/block/$(device "$2")/stat"
	if [ "$1" = read ]; then echo "${stat[2]}"; else echo "${stat[6]}"; fi
}
# verified OPTION...: have fio write to t-v0, and see that it is there.
verified() {
	fio --output-format=terse --direct=1 --ioengine=libaio --thread --verify=crc32c --verify_fatal=1 --do_verify=1 \
		--name=p --filename=/dev/mapper/t-v0 "$@" >"$BATS_TEST_TMPDIR/fio" 2>&1 ||
		{ cat "$BATS_TEST_TMPDIR/fio"; return 1; }
}
# begin_load OPTION...: writes and reads in place, as $load, which sees that what is read has been
# written.
begin_load() {
	fio --name=v --filename=/dev/mapper/t-v0 --direct=1 --ioengine=libaio --iodepth=16 --thread --randrepeat=1 \
		--rw=randrw --bs=16k --norandommap --serialize_overlap=1 --size=4m "$@" \
		--verify=crc32c --verify_backlog=64 --verify_fatal=1 --output="$BATS_TEST_TMPDIR/fio" 3>&- &
	load=$!
}
# Before its time.
end_load() {
	kill -INT "$load"
	wait "$load" || [ $? -eq 128 ] || { cat "$BATS_TEST_TMPDIR/fio"; return 1; }
}
more_in_place() { [ "$(counter in_place)" -gt $((in_place + 100)) ]; }
as_written() { hand compare /dev/mapper/t-v0 "$model"; }
patched() { counter new_patch; }

# failing KIND SSD...: these answer such I/O with errors; no others do.
failing() {
	local kind=$1 i
	shift
	hand message ssd0 fail_all "$kind" no
	for i; do
		hand message "ssd$i" fail "$kind" yes
	done
}
# dead SSD...: nothing works on these.
dead() {
	failing reads "$@"
	failing writes "$@"
	failing flushes "$@"
}
# all_there SSD...: what is written can be read without any one of these, which do not fail by that.
all_there() {
	local before ssd
	before=$(states)
	for ssd in "$@"; do
		failing reads "$ssd"
		as_written
	done
	failing reads
	[ "$(states)" = "$before" ]
}
all_work() { hand message ssd0 reset_all; }

# What was read into FILE: of each page what was written, or zeros for an error.  How many are
# zeros is in $lost, and which in $lost_pages.
pages_or_zeros() {
	lost_pages=$(perl -e '
		my (@lost, $a, $b);
		open(my $model, "<", $ARGV[0]) or die; open(my $file, "<", $ARGV[1]) or die;
		for (my $page = 0; read($model, $a, 4096); $page++) {
			read($file, $b, 4096) == 4096 or die "page $page is missing\n";
			next if $a eq $b;
			die "page $page is wrong\n" if $b ne "\0" x 4096;
			push(@lost, $page);
		}
		print "@lost"' "$model" "$1") || return 1
	lost=$(wc -w <<<"$lost_pages")
}
read_what_can_be() {
	dd if=/dev/mapper/t-v0 of="$BATS_TEST_TMPDIR/read" bs=4k iflag=direct conv=noerror,sync status=none \
		2>/dev/null || :
	pages_or_zeros "$BATS_TEST_TMPDIR/read"
	echo "$lost pages are lost"
}

# Each three blocks in a row are in one stripe.
in_stripes() { dd if="$model" of=/dev/mapper/t-v0 bs=192k count=21 oflag=direct iflag=fullblock status=none; }

# ssds_read PAGE SSDS: those that hold reads and are asked for this page of t-v0, so many at once, in
# $asked; none holds any then.
ssds_read() {
	local status pid
	dd if=/dev/mapper/t-v0 of=/dev/null bs=4k count=1 skip="$1" iflag=direct status=none 3>&- &
	pid=$!
	wait_for 20 held "$2"
	status=$(dmsetup status "${ssds[@]}")
	release
	wait $pid
	asked=$(sed -n 's/^ssd\([0-9]*\): .* 1$/\1/p' <<<"$status" | paste -sd ' ')
}
# find_ssd PAGE: the SSD that it is read from, in $ssd.
find_ssd() {
	udevadm settle
	hold reads
	ssds_read "$1" 1
	ssd=$asked
	[[ $ssd =~ ^[0-7]$ ]]
}
# find_others PAGE SSD: the three that it is computed from where this one cannot read it, in $others.
find_others() {
	local i
	udevadm settle
	failing reads "$2"
	for i in {0..7}; do
		[ "$i" -eq "$2" ] || hand message "ssd$i" hold reads
	done
	ssds_read "$1" 3
	failing reads
	others=$asked
	[[ $others =~ ^[0-7]\ [0-7]\ [0-7]$ ]]
}

# But not the one with the metadata.
hold_members() {
	local i
	for ((i = 0; i < members - 1; i++)); do
		hand message "ssd$i" hold writes
	done
}

# rows_cut_short: the power fails while rows of six stripes are written in place, of which there are
# records; the pool is stopped.
rows_cut_short() {
	local b
	for b in {0..5}; do
		write $((b * 48 + b)) 3
	done
	flush
	merge_to_commit 18
	hold_members
	dm resume t-meta
	# there are the records, and the rows are being written
	wait_for 20 held 18
	power_cut 4
	release
	wait $pid && false
	stop_pool
	power_on
}

# merge_to_commit READS: begin to, as $pid, until its records wait for the metadata; when so
# many reads are held it computes parity.
merge_to_commit() {
	udevadm settle
	hold reads
	message convert 2>/dev/null 3>&- &
	pid=$!
	wait_for 20 held "$1"
	dm suspend --noflush --nolockfs t-meta
	release
	wait_for 20 tasks_in fusion_md_commit 1
}
