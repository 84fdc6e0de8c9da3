//! Starting a process on a session (`session.md` 8.1): which link, which entry, who goes on when the caller goes away.

use std::sync::Arc;

use mainstay_wire::extension::{Size, StartExtension};
use mainstay_wire::process::{EnvPolicy, Inherit, StartParams};
use ractor::ActorCell;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{Instrument, Span};

use crate::call;
use crate::command::{Command, EnvInherit};
use crate::error::{Delivery, Error};
use crate::feed::{Chunks, Fed, Feed};
use crate::link::LinkRef;
use crate::network::Network;
use crate::outlet::{self, Hold, Key, Outlets};
use crate::paths;
use crate::process::Process;
use crate::process_table::{BeginStart, Refused, ToTable};
use crate::session::Session;
use crate::start::{InProgress, Start};
use crate::stdin::Stdin;
use crate::telemetry;
use crate::worker;

/// Writes that may wait between the writer and its Feed.
const STDIN_QUEUE: usize = 16;

/// Starts `command` on `session`.
pub(crate) async fn exec(
    session: &Session,
    command: Command,
    supervisor: ActorCell,
) -> Result<Process, Error> {
    start(session, command, supervisor)
        .instrument(telemetry::process_start())
        .await
}

async fn start(
    session: &Session,
    command: Command,
    supervisor: ActorCell,
) -> Result<Process, Error> {
    command.network.check()?;
    let process_id: Arc<str> = command
        .process_id
        .clone()
        .unwrap_or_else(|| uuid::Uuid::new_v4().to_string())
        .into();
    let params = params(session, &command, &process_id).await?;
    let with_stdin = command.pipe_stdin || command.tty.is_some();

    let (outlets, inlets) = outlet::channels(command.tty.is_some());
    let (link, key) = register(session, process_id, outlets, &command.network).await?;
    // From here on the entry goes when the caller does.
    let orphan = Orphan {
        key: Some(key.clone()),
        table: session.table().clone(),
    };
    let in_progress = InProgress {
        epoch: link.epoch(),
        table: session.table().clone(),
    };

    let (reply, handed_over) = oneshot::channel();
    let start = Start {
        line: session.line().clone(),
        link,
        params,
        key: key.clone(),
        in_progress,
        table: session.table().clone(),
        reply,
    };
    let ended = |_| call::replaced(crate::marks::Ended::SupervisorGone, Delivery::NotSent);
    worker::spawn(start, Span::current(), supervisor.clone())
        .await
        .map_err(ended)?;

    let line = session.line();
    let outcome = tokio::select! {
        biased;
        ended = line.gate().shut() => Err(line.ended(ended, Delivery::Unknown).await),
        outcome = handed_over => match outcome {
            Ok(outcome) => outcome,
            // Start crashed.
            Err(_) => Err(Error::disconnected("the start crashed", Delivery::Unknown)),
        },
    };
    // The success loses against a retirement that came before it was taken (8.1.5).
    let handed_over = match line.gate().ended() {
        Some(ended) => return Err(line.ended(ended, Delivery::Unknown).await),
        None => outcome?,
    };
    let stdin = if with_stdin {
        Some(feed(session, &key, supervisor).await?)
    } else {
        None
    };
    let hold = Arc::new(Hold {
        key,
        table: session.table().clone(),
    });
    orphan.adopted();
    // Start waits for this; if it does not come, the process is terminated.
    let _ = handed_over.receipt.send(());
    let sandbox = handed_over.answer.sandbox_type;
    tracing::debug!("process started");
    Ok(Process::new(session.clone(), hold, inlets, stdin, sandbox))
}

/// Registers the start with the table, bound to one link. A start never moves to another link.
async fn register(
    session: &Session,
    process_id: Arc<str>,
    outlets: Outlets,
    network: &Network,
) -> Result<(LinkRef, Key), Error> {
    let mut outlets = outlets;
    loop {
        let link = session.line().link(session.mode()).await?;
        let (reply, answer) = oneshot::channel();
        let begin = ToTable::BeginStart(Box::new(BeginStart {
            epoch: link.epoch(),
            process_id: process_id.clone(),
            outlets,
            network: network.clone(),
            reply,
        }));
        if session.table().send(begin).is_err() {
            return Err(session
                .failure()
                .unwrap_or_else(|| Error::protocol("the process table is gone")));
        }
        match answer.await {
            Ok(Ok(key)) => return Ok((link, key)),
            Ok(Err(Refused::For(error))) => return Err(error),
            // The link is being left; its closed mark is set, so the next look-up waits for another one.
            Ok(Err(Refused::Draining(returned))) => outlets = returned,
            Err(_) => {
                return Err(session
                    .failure()
                    .unwrap_or_else(|| Error::protocol("the process table is gone")));
            }
        }
    }
}

async fn feed(session: &Session, key: &Key, supervisor: ActorCell) -> Result<Stdin, Error> {
    let (chunks, receiver) = mpsc::channel(STDIN_QUEUE);
    let (fed, fed_rx) = watch::channel(Fed::default());
    let can_close = session.features().stdin_close;
    let feed = Feed {
        line: session.line().clone(),
        process_id: key.process_id.to_string(),
        chunks: Chunks::new(receiver),
        fed,
        ordered: session.features().ordered_writes,
        can_close,
    };
    let ended = |_| call::replaced(crate::marks::Ended::SupervisorGone, Delivery::Unknown);
    worker::spawn(feed, Span::none(), supervisor)
        .await
        .map_err(ended)?;
    Ok(Stdin::new(chunks, fed_rx, can_close))
}

async fn params(
    session: &Session,
    command: &Command,
    process_id: &str,
) -> Result<StartParams, Error> {
    let mut params = StartParams::new(
        process_id,
        command.argv.clone(),
        paths::resolve(session, command.cwd.as_deref()).await?,
    );
    params.arg0 = command.arg0.clone();
    params.env = command.env.clone();
    params.env_policy = Some(EnvPolicy {
        inherit: match command.inherit {
            EnvInherit::All => Inherit::All,
            EnvInherit::Core => Inherit::Core,
            EnvInherit::None => Inherit::None,
        },
        ignore_default_excludes: true,
        exclude: Vec::new(),
        set: Default::default(),
        include_only: Vec::new(),
    });
    params.network_proxy = command.network.sent_proxy();
    params.managed_network = command.network.managed.clone();
    params.enforce_managed_network = command.network.enforce;
    params.sandbox = command.sandbox.clone();
    params.tty = command.tty.is_some();
    params.pipe_stdin = command.pipe_stdin && command.tty.is_none();
    params.mainstay = command
        .tty
        .filter(|_| session.features().resize)
        .map(|size| StartExtension {
            size: Some(Size {
                rows: size.rows,
                cols: size.cols,
            }),
        });
    Ok(params)
}

/// Removes the entry of a start whose caller went away (8.1.6). The executor's answer is Start's business.
struct Orphan {
    key: Option<Key>,
    table: mpsc::UnboundedSender<ToTable>,
}

impl Orphan {
    fn adopted(mut self) {
        self.key = None;
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            let _ = self.table.send(ToTable::Orphan(key));
        }
    }
}
