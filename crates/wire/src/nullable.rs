//! Optional members may be absent or `null` (`protocol.md` 2); serde alone takes a default for absence only.

use serde::{Deserialize, Deserializer};

/// `null` is the type's default.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// `null` is `true`.
pub(crate) fn or_true<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Option::<bool>::deserialize(deserializer).map(|flag| flag.unwrap_or(true))
}

/// The default of a flag that is on unless said otherwise.
pub(crate) fn yes() -> bool {
    true
}

// serde asks for a function of a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
pub(crate) fn is_true(flag: &bool) -> bool {
    *flag
}
