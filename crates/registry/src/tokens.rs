//! Bearer tokens: one line of a file per token, with its digest; the token itself is shown once and kept nowhere.
//!
//! A line is `ENVIRONMENT ROLE SHA-256`, the digest as 64 lower-case hex digits; empty lines and lines that begin with `#`
//! are skipped.

use std::{
    fmt,
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    path::Path,
    str::FromStr,
};

use mainstay_wire::registry::EnvironmentId;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::{ConditionallySelectable, ConstantTimeEq};

use crate::signer::{from_hex, to_hex};

/// Longest environment id that can have a token (design.md 5).
const ENVIRONMENT_ID: usize = 64;

/// What the bearer of a token may do in its environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Serve it: `register`, `validate`.
    Executor,
    /// Use it: `connect`.
    Harness,
}

/// The tokens that are accepted.
#[derive(Default)]
pub struct Tokens {
    entries: Vec<Entry>,
}

struct Entry {
    environment: EnvironmentId,
    role: Role,
    digest: [u8; 32],
}

/// What a token is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// For this environment, in this role.
    Granted,
    /// Nobody knows this token.
    Unknown,
    /// A token of another environment or role.
    Forbidden,
    /// A known token, but the environment has none at all.
    NoEnvironment,
}

/// Why tokens cannot be read or made.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read or written.
    #[error("tokens file: {0}")]
    Io(#[from] io::Error),
    /// Others than its owner can read or write the file.
    #[error("tokens file has mode {0:o}; it must be 600, for its owner alone")]
    Mode(u32),
    /// A line is not `ENVIRONMENT ROLE SHA-256`.
    #[error("tokens file, line {0}: not `ENVIRONMENT executor|harness SHA-256`")]
    Line(usize),
    /// Not an environment id.
    #[error("an environment id is 1 to 64 letters, digits, `-` and `_`")]
    Environment,
    /// The system has no randomness.
    #[error("no randomness: {0}")]
    Random(getrandom::Error),
}

/// Makes a token, adds its digest to the file at `path` (made with mode 0600 if it is missing) and returns the token, which
/// is not stored anywhere.
///
/// # Errors
/// See [`TokenError`].
pub fn issue(path: &Path, environment: &str, role: Role) -> Result<SecretString, TokenError> {
    let environment = environment_id(environment)?;
    let secret = random_token()?;
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    check_mode(&file)?;
    let mut before = String::new();
    file.read_to_string(&mut before)?;
    Tokens::parse(&before)?;
    let unfinished = !before.is_empty() && !before.ends_with('\n');
    let line = format!(
        "{}{environment} {role} {}\n",
        if unfinished { "\n" } else { "" },
        to_hex(&digest(secret.expose_secret()))
    );
    // One write, so that two programs that issue at once do not mix their lines.
    file.write_all(line.as_bytes())?;
    file.sync_all()?;
    Ok(secret)
}

impl Tokens {
    /// No tokens.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a file that [`issue`] made.
    ///
    /// # Errors
    /// When it is missing, open to others, or not understood.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let mut file = File::open(path)?;
        check_mode(&file)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Self::parse(&text)
    }

    /// Makes a token that exists only in memory.
    ///
    /// # Errors
    /// When `environment` is no id, or the system has no randomness.
    pub fn issue(&mut self, environment: &str, role: Role) -> Result<SecretString, TokenError> {
        let environment = environment_id(environment)?;
        let secret = random_token()?;
        self.entries.push(Entry {
            environment,
            role,
            digest: digest(secret.expose_secret()),
        });
        Ok(secret)
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Looks at every entry, whatever it finds, and compares digests in constant time.
    pub(crate) fn access(&self, token: &str, environment: &str, role: Role) -> Access {
        let digest = digest(token);
        let mut exists = false;
        // 0: unknown, 1: known, 2: granted.
        let mut found = 0u8;
        for entry in &self.entries {
            let here = entry.environment.as_str() == environment;
            exists |= here;
            let grade = if here && entry.role == role { 2 } else { 1 };
            let better = found.max(grade);
            found.conditional_assign(&better, entry.digest.ct_eq(&digest));
        }
        match (found, exists) {
            (0, _) => Access::Unknown,
            (_, false) => Access::NoEnvironment,
            (2, true) => Access::Granted,
            (_, true) => Access::Forbidden,
        }
    }

    fn parse(text: &str) -> Result<Self, TokenError> {
        let mut entries = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            entries.push(Entry::parse(line).ok_or(TokenError::Line(at + 1))?);
        }
        Ok(Self { entries })
    }
}

impl Entry {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let entry = Self {
            environment: environment_id(words.next()?).ok()?,
            role: words.next()?.parse().ok()?,
            digest: from_hex(words.next()?)?,
        };
        words.next().is_none().then_some(entry)
    }
}

impl Role {
    /// As it is written in files and URLs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Executor => "executor",
            Self::Harness => "harness",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "executor" => Ok(Self::Executor),
            "harness" => Ok(Self::Harness),
            _ => Err(()),
        }
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens")
            .field("len", &self.entries.len())
            .finish_non_exhaustive()
    }
}

/// An id that can have a token.
pub(crate) fn environment_id(text: &str) -> Result<EnvironmentId, TokenError> {
    match EnvironmentId::parse(text) {
        Ok(id) if id.as_str() == text && text.len() <= ENVIRONMENT_ID => Ok(id),
        _ => Err(TokenError::Environment),
    }
}

fn random_token() -> Result<SecretString, TokenError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(TokenError::Random)?;
    Ok(format!("mst_{}", to_hex(&bytes)).into())
}

/// The tokens are random 256-bit numbers, so that one plain digest is enough.
fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(unix)]
fn check_mode(file: &File) -> Result<(), TokenError> {
    use std::os::unix::fs::PermissionsExt;
    let mode = file.metadata()?.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        Ok(())
    } else {
        Err(TokenError::Mode(mode))
    }
}

#[cfg(not(unix))]
fn check_mode(_file: &File) -> Result<(), TokenError> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_opens_its_environment_in_its_role_and_nothing_else() {
        let mut tokens = Tokens::new();
        let executor = tokens.issue("a", Role::Executor).unwrap();
        let harness = tokens.issue("b", Role::Harness).unwrap();
        let access = |token: &SecretString, environment, role| {
            tokens.access(token.expose_secret(), environment, role)
        };
        assert_eq!(access(&executor, "a", Role::Executor), Access::Granted);
        assert_eq!(access(&executor, "a", Role::Harness), Access::Forbidden);
        assert_eq!(access(&executor, "b", Role::Executor), Access::Forbidden);
        assert_eq!(access(&harness, "b", Role::Harness), Access::Granted);
        assert_eq!(access(&harness, "c", Role::Harness), Access::NoEnvironment);
        let stranger = SecretString::from("mst_00");
        assert_eq!(access(&stranger, "a", Role::Executor), Access::Unknown);
        assert_eq!(access(&stranger, "c", Role::Executor), Access::Unknown);
    }

    #[test]
    fn secrets_are_in_no_debug_text() {
        let mut tokens = Tokens::new();
        let secret = tokens.issue("a", Role::Executor).unwrap();
        let hex = to_hex(&digest(secret.expose_secret()));
        let text = format!("{tokens:?} {secret:?}");
        assert!(!text.contains(&hex) && !text.contains(secret.expose_secret()));
    }

    #[test]
    fn lines_that_are_not_understood_are_named() {
        let digest = "0".repeat(64);
        let good = format!("# tokens\n\n a executor {digest}\n");
        assert_eq!(Tokens::parse(&good).unwrap().len(), 1);
        for bad in [
            format!("a {digest}"),
            format!("a/b executor {digest}"),
            format!("a owner {digest}"),
            "a executor 00".to_owned(),
            format!("a executor {digest} more"),
            format!("{} executor {digest}", "a".repeat(65)),
        ] {
            let text = format!("\n{bad}\n");
            assert!(
                matches!(Tokens::parse(&text), Err(TokenError::Line(2))),
                "{bad}"
            );
        }
    }
}
