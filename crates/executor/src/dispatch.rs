//! Who does what: every message of a connection is answered here, or handed to the one who answers it.
//!
//! No call holds up another. Process requests go to the session and on to the process, in order; file requests and the like
//! run as tasks of this connection (see `host`); what needs no waiting is answered on the spot. Requests in flight are bounded in
//! number and bytes; one more is refused at once, so that reading never stops and a terminate always gets through.

mod host;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use mainstay_link::Close;
use mainstay_wire::envelope::{self, Message, Notification, Request, RequestId};
use mainstay_wire::environment::{self, StatusAnswer};
use mainstay_wire::extension::{self, capability};
use mainstay_wire::initialize::{Initialize, InitializeParams, Initialized};
use mainstay_wire::process::{self, Signal, SignalParams};
use mainstay_wire::{Call, Notice, RpcError, limits};
use ractor::ActorRef;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinSet;

use crate::connection::Connection;
use crate::files::Handles;
use crate::http::Exchanges;
use crate::lane::{BODY_PLACES, FILE_PLACES, Lane};
use crate::outbox::{Outbox, Reply, Slot};
use crate::peer::Peer;
use crate::process::{Attachment, Order};
use crate::root;
use crate::session::{self, Attach, Attached};
use crate::shared::Shared;
use crate::watch_missing::MissingWatch;

/// Requests in flight per connection: what the reference's client can have, and some to spare.
const REQUESTS: usize = 2 * limits::CALLS_IN_FLIGHT;

/// Bytes of requests in flight per connection, in KiB: two of the largest messages.
const REQUEST_KIB: usize = 2 * limits::MESSAGE / limits::KIB;

/// Refusals (of unreadable messages, of requests beyond those bounds) not yet written; one more ends the connection.
const REFUSALS: usize = 1024;

/// Notifications from the client on their way to a process; beyond that reading waits for the moment they take.
const NOTICES: usize = 1024;

/// One connection's desk.
#[derive(Debug)]
pub(crate) struct Desk {
    peer: Peer,
    connection: Connection,
    outbox: Outbox,
    shared: Arc<Shared>,
    root: ActorRef<root::Message>,
    phase: Phase,
    extended: bool,
    handles: Handles,
    exchanges: Exchanges,
    watch: MissingWatch,
    files: Lane,
    bodies: Lane,
    tasks: JoinSet<()>,
    requests: Arc<Semaphore>,
    request_kib: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    notices: Arc<Semaphore>,
}

/// How far the handshake is (protocol.md 3).
#[derive(Debug)]
enum Phase {
    New,
    Initialized(Attached),
    Ready(Attached),
}

/// A request with its duty to be answered.
struct Asked<'a> {
    request: Request<'a>,
    reply: Reply,
}

impl Desk {
    /// The desk of a new connection.
    pub(crate) fn new(
        peer: Peer,
        connection: Connection,
        outbox: Outbox,
        shared: Arc<Shared>,
        root: ActorRef<root::Message>,
    ) -> Self {
        Self {
            peer,
            connection,
            outbox,
            shared,
            root,
            phase: Phase::New,
            extended: false,
            handles: Handles::default(),
            exchanges: Exchanges::default(),
            watch: MissingWatch::default(),
            files: Lane::new(FILE_PLACES),
            bodies: Lane::new(BODY_PLACES),
            tasks: JoinSet::new(),
            requests: Arc::new(Semaphore::new(REQUESTS)),
            request_kib: Arc::new(Semaphore::new(REQUEST_KIB)),
            refusals: Arc::new(Semaphore::new(REFUSALS)),
            notices: Arc::new(Semaphore::new(NOTICES)),
        }
    }

    /// Forgets tasks that have ended. Never returns while none has. Cancel-safe.
    pub(crate) async fn tidy(&mut self) {
        if self.tasks.join_next().await.is_none() {
            std::future::pending().await
        }
    }

    /// Handles one message; `Break` ends the connection with that reason.
    pub(crate) async fn on_message(&mut self, bytes: &[u8]) -> ControlFlow<Close> {
        match envelope::parse(bytes) {
            Ok(Message::Request(request)) => self.on_request(request, bytes.len()).await,
            Ok(Message::Notification(notification)) => self.on_notification(&notification).await,
            // Nothing was asked of the client.
            Ok(Message::Success(_) | Message::Failure(_)) => {
                end("answer to a request that was never sent")
            }
            Err(malformed) => match self.peer.unreadable(&malformed) {
                Some(error) => self.refuse(envelope::UNREADABLE_ID, error),
                None => end("message that cannot be read"),
            },
        }
    }

    async fn on_notification(&mut self, notification: &Notification<'_>) -> ControlFlow<Close> {
        match &*notification.method {
            <Initialized as Notice>::METHOD => match std::mem::replace(&mut self.phase, Phase::New)
            {
                Phase::New => end("initialized before initialize"),
                Phase::Initialized(session) | Phase::Ready(session) => {
                    self.phase = Phase::Ready(session);
                    ControlFlow::Continue(())
                }
            },
            <extension::Credit as Notice>::METHOD => self.on_credit(notification).await,
            _ => end("unknown notification"),
        }
    }

    async fn on_credit(&mut self, notification: &Notification<'_>) -> ControlFlow<Close> {
        let Ok(credit) = notification.params::<extension::Credit>() else {
            return end("mainstay/credit that cannot be read");
        };
        let (Phase::Initialized(session) | Phase::Ready(session)) = &self.phase else {
            return end("mainstay/credit before initialize");
        };
        // Never closed.
        if let Ok(held) = self.notices.clone().acquire_owned().await {
            session.send(|from| session::Message::Credit {
                from,
                process: credit.process_id,
                ack: credit.ack_seq,
                window: credit.window,
                held,
            });
        }
        ControlFlow::Continue(())
    }

    async fn on_request(&mut self, request: Request<'_>, size: usize) -> ControlFlow<Close> {
        let Some(slot) = self.slot(size) else {
            let error = RpcError::internal(format_args!(
                "too many requests in flight: the limits are {REQUESTS} requests and {} MiB",
                REQUEST_KIB / limits::KIB
            ));
            return self.refuse(request.id, error);
        };
        let reply = Reply::new(request.id.clone(), self.outbox.clone(), slot);
        let asked = Asked { request, reply };
        if *asked.request.method == *<Initialize as Call>::METHOD {
            self.initialize(asked).await;
        } else {
            self.route(asked);
        }
        ControlFlow::Continue(())
    }

    fn route(&mut self, asked: Asked<'_>) {
        match &*asked.request.method {
            <process::Start as Call>::METHOD => self.start(asked),
            <process::Read as Call>::METHOD => {
                self.order::<process::Read>(asked, |params| {
                    Ok((params.process_id.clone(), Order::Read(params)))
                });
            }
            <process::Write as Call>::METHOD => self.order::<process::Write>(asked, |params| {
                if params.write_id.is_empty() {
                    return Err(RpcError::invalid_params("writeId must not be empty"));
                }
                Ok((params.process_id.clone(), Order::Write(params)))
            }),
            <process::SignalCall as Call>::METHOD => {
                let extended = self.extended;
                self.order::<process::SignalCall>(asked, |params| signal(params, extended));
            }
            <process::Terminate as Call>::METHOD => {
                self.order::<process::Terminate>(asked, |params| {
                    let grace = params.grace_ms.map(Duration::from_millis);
                    Ok((params.process_id, Order::Terminate(grace)))
                })
            }
            <extension::CloseStdin as Call>::METHOD => {
                self.order::<extension::CloseStdin>(asked, |params| {
                    Ok((params.process_id, Order::CloseStdin))
                });
            }
            <extension::Resize as Call>::METHOD => {
                self.order::<extension::Resize>(asked, |params| {
                    Ok((params.process_id.clone(), params.into()))
                });
            }
            <extension::Processes as Call>::METHOD => {
                self.with_session::<extension::Processes>(asked, |session, _, reply| {
                    session.send(|from| session::Message::List { from, reply });
                });
            }
            <extension::EndSession as Call>::METHOD => {
                self.with_session::<extension::EndSession>(asked, |session, _, reply| {
                    session.send(|from| session::Message::End { from, reply });
                });
            }
            <environment::Status as Call>::METHOD => {
                self.with_session::<environment::Status>(asked, |_, _, reply| {
                    reply.ok(StatusAnswer::ready())
                });
            }
            <environment::Info as Call>::METHOD => {
                let info = self.shared.environment.clone();
                self.with_session::<environment::Info>(asked, |_, _, reply| reply.ok(&*info));
            }
            _ => self.route_to_host(asked),
        }
    }

    /// `initialize`: a session of our own, or the one to resume. Nothing else is read until that is decided.
    async fn initialize(&mut self, Asked { request, reply }: Asked<'_>) {
        let params = match request.params::<Initialize>() {
            Ok(params) => params,
            Err(error) => return reply.err(error),
        };
        match self.phase {
            Phase::New => {}
            Phase::Initialized(_) | Phase::Ready(_) => {
                return reply.err(RpcError::initialized_twice());
            }
        }
        let InitializeParams {
            resume_session_id,
            mainstay,
            ..
        } = params;
        let extension = mainstay.unwrap_or_default();
        let extended = !extension.capabilities.is_empty();
        let (attached, decided) = oneshot::channel();
        let attach = Attach {
            connection: self.connection.clone(),
            attachment: Attachment {
                outbox: self.outbox.clone(),
                credit: extension.has(capability::CREDIT),
                first_seq: extended,
            },
            peer: self.peer.clone(),
            take_over: extension.take_over,
            environment: self.shared.environment.clone(),
            reply,
            attached,
        };
        // The dropped reply tells the client if nobody is there to decide.
        let _ = self.root.cast(root::Message::Open {
            resume: resume_session_id,
            attach: Box::new(attach),
        });
        if let Ok(attached) = decided.await {
            self.phase = Phase::Initialized(attached);
            self.extended = extended;
        }
    }

    fn start(&mut self, asked: Asked<'_>) {
        self.with_session::<process::Start>(asked, |session, params, reply| {
            let params = Box::new(params);
            session.send(|from| session::Message::Start {
                from,
                params,
                reply,
            });
        });
    }

    /// Hands a request about one process to the session.
    fn order<C: Call>(
        &mut self,
        asked: Asked<'_>,
        order: impl FnOnce(C::Params) -> Result<(String, Order), RpcError>,
    ) {
        self.with_session::<C>(asked, |session, params, reply| match order(params) {
            Ok((process, order)) => {
                let call = crate::process::Call { reply, order };
                session.send(|from| session::Message::Call {
                    from,
                    process,
                    call,
                });
            }
            Err(error) => reply.err(error),
        });
    }

    fn with_session<C: Call>(
        &mut self,
        asked: Asked<'_>,
        then: impl FnOnce(&Attached, C::Params, Reply),
    ) {
        if let Some((params, reply)) = self.admit::<C>(asked)
            && let Phase::Ready(session) = &self.phase
        {
            then(session, params, reply);
        }
    }

    /// Decodes the params, then looks at the handshake (protocol.md 2 and 3); answers if either is wrong.
    fn admit<C: Call>(&self, Asked { request, reply }: Asked<'_>) -> Option<(C::Params, Reply)> {
        let refused = match (request.params::<C>(), &self.phase) {
            (Ok(params), Phase::Ready(_)) => return Some((params, reply)),
            (Ok(_), Phase::New) => RpcError::before_initialize(C::FAMILY),
            (Ok(_), Phase::Initialized(_)) => RpcError::before_initialized(C::FAMILY),
            (Err(error), _) => error,
        };
        reply.err(refused);
        None
    }

    fn slot(&self, size: usize) -> Option<Slot> {
        // A message has at most 65,536 KiB.
        let kib = size.div_ceil(limits::KIB) as u32;
        let count = take(&self.requests, 1)?;
        let bytes = take(&self.request_kib, kib)?;
        Some(Slot::new(count, Some(bytes)))
    }

    /// Answers what cannot be served; a peer that does not even take refusals loses the connection.
    fn refuse(&self, id: RequestId, error: RpcError) -> ControlFlow<Close> {
        match take(&self.refusals, 1) {
            Some(count) => {
                Reply::new(id, self.outbox.clone(), Slot::new(count, None)).err(error);
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(Close::new(1008, "too many messages that were refused")),
        }
    }
}

/// `process/signal`: the reference knows one signal, and tells its clients so.
fn signal(params: SignalParams, extended: bool) -> Result<(String, Order), RpcError> {
    if params.signal != Signal::Interrupt && !extended {
        let name = serde_json::to_value(params.signal).unwrap_or_default();
        let name = name.as_str().unwrap_or_default();
        return Err(RpcError::invalid_params(format_args!(
            "unknown variant `{name}`, expected `interrupt`"
        )));
    }
    Ok((params.process_id, Order::Signal(params.signal)))
}

fn take(budget: &Arc<Semaphore>, count: u32) -> Option<OwnedSemaphorePermit> {
    budget.clone().try_acquire_many_owned(count).ok()
}

fn end(reason: &str) -> ControlFlow<Close> {
    ControlFlow::Break(Close::new(1002, reason))
}
