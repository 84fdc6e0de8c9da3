//! Paths of the executor's machine, as callers write them.

use mainstay_wire::PathUri;

use crate::error::Error;
use crate::session::Session;

/// An absolute path or `file:` URI as it is; anything else is relative to the executor's own directory, which is also
/// what `None` means.
pub(crate) async fn resolve(session: &Session, wanted: Option<&str>) -> Result<PathUri, Error> {
    let bad = |error: &dyn std::fmt::Display| {
        Error::protocol(format!("path {}: {error}", wanted.unwrap_or(".")))
    };
    match wanted {
        Some(uri) if uri.starts_with("file:") => PathUri::parse(uri).map_err(|error| bad(&error)),
        Some(path) if path.starts_with('/') => {
            PathUri::from_native_bytes(path.as_bytes()).map_err(|error| bad(&error))
        }
        relative => {
            let info = session.info().await?;
            let own = info
                .cwd
                .ok_or_else(|| bad(&"the executor does not tell its own directory"))?;
            match relative {
                Some(path) => own
                    .join_native_bytes(path.as_bytes())
                    .map_err(|error| bad(&error)),
                None => Ok(own),
            }
        }
    }
}
