//! Output of a process: two byte streams, or one ordered stream of events.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use tokio::io::{AsyncRead, ReadBuf};

use crate::error::Error;
use crate::process::ExitStatus;

/// Which of a process's outputs bytes came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamKind {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// The terminal.
    Pty,
}

/// One thing that happened to a process. Delivered once each, in order, whatever happened to the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessEvent {
    /// Bytes it wrote.
    Output {
        /// Where to.
        stream: StreamKind,
        /// What.
        bytes: Bytes,
    },
    /// Events `first..=last` are gone: the executor no longer had them after an outage.
    Gap {
        /// First missing sequence number.
        first: u64,
        /// Last missing sequence number.
        last: u64,
    },
    /// It exited. Output may still follow.
    Exited(ExitStatus),
    /// Exit and the end of both outputs were seen. The last event.
    Closed,
    /// Nothing more can be known. The last event.
    Lost(Error),
}

/// One output of a process, as bytes. After an outage that lost output, one read fails with a text naming the gap
/// and reading goes on behind it. End of file means that the executor reported the end; a lost process is an error.
#[derive(Debug)]
pub struct OutputStream {
    _private: (),
}

impl AsyncRead for OutputStream {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
    }
}

/// Everything that happens to a process, in order. Ends after [`ProcessEvent::Closed`] or [`ProcessEvent::Lost`].
#[derive(Debug)]
pub struct Events {
    _streams: (Option<OutputStream>, Option<OutputStream>),
}

impl Events {
    pub(crate) fn new(stdout: Option<OutputStream>, stderr: Option<OutputStream>) -> Self {
        Self {
            _streams: (stdout, stderr),
        }
    }
}

impl Stream for Events {
    type Item = ProcessEvent;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<ProcessEvent>> {
        Poll::Ready(None)
    }
}
