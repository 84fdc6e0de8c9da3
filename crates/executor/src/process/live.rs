//! A started process being served: one loop over letters, output, input and time.

use std::time::Duration;

use mainstay_wire::process::{
    ReadParams, Signal, TerminateAnswer, write_closed, write_exited, write_output,
};
use mainstay_wire::{Empty, limits};
use rustix::process::{Pid, Signal as Native};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::child::Child;
use super::credit::Credit;
use super::ends::{self, Ends, Found};
use super::log::Event;
use super::record::Record;
use super::stdin::Stdin;
use super::{Attachment, Call, Letter, Order};
use crate::killer::{Killed, Killer};
use crate::outbox::{Gone, Place, Reply};

/// Output that may wait for places in the outbox of a client without credit before the program has to wait, in bytes
/// and chunks: more than the outbox itself would only move the wait.
const UNSENT_BYTES: usize = 256 * limits::KIB;
const UNSENT_CHUNKS: usize = 1024;

/// Output looked for after the exit, before it is told: more than any pipe holds. What a background child writes
/// later follows the exit.
const DRAIN_BYTES: usize = 2 * limits::MIB;

/// A read answer above this waits for room in the outbox, so that many of them are not built at once.
const LARGE_READ: usize = 64 * limits::KIB;

/// A started process.
pub(super) struct Live {
    pub(super) record: Record,
    pub(super) child: Child,
    pub(super) ends: Ends,
    again: mpsc::WeakUnboundedSender<Letter>,
    pub(super) stdin: Stdin,
    polls: Vec<Poll>,
    attached: Option<Attached>,
    credit: Credit,
    kill_at: Option<Instant>,
    killer: Killer,
    /// The killer is at work on this process.
    killing: Option<Killed>,
}

struct Attached {
    to: Attachment,
    /// The first number sent on this attachment.
    since: u64,
    /// The next number to send.
    cursor: u64,
}

/// A read that waits for news.
struct Poll {
    reply: Reply,
    params: ReadParams,
    /// `None`: for ever.
    until: Option<Instant>,
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
        let sent = self
            .attached
            .as_ref()
            .is_none_or(|attached| attached.cursor == self.record.log.next_seq());
        self.record.log.is_closed()
            && sent
            && self.polls.is_empty()
            && self.kill_at.is_none()
            && self.killing.is_none()
    }

    /// Sends events in order while there is credit and a place, the one it was given first; returns whether only places
    /// are missing.
    fn pump(&mut self, mut given: Option<Place>) -> bool {
        let Some(attached) = &mut self.attached else {
            return false;
        };
        let id = &self.record.id;
        while attached.cursor < self.record.log.next_seq() {
            let Some(event) = self.record.log.event(attached.cursor) else {
                // Read and acknowledged before it was sent.
                attached.cursor += 1;
                continue;
            };
            let bytes = match &event {
                Event::Output(chunk) => chunk.bytes.len(),
                Event::Exited { .. } | Event::Closed { .. } => 0,
            };
            if attached.to.credit && bytes > 0 && !self.credit.allows(bytes) {
                return false;
            }
            let Some(place) = given.take().or_else(|| attached.to.outbox.try_place()) else {
                return true;
            };
            let mut frame = String::new();
            match event {
                Event::Output(chunk) => {
                    write_output(&mut frame, id, chunk.seq, chunk.stream, &chunk.bytes)
                }
                Event::Exited { seq, code } => write_exited(&mut frame, id, seq, code, false),
                Event::Closed { seq } => write_closed(&mut frame, id, seq),
            }
            place.send(frame);
            self.credit.spend(bytes);
            self.record.log.tell(attached.cursor);
            attached.cursor += 1;
        }
        false
    }

    fn may_read(&self) -> bool {
        if self.ends.is_exhausted() {
            return false;
        }
        let log = &self.record.log;
        match &self.attached {
            _ if self.record.keeps_all => !log.is_full(),
            Some(attached) => !log.exceeds(attached.cursor, UNSENT_BYTES, UNSENT_CHUNKS),
            None => true,
        }
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
            Letter::Credit { ack, window } => self.on_credit(ack, window),
            Letter::Attach(attachment) => self.on_attach(attachment),
            Letter::Detach => self.on_detach(),
            Letter::Describe(asked) => drop(asked.send(self.record.entry())),
            Letter::Quit => self.child.signal_group(Native::TERM),
        }
    }

    pub(super) fn on_attach(&mut self, to: Attachment) {
        self.on_detach();
        self.record.keeps_all = to.credit;
        if !self.record.keeps_all {
            self.record.log.evict();
        }
        self.credit.restart();
        let next = self.record.log.next_seq();
        self.record.log.tell(next - 1);
        self.attached = Some(Attached {
            to,
            since: next,
            cursor: next,
        });
    }

    fn on_detach(&mut self) {
        if let Some(attached) = self.attached.take() {
            let gone = &attached.to.outbox;
            self.polls.retain(|poll| !poll.reply.is_to(gone));
            self.stdin.forget(gone);
        }
    }

    fn on_credit(&mut self, ack: u64, window: u64) {
        if let Some(attached) = &self.attached
            && attached.to.credit
        {
            let sent = attached.since..attached.cursor;
            let acknowledged = self.record.log.release(ack, sent);
            self.credit.grant(acknowledged, window);
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

    fn on_read(&mut self, reply: Reply, params: ReadParams) {
        let wait = Duration::from_millis(params.wait_ms.unwrap_or(0));
        // A wait that no clock can hold is for ever.
        let until = Instant::now().checked_add(wait);
        self.polls.push(Poll {
            reply,
            params,
            until,
        });
    }

    /// Answers the reads that have something to say or have waited long enough.
    fn answer_polls(&mut self) {
        if self.polls.is_empty() {
            return;
        }
        let now = Instant::now();
        let first_seq = self
            .attached
            .as_ref()
            .is_some_and(|attached| attached.to.first_seq);
        let mut waiting = Vec::new();
        for mut poll in self.polls.drain(..) {
            let news = self.record.log.has_news(poll.params.after_seq.unwrap_or(0));
            if !news && poll.until.is_none_or(|until| until > now) {
                waiting.push(poll);
                continue;
            }
            let size = self.record.read_size(&poll.params);
            if size > LARGE_READ && !poll.reply.try_room(size) {
                wait_for_room(poll, size, self.again.clone());
                continue;
            }
            let Poll { reply, params, .. } = poll;
            reply.frame(|id| self.record.read(id, &params, first_seq));
        }
        self.polls = waiting;
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

async fn place(attached: Option<&Attached>) -> Result<Place, Gone> {
    match attached {
        Some(attached) => attached.to.outbox.place().await,
        None => std::future::pending().await,
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

/// Lets a large answer wait outside of the loop; it comes back with its room.
fn wait_for_room(poll: Poll, size: usize, again: mpsc::WeakUnboundedSender<Letter>) {
    let Poll {
        mut reply, params, ..
    } = poll;
    tokio::spawn(async move {
        reply.wait_room(size).await;
        if let Some(letters) = again.upgrade() {
            let params = ReadParams {
                wait_ms: None,
                ..params
            };
            // A loop that has ended meanwhile: the dropped reply says so.
            let _ = letters.send(Letter::Call(Call {
                reply,
                order: Order::Read(params),
            }));
        }
    });
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
