#!/usr/bin/perl
# Create a volume and its device, write to it, remove both: many times.
#
#	cycles.pl POOL COUNT
#
# It speaks to the kernel itself: processes are what costs time in an emulated
# machine.

use strict;
use warnings;
use IO::Handle;

my ($pool, $count) = @ARGV;
open(my $control, "+<", "/dev/mapper/control") or die "control: $!\n";

# struct dm_ioctl and what follows it; the answer's flags and device.
sub dm {
	my ($command, $name, $data, $targets) = @_;
	my $io = pack("L10QZ128Z129x7", 4, 0, 0, 16384, 312, $targets || 0, 0, 0, 0, 0, 0, $name, "");
	$io .= $data if defined $data;
	$io .= "\0" x (16384 - length($io));
	ioctl($control, 0xc138fd00 | $command, $io) or die "cycle: $name, command $command: $!\n";
	my @head = unpack("L10Q", $io);
	return $head[10];
}

sub message { dm(14, $pool, pack("QZ*", 0, $_[0])); }

my $data = join("", map { chr($_ % 251) } 1 .. 8192) x 32;	# 256 KiB
for my $i (1 .. $count) {
	my $data_slots = 2 + $i % 3;
	message("create_volume $i v$i 2048 $data_slots 1");
	my $dev = dm(3, "t-cycle");
	my $params = "/dev/mapper/$pool $i\0";
	$params .= "\0" while length($params) % 8;
	dm(9, "t-cycle", pack("QQlLZ16", 0, 2048, 0, 0, "fusion") . $params, 1);
	dm(6, "t-cycle");
	if ($i % 4 == 0) {
		my $minor = ($dev & 0xff) | (($dev >> 12) & 0xfff00);
		open(my $f, "+<", "/dev/dm-$minor") or die "dm-$minor: $!\n";
		binmode($f);
		syswrite($f, $data, $i % 8 ? 4096 : length($data)) or die "write: $!\n";
		$f->sync or die "fsync: $!\n";
		close($f);
	}
	dm(4, "t-cycle");
	message("delete_volume $i");
}
