//! Reproducible randomness: one number decides a whole run.

use std::ops::RangeInclusive;

/// A small deterministic generator (splitmix64). Equal seeds give equal sequences on every machine.
#[derive(Clone, Debug)]
pub struct Seed(u64);

impl Seed {
    /// A generator that starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The seed of the environment variable `MAINSTAY_SEED`, else `default`. Prints it, so that a failed run can be repeated.
    pub fn from_env(default: u64) -> Self {
        let seed = std::env::var("MAINSTAY_SEED")
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(default);
        eprintln!("seed {seed} (repeat with MAINSTAY_SEED={seed})");
        Self(seed)
    }

    /// The next number, uniform over all of `u64`.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number inside `range`, both ends included.
    pub fn within(&mut self, range: &RangeInclusive<u64>) -> u64 {
        let span = range.end().saturating_sub(*range.start());
        range.start()
            + if span == u64::MAX {
                self.next_u64()
            } else {
                self.next_u64() % (span + 1)
            }
    }

    /// An independent generator, so that two users do not disturb each other's order.
    pub fn fork(&mut self) -> Self {
        Self(self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_histories_and_ranges_hold() {
        let (mut a, mut b) = (Seed::new(7), Seed::new(7));
        for _ in 0..1000 {
            let value = a.within(&(3..=9));
            assert_eq!(value, b.within(&(3..=9)));
            assert!((3..=9).contains(&value));
        }
        assert_ne!(a.fork().next_u64(), a.fork().next_u64());
    }
}
