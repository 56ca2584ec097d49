// SPDX-License-Identifier: GPL-2.0-only
//! Bits, many of them.

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bits(Vec<u64>);

impl Bits {
    pub fn new(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    pub fn get(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }

    /// Was it set before?
    pub fn set(&mut self, at: usize) -> bool {
        let before = self.get(at);
        self.0[at / 64] |= 1 << (at % 64);
        before
    }

    /// `count` bits, at most 64, from `at` on.
    pub fn range(&self, at: usize, count: usize) -> u64 {
        let (word, shift) = (at / 64, at % 64);
        let mut bits = self.0[word] >> shift;
        if shift + count > 64 {
            bits |= self.0[word + 1] << (64 - shift);
        }
        if count < 64 {
            bits &= (1 << count) - 1;
        }
        bits
    }

    /// Sets those of `count` bits from `at` on that `bits` has.
    pub fn add(&mut self, at: usize, count: usize, bits: u64) {
        let (word, shift) = (at / 64, at % 64);
        self.0[word] |= bits << shift;
        if shift + count > 64 {
            self.0[word + 1] |= bits >> (64 - shift);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        for width in [3, 7, 8, 63, 64] {
            let mut bits = Bits::new(width * 50);
            let most = u64::MAX >> (64 - width);
            for at in 0..50 {
                bits.add(
                    at * width,
                    width,
                    0x1234_5678_9abc_def1u64.wrapping_mul(at as u64) & most,
                );
            }
            for at in 0..50 {
                let expected = 0x1234_5678_9abc_def1u64.wrapping_mul(at as u64) & most;
                assert_eq!(bits.range(at * width, width), expected);
                assert_eq!(bits.get(at * width), expected & 1 == 1);
            }
        }
        let mut bits = Bits::new(100);
        assert!(!bits.set(99));
        assert!(bits.set(99));
    }
}
