//! One process: the actor that owns the child, its group, its output log and its sequence numbers.
//!
//! Child of its session. Everything about one process happens in one loop, so that requests keep their order, events
//! leave in the order of their numbers, and the start result before all of them:
//!
//! ```text
//! pipes / terminal ─► log (seq) ─► pump: a place in the connection's outbox? credit? ─► outbox
//! session ─ letters ─► calls: read (may wait), write (may wait its turn), signal, terminate, resize
//! ```
//!
//! | message | meaning |
//! |---|---|
//! | `Run` | start the program and serve it until it is closed and all is sent; the mailbox is not used after that |
//!
//! The loop's own inbox carries [`Letter`]s. It is unbounded in form and bounded in fact: each call holds a slot of its
//! connection, credit is bounded by the connection, everything else is sent once per attachment.
//!
//! **When reading from the program pauses**: a client that grants credit loses nothing, so at the log's limit, attached or
//! not; otherwise, while attached, when so much is unsent that the client does not keep up; while detached never: the
//! oldest output is forgotten, as the reference does.

mod child;
mod credit;
pub(crate) mod ends;
pub(crate) mod environment;
pub(crate) mod log;
pub(crate) mod record;
pub(crate) mod spawn;
mod stdin;
mod writes;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use mainstay_wire::extension::{ProcessEntry, Size};
use mainstay_wire::process::{
    ReadParams, SandboxType, Signal, StartAnswer, TerminateAnswer, WriteAnswer, WriteParams,
    WriteStatus, write_closed, write_exited, write_output,
};
use mainstay_wire::{Empty, RpcError, limits};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use rustix::process::{Pid, Signal as Native};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use child::Child;
use credit::Credit;
use ends::{Ends, Found};
use log::{Event, Log};
use record::{Record, WRITE_FAILED};
use spawn::{Plan, SpawnError};
use stdin::{Stdin, Waiting};
use writes::WriteIds;

use crate::nursery::Nursery;
use crate::outbox::{Gone, Outbox, Reply};
use crate::session;

/// Output that may wait for places in the outbox of a client without credit before the program has to wait, in bytes
/// and chunks: more than the outbox itself would only move the wait.
const UNSENT_BYTES: usize = 256 * limits::KIB;
const UNSENT_CHUNKS: usize = 1024;

/// Output looked for after the exit, before it is told: more than any pipe holds. What a background child writes
/// later follows the exit.
const DRAIN_BYTES: usize = 2 * limits::MIB;

/// A read answer above this waits for room in the outbox, so that many of them are not built at once.
const LARGE_READ: usize = 64 * limits::KIB;

/// What ends a terminal's input line discipline's wait: end of file, as typed.
const END_OF_FILE: &[u8] = &[4];

/// The actor.
#[derive(Debug)]
pub(crate) struct Process;

/// Its only message.
#[derive(Debug)]
pub(crate) enum Message {
    /// Start the program and serve it.
    Run,
}

/// What reaches the loop.
#[derive(Debug)]
pub(crate) enum Letter {
    /// A request, to be answered.
    Call(Call),
    /// Output up to `ack` is with the consumer; so much more may be sent.
    Credit { ack: u64, window: u64 },
    /// Events go to this connection from now on.
    Attach(Attachment),
    /// That connection is gone.
    Detach,
    /// The session asks how it is going.
    Describe(oneshot::Sender<ProcessEntry>),
    /// SIGTERM to the group: the executor shuts down.
    Quit,
}

/// One request about one process.
#[derive(Debug)]
pub(crate) struct Call {
    /// Who wants the answer.
    pub(crate) reply: Reply,
    /// What is asked.
    pub(crate) order: Order,
}

/// What a request asks.
#[derive(Debug)]
pub(crate) enum Order {
    /// `process/read`.
    Read(ReadParams),
    /// `process/write`.
    Write(WriteParams),
    /// `mainstay/closeStdin`.
    CloseStdin,
    /// `process/signal`.
    Signal(Signal),
    /// `process/terminate`, hard at once or after this grace.
    Terminate(Option<Duration>),
    /// `mainstay/resize`.
    Resize(Size),
}

/// Where events go, and what the client understands.
#[derive(Clone, Debug)]
pub(crate) struct Attachment {
    /// The connection's outbox.
    pub(crate) outbox: Outbox,
    /// Whether it grants credit.
    pub(crate) credit: bool,
    /// Whether read answers tell the first retained number.
    pub(crate) first_seq: bool,
}

/// What a process is started with.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) id: String,
    pub(crate) plan: Plan,
    /// Owed the start result.
    pub(crate) reply: Reply,
    pub(crate) attachment: Option<Attachment>,
    pub(crate) letters: mpsc::UnboundedReceiver<Letter>,
    /// For calls that come back to the loop after waiting elsewhere.
    pub(crate) again: mpsc::WeakUnboundedSender<Letter>,
    pub(crate) session: ActorRef<session::Message>,
    pub(crate) nursery: Nursery,
    /// Bytes of output kept.
    pub(crate) log_limit: usize,
}

impl Actor for Process {
    type Msg = Message;
    type State = Option<Box<Arguments>>;
    type Arguments = Box<Arguments>;

    async fn pre_start(
        &self,
        _myself: ActorRef<Message>,
        arguments: Box<Arguments>,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(Some(arguments))
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Run => {
                if let Some(arguments) = state.take() {
                    run(*arguments).await;
                }
                myself.drain()?;
            }
        }
        Ok(())
    }
}

/// Starts the program, serves it to its end, and hands what is left to the session.
async fn run(arguments: Arguments) {
    let Arguments {
        id,
        plan,
        reply,
        attachment,
        mut letters,
        again,
        session,
        nursery,
        log_limit,
    } = arguments;
    let mut record = Record {
        id,
        argv: plan.argv.clone(),
        tty: plan.terminal.is_some(),
        has_stdin: plan.terminal.is_some() || plan.pipe_stdin,
        stdin_closed: false,
        log: Log::new(log_limit),
        writes: WriteIds::default(),
    };
    let mut early = VecDeque::new();
    let (child, ends) = match start(plan, nursery, &mut letters, &mut early).await {
        Ok(started) => started,
        Err(error) => {
            let rest = leftover(early, letters, &record);
            let _ = session.cast(session::Message::NotStarted {
                id: record.id,
                reply,
                error,
                rest,
            });
            return;
        }
    };
    reply.ok(StartAnswer {
        process_id: record.id.clone(),
        sandbox_type: Some(SandboxType::None),
    });
    record.log.tell(0);
    let mut live = Live::new(record, child, ends, again);
    if let Some(attachment) = attachment {
        live.on_attach(attachment);
    }
    for letter in early {
        live.on_letter(letter);
    }
    let ending = live.serve(&mut letters).await;
    let Live { record, child, .. } = live;
    let stragglers = match ending {
        Ending::Over => child.release(),
        Ending::Abandoned => None,
    };
    let rest = leftover(VecDeque::new(), letters, &record);
    let record = Box::new(record);
    let _ = session.cast(session::Message::Finished {
        record,
        stragglers,
        rest,
    });
}

/// Runs the program. Letters that come meanwhile wait; a terminate cancels the start.
async fn start(
    plan: Plan,
    nursery: Nursery,
    letters: &mut mpsc::UnboundedReceiver<Letter>,
    early: &mut VecDeque<Letter>,
) -> Result<(Child, Ends), StartError> {
    let mut starting = tokio::task::spawn_blocking(move || spawn::spawn(&plan, nursery));
    let mut cancelled = false;
    let started = loop {
        tokio::select! {
            started = &mut starting => break started,
            letter = letters.recv(), if !letters.is_closed() => match letter {
                Some(Letter::Call(Call { reply, order: Order::Terminate(_) })) => {
                    cancelled = true;
                    reply.ok(TerminateAnswer { running: true });
                }
                Some(letter) => early.push_back(letter),
                None => {}
            },
        }
    };
    match started {
        Ok(Ok(_)) if cancelled => Err(StartError::Cancelled),
        Ok(Ok(started)) => Ok(started),
        Ok(Err(error)) => Err(StartError::Spawn(error)),
        Err(panicked) => Err(StartError::Spawn(std::io::Error::other(panicked).into())),
    }
}

/// Why a start came to nothing.
#[derive(Debug)]
pub(crate) enum StartError {
    Spawn(SpawnError),
    Cancelled,
}

impl StartError {
    /// What the client is told.
    pub(crate) fn into_rpc(self, id: &str) -> RpcError {
        match self {
            StartError::Spawn(error) => error.into(),
            StartError::Cancelled => {
                RpcError::internal(format_args!("process {id} start was cancelled"))
            }
        }
    }
}

/// Calls that reached a loop which has ended; the session answers them.
fn leftover(
    mut early: VecDeque<Letter>,
    mut letters: mpsc::UnboundedReceiver<Letter>,
    record: &Record,
) -> Vec<Call> {
    letters.close();
    while let Ok(letter) = letters.try_recv() {
        early.push_back(letter);
    }
    let mut calls = Vec::new();
    for letter in early {
        match letter {
            Letter::Call(call) => calls.push(call),
            Letter::Describe(asked) => drop(asked.send(record.entry())),
            // The session knows the attachment itself; nothing is left to acknowledge or to end.
            Letter::Credit { .. } | Letter::Attach(_) | Letter::Detach | Letter::Quit => {}
        }
    }
    calls
}

/// A started process.
struct Live {
    record: Record,
    child: Child,
    ends: Ends,
    again: mpsc::WeakUnboundedSender<Letter>,
    stdin: Stdin,
    polls: Vec<Poll>,
    attached: Option<Attached>,
    /// Whether the client of the last attachment grants credit: then nothing it has not acknowledged is forgotten.
    keeps_all: bool,
    credit: Credit,
    kill_at: Option<Instant>,
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
enum Ending {
    /// The process is closed and everything is sent.
    Over,
    /// The session has ended; dropping the child kills its group.
    Abandoned,
}

/// What the loop waits for.
enum Wake {
    Letter(Option<Letter>),
    Exit(i32),
    Place(Result<(), Gone>),
    Output(ends::Reading),
    Written(std::io::Result<usize>),
    Time,
}

impl Live {
    fn new(
        record: Record,
        child: Child,
        ends: Ends,
        again: mpsc::WeakUnboundedSender<Letter>,
    ) -> Self {
        Self {
            record,
            child,
            ends,
            again,
            stdin: Stdin::default(),
            polls: Vec::new(),
            attached: None,
            keeps_all: false,
            credit: Credit::default(),
            kill_at: None,
        }
    }

    /// Serves until nothing can happen any more and everything is sent.
    async fn serve(&mut self, letters: &mut mpsc::UnboundedReceiver<Letter>) -> Ending {
        loop {
            let starved = self.pump();
            self.answer_polls();
            if self.is_done() {
                return Ending::Over;
            }
            match self.wait(letters, starved).await {
                Wake::Letter(Some(letter)) => self.on_letter(letter),
                Wake::Letter(None) => return Ending::Abandoned,
                Wake::Exit(code) => self.on_exit(code),
                Wake::Place(Ok(())) => {}
                Wake::Place(Err(Gone)) => self.on_detach(),
                Wake::Output(reading) => {
                    let found = self.ends.take(reading);
                    self.on_found(found);
                }
                Wake::Written(written) => self.on_written(written),
                Wake::Time => self.on_time(),
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
        }
    }

    fn is_done(&self) -> bool {
        let sent = self
            .attached
            .as_ref()
            .is_none_or(|attached| attached.cursor == self.record.log.next_seq());
        self.record.log.is_closed() && sent && self.polls.is_empty() && self.kill_at.is_none()
    }

    /// Sends events in order while there is credit and a place; returns whether only places are missing.
    fn pump(&mut self) -> bool {
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
            let Some(place) = attached.to.outbox.try_place() else {
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
            _ if self.keeps_all => !log.is_full(),
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
                if !self.keeps_all {
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
            self.child.signal_group(Native::KILL);
        }
    }

    fn on_letter(&mut self, letter: Letter) {
        match letter {
            Letter::Call(call) => self.on_call(call),
            Letter::Credit { ack, window } => self.on_credit(ack, window),
            Letter::Attach(attachment) => self.on_attach(attachment),
            Letter::Detach => self.on_detach(),
            Letter::Describe(asked) => drop(asked.send(self.record.entry())),
            Letter::Quit => self.child.signal_group(Native::TERM),
        }
    }

    fn on_attach(&mut self, to: Attachment) {
        self.on_detach();
        self.keeps_all = to.credit;
        if !self.keeps_all {
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

    fn on_write(&mut self, reply: Reply, params: WriteParams) {
        let record = &self.record;
        if record.log.exit_code().is_some() {
            answer_late(record, reply, &params.write_id);
        } else if !record.has_stdin {
            status(reply, WriteStatus::StdinClosed);
        } else if record.writes.contains(&params.write_id) {
            status(reply, WriteStatus::Accepted);
        } else if record.stdin_closed {
            status(reply, WriteStatus::StdinClosed);
        } else if self.stdin.is_full() {
            self.stdin.wait(Waiting::Write(reply, params));
        } else {
            self.record.writes.insert(&params.write_id);
            self.stdin.push(params.chunk.0);
            status(reply, WriteStatus::Accepted);
        }
    }

    fn on_close_stdin(&mut self, reply: Reply) {
        if !self.record.has_stdin {
            status(reply, WriteStatus::StdinClosed);
        } else if self.record.log.exit_code().is_none()
            && self.stdin.is_full()
            && !self.record.stdin_closed
        {
            self.stdin.wait(Waiting::Close(reply));
        } else {
            if !self.record.stdin_closed {
                self.record.stdin_closed = true;
                if self.record.tty {
                    self.stdin.push(Bytes::from_static(END_OF_FILE));
                } else if self.stdin.front().is_none() {
                    self.ends.close_input();
                }
            }
            status(reply, WriteStatus::Accepted);
        }
    }

    fn on_written(&mut self, written: std::io::Result<usize>) {
        match written {
            Ok(count) => {
                self.stdin.written(count);
                while let Some(next) = self.stdin.next() {
                    match next {
                        Waiting::Write(reply, params) => self.on_write(reply, params),
                        Waiting::Close(reply) => self.on_close_stdin(reply),
                    }
                }
                if self.record.stdin_closed && self.stdin.front().is_none() {
                    self.ends.close_input();
                }
            }
            // The program has closed it.
            Err(_) => {
                self.record.stdin_closed = true;
                self.abandon_stdin();
            }
        }
    }

    /// Nobody reads any more what is still to be written.
    fn abandon_stdin(&mut self) {
        self.ends.close_input();
        let ended = self.record.log.exit_code().is_some();
        for waiting in self.stdin.give_up() {
            match waiting {
                Waiting::Write(reply, params) if ended => {
                    answer_late(&self.record, reply, &params.write_id)
                }
                Waiting::Write(reply, _) => status(reply, WriteStatus::StdinClosed),
                Waiting::Close(reply) => status(reply, WriteStatus::Accepted),
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
            Some(_) | None => self.child.signal_group(Native::KILL),
        }
        running
    }
}

async fn place(attached: Option<&Attached>) -> Result<(), Gone> {
    match attached {
        Some(attached) => attached.to.outbox.place().await.map(drop),
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

/// Answers a write to a program that has ended.
pub(crate) fn answer_late(record: &Record, reply: Reply, write_id: &str) {
    match record.late_write(write_id) {
        Ok(late) => status(reply, late),
        Err(WRITE_FAILED) | Err(_) => reply.err(RpcError::internal(WRITE_FAILED)),
    }
}

fn status(reply: Reply, status: WriteStatus) {
    reply.ok(WriteAnswer { status });
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
