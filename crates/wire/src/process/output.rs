//! The hot path: output chunks, parsed without a copy and written in one pass.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Stream;
use crate::base64::{self, Base64Error};

/// What our writer, and the reference's, begin an output frame with.
const HEAD: &str = r#"{"method":"process/output","params":{"#;

/// Params of `process/output`, borrowed from the frame.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputNotice<'a> {
    /// Which process.
    #[serde(borrow)]
    pub process_id: Cow<'a, str>,
    /// Its place in the process's history.
    pub seq: u64,
    /// Where it came out.
    pub stream: Stream,
    /// The bytes, still as base64.
    #[serde(borrow)]
    pub chunk: Cow<'a, str>,
}

impl OutputNotice<'_> {
    /// Appends the bytes to `out`.
    pub fn decode_into(&self, out: &mut Vec<u8>) -> Result<(), Base64Error> {
        base64::decode_into(self.chunk.as_bytes(), out)
    }

    /// The bytes.
    pub fn decode(&self) -> Result<Vec<u8>, Base64Error> {
        base64::decode(self.chunk.as_bytes())
    }
}

/// Parses a whole frame that is a `process/output` notification as every known executor writes it.
/// `None` means: not such a frame, use [`crate::envelope::parse_trusted`].
pub fn parse_output(frame: &[u8]) -> Option<OutputNotice<'_>> {
    // Members beside these two are for the general parser: an `id` would make it a request.
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Frame<'a> {
        #[serde(rename = "method")]
        _method: IgnoredAny,
        #[serde(borrow)]
        params: OutputNotice<'a>,
    }
    if !frame.starts_with(HEAD.as_bytes()) {
        return None;
    }
    let frame: Frame<'_> = serde_json::from_slice(frame).ok()?;
    Some(frame.params)
}

/// Appends a whole `process/output` frame to `out`, the bytes in one base64 pass.
pub fn write_output(out: &mut String, process_id: &str, seq: u64, stream: Stream, bytes: &[u8]) {
    out.reserve(HEAD.len() + process_id.len() + base64::encoded_len(bytes.len()) + 80);
    out.push_str(HEAD);
    out.push_str(r#""processId":"#);
    write_text(out, process_id);
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        r#","seq":{seq},"stream":"{}","chunk":""#,
        stream.as_str()
    );
    base64::encode_into(bytes, out);
    out.push_str(r#""}}"#);
}

/// Appends a whole `process/exited` frame to `out`.
pub fn write_exited(
    out: &mut String,
    process_id: &str,
    seq: u64,
    exit_code: i32,
    sandbox_denied: bool,
) {
    out.push_str(r#"{"method":"process/exited","params":{"processId":"#);
    write_text(out, process_id);
    let _ = write!(
        out,
        r#","seq":{seq},"exitCode":{exit_code},"sandboxDenied":{sandbox_denied}}}}}"#
    );
}

/// Appends a whole `process/closed` frame to `out`.
pub fn write_closed(out: &mut String, process_id: &str, seq: u64) {
    out.push_str(r#"{"method":"process/closed","params":{"processId":"#);
    write_text(out, process_id);
    let _ = write!(out, r#","seq":{seq}}}}}"#);
}

/// Appends `text` as a JSON string.
fn write_text(out: &mut String, text: &str) {
    if text
        .bytes()
        .all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\')
    {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&serde_json::Value::from(text).to_string());
    }
}
