//! A started process: what callers hold of it.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mainstay_wire::extension::{Resize, ResizeParams};
use mainstay_wire::process::{
    Read, ReadParams, SignalCall, SignalParams, Terminate, TerminateParams,
};
use tokio::sync::watch;

pub use mainstay_wire::process::{Chunk, ReadAnswer, SandboxType, Signal};

use crate::command::TtySize;
use crate::error::Error;
use crate::outlet::{Hold, Inlets, Progress, Tap};
use crate::process_table::ToTable;
use crate::session::Session;
use crate::stdin::Stdin;
use crate::stream::{Events, OutputStream};

/// How a process ended, as far as it is known. Never invented: without an exit fact it is `Lost`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited.
    Exited(ExitStatus),
    /// Its fate is not known, and will not be: why.
    Lost(Error),
}

/// The exit fact of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitStatus {
    /// Exit code; 128 + n after signal n.
    pub code: i32,
    /// The executor's guess that its sandbox denied something; `None` if it does not say.
    pub sandbox_denied: Option<bool>,
}

/// Everything a process wrote, and how it ended.
#[derive(Clone, Debug)]
pub struct Output {
    /// How it ended.
    pub exit: Exit,
    /// Standard output, or the terminal's output.
    pub stdout: Bytes,
    /// Standard error.
    pub stderr: Bytes,
}

/// A process of one session. It stays valid through recoveries, and fails for ever when its session ends.
/// Dropping it does not end the process.
#[derive(Debug)]
pub struct Process {
    /// Standard input, if the command asked for one. Dropping it closes the remote end where the executor can.
    pub stdin: Option<Stdin>,
    /// Standard output (or the terminal). Dropping it discards what comes.
    pub stdout: Option<OutputStream>,
    /// Standard error; a terminal has none. Dropping it discards what comes.
    pub stderr: Option<OutputStream>,
    status: Option<Tap>,
    progress: watch::Receiver<Progress>,
    hold: Arc<Hold>,
    session: Session,
    sandbox: Option<SandboxType>,
}

impl Process {
    pub(crate) fn new(
        session: Session,
        hold: Arc<Hold>,
        inlets: Inlets,
        stdin: Option<Stdin>,
        sandbox: Option<SandboxType>,
    ) -> Self {
        // Told in eighths of what may be under way, so that both streams together never hold the process up.
        let worth = session
            .setup()
            .config
            .credit_window
            .min(session.setup().config.process_buffer)
            / 8;
        let tap = |pieces| Tap::new(pieces, hold.clone(), worth);
        Self {
            stdin,
            stdout: Some(OutputStream::new(tap(inlets.stdout))),
            stderr: inlets.stderr.map(|pieces| OutputStream::new(tap(pieces))),
            status: Some(tap(inlets.status)),
            progress: inlets.progress,
            hold,
            session,
            sandbox,
        }
    }

    /// Its id within the session.
    pub fn id(&self) -> &str {
        &self.hold.key.process_id
    }

    /// What confines it, if the executor says.
    pub fn sandbox_type(&self) -> Option<&SandboxType> {
        self.sandbox.as_ref()
    }

    /// Its session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Takes both output streams and gives everything in one ordered stream instead. What was taken before is missing.
    pub fn events(&mut self) -> Events {
        let streams = [self.stdout.take(), self.stderr.take()];
        Events::new(
            streams
                .into_iter()
                .flatten()
                .map(OutputStream::into_tap)
                .chain(self.status.take()),
        )
    }

    /// Waits until the process and its output streams have ended. Like every pipe, a stream that nobody reads holds
    /// the process up when it is full: read both, or drop them. Cancel-safe.
    pub async fn wait(&mut self) -> Exit {
        let ended = self
            .progress
            .wait_for(|progress| progress.end.is_some())
            .await;
        match ended
            .as_ref()
            .ok()
            .and_then(|progress| progress.end.clone())
        {
            Some(end) => end,
            None => Exit::Lost(
                self.session
                    .failure()
                    .unwrap_or_else(|| Error::protocol("the process table is gone")),
            ),
        }
    }

    /// Waits for the exit alone; output may still come. Cancel-safe.
    pub async fn exited(&mut self) -> Exit {
        let known = self
            .progress
            .wait_for(|progress| progress.exited.is_some() || progress.end.is_some())
            .await;
        match known
            .as_ref()
            .ok()
            .map(|progress| (progress.exited, progress.end.clone()))
        {
            Some((Some(status), _)) => Exit::Exited(status),
            Some((None, Some(end))) => end,
            Some((None, None)) | None => Exit::Lost(
                self.session
                    .failure()
                    .unwrap_or_else(|| Error::protocol("the process table is gone")),
            ),
        }
    }

    /// Closes standard input, reads everything, waits.
    ///
    /// # Errors
    /// Output that was lost: a gap, or the process itself.
    pub async fn wait_with_output(mut self) -> Result<Output, Error> {
        drop(self.stdin.take());
        let (mut stdout, mut stderr) = (self.stdout.take(), self.stderr.take());
        let (stdout, stderr) = tokio::join!(read_all(stdout.as_mut()), read_all(stderr.as_mut()));
        let exit = self.wait().await;
        match (exit, stdout, stderr) {
            (Exit::Lost(error), _, _) => Err(error),
            (exit @ Exit::Exited(_), Ok(stdout), Ok(stderr)) => Ok(Output {
                exit,
                stdout,
                stderr,
            }),
            (Exit::Exited(_), Err(error), _) | (Exit::Exited(_), _, Err(error)) => {
                Err(Error::protocol(error.to_string()))
            }
        }
    }

    /// Reads the executor's log of this process after `after_seq`, at most `max_bytes` (but always one chunk), waiting
    /// up to `wait` for something to report. Repeated when its link ends under it. A lost process answers with its
    /// failure in [`ReadAnswer::failure`], closed and without a code (`session.md` 8.5).
    ///
    /// # Errors
    /// The executor refuses, for example because it has forgotten the process.
    pub async fn read_log(
        &self,
        after_seq: u64,
        max_bytes: Option<u64>,
        wait: Duration,
    ) -> Result<ReadAnswer, Error> {
        let lost = |progress: &Progress, error: &Error| ReadAnswer {
            chunks: Vec::new(),
            next_seq: progress.wake.saturating_add(1),
            exited: true,
            exit_code: None,
            closed: true,
            failure: Some(error.to_string()),
            sandbox_denied: false,
            mainstay_first_seq: None,
        };
        let progress = self.progress.borrow().clone();
        if let Some(Exit::Lost(error)) = &progress.end {
            return Ok(lost(&progress, error));
        }
        let params = ReadParams {
            process_id: self.id().to_owned(),
            after_seq: Some(after_seq),
            max_bytes,
            wait_ms: Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        };
        let line = self.session.line();
        match line.insist::<Read>(self.session.mode(), &params).await {
            Err(error) if error.is_transport_closed() && line.failure().is_some() => {
                // The table hears of it in the same step.
                let mut progress = self.progress.clone();
                let _ = progress.wait_for(|progress| progress.end.is_some()).await;
                let progress = progress.borrow().clone();
                Ok(lost(&progress, &error))
            }
            other => other,
        }
    }

    /// Sends a signal to the process group (in a terminal: to its foreground job). Once, whatever happens.
    ///
    /// # Errors
    /// All but `Interrupt` need an executor that announces `mainstaySignals`.
    pub async fn signal(&self, signal: Signal) -> Result<(), Error> {
        if signal != Signal::Interrupt && !self.session.features().signals {
            return Err(Error::unsupported("signals other than interrupt"));
        }
        let params = SignalParams {
            process_id: self.id().to_owned(),
            signal,
        };
        self.session
            .line()
            .call::<SignalCall>(self.session.mode(), &params)
            .await
            .map(|_| ())
    }

    /// Kills the process group. `true` if a kill was sent.
    ///
    /// # Errors
    /// As every call.
    pub async fn terminate(&self) -> Result<bool, Error> {
        self.terminate_with(None).await
    }

    /// Terminates politely: TERM, then KILL after `grace`. Without `mainstayTerminateGrace` the KILL comes at once.
    ///
    /// # Errors
    /// As every call.
    pub async fn terminate_after(&self, grace: Duration) -> Result<bool, Error> {
        let grace = self.session.features().terminate_grace.then_some(grace);
        self.terminate_with(grace).await
    }

    async fn terminate_with(&self, grace: Option<Duration>) -> Result<bool, Error> {
        let grace_ms = grace.map(|grace| u64::try_from(grace.as_millis()).unwrap_or(u64::MAX));
        let params = TerminateParams {
            process_id: self.id().to_owned(),
            grace_ms,
        };
        // Whatever closes the process's policy questions from here on was a cancellation.
        let _ = self
            .hold
            .table
            .send(ToTable::Cancelling(self.hold.key.clone()));
        let answer = self
            .session
            .line()
            .clean_up::<Terminate>(self.session.mode(), &params)
            .await;
        let _ = self.hold.table.send(ToTable::Cancel(self.hold.key.clone()));
        answer.map(|answer| answer.running)
    }

    /// Changes the terminal's size.
    ///
    /// # Errors
    /// The executor does not announce `mainstayResize`; else as every call.
    pub async fn resize(&self, size: TtySize) -> Result<(), Error> {
        if !self.session.features().resize {
            return Err(Error::unsupported("a change of the terminal's size"));
        }
        let params = ResizeParams {
            process_id: self.id().to_owned(),
            rows: size.rows,
            cols: size.cols,
        };
        self.session
            .line()
            .call::<Resize>(self.session.mode(), &params)
            .await
            .map(|_| ())
    }
}

async fn read_all(stream: Option<&mut OutputStream>) -> std::io::Result<Bytes> {
    let Some(stream) = stream else {
        return Ok(Bytes::new());
    };
    let mut all = BytesMut::new();
    while let Some(chunk) = stream.chunk().await? {
        all.extend_from_slice(&chunk);
    }
    Ok(all.freeze())
}
