//! Standard input of a process.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::{PollSender, ReusableBoxFuture};

use crate::error::Error;
use crate::feed::Fed;

/// Bytes of one `process/write` at most (`session.md` 8.5).
pub(crate) const CHUNK: usize = 64 << 10;

/// Standard input of a process. `flush` waits until the executor has accepted everything written; `shutdown` also
/// closes it, or fails with [`io::ErrorKind::Unsupported`] where the executor cannot. Dropping it closes it too,
/// without waiting.
#[derive(Debug)]
pub struct Stdin {
    chunks: PollSender<Bytes>,
    fed: watch::Receiver<Fed>,
    /// Bytes written so far.
    written: u64,
    waiting: ReusableBoxFuture<'static, io::Result<()>>,
    is_waiting: bool,
    can_close: bool,
}

impl Stdin {
    pub(crate) fn new(
        chunks: mpsc::Sender<Bytes>,
        fed: watch::Receiver<Fed>,
        can_close: bool,
    ) -> Self {
        Self {
            chunks: PollSender::new(chunks),
            fed,
            written: 0,
            waiting: ReusableBoxFuture::new(std::future::ready(Ok(()))),
            is_waiting: false,
            can_close,
        }
    }

    /// Whether the executor can close it (it announced `mainstayStdinClose`).
    pub fn can_close(&self) -> bool {
        self.can_close
    }

    /// Why nothing more is taken, if so.
    fn failure(&self) -> io::Result<()> {
        match &self.fed.borrow().failed {
            Some(error) => Err(broken(error)),
            None => Ok(()),
        }
    }

    /// Waits for `reached`, or for the failure.
    fn poll_fed(
        &mut self,
        cx: &mut Context<'_>,
        reached: impl Fn(&Fed) -> bool + Send + Sync + 'static,
    ) -> Poll<io::Result<()>> {
        if !self.is_waiting {
            let mut fed = self.fed.clone();
            self.waiting.set(async move {
                match fed
                    .wait_for(|fed| fed.failed.is_some() || reached(fed))
                    .await
                {
                    Ok(fed) => fed
                        .failed
                        .as_ref()
                        .map_or(Ok(()), |error| Err(broken(error))),
                    Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
                }
            });
            self.is_waiting = true;
        }
        let result = ready!(self.waiting.poll(cx));
        self.is_waiting = false;
        Poll::Ready(result)
    }
}

impl AsyncWrite for Stdin {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.failure()?;
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        ready!(self.chunks.poll_reserve(cx)).map_err(gone)?;
        let bytes = &bytes[..bytes.len().min(CHUNK)];
        self.chunks
            .send_item(Bytes::copy_from_slice(bytes))
            .map_err(gone)?;
        self.written += bytes.len() as u64;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = self.written;
        self.poll_fed(cx, move |fed| fed.accepted >= written)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.can_close {
            ready!(self.as_mut().poll_flush(cx))?;
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the executor cannot close standard input",
            )));
        }
        self.chunks.close();
        self.poll_fed(cx, |fed| fed.closed)
    }
}

fn broken(error: &Error) -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, error.clone())
}
