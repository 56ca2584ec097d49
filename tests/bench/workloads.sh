# shellcheck shell=bash
# The loads that FusionRAID measured with (its table 4), as tests/load makes them.
# shellcheck disable=SC2034

# I/Os a second, percent of them writes, KB of one in the mean
declare -A workload=(
	[YCSB-Load]=409:99:507
	[YCSB-A]=1353:64:500
	[YCSB-B]=1218:62:500
	[TPC-C]=5764:75:30
	[TensorFlow]=65:69:80
	[VirtualDesktop]=811:42:24
	[Exchange]=846:70:13
	[Proxy]=307:32:14
)
workloads=(YCSB-Load YCSB-A YCSB-B TPC-C TensorFlow VirtualDesktop Exchange Proxy)

# In the virtual machine, after drives.sh, of a script in $here: load is there, and in memory.
use_load() {
	# shellcheck disable=SC2154
	PATH=$here/../../build/load:$PATH in_memory load
}
