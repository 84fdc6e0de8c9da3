//! Standard input of a process.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

/// Standard input of a process. `flush` waits until the executor has accepted everything written; `shutdown` also
/// closes it, or fails with [`io::ErrorKind::Unsupported`] where the executor cannot.
#[derive(Debug)]
pub struct Stdin {
    _private: (),
}

impl Stdin {
    /// Whether the executor can close it (it announced `mainstayStdinClose`).
    pub fn can_close(&self) -> bool {
        false
    }
}

impl AsyncWrite for Stdin {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
    }
}
