//! The command's output to local standard output and error.
//!
//! One thread writes both, in the order of the command's events, so that what shares a terminal stays in order. It may block; the
//! conductor then stops asking for events, and so on back to the program.

use std::os::fd::BorrowedFd;

use bytes::Bytes;
use mainstay::StreamKind;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    stdio::{stderr, stdout},
};
use tokio::sync::{mpsc, oneshot};

/// Chunks that may wait for a slow reader of ours, 8 KiB each by the protocol.
const AHEAD: usize = 32;

/// Why writing ended before the command did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteFailure {
    /// Which output.
    pub(crate) name: &'static str,
    /// What the system said.
    pub(crate) error: Errno,
}

/// Where the conductor puts output; dropping it ends the thread when everything is written.
#[derive(Debug)]
pub(crate) struct Output(mpsc::Sender<(StreamKind, Bytes)>);

/// Tells when the thread has ended.
#[derive(Debug)]
pub(crate) struct Written(oneshot::Receiver<Result<(), WriteFailure>>);

/// Starts the writing thread.
pub(crate) fn start() -> (Output, Written) {
    let (chunks, received) = mpsc::channel(AHEAD);
    let (report, done) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = report.send(write_all(received));
    });
    (Output(chunks), Written(done))
}

impl Output {
    /// Hands one chunk to the thread, waiting for room. Cancel-safe: a cancelled call handed nothing over.
    pub(crate) async fn hand_over(&self, chunk: &(StreamKind, Bytes)) {
        if let Ok(room) = self.0.reserve().await {
            room.send(chunk.clone());
        }
        // Otherwise the thread has ended, and `Written` says why.
    }
}

impl Written {
    /// Everything is written, or something cannot be. Cancel-safe; only once.
    pub(crate) async fn ended(&mut self) -> Result<(), WriteFailure> {
        // The thread always reports; if it died all the same, what it had is not written.
        (&mut self.0).await.unwrap_or(Err(WriteFailure {
            name: "output",
            error: Errno::IO,
        }))
    }
}

fn write_all(mut chunks: mpsc::Receiver<(StreamKind, Bytes)>) -> Result<(), WriteFailure> {
    while let Some((stream, bytes)) = chunks.blocking_recv() {
        let (name, fd) = match stream {
            StreamKind::Stdout => ("standard output", stdout()),
            StreamKind::Pty => ("standard output", stdout()),
            StreamKind::Stderr => ("standard error", stderr()),
        };
        write_chunk(fd, &bytes).map_err(|error| WriteFailure { name, error })?;
    }
    Ok(())
}

fn write_chunk(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            // Inherited as non-blocking (a terminal often is): wait as a blocking write would.
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(&fd, PollFlags::OUT)], None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
