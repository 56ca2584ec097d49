#!/usr/bin/perl
# Change bytes of a member's label or of the metadata's superblock, and make
# its checksum right again.
#
#	patch.pl label|super DEVICE OFFSET HEX [COPY]
#
# OFFSET counts in the structure (see dm-fusion/format.h), HEX is what to put
# there.  COPY is the byte where the structure begins (0).  As OFFSET, "sum"
# breaks the checksum instead.

use strict;
use warnings;
use IO::Handle;

my ($kind, $device, $offset, $hex, $copy) = @ARGV;
$copy ||= 0;

my @table = map {
	my $c = $_;
	$c = $c & 1 ? ($c >> 1) ^ 0x82f63b78 : $c >> 1 for 1 .. 8;
	$c;
} 0 .. 255;

sub crc32c {
	my $c = 0xffffffff;
	$c = $table[($c ^ $_) & 255] ^ ($c >> 8) for unpack("C*", $_[0]);
	return $c;
}

open(my $f, "+<", $device) or die "$device: $!\n";
binmode($f);
sysseek($f, $copy, 0);
sysread($f, my $block, 4096) == 4096 or die "$device: too short\n";

substr($block, $offset, length($hex) / 2) = pack("H*", $hex) if $offset ne "sum";
if ($kind eq "label") {
	substr($block, 16, 4) = "\0" x 4;
	substr($block, 16, 4) = pack("V", crc32c($block) ^ 0xffffffff);
	substr($block, 16, 1) ^= "\1" if $offset eq "sum";
} else {
	substr($block, 0, 4) = pack("V", crc32c(substr($block, 4)) ^ 0x66757369);
	substr($block, 0, 1) ^= "\1" if $offset eq "sum";
}
sysseek($f, $copy, 0);
syswrite($f, $block) == 4096 or die "$device: $!\n";
$f->sync or die "$device: $!\n";
close($f) or die "$device: $!\n";
