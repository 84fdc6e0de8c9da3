//! Texts of errors that quote what a peer sent: without positions, which mean nothing once `params` were cut out of
//! the message, and never longer than a line or two, whatever the peer sent.

use std::borrow::Cow;

/// Bytes of an error text that quotes the peer.
const QUOTED: usize = 1024;

/// The text of `error` without ` at line N column M`.
pub(crate) fn detail(error: &serde_json::Error) -> String {
    let mut text = error.to_string();
    if error.line() > 0 {
        let position = format!(" at line {} column {}", error.line(), error.column());
        if text.ends_with(&position) {
            text.truncate(text.len() - position.len());
        }
    }
    match shorten(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(short) => short,
    }
}

/// `text`, or its beginning and an ellipsis.
pub(crate) fn shorten(text: &str) -> Cow<'_, str> {
    if text.len() <= QUOTED {
        return Cow::Borrowed(text);
    }
    let mut end = QUOTED;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Cow::Owned(format!("{}…", &text[..end]))
}
