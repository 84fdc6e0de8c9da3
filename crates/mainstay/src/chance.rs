//! Randomness for delays.

/// 64 random bits. Without any, the retries of many clients would coincide, nothing worse.
pub(crate) fn random() -> u64 {
    getrandom::u64().unwrap_or_default()
}
