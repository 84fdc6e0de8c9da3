//! Error texts of serde_json without the position, which means nothing to the peer: `params` were cut out of a message.

/// The text of `error` without ` at line N column M`.
pub(crate) fn detail(error: &serde_json::Error) -> String {
    let mut text = error.to_string();
    if error.line() > 0 {
        let position = format!(" at line {} column {}", error.line(), error.column());
        if text.ends_with(&position) {
            text.truncate(text.len() - position.len());
        }
    }
    text
}
