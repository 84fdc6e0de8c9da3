//! Output of a process: two byte streams, or one ordered stream of events.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures_util::Stream;
use tokio::io::{AsyncRead, ReadBuf};

pub use mainstay_wire::process::Stream as StreamKind;

use crate::error::Error;
use crate::outlet::{Piece, PieceKind, Tap};
use crate::process::ExitStatus;

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
    /// Events `first..=last` are gone: the executor no longer had them after an outage, or nobody read in time
    /// ([`OnSlow::Gap`](crate::OnSlow::Gap)).
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

/// One output of a process, as bytes. Where output was lost, one read fails with a text naming the gap
/// and reading goes on behind it. End of file means that the executor reported the end; a lost process is an error.
#[derive(Debug)]
pub struct OutputStream {
    tap: Tap,
    rest: Bytes,
    /// Set by the last piece: end of file, or why there is none.
    end: Option<Result<(), Error>>,
}

impl OutputStream {
    pub(crate) fn new(tap: Tap) -> Self {
        Self {
            tap,
            rest: Bytes::new(),
            end: None,
        }
    }

    /// The next bytes as they came, without a copy; `None` at the end.
    ///
    /// # Errors
    /// As reading: a gap once, a lost process for ever.
    pub async fn chunk(&mut self) -> io::Result<Option<Bytes>> {
        std::future::poll_fn(|cx| self.poll_chunk(cx)).await
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        if self.rest.has_remaining() {
            return Poll::Ready(Ok(Some(std::mem::take(&mut self.rest))));
        }
        loop {
            match &self.end {
                Some(Ok(())) => return Poll::Ready(Ok(None)),
                Some(Err(error)) => return Poll::Ready(Err(error.clone().into())),
                None => {}
            }
            match ready!(self.tap.poll(cx)).map(|piece| piece.what) {
                Some(PieceKind::Chunk { bytes, .. }) if bytes.is_empty() => {}
                Some(PieceKind::Chunk { bytes, .. }) => return Poll::Ready(Ok(Some(bytes))),
                Some(PieceKind::Gap { first, last }) => {
                    return Poll::Ready(Err(io::Error::other(format!(
                        "output lost: events {first} to {last}"
                    ))));
                }
                Some(PieceKind::Exited(_)) => {}
                Some(PieceKind::Closed) => self.end = Some(Ok(())),
                Some(PieceKind::Lost(error)) => self.end = Some(Err(error)),
                None => self.end = Some(Err(Error::protocol("the process table is gone"))),
            }
        }
    }
}

impl AsyncRead for OutputStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(mut bytes) = ready!(self.poll_chunk(cx))? {
            let head = bytes.split_to(bytes.len().min(buf.remaining()));
            buf.put_slice(&head);
            self.rest = bytes;
        }
        Poll::Ready(Ok(()))
    }
}

/// Everything that happens to a process, in order. Ends after [`ProcessEvent::Closed`] or [`ProcessEvent::Lost`].
#[derive(Debug)]
pub struct Events {
    taps: Vec<(Tap, Option<Piece>)>,
    next: u64,
    over: bool,
}

impl Events {
    pub(crate) fn new(taps: impl IntoIterator<Item = Tap>) -> Self {
        Self {
            taps: taps.into_iter().map(|tap| (tap, None)).collect(),
            next: 1,
            over: false,
        }
    }
}

impl OutputStream {
    pub(crate) fn into_tap(self) -> Tap {
        self.tap
    }
}

impl Stream for Events {
    type Item = ProcessEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ProcessEvent>> {
        if self.over {
            return Poll::Ready(None);
        }
        let this = &mut *self;
        let mut all_have = true;
        this.taps.retain_mut(|(tap, head)| {
            if head.is_none() {
                match tap.poll(cx) {
                    Poll::Ready(Some(piece)) => *head = Some(piece),
                    // Ended without a last piece: the table is gone.
                    Poll::Ready(None) => return false,
                    Poll::Pending => all_have = false,
                }
            }
            true
        });
        if this.taps.is_empty() {
            this.over = true;
            return Poll::Ready(Some(ProcessEvent::Lost(Error::protocol(
                "the process table is gone",
            ))));
        }
        // Numbers have no holes, so the next one is at the head of some stream, or not there yet. A stream that was
        // taken before leaves holes: then the lowest head is the next, once every stream has one.
        let lowest = this
            .taps
            .iter()
            .filter_map(|(_, head)| head.as_ref().map(|piece| piece.ordinal))
            .min();
        let Some(ordinal) = lowest.filter(|ordinal| *ordinal == this.next || all_have) else {
            return Poll::Pending;
        };
        let mut found = None;
        for (_, head) in &mut this.taps {
            if head.as_ref().is_some_and(|piece| piece.ordinal == ordinal) {
                found = head.take();
            }
        }
        this.next = ordinal + 1;
        Poll::Ready(found.map(|piece| match piece.what {
            PieceKind::Chunk { stream, bytes } => ProcessEvent::Output { stream, bytes },
            PieceKind::Gap { first, last } => ProcessEvent::Gap { first, last },
            PieceKind::Exited(status) => ProcessEvent::Exited(status),
            PieceKind::Closed => {
                this.over = true;
                ProcessEvent::Closed
            }
            PieceKind::Lost(error) => {
                this.over = true;
                ProcessEvent::Lost(error)
            }
        }))
    }
}
