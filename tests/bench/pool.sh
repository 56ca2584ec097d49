# shellcheck shell=bash
# Sourced in the virtual machine, by what has the devices (drives.sh, null.sh).

# create_pool METADATA SPARES MEMBER...: bench-pool, of blocks of 64 KiB; with a journal of
# $journal_sectors, if set, at the begin of each member.
create_pool() {
	local table="0 8 fusion-pool $1 128 mols $2 $(($# - 2))" offset=${journal_sectors:-0} features="1 unlabelled" m

	for m in "${@:3}"; do
		table+=" $m $offset"
	done
	[ "$offset" -eq 0 ] || features="4 unlabelled journal 0 $offset"
	dmsetup create bench-pool --table "$table $features"
}
