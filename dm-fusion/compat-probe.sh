#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Ask the compiler what the kernel we build for has.
#
#	compat-probe.sh KDIR MDHEADERS OUT.h
#
# KDIR is the kernel's build directory, MDHEADERS its drivers/md.  Each probe
# below is a small source file; all are compiled in one run of make, and each
# that compiles gives a line "#define FUSION_HAVE_<NAME> 1" in OUT.h.  Functions
# change inside a stable series, so that version numbers do not tell.
#
# To add a probe: probe NAME [#include lines], with the body of a function that
# compiles exactly where the thing is there on standard input.

set -eu
kdir=$1 md=$2 out=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

names=
probe() {
	name=$1
	shift
	names="$names $name"
	{
		echo "#include <linux/module.h>"
		for header; do
			echo "#include $header"
		done
		echo "void fusion_probe(void);"
		echo "void fusion_probe(void)"
		echo "{"
		cat
		echo "}"
	} >"$dir/$name.c"
	echo "obj-m += $name.o" >>"$dir/Kbuild"
}

# Compiles everywhere: if it does not, no answer below means anything.
probe SELF_TEST "<linux/device-mapper.h>" <<-'END'
	struct dm_target *ti = NULL;
	(void)ti;
END

# The queue must not let pages change under write.
probe TI_NEEDS_STABLE_WRITES "<linux/device-mapper.h>" <<-'END'
	(void)((struct dm_target *)0)->needs_stable_writes;
END
probe BLK_FEAT_STABLE_WRITES "<linux/blkdev.h>" <<-'END'
	struct queue_limits limits = { .features = BLK_FEAT_STABLE_WRITES };
	(void)limits;
END

# Discard limits.  Where there is a user's limit, the block layer makes
# max_discard_sectors from it and max_hw_discard_sectors; elsewhere both are
# there and drivers set both.
probe MAX_HW_DISCARD_SECTORS "<linux/blkdev.h>" <<-'END'
	(void)((struct queue_limits *)0)->max_hw_discard_sectors;
END
probe MAX_USER_DISCARD_SECTORS "<linux/blkdev.h>" <<-'END'
	(void)((struct queue_limits *)0)->max_user_discard_sectors;
END
probe TI_MAX_DISCARD_GRANULARITY "<linux/device-mapper.h>" <<-'END'
	(void)((struct dm_target *)0)->max_discard_granularity;
END

# dm_io() takes an I/O priority.
probe DM_IO_IOPRIO "<linux/dm-io.h>" <<-'END'
	int (*io)(struct dm_io_request *, unsigned int, struct dm_io_region *,
		  unsigned long *, unsigned short) = dm_io;
	(void)io;
END

# Block devices are opened as files.
probe BDEV_FILE "<linux/blkdev.h>" <<-'END'
	(void)bdev_file_open_by_path;
END

# blk_mode_t instead of fmode_t.
probe BLK_MODE_T "<linux/blkdev.h>" <<-'END'
	blk_mode_t mode = BLK_OPEN_READ;
	(void)mode;
END

# dm_bufio_client_create() has flags.
probe DM_BUFIO_CLIENT_FLAGS "<linux/dm-bufio.h>" <<-'END'
	unsigned int flags = DM_BUFIO_CLIENT_NO_SLEEP;
	(void)flags;
END

# -Wno-address and the like: a probe tests for names and types, not for taste.
printf 'ccflags-y := -I%s -Werror=incompatible-pointer-types -Wno-error -Wno-missing-prototypes\n' "$md" >>"$dir/Kbuild"
# The objects only (modpost would stop at the first missing), keeping on.
objects=
for name in $names; do
	objects="$objects $name.o"
done
# shellcheck disable=SC2086
make -s -k -C "$kdir" M="$dir" $objects >"$dir/log" 2>&1 || :

if [ ! -f "$dir/SELF_TEST.o" ]; then
	cat "$dir/log" >&2
	echo "$0: nothing compiles against $kdir" >&2
	exit 1
fi
{
	echo "/* Made by compat-probe.sh for the kernel in $kdir */"
	for name in $names; do
		[ "$name" != SELF_TEST ] || continue
		if [ -f "$dir/$name.o" ]; then
			echo "#define FUSION_HAVE_$name 1"
		else
			echo "/* no $name */"
		fi
	done
} >"$out.tmp"
mv "$out.tmp" "$out"
