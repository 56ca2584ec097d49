#!/usr/bin/env bats
# Settings of the background work, with dmsetup and with fusion pool set.

# shellcheck source=tests/bats/lib.bash
source "$BATS_TEST_DIRNAME/lib.bash"

defaults="paused 0
age_s 300
idle_ms 5000
limit_percent 10
soft_percent 50
load_kib 39062
rate_kib 0
rebuild_kib 20480
low_water_percent 5
patch_percent 1
write_select 0
rmw_bias 0
hang_ms 60000
monitor 1
window_us 0
window_slots 10
straggler_enter 0
straggler_exit 0
hedge 1
window_min_us 1000
window_max_us 20000"
# The most that each may be.
most=(paused=1 age_s=604800 idle_ms=3600000 limit_percent=100 soft_percent=100
	load_kib=4294967295 rate_kib=4294967295 rebuild_kib=4294967295 low_water_percent=80 patch_percent=100
	write_select=2 rmw_bias=64 hang_ms=3600000
	monitor=1 window_us=1000000 window_slots=12 straggler_enter=65535 straggler_exit=65535
	hedge=1 window_min_us=1000000 window_max_us=1000000)

labelled_pool() {
	features=
	member_sectors=$((100 << 11))
	make_members
	fusion pool create t-pool --json /dev/mapper/t-m{0..7} >/dev/null
}
# json FILTER: of what the last command has answered.
json() { jq -r "$1" <<<"$output"; }
fusion_json() { run -0 --separate-stderr fusion --json "$@"; }

@test "the messages set and settings" {
	background=auto monitor=on hang_ms=
	make_pool
	[ "$(message settings)" = "$defaults" ]
	message set age_s 7
	[ "$(message settings)" = "${defaults/age_s 300/age_s 7}" ]
	log_mark
	run ! message set speed 1
	log_has ": there is no setting 'speed'"
	run ! message set age_s much
	log_has ": age_s must be a number, not 'much'"
	run ! message set age_s 604801
	log_has ": age_s must be 0 to 604800, not 604801"
	# more than the setting has bits
	run ! message set load_kib 4294967296
	log_has ": load_kib must be 0 to 4294967295, not 4294967296"
	run ! message settings all
	[ "$(message settings)" = "${defaults/age_s 300/age_s 7}" ]
	# they go with the pool
	stop_pool
	start_pool
	[ "$(message settings)" = "$defaults" ]
}

@test "a suspended pool answers no settings" {
	make_pool
	dm suspend t-pool
	run ! message settings
	log_has "the pool is suspended"
	dm resume t-pool
	message settings
}

@test "fusion pool set shows settings" {
	labelled_pool
	run -0 --separate-stderr fusion pool set t-pool
	[ "$(awk '{ print $1, $2 }' <<<"$output")" = "SETTING VALUE
$defaults" ]
	fusion_json pool set t-pool
	[ "$(json 'to_entries[] | "\(.key) \(.value)"' | sort)" = "$(sort <<<"$defaults")" ]
	[ "$(json 'map(type) | unique[]')" = number ]
	run -1 --separate-stderr fusion pool set t-none
	[[ $stderr == *"pool t-none is not running"* ]]
}

@test "fusion pool set changes settings, each up to its most" {
	labelled_pool
	run -0 --separate-stderr fusion pool set t-pool age_s=60 idle_ms=0
	[ "$output" = "pool t-pool: age_s=60 idle_ms=0 is set" ]
	[[ $(message settings) == *"age_s 60"*"idle_ms 0"* ]]
	# in order: the last counts
	fusion_json pool set t-pool age_s=1 age_s=2
	[ "$(json '"\(.age_s) \(.idle_ms) \(.load_kib) \(length)"')" = "2 0 39062 ${#most[@]}" ]
	fusion_json pool set t-pool "${most[@]}"
	[ "$(json 'to_entries[] | "\(.key)=\(.value)"' | sort)" = "$(printf '%s\n' "${most[@]}" | sort)" ]
	# the pool's uuid will do, as everywhere
	fusion pool set "$(fusion pool status t-pool --json | jq -r .uuid)" paused=0
	[[ $(message settings) == *"paused 0"* ]]
}

@test "fusion pool set refuses names that it does not know" {
	labelled_pool
	# nothing is set then, whatever stands before
	run -2 --separate-stderr fusion pool set t-pool age_s=60 speed=1
	[[ $stderr == *"there is no setting 'speed'"*"paused, age_s, idle_ms, limit_percent, soft_percent, load_kib, rate_kib, rebuild_kib, low_water_percent, patch_percent, write_select, rmw_bias, hang_ms"* ]]
	run -2 --separate-stderr fusion pool set t-pool age_s=1m
	[[ $stderr == *"'1m' is no value for age_s: give a plain number"* ]]
	run -2 --separate-stderr fusion pool set t-pool age_s
	[[ $stderr == *"NAME=VALUE"* ]]
	[ "$(message settings)" = "$defaults" ]
}

@test "fusion pool set says what the kernel refuses" {
	labelled_pool
	local setting name max
	for setting in "${most[@]}"; do
		name=${setting%=*} max=${setting#*=}
		run -1 --separate-stderr fusion pool set t-pool "$name=$((max + 1))"
		[ "$stderr" = "fusion: pool t-pool did not take $name=$((max + 1)): $name must be 0 to $max, not $((max + 1))" ]
	done
	[ "$(message settings)" = "$defaults" ]
	# what stands before is set, what stands behind is not
	run -1 --separate-stderr fusion pool set t-pool --json age_s=60 paused=2 idle_ms=1
	[ -z "$output" ]
	[[ $(jq -r .error <<<"$stderr") == "pool t-pool did not take paused=2, but age_s=60 is set: paused must be 0 to 1, not 2" ]]
	[ "$(message settings)" = "${defaults/age_s 300/age_s 60}" ]
}

@test "fusion pool status shows replicas, their limit and the reserve" {
	labelled_pool
	fusion volume create t-pool a --size 8M --width 4 --json >/dev/null
	fusion pool set t-pool paused=1
	head -c 4M /dev/urandom | dd of=/dev/mapper/t-pool-a bs=64k iflag=fullblock oflag=direct status=none
	sync /dev/mapper/t-pool-a
	fusion_json pool status t-pool
	local name
	for name in reserve replica_area replica_limit; do
		[ "$(json ".counters.$name")" -eq "$(counter $name)" ]
		[ "$(json ".space.${name}_bytes")" -eq $(($(counter $name) << 16)) ]
		[ "$(json ".space.${name}_bytes")" -gt 0 ]
	done
	[ "$(json '.space | .free_bytes + .replicated_bytes + .raid_bytes + .dead_bytes + .spare_bytes == .total_bytes')" = true ]
	limit=$(json .space.replica_limit_bytes)
	run -0 --separate-stderr fusion pool status t-pool
	[[ $output == *"replicas:   "*" of "*" that may be"*"reserve:    "*" for the background"* ]]
	[[ $output != *replica_limit* ]]
	[[ $output == *"compacted "*"convert_gave_up "*"converted "* ]]
	# as of the next commit
	fusion pool set t-pool limit_percent=5
	head -c 64k /dev/urandom | dd of=/dev/mapper/t-pool-a bs=64k oflag=direct seek=100 status=none
	sync /dev/mapper/t-pool-a
	fusion_json pool status t-pool
	[ "$(json .space.replica_limit_bytes)" -lt "$limit" ]
}
