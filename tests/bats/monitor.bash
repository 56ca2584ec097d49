# shellcheck shell=bash
# Which members are unresponsive.

# pulse MEMBER FIELD: of what is known of it (the first: its number).
pulse() { message pulse | awk -v i="$1" -v f="$2" '$1 == i { print $f }'; }
# of members on that SSD one is
unresponsive() { message pulse | awk -v i="$1" '$1 % 8 == i && $2 == "unresponsive" { n++ } END { exit !n }'; }
responsive() { ! unresponsive "$1"; }
# They are set one after the other, while there is I/O.
all_windows_are() {
	dd if=/dev/mapper/t-v0 of=/dev/null bs=64k count=1 iflag=direct status=none
	[ "$(message pulse | awk '{ print $10 }' | sort -u)" = "$1" ]
}
# one_straggler_after US: a member is unresponsive with one I/O that has taken so long.
one_straggler_after() {
	message set straggler_enter 1
	message set straggler_exit 0
	message set window_us "$1"
}
# The same after 300 ms, as this machine has spikes, too; and it is so for all of them now.  What the
# volume's first block is, is read.
one_straggler() {
	one_straggler_after 300000
	wait_for 20 all_windows_are 300000
}
