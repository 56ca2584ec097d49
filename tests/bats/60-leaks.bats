#!/usr/bin/env bats
# What is taken is given back, and the map's cache keeps its limit.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"

# Nothing is left when RCU has let it go.
no_objects() {
	objects="chunks $(slab fusion_chunk) changes $(slab fusion_change) overlays $(slab fusion_overlay)"
	[ "$objects" = "chunks 0 changes 0 overlays 0" ]
}
objects_gone() { wait_for 10 no_objects || { echo "left: $objects"; return 1; }; }
unreclaimable() { awk '$1 == "SUnreclaim:" { print $2 }' /proc/meminfo; }
metadata_used() { field 4 | cut -d/ -f1; }

# udev would be busy with the devices for minutes.
without_udev() {
	end_udev
	"$@"
	begin_udev
}
test_teardown() {
	parameter map_cache_kb 65536
}

@test "1,000 volumes created and removed leave nothing" {
	make_pool
	space_before=$(space free)
	# What is made once, is made now.
	without_udev "$BATS_TEST_DIRNAME/cycles.pl" "$pool" 24
	users=$(module_users) used=$(metadata_used) memory=$(unreclaimable)
	without_udev "$BATS_TEST_DIRNAME/cycles.pl" "$pool" "${FUSION_CYCLES:-$((1000 / slow))}"
	[ "$(module_users)" -eq "$users" ]
	[ "$(space raid) $(space replicated)" = "0 0" ]
	[ "$(space dead)" -lt 256 ]
	[ -z "$(message volumes)" ]
	echo "memory before $memory after $(unreclaimable); metadata before $used after $(metadata_used)"
	[ "$(metadata_used)" -le $((used + 2)) ]
	[ "$(unreclaimable)" -lt $((memory + 8192)) ]
	stop_pool
	objects_gone
	no_module_users
	rmmod dm-fusion
	insmod "/lib/modules/$(uname -r)/updates/dm-fusion.ko"
	start_pool
	[ "$(space free) $(space dead)" = "$space_before 0" ]
}

@test "10 pools started and stopped leave nothing" {
	make_pool
	volume 0 1
	dd if=/dev/urandom of=/dev/mapper/t-v0 bs=4k count=200 oflag=direct status=none
	memory=$(unreclaimable)
	for _ in {1..10}; do
		stop_pool
		start_pool
		volume_device 0 2048
		dd if=/dev/urandom of=/dev/mapper/t-v0 bs=64k count=1 oflag=direct status=none
	done
	stop_pool
	objects_gone
	echo "memory before $memory after $(unreclaimable)"
	[ "$(unreclaimable)" -lt $((memory + 8192)) ]
}

@test "the map's cache keeps its limit with a map ten times as large" {
	parameter map_cache_kb 256
	block=8 meta_sectors=$((32 << 11))
	make_pool
	# A chunk of the cache is 64 blocks, of 4 KiB here.
	chunk=$(</sys/kernel/slab/fusion_chunk/object_size)
	groups=$((2560 * 1024 / chunk))
	volume 0 $((groups / 4 + 1))
	perl -e '
		use strict; use IO::Handle;
		my ($dev, $groups) = @ARGV;
		open(my $f, "+<", $dev) or die;
		for my $i (0 .. $groups - 1) {
			sysseek($f, $i * 262144 + ($i % 64) * 4096, 0);
			syswrite($f, pack("Q", $i * 1000003) x 512) == 4096 or die "write: $!";
			$f->sync if $i % 1000 == 0;
		}
		$f->sync or die "fsync: $!";
	' /dev/mapper/t-v0 $groups
	for _ in 1 2; do
		echo 3 >/proc/sys/vm/drop_caches
		perl -e '
			use strict;
			my ($dev, $groups) = @ARGV;
			open(my $f, "<", $dev) or die;
			my $i = 0;
			for (1 .. $groups) {
				$i = ($i + 1009) % $groups;
				sysseek($f, $i * 262144 + ($i % 64) * 4096, 0);
				sysread($f, my $page, 4096) == 4096 or die "read: $!";
				$page eq pack("Q", $i * 1000003) x 512 or die "group $i is wrong\n";
			}
		' /dev/mapper/t-v0 $groups
		bytes=$(($(slab_bytes fusion_chunk) + $(slab_bytes fusion_overlay)))
		echo "$groups groups, $bytes bytes"
		# Less would mean that it was not used.
		[ $bytes -gt $((64 * 1024)) ]
		[ $bytes -lt $((256 * 1024 * 5 / 4)) ]
	done
	[ "$(mode)" = rw ]
}
