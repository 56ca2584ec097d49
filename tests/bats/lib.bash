# shellcheck shell=bash
# shellcheck disable=SC2034
# What the tests of a pool share.  They run in a virtual machine that has
# simulated SSDs, /dev/mapper/ssd0 and so on, and nothing else to lose.
#
# A test file sources this (`load lib`) and gets bats' setup and teardown:
# teardown removes every fusion device, gives the SSDs their power back, wipes
# what was used, and fails the test if the kernel complained meanwhile.  A
# file that needs more defines test_setup and test_teardown.

bats_require_minimum_version 1.5.0

repo=${BASH_SOURCE[0]%/tests/bats/*}
oracle=${ORACLE:-$repo/build/oracle/oracle}
members_bytes=$repo/build/oracle/members

# For the devices that tests make.  udev's rules would take most of a test's time:
# the library makes the nodes.  But who has written to a device and closes it has udev look at
# it all the same, and it is busy for a moment.
dm() {
	local retry=
	[ "$1" != remove ] || retry=--retry
	dmsetup --noudevrules --noudevsync --verifyudev $retry "$@"
}

# What a time limit is to be multiplied by: a kernel that checks all that it does
# (tests/vm/debug-kernel) is that much slower.  And counts, of what is done often, are
# to be divided by it.
slow=1
[[ $(</proc/sys/kernel/osrelease) != *-debug-* ]] || slow=10

# Most tests do without udev, which has more to do with each device than they have; those whose
# subject it is, too, have it in setup_file (with_udev) and end it in teardown_file.
#
# Where it runs (tests/vm/run without --no-udev), those who make very many devices end it for a
# while, until begin_udev, at the latest until the test ends.
#
# Told to end, it may go on for minutes; another that begins meanwhile leaves two of them, and the first
# makes and removes links by what it has heard long ago.  Where its socket is, tools wait for it.
udev_ended=
udev_names='systemd-udevd|.udev-worker.'
no_udev() { ! pgrep -x "$udev_names" >/dev/null; }
end_udev() {
	no_udev && return
	udev_ended=1
	pkill -KILL -x "$udev_names"
	wait_for 20 no_udev
	rm -f /run/udev/control /run/udev/queue
}
begin_udev() {
	[ -z "$udev_ended" ] || with_udev
	udev_ended=
}
# It stays, and bats would wait for it if it had its pipes.
with_udev() {
	! no_udev || /lib/systemd/systemd-udevd --daemon --resolve-names=never </dev/null >/dev/null 2>&1 3>&- 4>&-
}

# --- the hand ----------------------------------------------------------------

# Processes are dear in an emulated machine: one does what tests do often, for each test.
hand_program=${HAND:-$repo/build/hand/hand}

hand_begin() {
	coproc "$hand_program" 2>/dev/null 3>&-
	# Subshells do not have a coprocess's files, but copies of them.
	exec {hand_in}>&"${COPROC[1]}" {hand_out}<&"${COPROC[0]}"
	hand_answer hand
}

# hand COMMAND ARGUMENT...: see tests/hand/hand.c.  It does one thing at a time: what is beside the
# test, which has no file 3, as bats would wait for it, has a process for it as before.
hand() {
	{ true >&3; } 2>/dev/null || { "$hand_program" "$@"; return; }
	echo "$*" >&"$hand_in"
	hand_answer "$1"
}
hand_answer() {
	local line
	while IFS= read -r line <&"$hand_out"; do
		case $line in
		.) return 0 ;;
		'!'*) break ;;
		esac
		echo "$line"
	done
	echo "$1: ${line#!}" >&2
	return 1
}

# --- the kernel's log --------------------------------------------------------

log_text="" test_log=""

log_open() {
	hand_begin
	echo "test $BATS_TEST_NUMBER: $BATS_TEST_DESCRIPTION" >/dev/kmsg
}

log_update() {
	local line
	echo log >&"$hand_in"
	while IFS= read -r line <&"$hand_out" && [ "$line" != . ]; do
		log_text+=$line$'\n'
	done
}

# What came is not looked at: somebody else has done that.
log_skip() { hand skip; }

# What comes now is looked at alone.
log_mark() {
	log_update
	test_log+=$log_text
	log_text=
}

# Has the kernel said so, since the mark?
log_has() {
	log_update
	[[ $log_text == *"$1"* ]] || { echo "not logged: $1"; return 1; }
}
log_lacks() {
	log_update
	[[ $log_text != *"$1"* ]] || { echo "logged: $1"; return 1; }
}

# What only a kernel in trouble says, at the start of a message.
trouble='((watchdog: )?BUG:|WARNING:|KASAN|KFENCE|UBSAN|INFO: (task|rcu|lockdep|trying)|rcu: INFO:|Oops|Kernel panic|general protection fault|kernel BUG|int3:|divide error|invalid opcode|refcount_t:|list_(add|del) corruption|kmemleak: [0-9]+ new|-+\[ cut here|device-mapper: (block manager|btree[a-z ]*|space map[a-z ]*|array): .*(check failed|wrong|too small|leak))'

# A test that provokes such a message says so in expected_trouble.
check_log() {
	local found
	log_mark
	found=$(grep -E "^$trouble" <<<"$test_log" | grep -vE "${expected_trouble:-^$}" || :)
	[ -z "$found" ] || {
		printf 'the kernel complains:\n%s\n' "$found"
		return 1
	}
}

# --- setup and teardown ------------------------------------------------------

test_setup() { :; }
test_teardown() { :; }

setup() {
	# bats has a trap for each command, which takes longer than most of them do here: only
	# for those of the test itself, not of the functions that it calls.
	set +T
	log_open
	test_setup
}

teardown() {
	local result=0

	test_teardown || result=1
	clean_up || result=1
	begin_udev || result=1
	check_log || result=1
	if [ $result -ne 0 ] || [ -z "${BATS_TEST_COMPLETED:-}" ]; then
		echo "the kernel's log of this test:"
		tail -n 40 <<<"$test_log"
	fi
	return $result
}

# Names of devices whose table has a target of the given kind.
devices_of() { hand devices "$1"; }

# What a test has made: volumes, pools, and what they stand on, the last first.
test_devices() {
	local name
	local -A seen=()
	while read -r name; do
		[[ $name =~ ^ssd[0-9]+$ || -n ${seen[$name]-} ]] || echo "$name"
		seen[$name]=1
	done < <(hand devices fusion && hand devices fusion-pool && hand devices)
}

# Logical volumes of t-vg... are gone, as after a crash; the upper ones first.
no_lvs() {
	local name left=1
	while [ -n "$left" ]; do
		left=
		for name in $(dmsetup ls | awk '$1 ~ /^t--vg-/ { print $1 }'); do
			! dmsetup remove "$name" 2>/dev/null || left=1
		done
	done
}

# What a test that failed has left suspended: others would wait for it, as a pool's status does
# for its metadata.
resume_all() {
	local name

	while read -r name; do
		dm resume "$name"
	done < <(hand devices suspended)
}

# Everything is as before the test.
clean_up() {
	local status=0 devices

	hand message ssd0 reset_all
	resume_all
	for _ in 1 2 3 4; do
		mapfile -t devices < <(test_devices)
		if [ ${#devices[@]} -eq 0 ] || dm remove "${devices[@]}" 2>/dev/null; then
			devices=()
			break
		fi
		dm resume "${devices[@]}" 2>/dev/null || :
	done
	if [ ${#devices[@]} -gt 0 ]; then
		echo "devices are left: $(test_devices)"
		dm remove --force "${devices[@]}" || :
		status=1
	fi
	no_module_users || { echo "the module has $(module_users) users"; status=1; }
	hand message ssd0 erase_all
	return $status
}

module_users() { echo $(($(</sys/module/dm_fusion/refcnt))); }
no_module_users() { [ "$(module_users)" -eq 0 ]; }

# --- the SSDs ----------------------------------------------------------------

# Not by asking dmsetup for the devices of a target: that asks all devices for their
# status, and a pool's waits for a commit that may be held up.
ssds=(/dev/mapper/ssd[0-9]*)
ssds=("${ssds[@]##*/}")

# Told to who counts them, tests/all.
power_cut() {
	hand message ssd0 power_cut_all "${1:-1}"
	count_cuts 1
}
count_cuts() { echo "# power cuts: $1" >&3; }
power_on() { hand message ssd0 power_on_all; }

# hold reads|writes|flushes: the SSDs keep such I/Os back, until release.
hold() { hand message ssd0 hold_all "$1"; }
release() { hand message ssd0 release_all; }
held_by() {
	local line count=0
	while read -r line; do
		count=$((count + ${line##* }))
	done < <(hand status "$@")
	echo $count
}
held_count() { held_by "${ssds[@]}"; }
held() { [ "$(held_count)" -ge "$1" ]; }
held_or_ended() { held 1 || ended "$1"; }
# What is held is done, and what comes after it is held.
step() { hand message ssd0 step_all; }

# time off, or: microseconds of a read and of a write, and MB/s of both.
ssd_time() {
	local ssd
	for ssd in "${ssds[@]}"; do
		hand message "$ssd" time "$@"
	done
}

ssd_count() { devices_of ssdsim | grep -c '^ssd[0-9]*$'; }
ssd_sectors() { blockdev --getsz /dev/mapper/ssd0; }

# wait_for SECONDS COMMAND...: until it succeeds.  A slow kernel may take longer.
wait_for() {
	local deadline=$((SECONDS + $1 * slow))
	shift
	until "$@"; do
		[ $SECONDS -le $deadline ] || { echo "waited in vain for: $*"; return 1; }
		sleep 0.05
	done
}

# stays SECONDS COMMAND...: it never succeeds meanwhile.
stays() {
	! wait_for "$@" >/dev/null
}

# A child, by its id.
running() { kill -0 "$1" 2>/dev/null; }
ended() { ! running "$1"; }
# all_end PID...: without errors (wait says that of the last one only).
all_end() {
	local pid
	for pid; do
		wait "$pid" || return
	done
}

# --- pools by dmsetup, without labels ----------------------------------------

# These say what the next pool is: reset by pool_defaults.
pool_defaults() {
	pool=t-pool
	members=8 spares=1 block=128
	member_sectors=$((64 << 11))		# of each
	# of the data on each, in sectors: before it is the journal, if it has one
	data_offset=${FUSION_JOURNAL-0}
	meta_sectors=$((8 << 11))
	features="unlabelled"
	[ "$data_offset" -eq 0 ] || features+=" journal 0 $data_offset"
	missing=				# members, by number
	background=paused
	monitor=off
	# tests of a slow kernel keep I/O back for longer
	hang_ms=''
	[ $slow -eq 1 ] || hang_ms=$((60000 * slow))
}
pool_defaults
# The next pool has none: what is on its members is looked at, or what a flush does with its metadata.
no_journal() { data_offset=0 features=unlabelled; }

# The metadata is on the last SSD's end, where no member reaches.
meta_target() { echo "linear /dev/mapper/ssd7 $(($(ssd_sectors) - meta_sectors))"; }

# Members are linear devices on the SSDs, so that pools may be small.
make_members() {
	local i table=

	for ((i = 0; i < members; i++)); do
		# shellcheck disable=SC2017
		table+="t-m$i,,,rw,0 $((data_offset + member_sectors)) linear /dev/mapper/ssd$((i % 8)) $((i / 8 * (data_offset + member_sectors)));"
	done
	table+="t-meta,,,rw,0 $meta_sectors $(meta_target)"
	dm create --concise "$table"
	blkdiscard /dev/mapper/t-meta
}

pool_table() {
	local i table="0 ${pool_sectors:-8} fusion-pool /dev/mapper/t-meta $block mols $spares $members"

	for ((i = 0; i < members; i++)); do
		if [[ " $missing " == *" $i "* ]]; then table+=" - 0"; else table+=" /dev/mapper/t-m$i $data_offset"; fi
	done
	# shellcheck disable=SC2086
	set -- $features
	[ $# -eq 0 ] || table+=" $# $*"
	echo "$table"
}

# What the background does by itself would change what is counted: only tests of
# that have it, with background=auto.  So would members that are taken for unresponsive, as
# they are when a test holds what they are sent: monitor=on.
start_pool() {
	# where errors do not end it, in bats' run, this one still says how it went
	dm create "$pool" --table "$(pool_table)" || return
	[ "$background" = auto ] || message set paused 1
	[ "$monitor" = on ] || message set monitor 0
	[ -z "$hang_ms" ] || message set hang_ms "$hang_ms"
}
stop_pool() {
	local name
	for name in $(devices_of fusion); do
		dm remove --retry "$name"
	done
	dm remove --retry "$pool"
}

make_pool() {
	make_members
	start_pool
}

# meta_table TARGET...: of the metadata device, from now on.
meta_table() {
	dm reload t-meta --table "0 $meta_sectors $*"
	dm resume t-meta
}
# What writes metadata waits until it is resumed.  udev has been through with it before: what udev
# waits for, who settles does.
suspend_meta() {
	udevadm settle
	dm suspend --noflush --nolockfs t-meta
}
# tasks_in FUNCTION COUNT: so many.  Without asking dmsetup: the commit is held up.
tasks_in() { [ "$(cat /proc/[0-9]*/stack 2>/dev/null | grep -c " $1+")" -ge "$2" ]; }

# stop_waits_in FUNCTION: the stop of the pool, which has one volume, t-v0, waits there for what the SSDs
# hold, and ends when they have done it.
stop_waits_in() {
	local stop

	dm remove --retry t-v0
	dm remove "$pool" 3>&- &
	stop=$!
	wait_for 20 tasks_in "$1" 1
	running $stop
	release
	wait $stop
}

message() { hand message "$pool" "$@"; }

# volume ID MIB [DATA [PARITY]]: a new volume and its device, t-vID.
volume() {
	message create_volume "$1" "v$1" $(($2 << 11)) "${3:-3}" "${4:-1}"
	volume_device "$1" $(($2 << 11))
}
volume_device() { dm create "t-v$1" --table "0 $2 fusion /dev/mapper/$pool $1"; }

# field N [FIELDS OF DMSETUP STATUS]: of the pool's status, counted from 1
# after the target's name.
status() { hand status "$pool"; }
field() {
	local all
	read -r -a all <<<"$(status)"
	echo "${all[$1 - 1]}"
}
mode() { field 1; }
out_of_space() { [ "$(mode)" = out_of_space ]; }
in_rw() { [ "$(mode)" = rw ]; }
in_ro() { [ "$(mode)" = ro ]; }
# total, free, replicated, raid, dead, spare
space() {
	local names=(total free replicated raid dead spare) i
	for i in 0 1 2 3 4 5; do
		[ "${names[i]}" != "$1" ] || field $((8 + i))
	done
}
counter() {
	local all
	all=$(status)
	all=${all#* "$1" }
	echo "${all%% *}"
}

# What the kernel calls member $1.
device() { hand name "t-m$1"; }

# states: of the members, a letter each; failing is F.
states() {
	status | awk '{ for (i = 1; i < NF; i++) if ($i ~ /:|^-$/ && $(i + 1) ~ /^(ok|failing|kept|failed|missing|returning)$/)
		printf "%s", $(i + 1) == "failing" ? "F" : substr($(i + 1), 1, 1) } END { print "" }'
}
states_are() { [ "$(states)" = "$1" ]; }

none_replicated() { [ "$(counter replica_area)" -eq 0 ]; }

# A flush of one volume commits everything.
# What was written is durable, and in the metadata.
flush() {
	hand flush /dev/mapper/t-v0 || return
	[ "$data_offset" -eq 0 ] || message commit
}

# Of volume $1.
sum() { dd if=/dev/mapper/t-v"$1" bs=1M iflag=direct status=none | md5sum; }

# Of all RAID stripes.
parity_fits() {
	message scrub
	[ "$(counter scrub_mismatches)" -eq 0 ]
}

# --- what is written ----------------------------------------------------------

# Pages of 4 KiB.
random() { head -c $(($1 << 12)) /dev/urandom; }
# random_to VOLUME PAGE PAGES [CHUNK]
random_to() { hand write "/dev/mapper/t-v$1" - "$2" "$3" "${4:-64k}"; }

# stalled KIND COMMAND...: while conversion waits for an I/O of that kind, which
# the SSDs keep back, the command is run; then it goes on.
stalled() {
	local kind=$1 pid
	shift
	# Its probing would wait, too, with the page cache locked.
	udevadm settle
	hold "$kind"
	message convert 3>&- &
	pid=$!
	wait_for 20 held 1
	"$@"
	release
	wait $pid
}
# letter LETTER BYTES [AT [COUNT]]: so many bytes, so many times.
letter() {
	local all=$BATS_TEST_TMPDIR/$1 new
	[ -e "$all" ] || {
		# whole, for those who write at the same time
		new=$(mktemp -p "$BATS_TEST_TMPDIR")
		head -c $((2 << 20)) /dev/zero | tr '\0' "$1" >"$new"
		mv "$new" "$all"
	}
	dd if="$all" of=/dev/mapper/t-v0 bs="$2" count="${4:-1}" oflag=direct,seek_bytes seek="${3:-0}" status=none
}
# A page of every block becomes a b, all at once.
every_block() {
	local i pids=
	for ((i = 0; i < 24; i++)); do
		letter b 4096 $((i << 16)) 3>&- &
		pids+=" $!"
	done
	# shellcheck disable=SC2086
	wait $pids
}

# --- module parameters and slabs ---------------------------------------------

parameter() { echo "$2" >"/sys/module/dm_fusion/parameters/$1"; }

# Objects in use of a slab cache of the module.  0 if the kernel has merged it
# with others of that size, as it does unless it was booted with slab_nomerge:
# then the count says nothing of us.
slab() {
	local n
	echo 1 >"/sys/kernel/slab/$1/shrink"
	read -r n _ <"/sys/kernel/slab/$1/objects"
	echo $(($(<"/sys/kernel/slab/$1/aliases") ? 0 : n))
}
slab_bytes() { echo $(($(slab "$1") * $(<"/sys/kernel/slab/$1/object_size"))); }
