//! Handshake: makes one running link. Dials, speaks Noise over a relay, starts the link's Reader and Writer, runs
//! `initialize`, reports, ends.
//!
//! A [worker](crate::worker) of the supervisor's, one at a time per attempt or recovery; ends with one `LinkReady` or
//! `ConnectFailed`. Killing it drops everything of the link that is not reported yet.

use std::sync::Arc;
use std::time::Duration;

use mainstay_link::Link;
use mainstay_link::relay::Bundle;
use mainstay_session::event::Stage;
use mainstay_session::ids::{Epoch, Op};
use mainstay_wire::environment::EnvironmentInfo;
use mainstay_wire::initialize::{Ignored, Initialize, InitializeParams, Initialized};
use mainstay_wire::{Notice, envelope};
use ractor::{ActorCell, ActorRef};
use tokio::process::Child;
use tokio::time::{Instant, timeout_at};

use crate::call;
use crate::dialling;
use crate::error::{Delivery, Error, ErrorKind};
use crate::features;
use crate::link::{CloseRequest, Lane, LinkRef};
use crate::marks;
use crate::ports::Ports;
use crate::program::Program;
use crate::reader::Reader;
use crate::setup::{Direct, Setup};
use crate::supervisor;
use crate::worker::{self, Work};
use crate::writer::{WireSlots, Writer};

/// Where to.
#[derive(Debug)]
pub(crate) enum Target {
    Direct(Arc<Direct>),
    Relay(Box<Bundle>),
    Program(Program),
    Handed(Box<Link>),
}

/// The session to resume.
#[derive(Debug)]
pub(crate) struct Resume {
    pub(crate) id: String,
    /// Its executor announced that it hands an attached session over to the client that resumes it.
    pub(crate) take_over: bool,
}

#[derive(Debug)]
pub(crate) struct Handshake {
    pub(crate) op: Op,
    pub(crate) epoch: Epoch,
    pub(crate) target: Target,
    pub(crate) resume: Option<Resume>,
    pub(crate) ports: Ports,
    pub(crate) setup: Arc<Setup>,
    pub(crate) supervisor: ActorRef<supervisor::Msg>,
}

/// A running, initialised link.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) guard: LinkGuard,
    pub(crate) session_id: String,
    pub(crate) info: Option<EnvironmentInfo>,
}

/// Owns a link on behalf of whoever may still need it: dropping it closes the link.
#[derive(Debug)]
pub(crate) struct LinkGuard {
    pub(crate) link: LinkRef,
    pub(crate) reader: ActorCell,
    pub(crate) writer: ActorCell,
    /// Killed with its link.
    _program: Option<Child>,
}

impl Drop for LinkGuard {
    fn drop(&mut self) {
        self.link.closed().set();
        self.link.close(CloseRequest::Unneeded);
    }
}

impl Work for Handshake {
    async fn run(self) {
        let Self {
            op,
            epoch,
            target,
            resume,
            ports,
            setup,
            supervisor,
        } = self;
        let message = match connect(epoch, target, resume, ports, &setup, &supervisor).await {
            Ok(ready) => {
                tracing::info!(epoch = epoch.0, "link up");
                supervisor::Msg::LinkReady {
                    op,
                    epoch,
                    ready: Box::new(ready),
                }
            }
            Err((stage, error)) => {
                tracing::info!(epoch = epoch.0, ?stage, %error, "link could not be made");
                supervisor::Msg::ConnectFailed {
                    op,
                    epoch,
                    stage,
                    error,
                }
            }
        };
        // Without a supervisor the message is dropped, and the link with it.
        let _ = supervisor.send_message(message);
    }
}

async fn connect(
    epoch: Epoch,
    target: Target,
    resume: Option<Resume>,
    ports: Ports,
    setup: &Setup,
    supervisor: &ActorRef<supervisor::Msg>,
) -> Result<Ready, (Stage, Error)> {
    let limit = setup.config.session.initialize_timeout;
    let dial = |error| (Stage::Dial, error);
    let mut running = None;
    // One budget for the Noise handshake and `initialize`, from the open WebSocket.
    let (link, slots, deadline) = match target {
        Target::Direct(direct) => {
            let link = dialling::direct(&direct).await.map_err(dial)?;
            (link, WireSlots::direct(), Instant::now() + limit)
        }
        Target::Program(program) => {
            let (link, child) = program.start().map_err(dial)?;
            running = Some(child);
            (link, WireSlots::direct(), Instant::now() + limit)
        }
        Target::Handed(link) => (*link, WireSlots::direct(), Instant::now() + limit),
        Target::Relay(bundle) => {
            let socket = dialling::rendezvous(&bundle, setup).await.map_err(dial)?;
            let deadline = Instant::now() + limit;
            let handshake = dialling::shake_hands(socket, &bundle, setup);
            let link = match timeout_at(deadline, handshake).await {
                Ok(link) => link.map_err(|error| (Stage::Handshake, error))?,
                Err(_) => {
                    return Err((
                        Stage::Handshake,
                        ErrorKind::InitializeTimeout { timeout: limit }.into(),
                    ));
                }
            };
            (link, WireSlots::relay(), deadline)
        }
    };
    let guard = start(epoch, link, slots, ports, running, supervisor)
        .await
        .map_err(|error| (Stage::Initialize, error))?;
    let answer = initialize(&guard.link, resume, setup, deadline, limit)
        .await
        .map_err(|error| (Stage::Initialize, error))?;
    Ok(Ready {
        guard,
        session_id: answer.0,
        info: answer.1,
    })
}

/// Starts Reader and Writer, linked to the supervisor. They run before `initialize` is sent: a resumed session's
/// processes may speak at once.
async fn start(
    epoch: Epoch,
    link: Link,
    slots: WireSlots,
    ports: Ports,
    program: Option<Child>,
    supervisor: &ActorRef<supervisor::Msg>,
) -> Result<LinkGuard, Error> {
    let (reference, reader_ends, writer_ends) = LinkRef::new(epoch, supervisor.clone());
    let Link { sink, source } = link;
    let writer = Writer {
        sink,
        ends: writer_ends,
        link: reference.clone(),
        slots: slots.clone(),
    };
    let writer = worker::spawn(writer, supervisor.get_cell())
        .await
        .map_err(|_| call::closed(Delivery::NotSent))?;
    let reader = Reader::new(
        source,
        reader_ends,
        reference.clone(),
        slots,
        ports,
        supervisor.clone(),
    );
    let Ok(reader) = worker::spawn(reader, supervisor.get_cell()).await else {
        writer.kill();
        return Err(call::closed(Delivery::NotSent));
    };
    Ok(LinkGuard {
        link: reference,
        reader,
        writer,
        _program: program,
    })
}

async fn initialize(
    link: &LinkRef,
    resume: Option<Resume>,
    setup: &Setup,
    deadline: Instant,
    limit: Duration,
) -> Result<(String, Option<EnvironmentInfo>), Error> {
    // No generation yet: this link is nobody's but ours.
    let (_keeper, gate) = marks::gate();
    let params = InitializeParams {
        client_name: setup.config.client_name.clone(),
        mainstay: Some(features::announce(
            resume.as_ref().is_some_and(|resume| resume.take_over),
        )),
        resume_session_id: resume.map(|resume| resume.id),
    };
    let exchange = call::call::<Initialize>(link, &gate, Lane::Regular, &params);
    let answer = match timeout_at(deadline, exchange).await {
        Ok(answer) => answer?,
        Err(_) => return Err(ErrorKind::InitializeTimeout { timeout: limit }.into()),
    };
    let initialized = envelope::notification(Initialized::METHOD, &Ignored {});
    link.control()
        .send(initialized)
        .await
        .map_err(|_| call::closed(Delivery::NotSent))?;
    Ok((answer.session_id, answer.environment_info))
}
