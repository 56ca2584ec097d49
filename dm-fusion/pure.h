/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the pure files (layout, pairing, codec) need from their world, and
 * nothing else.  These files are compiled three times: into the module, into
 * the userspace unit tests and into the tools, so that one definition of the
 * layout and of the on-disk format serves them all.
 */
#ifndef DM_FUSION_PURE_H
#define DM_FUSION_PURE_H

#ifdef __KERNEL__

#include <linux/bitops.h>
#include <linux/build_bug.h>
#include <linux/crc32c.h>
#include <linux/errno.h>
#include <linux/string.h>
#include <linux/types.h>
#include <asm/byteorder.h>

#define fusion_popcount64(x)	hweight64(x)
#define fusion_ctz64(x)		__ffs64(x)

static inline u32 fusion_crc32c_append(u32 crc, const void *data, size_t bytes)
{
	return ~crc32c(~crc, data, bytes);
}

#else /* userspace */

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <linux/types.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define cpu_to_le16(x)	((__le16)htole16(x))
#define cpu_to_le32(x)	((__le32)htole32(x))
#define cpu_to_le64(x)	((__le64)htole64(x))
#define le16_to_cpu(x)	le16toh((u16)(x))
#define le32_to_cpu(x)	le32toh((u32)(x))
#define le64_to_cpu(x)	le64toh((u64)(x))

#define fusion_popcount64(x)	((unsigned int)__builtin_popcountll(x))
#define fusion_ctz64(x)		((unsigned int)__builtin_ctzll(x))

/*
 * The standard CRC-32C (Castagnoli) of what @crc is the CRC-32C of (0: nothing)
 * followed by @bytes bytes at @data.  Whoever links these files supplies it.
 */
u32 fusion_crc32c_append(u32 crc, const void *data, size_t bytes);

#endif /* __KERNEL__ */

#endif /* DM_FUSION_PURE_H */
