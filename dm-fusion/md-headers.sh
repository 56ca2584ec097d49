#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Find drivers/md of exactly the kernel that is built for, and print its absolute path.
#
#	md-headers.sh KDIR DIR
#
# KDIR is the kernel's build directory.  dm-persistent-data's headers are there, in what they were
# built with, and in no headers package: a kernel built by hand has them in its source tree; one
# of Debian's in the package linux-source-<series> of the same version, from which they are put
# into DIR.  Those of another version would do to compile, and nothing would notice: they are
# refused.

set -eu
kdir=$1 out=$2
die() { echo "md-headers.sh: $*" >&2; exit 1; }

for tree in "$kdir/source" "$kdir"; do
	if [ -f "$tree/drivers/md/persistent-data/dm-btree.h" ]; then
		cd "$tree/drivers/md" && pwd -P
		exit
	fi
done

version=$(sed -n 's/^#define LINUX_PACKAGE_ID " Debian \(.*\)"$/\1/p' "$kdir/include/generated/package.h" 2>/dev/null || :)
[ -n "$version" ] ||
	die "$kdir is no source tree, and of no Debian kernel: give FUSION_MD_HEADERS, drivers/md of that kernel's source"
# 6.1.192-3, 6.12.117-1~deb12u1
series=$(echo "$version" | cut -d. -f1,2)
package=linux-source-$series
have=$(dpkg-query -W -f '${Version}' "$package" 2>/dev/null || :)
[ "$have" = "$version" ] ||
	die "the kernel is of version $version, and $package is ${have:-not installed}: install that of version $version"
archive=/usr/src/linux-source-$series.tar.xz
[ -f "$archive" ] || die "$archive, of the package $package, is missing: install that again"
rm -rf "$out"
mkdir -p "$out"
tar -xJf "$archive" -C "$out" --strip-components=3 --wildcards "linux-source-$series/drivers/md/*.h"
[ -f "$out/persistent-data/dm-btree.h" ] || die "$archive has no drivers/md/persistent-data"
cd "$out" && pwd -P
