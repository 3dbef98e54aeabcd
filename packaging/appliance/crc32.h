/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * CRC-32C by the processor's instruction, for User Mode Linux on x86-64.
 *
 * Linux uses the processor's checksum instructions on all architectures but this one, which computes
 * checksums byte by byte: half of the time of reading a file on btrfs. lib/crc/crc32-main.c includes
 * this file in place of an architecture's own functions (CONFIG_CRC32_ARCH), and requires these names.
 */

/* Not implemented here. */
#define crc32_le_arch crc32_le_base
#define crc32_be_arch crc32_be_base

static bool has_crc32c __ro_after_init;

static inline u32 crc32c_arch(u32 crc, const u8 *p, size_t len)
{
	u64 sum = crc;

	if (!has_crc32c)
		return crc32c_base(crc, p, len);
	for (; len >= sizeof(u64); len -= sizeof(u64), p += sizeof(u64))
		asm("crc32q %1, %0" : "+r" (sum) : "r" (*(const u64 *)p));
	for (; len; len--, p++)
		asm("crc32b %1, %k0" : "+r" (sum) : "r" (*p));
	return (u32)sum;
}

/* Detects SSE4.2 by cpuid: leaf 1, bit 20 of ecx. */
#define crc32_mod_init_arch crc32_mod_init_arch
static void crc32_mod_init_arch(void)
{
	u32 eax = 1, ebx, ecx = 0, edx;

	asm volatile("cpuid" : "+a" (eax), "=b" (ebx), "+c" (ecx), "=d" (edx));
	has_crc32c = ecx & (1u << 20);
}

static inline u32 crc32_optimizations_arch(void)
{
	return has_crc32c ? CRC32C_OPTIMIZATION : 0;
}
