//! Who may open a connection: the `Authorization` header of a WebSocket upgrade (protocol.md 1.2).
//!
//! Secrets are read once, at start; nothing is checked again after the upgrade.

mod signed;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use secrecy::{ExposeSecret, SecretSlice};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

pub use signed::SignedBearer;

/// The shortest shared secret accepted, in bytes.
pub const MIN_SECRET: usize = 32;

/// How far clocks may be apart unless configured.
pub const DEFAULT_CLOCK_SKEW: Duration = Duration::from_secs(30);

/// What an upgrade must show.
#[derive(Debug, Default)]
pub enum Auth {
    /// Nothing; any `Authorization` header is ignored.
    #[default]
    None,
    /// A bearer token with this SHA-256 digest.
    Capability([u8; 32]),
    /// A bearer token that is a JSON Web Token signed with HS256.
    Signed(SignedBearer),
}

/// Why an upgrade is refused; the text is the body of the 401 answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no `Authorization` header.
    #[error("missing websocket bearer token")]
    Missing,
    /// The header is not `Bearer TOKEN`.
    #[error("invalid authorization header")]
    InvalidHeader,
    /// The token is another one.
    #[error("invalid websocket bearer token")]
    InvalidToken,
    /// Not a token signed with our secret and HS256, or without `exp`.
    #[error("invalid websocket jwt")]
    InvalidJwt,
    /// `exp` is over, with the clock skew allowed for.
    #[error("expired websocket jwt")]
    Expired,
    /// `nbf` is still to come, with the clock skew allowed for.
    #[error("websocket jwt is not valid yet")]
    NotYetValid,
    /// `iss` is not the configured one.
    #[error("websocket jwt issuer mismatch")]
    Issuer,
    /// `aud` does not name the configured one.
    #[error("websocket jwt audience mismatch")]
    Audience,
}

/// Why a configuration of upgrade auth is not usable.
#[derive(Debug, thiserror::Error)]
pub enum AuthConfigError {
    /// The path is relative.
    #[error("{} must be an absolute path", .0.display())]
    RelativePath(PathBuf),
    /// The file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// The system's reason.
        error: std::io::Error,
    },
    /// The file holds only white space.
    #[error("{} holds no token", .0.display())]
    EmptyToken(PathBuf),
    /// The digest is not 64 hexadecimal digits.
    #[error("the token digest must be 64 hexadecimal digits")]
    InvalidDigest,
    /// The secret is shorter than [`MIN_SECRET`].
    #[error("{} must hold at least {MIN_SECRET} bytes", .0.display())]
    ShortSecret(PathBuf),
}

impl Auth {
    /// Demands the token that `file` (an absolute path) holds; white space around it is ignored.
    ///
    /// # Errors
    /// When the file cannot be read or holds nothing.
    pub fn capability_from_file(file: &Path) -> Result<Self, AuthConfigError> {
        let content = read_secret(file)?;
        let token = content.expose_secret().trim_ascii();
        if token.is_empty() {
            return Err(AuthConfigError::EmptyToken(file.to_owned()));
        }
        Ok(Self::Capability(Sha256::digest(token).into()))
    }

    /// Demands the token whose SHA-256 is `digest`, 64 hexadecimal digits.
    ///
    /// # Errors
    /// When it is not that.
    pub fn capability_from_digest(digest: &str) -> Result<Self, AuthConfigError> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(digest.trim(), &mut bytes)
            .map_err(|_| AuthConfigError::InvalidDigest)?;
        Ok(Self::Capability(bytes))
    }

    /// Checks the `Authorization` header of an upgrade; `now` is the wall clock.
    ///
    /// # Errors
    /// The refusal, to be answered with status 401 and its text as a plain body.
    pub fn check(&self, authorization: Option<&[u8]>, now: SystemTime) -> Result<(), Refusal> {
        match self {
            Self::None => Ok(()),
            Self::Capability(digest) => {
                let token = bearer(authorization)?;
                let shown: [u8; 32] = Sha256::digest(token).into();
                if bool::from(shown.ct_eq(digest)) {
                    Ok(())
                } else {
                    Err(Refusal::InvalidToken)
                }
            }
            Self::Signed(signed) => signed.check(bearer(authorization)?, now),
        }
    }
}

/// The token of a `Bearer` header; the scheme in any case, white space around the token ignored.
fn bearer(authorization: Option<&[u8]>) -> Result<&[u8], Refusal> {
    let header = authorization.ok_or(Refusal::Missing)?.trim_ascii();
    let space = header
        .iter()
        .position(u8::is_ascii_whitespace)
        .ok_or(Refusal::InvalidHeader)?;
    let (scheme, token) = header.split_at(space);
    let token = token.trim_ascii();
    if scheme.eq_ignore_ascii_case(b"bearer") && !token.is_empty() {
        Ok(token)
    } else {
        Err(Refusal::InvalidHeader)
    }
}

fn read_secret(file: &Path) -> Result<SecretSlice<u8>, AuthConfigError> {
    if !file.is_absolute() {
        return Err(AuthConfigError::RelativePath(file.to_owned()));
    }
    let content = std::fs::read(file).map_err(|error| AuthConfigError::Unreadable {
        path: file.to_owned(),
        error,
    })?;
    Ok(SecretSlice::from(content))
}

#[cfg(test)]
mod tests {
    use hmac::{Hmac, KeyInit, Mac};

    use super::*;

    const SECRET: &[u8; 32] = b"0123456789abcdef0123456789abcdef";
    const NOW: u64 = 1_000_000;

    fn file(content: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, content).unwrap();
        (folder, path)
    }

    fn jwt(header: &str, claims: &str, secret: &[u8]) -> String {
        let encode = |part: &[u8]| base64_simd::URL_SAFE_NO_PAD.encode_to_string(part);
        let signed = format!(
            "{}.{}",
            encode(header.as_bytes()),
            encode(claims.as_bytes())
        );
        let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
        mac.update(signed.as_bytes());
        format!("{signed}.{}", encode(&mac.finalize().into_bytes()))
    }

    fn check(auth: &Auth, header: &str) -> Result<(), Refusal> {
        auth.check(
            Some(header.as_bytes()),
            SystemTime::UNIX_EPOCH + Duration::from_secs(NOW),
        )
    }

    #[test]
    fn t80_capability_token() {
        let (_folder, path) = file(b" sekret-token\n");
        let digest = hex::encode(Sha256::digest("sekret-token"));
        for auth in [
            Auth::capability_from_file(&path).unwrap(),
            Auth::capability_from_digest(&digest).unwrap(),
        ] {
            assert_eq!(auth.check(None, SystemTime::now()), Err(Refusal::Missing));
            assert_eq!(check(&auth, "Bearer nope"), Err(Refusal::InvalidToken));
            assert_eq!(check(&auth, "Basic x"), Err(Refusal::InvalidHeader));
            assert_eq!(check(&auth, "Bearer sekret-token"), Ok(()));
            assert_eq!(check(&auth, "bearer  sekret-token "), Ok(()));
            assert_eq!(check(&auth, "Bearer "), Err(Refusal::InvalidHeader));
        }
        assert_eq!(check(&Auth::None, "Bearer ignored"), Ok(()));
    }

    #[test]
    fn t80_signed_bearer_token() {
        let (_folder, path) = file(SECRET);
        let auth = Auth::Signed(
            SignedBearer::from_file(&path)
                .unwrap()
                .issuer("me")
                .audience("you"),
        );
        let hs256 = r#"{"alg":"HS256","typ":"JWT"}"#;
        let outcome =
            |claims: &str| check(&auth, &format!("Bearer {}", jwt(hs256, claims, SECRET)));

        assert_eq!(outcome(r#"{"exp":1000060,"iss":"me","aud":"you"}"#), Ok(()));
        assert_eq!(
            outcome(r#"{"exp":1000060,"iss":"me","aud":["they","you"]}"#),
            Ok(())
        );
        assert_eq!(
            outcome(r#"{"exp":999940,"iss":"me","aud":"you"}"#),
            Err(Refusal::Expired)
        );
        assert_eq!(
            outcome(r#"{"exp":999969,"iss":"me","aud":"you"}"#),
            Err(Refusal::Expired)
        );
        assert_eq!(outcome(r#"{"exp":999970,"iss":"me","aud":"you"}"#), Ok(()));
        assert_eq!(
            outcome(r#"{"exp":1000060,"nbf":1000031,"iss":"me","aud":"you"}"#),
            Err(Refusal::NotYetValid)
        );
        assert_eq!(
            outcome(r#"{"exp":1000060,"nbf":1000030,"iss":"me","aud":"you"}"#),
            Ok(())
        );
        assert_eq!(
            outcome(r#"{"exp":1000060,"iss":"they","aud":"you"}"#),
            Err(Refusal::Issuer)
        );
        assert_eq!(
            outcome(r#"{"exp":1000060,"aud":"you"}"#),
            Err(Refusal::Issuer)
        );
        assert_eq!(
            outcome(r#"{"exp":1000060,"iss":"me","aud":"they"}"#),
            Err(Refusal::Audience)
        );
        assert_eq!(
            outcome(r#"{"exp":1000060,"iss":"me","aud":[]}"#),
            Err(Refusal::Audience)
        );
        assert_eq!(
            outcome(r#"{"exp":1000060,"iss":"me"}"#),
            Err(Refusal::Audience)
        );
        assert_eq!(
            outcome(r#"{"iss":"me","aud":"you"}"#),
            Err(Refusal::InvalidJwt)
        );
        assert_eq!(
            outcome(r#"{"exp":9223372036854775807,"iss":"me","aud":"you"}"#),
            Ok(())
        );

        let good = r#"{"exp":1000060,"iss":"me","aud":"you"}"#;
        let other = jwt(hs256, good, b"another secret, also long enough.");
        let none = jwt(r#"{"alg":"none"}"#, good, SECRET);
        let longer = jwt(r#"{"alg":"HS512"}"#, good, SECRET);
        let critical = jwt(r#"{"alg":"HS256","crit":["b64"]}"#, good, SECRET);
        let unsigned = format!("{}.", none.rsplit_once('.').unwrap().0);
        for token in [
            &other, &none, &longer, &critical, &unsigned, "a", "a.b", "a.b.c", "..", ".",
        ] {
            assert_eq!(
                check(&auth, &format!("Bearer {token}")),
                Err(Refusal::InvalidJwt),
                "{token}"
            );
        }
    }

    #[test]
    fn issuer_and_audience_count_only_when_configured() {
        let (_folder, path) = file(SECRET);
        let auth = Auth::Signed(
            SignedBearer::from_file(&path)
                .unwrap()
                .clock_skew(Duration::ZERO),
        );
        let token = |exp: u64| {
            jwt(
                r#"{"alg":"HS256"}"#,
                &format!(r#"{{"exp":{exp},"iss":"x","aud":"y"}}"#),
                SECRET,
            )
        };
        assert_eq!(check(&auth, &format!("Bearer {}", token(NOW))), Ok(()));
        assert_eq!(
            check(&auth, &format!("Bearer {}", token(NOW - 1))),
            Err(Refusal::Expired)
        );
    }

    #[test]
    fn unusable_configurations_are_told() {
        let (_folder, short) = file(&[b'x'; MIN_SECRET - 1]);
        assert!(matches!(
            SignedBearer::from_file(&short),
            Err(AuthConfigError::ShortSecret(_))
        ));
        let (_folder, padded) = file(&[&[b'x'; MIN_SECRET - 1][..], b"\n\n\n"].concat());
        assert!(matches!(
            SignedBearer::from_file(&padded),
            Err(AuthConfigError::ShortSecret(_))
        ));
        let (_folder, empty) = file(b" \n");
        assert!(matches!(
            Auth::capability_from_file(&empty),
            Err(AuthConfigError::EmptyToken(_))
        ));
        let relative = Auth::capability_from_file(Path::new("token"));
        assert!(matches!(relative, Err(AuthConfigError::RelativePath(_))));
        assert!(matches!(
            Auth::capability_from_digest("12"),
            Err(AuthConfigError::InvalidDigest)
        ));
    }

    #[test]
    fn secrets_stay_out_of_debug() {
        let (_folder, path) = file(SECRET);
        let auth = Auth::Signed(SignedBearer::from_file(&path).unwrap());
        assert!(!format!("{auth:?}").contains("0123"));
    }
}
