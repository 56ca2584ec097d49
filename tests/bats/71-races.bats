#!/usr/bin/env bats
# What may come between: each race that the durability contract has to stand, with the SSDs
# keeping back what it takes.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"
# shellcheck source=tests/bats/patches.bash
source "$BATS_TEST_DIRNAME/patches.bash"

test_setup() { :; }
test_teardown() {
	[ ! -e /dev/mapper/t-meta ] || dm resume t-meta
}

# fua LETTER PAGE: with FUA alone, no flush after it.
fua() {
	fio --name=f --filename=/dev/mapper/t-v0 --rw=write --bs=4k --size=4k --offset=$(($2 << 12)) --direct=1 \
		--ioengine=libaio --sync=dsync --buffer_pattern="\"$1\"" --output=/dev/null
}
# page PAGE: the letter that it is all of; 0: zeros; else several.
page() {
	dd if=/dev/mapper/t-v0 bs=4k skip="$1" count=1 iflag=direct status=none | tr -s '\0-\377' | tr '\0' 0
}
fuas() { dmsetup status "${ssds[@]}" | awk '{ n += $9 } END { print n }'; }

# Of those that have members only: the last has the metadata, too.
flushes() { dmsetup status "${ssds[@]:0:7}" | awk '{ n += $8 } END { print n }'; }

# lose: the power fails, and what was not flushed is lost.
lose() {
	power_cut lose
	release
}
again() {
	stop_pool
	power_on
	start_pool
	volume_device 0 $((4 << 11))
}

@test "a FUA write in place needs no flush if its top is committed, and is durable" {
	make_pool
	volume 0 4
	letter a 65536
	flush
	hold flushes
	before=$(fuas)
	fua b 3
	[ "$(fuas)" -eq $((before + 2)) ]
	lose
	again
	[ "$(page 3) $(page 4)" = "b a" ]
}

@test "a FUA write to a new place needs a commit, but no flush of its members, and is durable" {
	make_pool
	volume 0 4
	letter a 65536
	flush
	before=$(fuas) flushed=$(flushes)
	fua b 19
	[ "$(fuas)" -ge $((before + 2)) ]
	[ "$(flushes)" -eq "$flushed" ]
	# others are flushed as ever
	letter c 65536 131072
	fua d 49
	[ "$(flushes)" -gt "$flushed" ]
	lose
	again
	[ "$(page 19) $(page 32) $(page 49)" = "b c d" ]
}

# Nothing on the members' media says where it is.
@test "a FUA write in place to a top that no commit has seen waits for one" {
	make_pool
	volume 0 4
	flush
	hold flushes
	letter a 65536
	fua b 3 3>&- &
	pid=$!
	wait_for 20 held 1
	stays 2 ended $pid
	lose
	wait $pid && false
	again
	[ "$(page 3)" = 0 ]
	# and when it is answered, all is there
	hold flushes
	letter c 65536 262144
	fua d 67 3>&- &
	pid=$!
	while wait_for 20 held_or_ended $pid && running $pid; do
		step
	done
	lose
	wait $pid
	again
	[ "$(page 67)" = d ]
}

# One top is in the epoch that is being committed, the other comes too late for it.
@test "the map is changed at each step of a commit" {
	make_pool
	volume 0 4
	at=0 both=no
	for ((n = 0; n < 30; n++)); do
		hold flushes
		letter a 65536 $((at << 12))
		sync /dev/mapper/t-v0 3>&- &
		first=$!
		wait_for 20 held 1
		letter b 65536 $(((at + 16) << 12))
		letter e 4096 $((at << 12))
		fua c $((at + 19)) 3>&- &
		second=$!
		# udev may have the device open, and flush it
		for ((i = 0; i < n; i++)); do
			wait_for 20 held_or_ended $second
			running $second || break
			step
		done
		lose
		synced=yes written=yes
		wait $first || synced=no
		wait $second || written=no
		again
		echo "step $n: synced $synced, written $written: $(page $at) $(page $((at + 1))) $(page $((at + 16))) $(page $((at + 19)))"
		[[ $(page $at) =~ ^[ae0]$ ]]
		[ $synced = no ] || [ "$(page $((at + 1)))" = a ]
		[[ $(page $((at + 16))) =~ ^[b0]$ ]]
		[[ $(page $((at + 19))) =~ ^[bc0]$ ]]
		[ $written = no ] || [ "$(page $((at + 19)))" = c ]
		[ $synced = no ] || [ $written = yes ] || both=yes
		[ $written = no ] || break
		message resync
		at=$((at + 32))
	done
	# in one round at least the first commit had ended and the second had not
	[ $both = yes ]
	[ "$written" = yes ]
}

@test "writes and reads of a block wait while its replicas are made equal" {
	members=7
	make_pool
	volume 0 4
	letter a 65536
	flush
	letter b 65536
	power_cut 77
	stop_pool
	power_on
	# the metadata is on the last one
	for i in {0..6}; do
		hand message "ssd$i" hold writes
	done
	start_pool
	volume_device 0 $((4 << 11))
	wait_for 20 held 1
	n=$(held_count)
	letter c 4096 3>&- &
	writer=$!
	page 0 >"$BATS_TEST_TMPDIR/read" 3>&- &
	reader=$!
	stays 2 held $((n + 1))
	running $writer
	running $reader
	release
	wait $writer
	wait $reader
	[[ $(<"$BATS_TEST_TMPDIR/read") =~ ^[abc]$ ]]
	message resync
	[ "$(page 0)" = c ]
	# either replica
	for i in {0..6}; do
		failing reads "$i"
		[ "$(page 0)" = c ]
	done
	failing reads
}
