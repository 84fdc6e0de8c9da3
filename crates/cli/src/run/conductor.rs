//! One command from its start to the exit code.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::StreamExt;
use mainstay::{Environment, Error, ExitStatus, Process, ProcessEvent, Signal, StreamKind};
use rustix::io::Errno;
use tokio::time::{Instant, sleep_until, timeout};

use super::{
    input,
    output::{self, Output, WriteFailure, Written},
    request::Request,
    signals::{self, Signals, Wish},
    start, terminal,
};
use crate::ending::{Ending, say};

/// Between SIGTERM and SIGKILL of a command that is to end, where the executor can do that.
const GRACE: Duration = Duration::from_secs(5);
/// How much longer `run` waits for the report of that end.
const REPORT: Duration = Duration::from_secs(2);

/// Starts the command, carries it to its end, and says how it ended.
pub(crate) async fn conduct(
    environment: &Environment,
    place: &str,
    request: Request,
    signals: &mut Signals,
) -> Ending {
    let started = tokio::select! {
        started = start::start(environment, place, &request) => started,
        // Dropping the start abandons it: what was started all the same is terminated.
        number = signals.fatal() => return Ending::signal(number),
    };
    let mut process = match started {
        Ok(process) => process,
        Err(ending) => return ending,
    };
    if request.tty
        && let Err(error) = terminal::make_raw().and_then(|()| signals.listen_for_suspend())
    {
        say(&format!("the local terminal stays as it is: {error}"));
    }
    let input = process
        .stdin
        .take()
        .map(|stdin| input::pass_on(stdin, request.tty));
    let (output, written) = output::start();
    let conductor = Conductor {
        events: process.events(),
        process: Arc::new(process),
        written,
        waiting: None,
        exit: None,
        gap: false,
        interrupted: false,
        forced: None,
    };
    let ending = conductor.run(output, signals).await;
    if let Some(input) = input {
        input.abort();
    }
    ending
}

struct Conductor {
    process: Arc<Process>,
    events: mainstay::Events,
    written: Written,
    /// Output that the writing thread has no room for yet.
    waiting: Option<(StreamKind, Bytes)>,
    exit: Option<ExitStatus>,
    /// Output is missing.
    gap: bool,
    /// Ctrl-C was passed on once.
    interrupted: bool,
    /// An ending that was decided here, and when to stop waiting for the command's own.
    forced: Option<(Ending, Instant)>,
}

impl Conductor {
    async fn run(mut self, output: Output, signals: &mut Signals) -> Ending {
        let mut lost = None;
        loop {
            let patience = self.forced.as_ref().map(|(_, until)| *until);
            tokio::select! {
                biased;
                wish = signals.next() => self.obey(wish),
                () = elapse(patience) => break,
                written = self.written.ended() => return self.unwritable(written).await,
                () = hand_over(&output, self.waiting.as_ref()), if self.waiting.is_some() => self.waiting = None,
                event = self.events.next(), if self.waiting.is_none() => match event {
                    Some(ProcessEvent::Output { stream, bytes }) => self.waiting = Some((stream, bytes)),
                    Some(ProcessEvent::Gap { first, last }) => {
                        self.gap = true;
                        say(&format!("output is missing: the executor no longer has events {first} to {last}"));
                    }
                    Some(ProcessEvent::Exited(status)) => self.exit = Some(status),
                    Some(ProcessEvent::Closed) => break,
                    Some(ProcessEvent::Lost(cause)) => {
                        lost = Some(cause);
                        break;
                    }
                    None => break,
                },
            }
        }
        drop(output);
        self.finish(signals, lost).await
    }

    /// Writes what is left, then names the ending.
    async fn finish(mut self, signals: &mut Signals, lost: Option<Error>) -> Ending {
        loop {
            let patience = self.forced.as_ref().map(|(_, until)| *until);
            tokio::select! {
                biased;
                wish = signals.next() => self.obey(wish),
                () = elapse(patience) => break,
                written = self.written.ended() => match written {
                    Ok(()) => break,
                    Err(failure) => return self.unwritable(Err(failure)).await,
                },
            }
        }
        match (self.forced, lost, self.exit) {
            (Some((ending, _)), _, _) => ending,
            (None, Some(cause), _) => Ending::own(format!(
                "the command is lost, its outcome is not known: {cause}"
            )),
            (None, None, Some(status)) if self.gap => Ending::own(format!(
                "the command exited with {}, but its output is not complete",
                status.code
            )),
            (None, None, Some(status)) => match u8::try_from(status.code) {
                Ok(code) => Ending::Code(code),
                Err(_) => Ending::own(format!("the command's exit code {} is none", status.code)),
            },
            (None, None, None) => {
                Ending::own("the command is lost: its output ended without an exit code")
            }
        }
    }

    fn obey(&mut self, wish: Wish) {
        match wish {
            Wish::Interrupt if self.interrupted => {
                self.end(Ending::signal(2), Duration::ZERO);
            }
            Wish::Interrupt => {
                self.interrupted = true;
                let process = self.process.clone();
                tokio::spawn(async move {
                    if let Err(error) = process.signal(Signal::Interrupt).await {
                        say(&format!("cannot interrupt the command: {error}"));
                    }
                });
            }
            Wish::End(number) => self.end(Ending::signal(number), GRACE),
            Wish::Resize => {
                let process = self.process.clone();
                // An executor that cannot resize keeps the size it has.
                tokio::spawn(async move { process.resize(terminal::size()).await.ok() });
            }
            Wish::Suspend => {
                signals::suspend();
                self.obey(Wish::Resize);
            }
        }
    }

    /// Ends the command; a second request does not wait for the first one's grace.
    fn end(&mut self, ending: Ending, grace: Duration) {
        let grace = if self.forced.is_some() {
            Duration::ZERO
        } else {
            grace
        };
        let process = self.process.clone();
        tokio::spawn(async move {
            if grace.is_zero() {
                process.terminate().await.ok()
            } else {
                process.terminate_after(grace).await.ok()
            }
        });
        self.forced = Some((ending, Instant::now() + grace + REPORT));
    }

    /// Output cannot be written: what a local command would get as SIGPIPE or an error ends the remote one.
    async fn unwritable(&self, written: Result<(), WriteFailure>) -> Ending {
        let ended = timeout(REPORT, self.process.terminate()).await;
        if !matches!(ended, Ok(Ok(_))) {
            say("the connection is down: the command may run on until its session is forgotten");
        }
        match written {
            // The thread ends well only when nothing more can come.
            Ok(()) => Ending::own("output ended early"),
            Err(WriteFailure {
                error: Errno::PIPE, ..
            }) => Ending::signal(13),
            Err(WriteFailure { name, error }) => Ending::own(format!(
                "cannot write {name}: {}",
                std::io::Error::from(error)
            )),
        }
    }
}

async fn hand_over(output: &Output, chunk: Option<&(StreamKind, Bytes)>) {
    if let Some(chunk) = chunk {
        output.hand_over(chunk).await;
    }
}

async fn elapse(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}
