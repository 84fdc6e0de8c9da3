//! The two suites and their three names each.

use std::fmt;

/// A set of algorithms. A connection bundle's `security_profile` decides which; nothing ever falls back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suite {
    /// `noise_hybrid_ik_v1`: X25519 and ML-KEM-768 together; what the reference speaks.
    HybridIk,
    /// `noise_ik_v1`: plain Noise IK on X25519, between Mainstay peers only.
    Ik,
}

impl Suite {
    /// Every suite, the preferred one first.
    pub const ALL: [Suite; 2] = [Suite::HybridIk, Suite::Ik];

    /// The suite of a `security_profile`, if there is one.
    pub fn from_profile(profile: &str) -> Option<Suite> {
        Suite::ALL
            .into_iter()
            .find(|suite| suite.profile() == profile)
    }

    /// The suite of a public key object's `suite` member, if there is one.
    pub fn from_key_suite(name: &str) -> Option<Suite> {
        Suite::ALL
            .into_iter()
            .find(|suite| suite.key_suite() == name)
    }

    /// The registry's `security_profile` (noise-relay.md 2.1, 9.1).
    pub fn profile(self) -> &'static str {
        match self {
            Suite::HybridIk => "noise_hybrid_ik_v1",
            Suite::Ik => "noise_ik_v1",
        }
    }

    /// The `suite` member of a public key object (noise-relay.md 5.1, 9.1).
    pub fn key_suite(self) -> &'static str {
        match self {
            Suite::HybridIk => "Noise_hybridIK_X25519+MLKEM768_AESGCM_SHA256",
            Suite::Ik => "Noise_IK_25519_AESGCM_SHA256",
        }
    }

    /// The Noise protocol name, which is hashed. For the hybrid suite it is *not* the key suite: no `X` (noise-relay.md 5.1).
    pub fn protocol_name(self) -> &'static str {
        match self {
            Suite::HybridIk => "Noise_hybridIK_25519+MLKEM768_AESGCM_SHA256",
            Suite::Ik => "Noise_IK_25519_AESGCM_SHA256",
        }
    }

    /// First part of the prologue (noise-relay.md 5.2, 9.1).
    pub(crate) fn domain(self) -> &'static str {
        match self {
            Suite::HybridIk => "codex-exec-server-relay-noise/v1",
            Suite::Ik => "mainstay-relay-noise-ik/v1",
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.profile())
    }
}
