//! From a process's sequencer to its readers: the channels in between, and the accounts that bound them in bytes.

use std::sync::Arc;

use bytes::Bytes;
use mainstay_wire::process::Stream as WireStream;
use tokio::sync::{mpsc, watch};

use crate::error::Error;
use crate::process::{Exit, ExitStatus};
use crate::process_table::ToTable;

/// What an event costs beyond its bytes.
pub(crate) const EVENT_OVERHEAD: usize = 64;

/// Names one process entry of one table, for its whole life. A later process with the same id has another number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) process_id: Arc<str>,
    pub(crate) number: u64,
}

/// One published event, numbered without holes, so that separate streams can be joined again.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) ordinal: u64,
    pub(crate) what: PieceKind,
}

/// What it is. `Gap`, `Closed` and `Lost` go to every stream.
#[derive(Clone, Debug)]
pub(crate) enum PieceKind {
    Chunk { stream: WireStream, bytes: Bytes },
    Gap { first: u64, last: u64 },
    Exited(ExitStatus),
    Closed,
    Lost(Error),
}

impl Piece {
    pub(crate) fn cost(&self) -> usize {
        match &self.what {
            PieceKind::Chunk { bytes, .. } => bytes.len() + EVENT_OVERHEAD,
            PieceKind::Gap { .. }
            | PieceKind::Exited(_)
            | PieceKind::Closed
            | PieceKind::Lost(_) => 0,
        }
    }
}

/// How far a process is, for those who only wait.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) exited: Option<ExitStatus>,
    /// How it ended, once nothing more will come.
    pub(crate) end: Option<Exit>,
    /// The highest event there was, one more after a failure (8.3); set before `end`.
    pub(crate) wake: u64,
}

/// The sequencer's ends.
///
/// The channels are unbounded, their content is not: the table grants or takes in only what the accounts allow.
#[derive(Debug)]
pub(crate) struct Outlets {
    pub(crate) stdout: Option<mpsc::UnboundedSender<Piece>>,
    pub(crate) stderr: Option<mpsc::UnboundedSender<Piece>>,
    pub(crate) status: Option<mpsc::UnboundedSender<Piece>>,
    pub(crate) progress: watch::Sender<Progress>,
}

/// The readers' ends.
#[derive(Debug)]
pub(crate) struct Inlets {
    pub(crate) stdout: mpsc::UnboundedReceiver<Piece>,
    pub(crate) stderr: Option<mpsc::UnboundedReceiver<Piece>>,
    pub(crate) status: mpsc::UnboundedReceiver<Piece>,
    pub(crate) progress: watch::Receiver<Progress>,
}

/// Channels for one process; in a terminal there is no separate standard error.
pub(crate) fn channels(tty: bool) -> (Outlets, Inlets) {
    let (stdout, stdout_rx) = mpsc::unbounded_channel();
    let (stderr, stderr_rx) = if tty {
        (None, None)
    } else {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Some(sender), Some(receiver))
    };
    let (status, status_rx) = mpsc::unbounded_channel();
    let (progress, progress_rx) = watch::channel(Progress::default());
    let outlets = Outlets {
        stdout: Some(stdout),
        stderr,
        status: Some(status),
        progress,
    };
    let inlets = Inlets {
        stdout: stdout_rx,
        stderr: stderr_rx,
        status: status_rx,
        progress: progress_rx,
    };
    (outlets, inlets)
}

impl Outlets {
    /// Delivers a piece; gives back the bytes that nobody will read.
    pub(crate) fn deliver(&mut self, piece: Piece) -> usize {
        match &piece.what {
            PieceKind::Chunk {
                stream: WireStream::Stdout | WireStream::Pty,
                ..
            } => send(&mut self.stdout, piece),
            PieceKind::Chunk {
                stream: WireStream::Stderr,
                ..
            } => send(&mut self.stderr, piece),
            PieceKind::Exited(status) => {
                let status = *status;
                self.progress
                    .send_modify(|progress| progress.exited = Some(status));
                send(&mut self.status, piece)
            }
            PieceKind::Gap { .. } => self.everywhere(&piece),
            PieceKind::Closed => {
                self.progress.send_modify(|progress| {
                    progress.end = Some(match progress.exited {
                        Some(status) => Exit::Exited(status),
                        None => Exit::Lost(Error::protocol("the process closed without an exit")),
                    });
                });
                self.everywhere(&piece)
            }
            PieceKind::Lost(error) => {
                let error = error.clone();
                self.progress
                    .send_modify(|progress| progress.end = Some(Exit::Lost(error)));
                self.everywhere(&piece)
            }
        }
    }

    fn everywhere(&mut self, piece: &Piece) -> usize {
        send(&mut self.stdout, piece.clone())
            + send(&mut self.stderr, piece.clone())
            + send(&mut self.status, piece.clone())
    }
}

fn send(outlet: &mut Option<mpsc::UnboundedSender<Piece>>, piece: Piece) -> usize {
    let cost = piece.cost();
    match outlet.as_ref().map(|outlet| outlet.send(piece)) {
        Some(Ok(())) => 0,
        Some(Err(_)) => {
            *outlet = None;
            cost
        }
        None => cost,
    }
}

/// Tells the table when the last handle of a process is gone.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) key: Key,
    pub(crate) table: mpsc::UnboundedSender<ToTable>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let _ = self.table.send(ToTable::Detach(self.key.clone()));
    }
}

/// One reader's end of one stream, with its account.
#[derive(Debug)]
pub(crate) struct Tap {
    pieces: mpsc::UnboundedReceiver<Piece>,
    hold: Arc<Hold>,
    /// Bytes read and not told to the table yet.
    untold: usize,
    /// How many of them are worth a message.
    worth: usize,
}

impl Tap {
    pub(crate) fn new(
        pieces: mpsc::UnboundedReceiver<Piece>,
        hold: Arc<Hold>,
        worth: usize,
    ) -> Self {
        Self {
            pieces,
            hold,
            untold: 0,
            worth,
        }
    }

    /// The next piece; `None` after the last.
    pub(crate) fn poll(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Piece>> {
        let piece = std::task::ready!(self.pieces.poll_recv(cx));
        if let Some(piece) = &piece {
            self.account(piece.cost());
        }
        std::task::Poll::Ready(piece)
    }

    fn account(&mut self, bytes: usize) {
        self.untold += bytes;
        if self.untold >= self.worth {
            self.tell();
        }
    }

    fn tell(&mut self) {
        let bytes = std::mem::take(&mut self.untold);
        let _ = self.hold.table.send(ToTable::Consumed {
            key: self.hold.key.clone(),
            bytes,
        });
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        // What nobody will read counts as read, or the process would wait for room for ever.
        self.pieces.close();
        while let Ok(piece) = self.pieces.try_recv() {
            self.untold += piece.cost();
        }
        if self.untold > 0 {
            self.tell();
        }
    }
}
