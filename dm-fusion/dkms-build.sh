#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Build the module here, for DKMS; or take away what a build has left.
#
#	dkms-build.sh KDIR | --clean

set -eu
kdir=$1
cd "$(dirname "$0")"
if [ "$kdir" = --clean ]; then
	rm -rf md compat-generated.h ./*.o ./*.ko ./*.mod ./*.mod.c ./.*.cmd modules.order Module.symvers
	exit
fi
md=${FUSION_MD_HEADERS:-$(./md-headers.sh "$kdir" md)}
./compat-probe.sh "$kdir" "$md" compat-generated.h
exec make -j"$(nproc)" -C "$kdir" M="$PWD" FUSION_MD_HEADERS="$md" modules
