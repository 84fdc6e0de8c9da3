//! Path URIs: how a path of the executor's host travels (`protocol.md` 8).

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};

/// A path as a `file:` URI, normalised the way the reference does it: it uses the `url` crate, and so do we.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathUri(String);

/// Not a path URI. A shape error (-32602).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathUriError {
    /// Relative, empty, user info, a bad host, …
    #[error("invalid URI: {0}")]
    Invalid(String),
    /// Not `file`.
    #[error("unsupported path URI scheme `{0}`")]
    Scheme(String),
    /// With `?`.
    #[error("query parameters are not allowed in path URIs")]
    Query,
    /// With `#`.
    #[error("fragments are not allowed in path URIs")]
    Fragment,
    /// With NUL, raw or escaped, which no host has in a path.
    #[error(transparent)]
    Nul(NotNative),
}

/// A path URI that is no path of this host: another host, or a drive letter on Unix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{uri}' is invalid on '{os}'", os = std::env::consts::OS)]
pub struct NotNative {
    /// What was given.
    pub uri: PathUri,
}

/// What is no absolute native path, or holds NUL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an absolute path without NUL")]
pub struct NotAbsolute;

impl PathUri {
    /// Parses and normalises `text`.
    ///
    /// ```
    /// use mainstay_wire::PathUri;
    /// let uri = PathUri::parse("FILE://localhost/srv/./a b")?;
    /// assert_eq!(uri.as_str(), "file:///srv/a%20b");
    /// assert_eq!(uri.to_native_bytes().unwrap(), b"/srv/a b");
    /// # Ok::<(), mainstay_wire::path::PathUriError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, PathUriError> {
        let invalid = |error: url::ParseError| PathUriError::Invalid(error.to_string());
        let mut url = url::Url::parse(text).map_err(invalid)?;
        if url.scheme() != "file" {
            return Err(PathUriError::Scheme(url.scheme().to_owned()));
        }
        if url.query().is_some() {
            return Err(PathUriError::Query);
        }
        if url.fragment().is_some() {
            return Err(PathUriError::Fragment);
        }
        if url.has_host() {
            // `file://h//C:/x` becomes `file://h/C:/x`, and that becomes `file:///C:/x`: a normal form must stay.
            url = url::Url::parse(url.as_str()).map_err(invalid)?;
        }
        let mut uri = String::from(url);
        // The reference writes a drive letter in upper case, which the url crate leaves alone (T34).
        let path = uri.len() - url_path(&uri).len();
        if is_drive(first_segment(&uri[path..])) {
            uri[path + 1..path + 2].make_ascii_uppercase();
        }
        let uri = Self(uri);
        if unescape(uri.0.as_bytes()).contains(&0) && wrapped(&uri.0).is_none() {
            return Err(PathUriError::Nul(NotNative { uri }));
        }
        Ok(uri)
    }

    /// The URI of an absolute Unix path, byte for byte: no trailing slash but the root's, everything but unreserved
    /// ASCII escaped. `.`, `..` and empty segments are resolved in the text.
    pub fn from_native_bytes(path: &[u8]) -> Result<Self, NotAbsolute> {
        if path.first() != Some(&b'/') || path.contains(&0) {
            return Err(NotAbsolute);
        }
        let mut segments: Vec<&[u8]> = Vec::new();
        for segment in path.split(|&byte| byte == b'/') {
            match segment {
                b"" | b"." => {}
                b".." => {
                    segments.pop();
                }
                other => segments.push(other),
            }
        }
        let mut uri = String::from("file://");
        if segments.is_empty() {
            uri.push('/');
        }
        for (place, segment) in segments.into_iter().enumerate() {
            uri.push('/');
            match segment {
                // `/c:` is a directory here, but `file:///c:` and `file:///c%3A` are drives. The reference reads this
                // form, too, though it writes `file:///%00/bad/path/L2M6`.
                [letter, b':'] if place == 0 && letter.is_ascii_alphabetic() => {
                    escape_byte(*letter, &mut uri);
                    uri.push(':');
                }
                other => escape(other, &mut uri),
            }
        }
        Ok(Self(uri))
    }

    /// The URI of an absolute native path.
    #[cfg(unix)]
    pub fn from_native(path: &std::path::Path) -> Result<Self, NotAbsolute> {
        use std::os::unix::ffi::OsStrExt as _;
        Self::from_native_bytes(path.as_os_str().as_bytes())
    }

    /// The path's bytes on a Unix host.
    pub fn to_native_bytes(&self) -> Result<Vec<u8>, NotNative> {
        let refused = || NotNative { uri: self.clone() };
        if let Some(bytes) = wrapped(&self.0) {
            // Only what has no other form.
            let other = bytes
                .strip_prefix(b"/")
                .map(|path| path.split(|byte| *byte == b'/').next());
            let drive = matches!(other, Some(Some([letter, b':'])) if letter.is_ascii_alphabetic());
            return if drive && !bytes.contains(&0) {
                Ok(bytes)
            } else {
                Err(refused())
            };
        }
        let path = url_path(&self.0);
        let has_host = self.0.len() > SCHEME.len() + path.len();
        if has_host || is_drive(first_segment(path)) {
            return Err(refused());
        }
        Ok(unescape(path.as_bytes()))
    }

    /// The native path.
    #[cfg(unix)]
    pub fn to_native(&self) -> Result<std::path::PathBuf, NotNative> {
        use std::os::unix::ffi::OsStringExt as _;
        self.to_native_bytes()
            .map(|bytes| std::ffi::OsString::from_vec(bytes).into())
    }

    /// `path` as seen from this directory: an absolute Unix path replaces it, a relative one is appended, and `..` is
    /// resolved in the text.
    pub fn join_native_bytes(&self, path: &[u8]) -> Result<Self, NotNative> {
        let mut joined = Vec::new();
        if path.first() != Some(&b'/') {
            joined = self.to_native_bytes()?;
            joined.push(b'/');
        }
        joined.extend_from_slice(path);
        Self::from_native_bytes(&joined).map_err(|NotAbsolute| NotNative { uri: self.clone() })
    }

    /// The URI.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a URI begins with in which the reference wraps the bytes of a path that it cannot write otherwise.
const WRAPPED: &str = "file:///%00/bad/path/";

/// The bytes of a wrapped path: URL-safe base64 without padding.
fn wrapped(uri: &str) -> Option<Vec<u8>> {
    let text = uri.strip_prefix(WRAPPED)?;
    base64_simd::URL_SAFE_NO_PAD.decode_to_vec(text).ok()
}

/// What every normalised URI begins with.
const SCHEME: &str = "file://";

/// The path of a normalised URI; between it and the scheme stands the host, if any.
fn url_path(uri: &str) -> &str {
    let rest = uri.get(SCHEME.len()..).unwrap_or_default();
    rest.find('/').map_or("", |slash| &rest[slash..])
}

/// `C:` of `/C:/Windows`.
fn first_segment(path: &str) -> &str {
    path.get(1..)
        .unwrap_or_default()
        .split('/')
        .next()
        .unwrap_or_default()
}

fn is_drive(segment: &str) -> bool {
    match segment.as_bytes() {
        [letter, b':'] | [letter, b'%', b'3', b'A' | b'a'] => letter.is_ascii_alphabetic(),
        _ => false,
    }
}

/// Appends `segment` with everything escaped that the `url` crate would escape in a path written by the reference.
fn escape(segment: &[u8], out: &mut String) {
    for &byte in segment {
        let plain = byte.is_ascii_graphic()
            && !matches!(
                byte,
                b'"' | b'#' | b'%' | b'<' | b'>' | b'?' | b'`' | b'{' | b'}' | b'\\'
            );
        if plain {
            out.push(char::from(byte));
        } else {
            escape_byte(byte, out);
        }
    }
}

fn escape_byte(byte: u8, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    out.push('%');
    out.push(char::from(HEX[usize::from(byte >> 4)]));
    out.push(char::from(HEX[usize::from(byte & 15)]));
}

/// Resolves `%XX`; a `%` that begins none stays.
fn unescape(text: &[u8]) -> Vec<u8> {
    let digit = |at: usize| text.get(at).and_then(|&byte| char::from(byte).to_digit(16));
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        match (text[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, _, _) => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
    bytes
}

impl FromStr for PathUri {
    type Err = PathUriError;
    fn from_str(text: &str) -> Result<Self, PathUriError> {
        Self::parse(text)
    }
}

impl fmt::Display for PathUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for PathUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PathUri({})", self.0)
    }
}

impl Serialize for PathUri {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for PathUri {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(Error::custom)
    }
}
