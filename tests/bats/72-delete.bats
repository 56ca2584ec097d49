#!/usr/bin/env bats
# bats file_tags=smp
# A volume is deleted in steps, each a commit of its own: others go on between
# them, and a start goes on where a power cut ended it.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"

# With the smallest blocks 8 MiB are 2048 tops: more than four steps.
test_setup() {
	block=8 member_sectors=$((40 << 11))
	mib=12
}


# Volume 0: tops, and bases in the last third.
fill() {
	local mapped tops
	volume 0 "$mib"
	random_to 0 0 2048 8k
	random_to 0 2048 1024 1M
	flush
	read -r mapped tops < <(message volumes | awk '$1 == 0 { print $6, $7 }')
	[ "$mapped" -eq 3072 ]
	[ "$tops" -ge 2048 ]
}

# delete_held FLUSHES: the deletion has begun, so many were let through, and the next one is held; two
# make a commit.  The message waits; sets $deleter.
delete_held() {
	local i

	hold flushes
	message delete_volume 0 3>&- &
	deleter=$!
	for ((i = 0; i < $1; i++)); do
		wait_for 20 held 1
		step
	done
	wait_for 20 held 1
}
state() { message volumes | awk '$1 == 0 { print $8 }'; }
gone() { [ -z "$(state)" ]; }

@test "power cuts while a volume is deleted" {
	make_pool
	empty=$(space free)
	volume 1 4
	random_to 1 0 512 1M
	random_to 1 512 64 8k
	sync /dev/mapper/t-v1
	sum=$(dd if=/dev/mapper/t-v1 bs=1M count=3 iflag=direct status=none | md5sum)
	left=()
	# Flushes that are let through: two make a commit.
	for flushes in 0 2 5 8; do
		fill
		sum0=$(sum 0)
		dm remove t-v0
		udevadm settle
		delete_held $flushes
		power_cut $((flushes + 1))
		release
		run ! wait $deleter
		stop_pool
		power_on
		start_pool
		volume_device 1 $((4 << 11))
		if [ $flushes -eq 0 ]; then
			# Not even the mark was durable.
			[ "$(state)" = ok ]
			volume_device 0 $((mib << 11))
			[ "$(sum 0)" = "$sum0" ]
			dm remove t-v0
			message delete_volume 0
		else
			# It goes on by itself, and others with it.
			random_to 1 768 16 8k
			sync /dev/mapper/t-v1
			wait_for 60 gone
			left+=("$(counter commits)")
		fi
		[ "$(dd if=/dev/mapper/t-v1 bs=1M count=3 iflag=direct status=none | md5sum)" = "$sum" ]
		parity_fits
	done
	# The later the cut, the less was left to do.
	echo "commits after the start: ${left[*]}"
	[ "${left[0]}" -gt "${left[2]}" ]
	dm remove t-v1
	message delete_volume 1
	[ "$(space free) $(space dead)" = "$empty 0" ]
}

sets_tried() { [ $(($(counter converted) + $(counter convert_gave_up))) -ge 3 ]; }
# step_until COMMAND...: flushes are let through, one by one, until it succeeds; $steps of them.
step_until() {
	steps=0
	while ! "$@"; do
		wait_for 20 held_or "$@"
		step
		steps=$((steps + 1))
	done
}
held_or() { held 1 || "$@"; }

# What the volume has in a set is live by the metadata until it is deleted there, and parity must cover
# that, or say that the stripe is not sealed; of the sets nothing is known but what a start finds.
@test "sets are not converted after a start without what is of a volume that is still deleted" {
	[ $slow -eq 1 ] || skip "all is deleted before the debug kernel has converted anything"
	# so that nothing has to be converted for want of room
	member_sectors=$((100 << 11))
	make_pool
	volume 0 17
	volume 1 4
	# those that its deletion comes to last
	for ((i = 4128; i < 4160; i++)); do
		random_to 0 $i 1
		random_to 1 $((i - 4128)) 1
	done
	random_to 0 0 4128 8k
	flush
	[ "$(counter converted)" -eq 0 ]
	sum=$(sum 1)
	dm remove t-v0
	dm remove t-v1
	udevadm settle
	delete_held 2
	power_cut 1
	release
	run ! wait $deleter
	stop_pool
	power_on
	hold flushes
	dm create "$pool" --table "$(pool_table)" 3>&- &
	starter=$!
	step_until ended $starter
	wait $starter
	message set soft_percent 0
	step_until sets_tried
	# it is said in the trees what has become of them
	{
		volume_device 1 $((4 << 11))
		sync /dev/mapper/t-v1
		state >"$BATS_TEST_TMPDIR/state"
	} 3>&- &
	syncer=$!
	step_until ended $syncer
	wait $syncer
	[ "$(<"$BATS_TEST_TMPDIR/state")" = deleting ]
	release
	wait_for 60 gone
	[ "$(mode)" = rw ]
	wait_for 60 none_replicated
	[ "$(sum 1)" = "$sum" ]
	parity_fits
}

@test "others write and commit while a volume is deleted" {
	make_pool
	volume 1 4
	random_to 1 0 512 1M
	sync /dev/mapper/t-v1
	fill
	dm remove t-v0
	udevadm settle
	# The mark; then it is in the middle of a step, with the commit mutex.
	delete_held 2
	# New replicas, in place, stripes, and what was there: no more than an epoch takes of one processor
	# of two (the metadata is small), as none is committed.
	random_to 1 512 16 4k
	random_to 1 512 16 4k
	random_to 1 768 24 96k
	sum=$(sum 1)
	# A flush takes its turn between two steps.
	sync /dev/mapper/t-v1 3>&- &
	syncer=$!
	step_until ended $syncer
	wait $syncer
	echo "$steps flushes until it was committed"
	step_until ended $deleter
	release
	wait $deleter
	echo "and then $steps"
	[ $steps -ge 4 ]
	gone
	[ "$(sum 1)" = "$sum" ]
	stop_pool
	start_pool
	volume_device 1 $((4 << 11))
	[ "$(sum 1)" = "$sum" ]
}
