//! What a file operation can fail with, and how it is told to the peer.

use std::io;

use mainstay_wire::RpcError;
use rustix::io::Errno;

/// Why a file operation failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// The operating system refused; told with its text.
    #[error("{}", os_text(.0))]
    Os(#[from] io::Error),
    /// A file has more bytes than one may have.
    #[error("file is too large to read: limit is {0} bytes")]
    TooLarge(u64),
    /// The request itself cannot be served; told with this text.
    #[error("{0}")]
    Refused(String),
}

impl FileError {
    pub(crate) fn refused(text: impl Into<String>) -> Self {
        Self::Refused(text.into())
    }
}

impl From<Errno> for FileError {
    fn from(errno: Errno) -> Self {
        Self::Os(errno.into())
    }
}

/// Protocol.md 9: not found is -32004, invalid input -32600, any other failure -32603, each with the system's text.
impl From<FileError> for RpcError {
    fn from(error: FileError) -> Self {
        let text = error.to_string();
        match error {
            FileError::Os(error) => match error.kind() {
                io::ErrorKind::NotFound => RpcError::not_found(text),
                io::ErrorKind::InvalidInput => RpcError::invalid_request(text),
                _ => RpcError::internal(text),
            },
            FileError::TooLarge(_) | FileError::Refused(_) => RpcError::invalid_request(text),
        }
    }
}

/// The text of an operating system error as peers know it.
///
/// The reference is linked against musl, whose words for two errors differ from those of glibc.
pub(crate) fn os_text(error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::LOOP) => "Symbolic link loop (os error 40)".to_owned(),
        Some(Errno::NAMETOOLONG) => "Filename too long (os error 36)".to_owned(),
        _ => error.to_string(),
    }
}
