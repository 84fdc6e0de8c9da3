//! Bearer tokens that are JSON Web Tokens: HS256 and nothing else (RFC 7515 compact form).

use std::path::Path;
use std::time::{Duration, SystemTime};

use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretSlice};
use serde::Deserialize;
use sha2::Sha256;

use super::{AuthConfigError, DEFAULT_CLOCK_SKEW, MIN_SECRET, Refusal, read_secret};

/// What a signed bearer token is checked against.
#[derive(Debug)]
pub struct SignedBearer {
    secret: SecretSlice<u8>,
    issuer: Option<String>,
    audience: Option<String>,
    clock_skew: Duration,
}

impl SignedBearer {
    /// Checks against the secret that `file` (an absolute path) holds; white space around it is ignored.
    ///
    /// # Errors
    /// When the file cannot be read or holds fewer than [`MIN_SECRET`] bytes.
    pub fn from_file(file: &Path) -> Result<Self, AuthConfigError> {
        let content = read_secret(file)?;
        let secret = content.expose_secret().trim_ascii();
        if secret.len() < MIN_SECRET {
            return Err(AuthConfigError::ShortSecret(file.to_owned()));
        }
        Ok(Self {
            secret: SecretSlice::from(secret.to_vec()),
            issuer: None,
            audience: None,
            clock_skew: DEFAULT_CLOCK_SKEW,
        })
    }

    /// Demands this `iss`.
    #[must_use]
    pub fn issuer(self, issuer: impl Into<String>) -> Self {
        Self {
            issuer: Some(issuer.into()),
            ..self
        }
    }

    /// Demands this `aud`, alone or in a list.
    #[must_use]
    pub fn audience(self, audience: impl Into<String>) -> Self {
        Self {
            audience: Some(audience.into()),
            ..self
        }
    }

    /// How far clocks may be apart; [`DEFAULT_CLOCK_SKEW`] if not set.
    #[must_use]
    pub fn clock_skew(self, clock_skew: Duration) -> Self {
        Self { clock_skew, ..self }
    }

    /// Checks the token of a header; `now` is the wall clock.
    pub(super) fn check(&self, token: &[u8], now: SystemTime) -> Result<(), Refusal> {
        let claims = self.verify(token).ok_or(Refusal::InvalidJwt)?;
        let now = now
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let (now, skew) = (i128::from(now), i128::from(self.clock_skew.as_secs()));
        if i128::from(claims.exp) + skew < now {
            return Err(Refusal::Expired);
        }
        if claims.nbf.is_some_and(|nbf| i128::from(nbf) > now + skew) {
            return Err(Refusal::NotYetValid);
        }
        if self.issuer.is_some() && claims.iss != self.issuer {
            return Err(Refusal::Issuer);
        }
        if let Some(wanted) = &self.audience
            && !claims.aud.is_some_and(|aud| aud.names(wanted))
        {
            return Err(Refusal::Audience);
        }
        Ok(())
    }

    /// The claims of a token with a good signature (RFC 7515 compact form, HS256 and nothing else).
    fn verify(&self, token: &[u8]) -> Option<Claims> {
        let signed = &token[..token.iter().rposition(|&byte| byte == b'.')?];
        let signature = decode(&token[signed.len() + 1..])?;
        let (header, claims) = signed.split_at(signed.iter().position(|&byte| byte == b'.')?);

        let header: Header = serde_json::from_slice(&decode(header)?).ok()?;
        if header.alg != "HS256" || header.crit.is_some() {
            return None;
        }
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret.expose_secret()).ok()?;
        mac.update(signed);
        // Constant time.
        mac.verify_slice(&signature).ok()?;
        serde_json::from_slice(&decode(&claims[1..])?).ok()
    }
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    /// Extensions that a receiver must understand; we know none.
    crit: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Claims {
    /// Seconds since 1970.
    exp: i64,
    nbf: Option<i64>,
    iss: Option<String>,
    aud: Option<Audience>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

impl Audience {
    fn names(&self, wanted: &str) -> bool {
        match self {
            Self::One(one) => one == wanted,
            Self::Several(several) => several.iter().any(|one| one == wanted),
        }
    }
}

fn decode(part: &[u8]) -> Option<Vec<u8>> {
    base64_simd::URL_SAFE_NO_PAD.decode_to_vec(part).ok()
}
