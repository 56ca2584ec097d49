/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What pure files that count without locks need besides pure.h: the kernel's atomics, or in
 * userspace the same by the compiler's, fully ordered.
 */
#ifndef DM_FUSION_PURE_ATOMIC_H
#define DM_FUSION_PURE_ATOMIC_H

#include "pure.h"

#ifdef __KERNEL__

#include <linux/atomic.h>
#include <linux/compiler.h>
#include <linux/math64.h>

/* The upper half of the product. */
#define fusion_mul_high(a, b)	mul_u64_u64_shr(a, b, 64)

#else /* userspace */

typedef int32_t s32;
typedef int64_t s64;
typedef struct { s64 counter; } atomic64_t;

#define likely(x)		__builtin_expect(!!(x), 1)
#define unlikely(x)		__builtin_expect(!!(x), 0)
#define READ_ONCE(x)		__atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, value)	__atomic_store_n(&(x), value, __ATOMIC_RELAXED)

static inline u64 fusion_mul_high(u64 a, u64 b)
{
	return (__uint128_t)a * b >> 64;
}

static inline s64 atomic64_read(const atomic64_t *v)
{
	return __atomic_load_n(&v->counter, __ATOMIC_RELAXED);
}

static inline void atomic64_add(s64 i, atomic64_t *v)
{
	__atomic_fetch_add(&v->counter, i, __ATOMIC_SEQ_CST);
}

static inline s64 atomic64_dec_return(atomic64_t *v)
{
	return __atomic_sub_fetch(&v->counter, 1, __ATOMIC_SEQ_CST);
}

static inline bool atomic64_try_cmpxchg(atomic64_t *v, s64 *old, s64 new)
{
	return __atomic_compare_exchange_n(&v->counter, old, new, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_RELAXED);
}

#endif /* __KERNEL__ */

#endif /* DM_FUSION_PURE_ATOMIC_H */
