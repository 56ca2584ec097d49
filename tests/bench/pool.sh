# shellcheck shell=bash
# Sourced in the virtual machine, by what has the devices (drives.sh, null.sh).

# create_pool METADATA SPARES MEMBER...: bench-pool, of blocks of 64 KiB.
create_pool() {
	local table="0 8 fusion-pool $1 128 mols $2 $(($# - 2))" m

	for m in "${@:3}"; do
		table+=" $m 0"
	done
	dmsetup create bench-pool --table "$table 1 unlabelled"
}
