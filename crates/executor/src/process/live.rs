//! A started process being served: one loop over letters, output, input and time. What it does with them is also in
//! `sending`, `reading` and `writing`.

use std::time::Duration;

use mainstay_wire::process::{Signal, TerminateAnswer};
use mainstay_wire::{Empty, limits};
use rustix::process::{Pid, Signal as Native};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::child::Child;
use super::credit::Credit;
use super::ends::{self, Ends, Found};
use super::reading::Poll;
use super::record::Record;
use super::sending::{Attached, place};
use super::stdin::Stdin;
use super::{Call, Letter, Order};
use crate::killer::{Killed, Killer};
use crate::outbox::{Gone, Place};

/// Output looked for after the exit, before it is told: more than any pipe holds. What a background child writes
/// later follows the exit.
const DRAIN_BYTES: usize = 2 * limits::MIB;

/// A started process.
pub(super) struct Live {
    pub(super) record: Record,
    pub(super) child: Child,
    pub(super) ends: Ends,
    pub(super) again: mpsc::WeakUnboundedSender<Letter>,
    pub(super) stdin: Stdin,
    pub(super) polls: Vec<Poll>,
    /// Reads that wait for room outside of the loop and come back to it.
    pub(super) roomless: usize,
    pub(super) attached: Option<Attached>,
    pub(super) credit: Credit,
    kill_at: Option<Instant>,
    killer: Killer,
    /// The killer is at work on this process.
    killing: Option<Killed>,
}

/// Why the loop ended.
pub(super) enum Ending {
    /// The process is closed and everything is sent.
    Over,
    /// The session has ended; dropping the child kills its group.
    Abandoned,
}

/// What the loop waits for.
enum Wake {
    Letter(Option<Letter>),
    Exit(i32),
    Place(Result<Place, Gone>),
    Output(ends::Reading),
    Written(std::io::Result<usize>),
    Time,
    Killed,
}

impl Live {
    /// Nobody is attached yet.
    pub(super) fn new(
        record: Record,
        child: Child,
        ends: Ends,
        again: mpsc::WeakUnboundedSender<Letter>,
        killer: Killer,
    ) -> Self {
        Self {
            record,
            child,
            ends,
            again,
            stdin: Stdin::default(),
            polls: Vec::new(),
            roomless: 0,
            attached: None,
            credit: Credit::default(),
            kill_at: None,
            killer,
            killing: None,
        }
    }

    /// Serves until nothing can happen any more and everything is sent.
    pub(super) async fn serve(&mut self, letters: &mut mpsc::UnboundedReceiver<Letter>) -> Ending {
        let mut place = None;
        loop {
            let starved = self.pump(place.take());
            self.answer_polls();
            if self.is_done() {
                return Ending::Over;
            }
            match self.wait(letters, starved).await {
                Wake::Letter(Some(letter)) => self.on_letter(letter),
                Wake::Letter(None) => return Ending::Abandoned,
                Wake::Exit(code) => self.on_exit(code),
                Wake::Place(Ok(found)) => place = Some(found),
                Wake::Place(Err(Gone)) => self.on_detach(),
                Wake::Output(reading) => {
                    let found = self.ends.take(reading);
                    self.on_found(found);
                    if let Some(found) = self.ends.read_other() {
                        self.on_found(found);
                    }
                }
                Wake::Written(written) => self.on_written(written),
                Wake::Time => self.on_time(),
                Wake::Killed => self.killing = None,
            }
        }
    }

    async fn wait(&mut self, letters: &mut mpsc::UnboundedReceiver<Letter>, starved: bool) -> Wake {
        let running = self.record.log.exit_code().is_none();
        let reads = self.may_read();
        let next_time = self.next_time();
        let input = self.stdin.front().cloned().unwrap_or_default();
        tokio::select! {
            biased;
            letter = letters.recv() => Wake::Letter(letter),
            code = self.child.exited(), if running => Wake::Exit(code),
            place = place(self.attached.as_ref()), if starved => Wake::Place(place),
            reading = self.ends.read(), if reads => Wake::Output(reading),
            written = self.ends.write(&input), if !input.is_empty() => Wake::Written(written),
            () = sleep_until(next_time), if next_time.is_some() => Wake::Time,
            () = killed(self.killing.as_mut()), if self.killing.is_some() => Wake::Killed,
        }
    }

    fn is_done(&self) -> bool {
        self.record.log.is_closed()
            && self.is_sent()
            && self.polls.is_empty()
            && self.roomless == 0
            && self.kill_at.is_none()
            && self.killing.is_none()
    }

    fn next_time(&self) -> Option<Instant> {
        let polls = self.polls.iter().filter_map(|poll| poll.until);
        polls.chain(self.kill_at).min()
    }

    fn on_found(&mut self, found: Found) {
        match found {
            Found::Output(stream, bytes) => {
                self.record.log.output(stream, bytes);
                if !self.record.keeps_all {
                    self.record.log.evict();
                }
            }
            Found::End => self.close_if_over(),
        }
    }

    fn on_exit(&mut self, code: i32) {
        // What the program wrote before it ended is in the pipes already: its output comes before its exit, unless
        // reading pauses.
        let mut drained = 0;
        while drained < DRAIN_BYTES
            && self.may_read()
            && let Some(found) = self.ends.read_now()
        {
            if let Found::Output(_, bytes) = &found {
                drained += bytes.len();
            }
            self.on_found(found);
        }
        self.record.log.exit(code);
        self.abandon_stdin();
        self.close_if_over();
    }

    fn close_if_over(&mut self) {
        let log = &mut self.record.log;
        if log.exit_code().is_some() && self.ends.is_exhausted() && !log.is_closed() {
            log.close();
        }
    }

    fn on_time(&mut self) {
        if self.kill_at.is_some_and(|at| at <= Instant::now()) {
            self.kill_at = None;
            self.kill();
        }
    }

    pub(super) fn on_letter(&mut self, letter: Letter) {
        match letter {
            Letter::Call(call) => self.on_call(call),
            Letter::Roomy(reply, params) => self.on_roomy(reply, params),
            Letter::Credit { ack, window } => self.on_credit(ack, window),
            Letter::Attach(attachment) => self.on_attach(attachment),
            Letter::Detach => self.on_detach(),
            Letter::Describe(asked) => drop(asked.send(self.record.entry())),
            Letter::Quit => self.child.signal_group(Native::TERM),
        }
    }

    fn on_call(&mut self, Call { reply, order }: Call) {
        match order {
            Order::Read(params) => self.on_read(reply, params),
            Order::Write(params) => self.on_write(reply, params),
            Order::CloseStdin => self.on_close_stdin(reply),
            Order::Signal(signal) => {
                self.signal(native(signal));
                reply.ok(Empty {});
            }
            Order::Terminate(grace) => reply.ok(TerminateAnswer {
                running: self.terminate(grace),
            }),
            Order::Resize(size) => {
                // Refused by a terminal that is gone: no difference to anybody.
                let _ = self.ends.resize(size);
                reply.ok(Empty {});
            }
        }
    }

    /// Signals the foreground job of a terminal, otherwise the group; an ended program is left alone.
    fn signal(&self, signal: Native) {
        if self.record.log.exit_code().is_some() {
            return;
        }
        match self.ends.foreground_group() {
            Some(group) if group != self.child.pid() => signal_group(group, signal),
            Some(_) | None => self.child.signal_group(signal),
        }
    }

    /// Ends the group; returns whether the program was still running.
    fn terminate(&mut self, grace: Option<Duration>) -> bool {
        let running = self.record.log.exit_code().is_none();
        match grace {
            Some(grace) if running => {
                self.child.signal_group(Native::TERM);
                let at = Instant::now().checked_add(grace);
                self.kill_at = match (self.kill_at, at) {
                    (Some(before), Some(at)) => Some(before.min(at)),
                    (before, at) => before.or(at),
                };
            }
            // Also what an ended program left in its group and still holds its output open.
            Some(_) | None => self.kill(),
        }
        running
    }

    /// SIGKILL to the program and all that descends from it.
    fn kill(&mut self) {
        self.killing = Some(self.killer.kill(self.child.pid()));
    }
}

async fn killed(killing: Option<&mut Killed>) {
    match killing {
        // An error means the same: nobody works on it any more.
        Some(killing) => drop(killing.await),
        None => std::future::pending().await,
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn signal_group(group: Pid, signal: Native) {
    // A job that has just ended is no error.
    let _ = rustix::process::kill_process_group(group, signal);
}

fn native(signal: Signal) -> Native {
    match signal {
        Signal::Interrupt => Native::INT,
        Signal::Terminate => Native::TERM,
        Signal::Hangup => Native::HUP,
        Signal::Quit => Native::QUIT,
        Signal::Kill => Native::KILL,
        Signal::User1 => Native::USR1,
        Signal::User2 => Native::USR2,
        Signal::Stop => Native::STOP,
        Signal::Continue => Native::CONT,
    }
}
