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
use mainstay_wire::initialize::{
    Ignored, Initialize, InitializeAnswer, InitializeParams, Initialized,
};
use mainstay_wire::{Call, Notice, envelope};
use ractor::{ActorCell, ActorRef};
use tokio::process::Child;
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument, Span};

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
use crate::telemetry;
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
        let span = match &target {
            Target::Direct(_) | Target::Relay(_) => telemetry::connect(),
            Target::Program(_) | Target::Handed(_) => Span::none(),
        };
        let connecting = connect(epoch, target, resume, ports, &setup, &supervisor);
        let message = match connecting.instrument(span).await {
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
    let opened = match target {
        Target::Direct(direct) => {
            let link = dialling::direct(&direct).await.map_err(dial)?;
            Opened::direct(link, limit)
        }
        Target::Program(program) => {
            let (link, child) = program.start().map_err(dial)?;
            running = Some(child);
            Opened::direct(link, limit)
        }
        Target::Handed(link) => Opened::direct(*link, limit),
        Target::Relay(bundle) => {
            let opening = over_relay(&bundle, setup, limit);
            opening.instrument(telemetry::noise_connect()).await?
        }
    };
    let Opened {
        link,
        slots,
        deadline,
        span,
    } = opened;
    let initializing = async {
        let guard = start(epoch, link, slots, ports, running, setup, supervisor).await?;
        let rpc = initialize(&guard.link, span, resume, setup);
        match timeout_at(deadline, rpc).await {
            Ok(answer) => Ok((guard, answer?)),
            Err(_) => Err(ErrorKind::InitializeTimeout { timeout: limit }.into()),
        }
    };
    let (guard, answer) = initializing
        .await
        .map_err(|error| (Stage::Initialize, error))?;
    Ok(Ready {
        guard,
        session_id: answer.session_id,
        info: answer.environment_info,
    })
}

/// An open connection on which `initialize` may be sent.
struct Opened {
    link: Link,
    slots: WireSlots,
    /// One budget for the Noise handshake and `initialize`, from the open WebSocket.
    deadline: Instant,
    /// Of the call.
    span: Span,
}

impl Opened {
    fn direct(link: Link, limit: Duration) -> Self {
        Self {
            link,
            slots: WireSlots::direct(),
            deadline: Instant::now() + limit,
            span: telemetry::request(Initialize::METHOD),
        }
    }
}

async fn over_relay(
    bundle: &Bundle,
    setup: &Setup,
    limit: Duration,
) -> Result<Opened, (Stage, Error)> {
    let socket = dialling::rendezvous(bundle, setup)
        .instrument(telemetry::websocket_connect(
            &bundle.environment,
            &bundle.registration,
        ))
        .await
        .map_err(|error| (Stage::Dial, error))?;
    let deadline = Instant::now() + limit;
    let request = telemetry::request(Initialize::METHOD);
    let handshake = dialling::shake_hands(socket, bundle, setup)
        .instrument(request.in_scope(telemetry::noise_handshake));
    let link = match timeout_at(deadline, handshake).await {
        Ok(link) => link.map_err(|error| (Stage::Handshake, error))?,
        Err(_) => {
            return Err((
                Stage::Handshake,
                ErrorKind::InitializeTimeout { timeout: limit }.into(),
            ));
        }
    };
    Ok(Opened {
        link,
        slots: WireSlots::relay(),
        deadline,
        span: request.in_scope(telemetry::initialize_rpc),
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
    setup: &Setup,
    supervisor: &ActorRef<supervisor::Msg>,
) -> Result<LinkGuard, Error> {
    let (reference, reader_ends, writer_ends) =
        LinkRef::new(epoch, setup.tracing.clone(), supervisor.clone());
    let Link { sink, source } = link;
    let writer = Writer {
        sink,
        ends: writer_ends,
        link: reference.clone(),
        slots: slots.clone(),
    };
    let writer = worker::spawn(writer, Span::none(), supervisor.get_cell())
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
    let Ok(reader) = worker::spawn(reader, Span::none(), supervisor.get_cell()).await else {
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
    span: Span,
    resume: Option<Resume>,
    setup: &Setup,
) -> Result<InitializeAnswer, Error> {
    // No generation yet: this link is nobody's but ours.
    let (_keeper, gate) = marks::gate();
    let params = InitializeParams {
        client_name: setup.config.client_name.clone(),
        mainstay: Some(features::announce(
            resume.as_ref().is_some_and(|resume| resume.take_over),
        )),
        resume_session_id: resume.map(|resume| resume.id),
    };
    let answer = call::call_in::<Initialize>(span, link, &gate, Lane::Regular, &params).await?;
    let initialized = envelope::notification(Initialized::METHOD, &Ignored {});
    link.control()
        .send(initialized)
        .await
        .map_err(|_| call::closed(Delivery::NotSent))?;
    Ok(answer)
}
