#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# dracut: what starts pools, where the root file system is on a volume. By the same rules and units
# as after it.

# Called by dracut.
check() {
	local type

	require_binaries @SBINDIR@/fusion || return 1
	# of this machine only what it uses
	if [[ $hostonly ]]; then
		# shellcheck disable=SC2154
		for type in "${host_fs_types[@]}"; do
			[[ $type != fusion_member ]] || return 0
		done
		return 255
	fi
	return 0
}

depends() {
	echo dm systemd
}

installkernel() {
	# and the mirror that the metadata is on
	hostonly='' instmods dm-fusion dm-raid raid1
}

install() {
	inst_multiple @SBINDIR@/fusion
	inst_rules 64-fusion.rules
	# shellcheck disable=SC2154
	inst_multiple "$systemdsystemunitdir"/fusion-start@.service "$systemdsystemunitdir"/fusion-last-resort@.service \
		"$systemdsystemunitdir"/fusion-last-resort@.timer
}
