# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154
# Pools with labels, as the tools make them, and what their members record.

# back MEMBER...: these are there.  They do not begin where their SSDs do, whose labels they
# would be, too.
back() {
	local i
	for i; do
		# shellcheck disable=SC2017
		dm create "t-m$i" --table "0 $member_sectors linear /dev/mapper/ssd$((i % 8)) $((2048 + i / 8 * member_sectors))"
	done
}
# away MEMBER...: these are not, until they are back.
away() {
	local i
	for i; do
		dm remove --retry "t-m$i"
	done
}

# with_rules, without_rules: udev, with the rules that are shipped.
rules=/run/udev/rules.d/64-fusion.rules
with_rules() {
	sed "s|@SBINDIR@/fusion|$(command -v fusion)|" "$repo/udev/64-fusion.rules" >$rules
	with_udev
}
without_rules() {
	rm $rules
	end_udev
}
# property DEVICE NAME: what udev knows of it.
property() {
	udevadm info --query=property --property="$2" --value "/dev/mapper/$1"
}
# seen DEVICE...: udev has looked at them, as when they appear.
seen() {
	udevadm trigger --settle --action=change "${@/#//dev/mapper/}"
}

# labelled_pool OPTION...: of what there is.
labelled_pool() {
	local i devices=()
	features=
	for ((i = 0; i < members; i++)); do
		back $i
		devices+=("/dev/mapper/t-m$i")
	done
	fusion pool create t-pool --json "$@" "${devices[@]}" >/dev/null
	message set paused 1
}
# start [--force]: the pool, in which nothing is rebuilt by itself: then more could fail.
start() {
	fusion pool start "$@" t-pool
	message set paused 1
}
# The machine is switched off, and on again: nobody has stopped the pool.
crash() {
	stop_pool
	for device in $(dmsetup ls | awk '/^t-pool_fmeta/ { print $1 }' | sort); do
		dm remove "$device"
	done
}
own_metadata() {
	dm create t-meta --table "0 $meta_sectors $(meta_target)"
	labelled_pool --metadata /dev/mapper/t-meta "$@"
}
# Of the pool, as it would be by hand: with nothing before its metadata.
own_table() { dmsetup table t-pool | awk '{ $4 = "/dev/mapper/t-meta"; print }'; }

# record MEMBER PAGE: generation and states of one copy.
record() {
	dd if="/dev/mapper/t-m$1" bs=4k skip="$2" count=1 iflag=direct status=none |
		perl -e 'read(STDIN, $_, 4096); my ($magic, $generation, @states) = unpack("a16 x24 Q< x8 C64", $_);
			print $generation, " ", map({ substr("omfr", $_, 1) } @states[0 .. $ARGV[0] - 1]), "\n"' "$members"
}
# recorded MEMBER: the same in both copies.
recorded() {
	[ "$(record "$1" 64)" = "$(record "$1" 192)" ] || { echo "the copies of member $1 differ"; return 1; }
	record "$1" 64
}
# The generations of all members.
generations() {
	local i
	for ((i = 0; i < members; i++)); do
		recorded $i
	done | cut -d' ' -f1 | xargs
}
