#!/usr/bin/perl
# For each line on standard input: what the kernel has logged since the last
# time, then a line with a full stop.  If the line is "skip", only that.

use strict;
use warnings;
use Fcntl;

$| = 1;
sysopen(my $log, "/dev/kmsg", O_RDONLY | O_NONBLOCK) or die "/dev/kmsg: $!\n";
sysseek($log, 0, 2);
print "ready\n";
while (<STDIN>) {
	sysseek($log, 0, 2) if $_ eq "skip\n";
	while (1) {
		my $n = sysread($log, my $record, 8192);
		# Overwritten before it was read: go on with what is there.
		next if !defined $n && $!{EPIPE};
		last if !$n;
		my ($first) = split(/\n/, $record);
		print $first =~ s/^[^;]*;//r, "\n";
	}
	print ".\n";
}
