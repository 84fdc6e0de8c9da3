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
mod live;
pub(crate) mod log;
mod reading;
pub(crate) mod record;
mod sending;
pub(crate) mod spawn;
mod stdin;
mod writes;
mod writing;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use mainstay_wire::RpcError;
use mainstay_wire::extension::{ProcessEntry, ResizeParams, Size};
use mainstay_wire::process::{
    ReadParams, SandboxType, Signal, StartAnswer, TerminateAnswer, WriteParams,
};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::{mpsc, oneshot};

use child::Child;
use ends::Ends;
use live::{Ending, Live};
use log::Log;
use record::Record;
use spawn::{Plan, SpawnError};
use writes::WriteIds;

pub(crate) use writing::answer_late;

use crate::nursery::Nursery;
use crate::outbox::{Outbox, Reply};
use crate::session;
use crate::shared::Shared;

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
    /// A read that has waited for room outside of the loop.
    Roomy(Reply, ReadParams),
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

impl From<ResizeParams> for Order {
    fn from(params: ResizeParams) -> Self {
        Self::Resize(Size {
            rows: params.rows,
            cols: params.cols,
        })
    }
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
    pub(crate) shared: Arc<Shared>,
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
        shared,
    } = arguments;
    let mut record = Record {
        id,
        argv: plan.argv.clone(),
        tty: plan.terminal.is_some(),
        has_stdin: plan.terminal.is_some() || plan.pipe_stdin,
        stdin_closed: false,
        keeps_all: false,
        log: Log::new(shared.config.output_log),
        writes: WriteIds::default(),
    };
    let mut early = VecDeque::new();
    let (child, ends) = match start(plan, shared.nursery.clone(), &mut letters, &mut early).await {
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
    let mut live = Live::new(record, child, ends, again, shared.killer.clone());
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
        Ending::Abandoned => {
            // An error means that the runtime is ending; dropping the child kills its group at least.
            let _ = shared.killer.kill(child.pid()).await;
            return;
        }
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
            Letter::Roomy(reply, params) => calls.push(Call {
                reply,
                order: Order::Read(params),
            }),
            Letter::Describe(asked) => drop(asked.send(record.entry())),
            // The session knows the attachment itself; nothing is left to acknowledge or to end.
            Letter::Credit { .. } | Letter::Attach(_) | Letter::Detach | Letter::Quit => {}
        }
    }
    calls
}
