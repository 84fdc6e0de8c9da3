//! HTTP bodies of the environment registry (`noise-relay.md` 2 and 9.1).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::base64::Base64;
use crate::limits;

/// Profile of the hybrid suite, what the reference speaks.
pub const PROFILE_HYBRID: &str = "noise_hybrid_ik_v1";
/// Profile of the classical suite, between Mainstay peers only.
pub const PROFILE_IK: &str = "noise_ik_v1";
/// Key suite of [`PROFILE_HYBRID`].
pub const SUITE_HYBRID: &str = "Noise_hybridIK_X25519+MLKEM768_AESGCM_SHA256";
/// Key suite of [`PROFILE_IK`].
pub const SUITE_IK: &str = "Noise_IK_25519_AESGCM_SHA256";
/// Header that carries a canonical stream id with `validate`.
pub const STREAM_ID_HEADER: &str = "x-codex-noise-stream-id";
/// Header with which a rendezvous says why it refused an upgrade.
pub const REJECTION_HEADER: &str = "x-codex-rendezvous-rejection-reason";
/// Error code: no executor is connected.
pub const CODE_OFFLINE: &str = "environment_offline";
/// Error code: try again.
pub const CODE_CONFLICT: &str = "registration_conflict";
/// Error code: a newer executor took this one's place.
pub const CODE_SUPERSEDED: &str = "registration_superseded";

/// Path of `register` for `environment`, to be appended to the base URL.
pub fn register_path(environment: &EnvironmentId) -> String {
    format!("/cloud/environment/{environment}/register")
}

/// Path of `connect`.
pub fn connect_path(environment: &EnvironmentId) -> String {
    format!("/cloud/environment/{environment}/connect")
}

/// Path of `validate`.
pub fn validate_path(environment: &EnvironmentId) -> String {
    format!("/cloud/environment/{environment}/validate")
}

/// An environment id that is one path component: `[A-Za-z0-9_-]{1,256}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EnvironmentId(String);

/// Not an environment id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an environment id is 1 to 256 letters, digits, `-` and `_`")]
pub struct BadEnvironmentId;

impl EnvironmentId {
    /// Trims and checks `text`.
    pub fn parse(text: &str) -> Result<Self, BadEnvironmentId> {
        let id = text.trim();
        let plain = id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        if plain && (1..=limits::ENVIRONMENT_ID).contains(&id.len()) {
            Ok(Self(id.to_owned()))
        } else {
            Err(BadEnvironmentId)
        }
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EnvironmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for EnvironmentId {
    type Error = BadEnvironmentId;
    fn try_from(text: String) -> Result<Self, BadEnvironmentId> {
        Self::parse(&text)
    }
}

impl From<EnvironmentId> for String {
    fn from(id: EnvironmentId) -> String {
        id.0
    }
}

/// A public key. Unknown members are refused; which members a suite needs is checked by [`PublicKey::check`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublicKey {
    /// [`SUITE_HYBRID`] or [`SUITE_IK`].
    pub suite: String,
    /// 32 bytes.
    pub x25519_public_key: Base64,
    /// 1184 bytes; only in the hybrid suite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mlkem768_public_key: Option<Base64>,
}

/// A public key that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPublicKey {
    /// A suite nobody knows.
    #[error("unknown key suite")]
    Suite,
    /// A member missing or too many, or of the wrong length.
    #[error("public key has the wrong shape for its suite")]
    Shape,
}

impl PublicKey {
    /// Whether the members fit the suite.
    pub fn check(&self) -> Result<(), BadPublicKey> {
        let kem = self.mlkem768_public_key.as_ref().map(|key| key.len());
        let fits = match self.suite.as_str() {
            SUITE_HYBRID => kem == Some(1184),
            SUITE_IK => kem.is_none(),
            _ => return Err(BadPublicKey::Suite),
        };
        if fits && self.x25519_public_key.len() == 32 {
            Ok(())
        } else {
            Err(BadPublicKey::Shape)
        }
    }

    /// The security profile the suite belongs to.
    pub fn profile(&self) -> Option<&'static str> {
        match self.suite.as_str() {
            SUITE_HYBRID => Some(PROFILE_HYBRID),
            SUITE_IK => Some(PROFILE_IK),
            _ => None,
        }
    }
}

/// Body of `register`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterRequest {
    /// [`PROFILE_HYBRID`] or [`PROFILE_IK`].
    pub security_profile: String,
    /// The executor's key.
    pub executor_public_key: PublicKey,
    /// A key of each further suite the executor speaks; only Mainstay's registries read it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mainstay_further_keys: Vec<PublicKey>,
}

/// Answer to `register`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterAnswer {
    /// Must be the requested one.
    pub environment_id: String,
    /// WebSocket URL, verbatim. Authentication is inside: kept out of `Debug`.
    pub url: String,
    /// Must be the requested one.
    pub security_profile: String,
    /// Goes into the prologue and into `validate`.
    pub executor_registration_id: String,
}

impl fmt::Debug for RegisterAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisterAnswer")
            .field("environment_id", &self.environment_id)
            .field("security_profile", &self.security_profile)
            .field("executor_registration_id", &self.executor_registration_id)
            .finish_non_exhaustive()
    }
}

/// Body of `connect`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectRequest {
    /// The harness's key, the same in every lookup of an environment.
    pub harness_public_key: PublicKey,
}

/// Answer to `connect`: a bundle for one connection attempt.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectAnswer {
    /// Must be the requested one.
    pub environment_id: String,
    /// WebSocket URL, verbatim. Authentication is inside: kept out of `Debug`.
    pub url: String,
    /// Which suite to speak.
    pub security_profile: String,
    /// Goes into the prologue.
    pub executor_registration_id: String,
    /// Whom to expect.
    pub executor_public_key: PublicKey,
    /// Goes into message 1. Kept out of `Debug`.
    pub harness_key_authorization: String,
}

impl ConnectAnswer {
    /// Whether URL, registration and authorization are there (not blank).
    pub fn is_complete(&self) -> bool {
        [
            &self.url,
            &self.executor_registration_id,
            &self.harness_key_authorization,
        ]
        .iter()
        .all(|text| !text.trim().is_empty())
    }
}

impl fmt::Debug for ConnectAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectAnswer")
            .field("environment_id", &self.environment_id)
            .field("security_profile", &self.security_profile)
            .field("executor_registration_id", &self.executor_registration_id)
            .finish_non_exhaustive()
    }
}

/// Body of `validate`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidateRequest {
    /// The executor's registration.
    pub executor_registration_id: String,
    /// From message 1.
    pub harness_public_key: PublicKey,
    /// From message 1. Kept out of `Debug`.
    pub harness_key_authorization: String,
}

impl fmt::Debug for ValidateRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValidateRequest")
            .field("executor_registration_id", &self.executor_registration_id)
            .field("harness_public_key", &self.harness_public_key)
            .finish_non_exhaustive()
    }
}

/// Answer to `validate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidateAnswer {
    /// Whether the harness may connect.
    pub valid: bool,
}

/// Body of every refusal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// What went wrong.
    pub error: ErrorDetail,
}

/// What went wrong; both members may be missing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// For programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl ErrorBody {
    /// A refusal.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            error: ErrorDetail {
                code: Some(code.to_owned()),
                message: Some(message.into()),
            },
        }
    }
}

/// Code and text of a refusal's body, whatever it is: the documented object, else the trimmed body cut at 4096
/// characters, else `empty` (`noise-relay.md` 2.4).
pub fn read_error(body: &[u8], empty: &str) -> (Option<String>, String) {
    let detail = serde_json::from_slice::<ErrorBody>(body)
        .map(|body| body.error)
        .unwrap_or_default();
    let text = || {
        let text: String = String::from_utf8_lossy(body)
            .trim()
            .chars()
            .take(limits::REGISTRY_ERROR_TEXT_CHARS)
            .collect();
        if text.is_empty() {
            empty.to_owned()
        } else {
            text
        }
    };
    (detail.code, detail.message.unwrap_or_else(text))
}
