//! Byte strings on the wire: standard base64 with padding, refused when sloppy.

use std::fmt;

use base64_simd::STANDARD;
use bytes::Bytes;
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Not standard base64 with padding. The texts are those of the reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Base64Error {
    /// A byte outside the alphabet, or padding inside the text.
    #[error("Invalid symbol {symbol}, offset {offset}.")]
    Symbol {
        /// The byte.
        symbol: u8,
        /// Where it stands.
        offset: usize,
    },
    /// A single character is left over.
    #[error("Invalid input length: {0}")]
    Length(usize),
    /// Padding missing, or too much of it.
    #[error("Invalid padding")]
    Padding,
    /// The last character carries bits that no byte holds.
    #[error("Invalid last symbol {symbol}, offset {offset}.")]
    LastSymbol {
        /// The character.
        symbol: u8,
        /// Where it stands.
        offset: usize,
    },
}

/// Bytes that travel as a base64 string.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Base64(pub Bytes);

/// Bytes that travel as a base64 string whose faults are reported later, with another code (`fs/writeFile`).
#[derive(Clone, PartialEq, Eq)]
pub struct LateBase64(Result<Bytes, Base64Error>);

impl LateBase64 {
    /// The bytes, or why they are none.
    pub fn into_bytes(self) -> Result<Bytes, Base64Error> {
        self.0
    }
}

/// Decodes `text`.
pub fn decode(text: &[u8]) -> Result<Vec<u8>, Base64Error> {
    STANDARD.decode_to_vec(text).map_err(|_| diagnose(text))
}

/// Appends the bytes of `text` to `out`.
pub fn decode_into(text: &[u8], out: &mut Vec<u8>) -> Result<(), Base64Error> {
    let before = out.len();
    match STANDARD.decode_append(text, out) {
        Ok(_) => Ok(()),
        Err(_) => {
            out.truncate(before);
            Err(diagnose(text))
        }
    }
}

/// Appends the base64 form of `bytes` to `out`.
pub fn encode_into(bytes: &[u8], out: &mut String) {
    STANDARD.encode_append(bytes, out);
}

/// How many characters `bytes` bytes take.
pub const fn encoded_len(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

impl From<Bytes> for Base64 {
    fn from(bytes: Bytes) -> Self {
        Self(bytes)
    }
}

impl From<Vec<u8>> for Base64 {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl From<&[u8]> for Base64 {
    fn from(bytes: &[u8]) -> Self {
        Self(Bytes::copy_from_slice(bytes))
    }
}

impl From<Bytes> for LateBase64 {
    fn from(bytes: Bytes) -> Self {
        Self(Ok(bytes))
    }
}

impl From<Vec<u8>> for LateBase64 {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Ok(bytes.into()))
    }
}

impl std::ops::Deref for Base64 {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

// Program output and file contents stay out of logs: only the length shows.
impl fmt::Debug for Base64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Base64({} bytes)", self.0.len())
    }
}

impl fmt::Debug for LateBase64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(bytes) => write!(f, "LateBase64({} bytes)", bytes.len()),
            Err(error) => write!(f, "LateBase64({error})"),
        }
    }
}

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode_to_string(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let LateBase64(decoded) = LateBase64::deserialize(deserializer)?;
        decoded.map(Base64).map_err(Error::custom)
    }
}

impl Serialize for LateBase64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // What never decoded is never sent again; an empty string keeps the type total.
        let bytes = self.0.as_ref().map_or(&[][..], |bytes| &bytes[..]);
        serializer.serialize_str(&STANDARD.encode_to_string(bytes))
    }
}

impl<'de> Deserialize<'de> for LateBase64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = LateBase64;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<LateBase64, E> {
                Ok(LateBase64(decode(text.as_bytes()).map(Bytes::from)))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// Says what is wrong with a text that did not decode.
fn diagnose(text: &[u8]) -> Base64Error {
    let padding = text
        .iter()
        .rev()
        .take(2)
        .take_while(|&&byte| byte == b'=')
        .count();
    let body = &text[..text.len() - padding];
    let foreign = |byte: &u8| !byte.is_ascii_alphanumeric() && *byte != b'+' && *byte != b'/';
    if let Some(offset) = body.iter().position(foreign) {
        return Base64Error::Symbol {
            symbol: body[offset],
            offset,
        };
    }
    if body.len() % 4 == 1 {
        return Base64Error::Length(body.len());
    }
    if !text.len().is_multiple_of(4) || body.is_empty() {
        return Base64Error::Padding;
    }
    let offset = body.len() - 1;
    Base64Error::LastSymbol {
        symbol: body[offset],
        offset,
    }
}
