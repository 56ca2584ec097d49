# shellcheck shell=bash
# The loads that FusionRAID measured with (its table 4), as fio makes them.
# shellcheck disable=SC2034

# I/Os a second, percent of them writes, KB of one in the mean
declare -A workload=(
	[YCSB-Load]="409 99 507"
	[YCSB-A]="1353 64 500"
	[YCSB-B]="1218 62 500"
	[TPC-C]="5764 75 30"
	[TensorFlow]="65 69 80"
	[VirtualDesktop]="811 42 24"
	[Exchange]="846 70 13"
	[Proxy]="307 32 14"
)
workloads=(YCSB-Load YCSB-A YCSB-B TPC-C TensorFlow VirtualDesktop Exchange Proxy)

# sizes KB: as fio's bssplit: half of them 0.4 of that, a fifth 2.8 times as large.
sizes() {
	awk -v kb="$1" 'function kib(of) { of = int(of * kb * 1000 / 4096 + 0.5) * 4; return (of < 4 ? 4 : of) "k" }
		BEGIN { printf "%s/50:%s/30:%s/20", kib(0.4), kib(0.8), kib(2.8) }'
}

# workload_args NAME [SLOWER]: what makes it of fio, at random, so many times slower, as they come:
# none waits for another (of 256), and some come close together.  Threads of their own submit them:
# otherwise fio would wait for all that are under way before it pauses.  Sets args.
workload_args() {
	local iops writes kb slower=${2:-1}

	read -r iops writes kb <<<"${workload[$1]}"
	args=(--direct=1 --ioengine=libaio --iodepth=256 --io_submit_mode=offload --thread --rw=randrw --rwmixwrite="$writes"
		--bssplit="$(sizes "$kb")" --blockalign=4k
		--rate_iops="$((iops * (100 - writes) / 100 / slower)),$((iops * writes / 100 / slower))"
		--rate_process=poisson --norandommap --randrepeat=1 --scramble_buffers=0 --time_based)
}
