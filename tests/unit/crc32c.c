// SPDX-License-Identifier: GPL-2.0-only
/*
 * CRC-32C for the tests: a table of bytes, reflected polynomial 0x82f63b78.
 */
#include "pure.h"

u32 fusion_crc32c_append(u32 crc, const void *data, size_t bytes)
{
	static u32 table[256];
	const u8 *p = data;

	if (!table[1]) {
		for (u32 i = 0; i < 256; i++) {
			u32 c = i;

			for (int bit = 0; bit < 8; bit++)
				c = c >> 1 ^ (c & 1 ? 0x82f63b78 : 0);
			table[i] = c;
		}
	}

	crc = ~crc;
	while (bytes--)
		crc = crc >> 8 ^ table[(crc ^ *p++) & 0xff];
	return ~crc;
}
