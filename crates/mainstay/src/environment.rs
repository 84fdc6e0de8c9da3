//! The handle of one environment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub use mainstay_session::ConnState;
use mainstay_session::event::Mode;
use mainstay_session::ids::WaiterId;
use mainstay_wire::environment::EnvironmentInfo;
use ractor::{Actor, ActorCell, ActorRef, DerivedActorRef, RpcReplyPort};
use secrecy::SecretString;
use tokio::sync::{oneshot, watch};

use crate::builder::Builder;
use crate::call;
use crate::claim::ReplacementClaim;
use crate::command::{Command, Sandbox};
use crate::discovery::{CapabilityRoot, ConfigQuery, ConfigReadAnswer, Inventory, RootAnswer};
use crate::error::{Delivery, Error};
use crate::exec;
use crate::files::Files;
use crate::http::{self, HttpRequest, HttpResponse, HttpStream};
use crate::marks::Ended;
use crate::process::Process;
use crate::session::Session;
use crate::setup::{Destination, Setup};
use crate::supervisor::{self, Msg, Supervisor, SupervisorRequest};

/// Whether a session could be used right now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Yes.
    Ready,
    /// Not known yet: nothing was tried, or the session is being recovered.
    Undecided,
    /// No, because.
    Failed(Error),
}

/// How far somebody is with providing the executor of an environment (`session.md` 3.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provisioning {
    /// Attempts to connect wait.
    Pending,
    /// The executor is there, or about to register.
    Ready,
    /// There will be none, because; attempts fail until something else is said.
    Failed(String),
}

/// What an environment's supervisor knows at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The published connection state.
    pub state: ConnState,
    /// Whether a startup has ended, either way, or a session exists.
    pub startup_finished: bool,
    /// Registration id of the last installed session, over a registry.
    pub registration: Option<String>,
    /// Id of the current session.
    pub session_id: Option<String>,
    /// Whether a session could be used right now.
    pub readiness: Readiness,
}

/// A place where commands run. Cheap to clone; outlives every session.
///
/// The environment ends, with its connections, when the last handle is dropped or [`shutdown`](Self::shutdown) is called.
#[derive(Clone, Debug)]
pub struct Environment {
    shared: Arc<Shared>,
    mode: Mode,
}

#[derive(Debug)]
struct Shared {
    supervisor: ActorRef<Msg>,
    setup: Arc<Setup>,
    current: watch::Receiver<Option<Session>>,
    conn: watch::Receiver<ConnState>,
    waiters: AtomicU64,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let (reply, _) = oneshot::channel();
        let request = SupervisorRequest::Shutdown(reply.into());
        let _ = self.supervisor.send_message(request.into());
    }
}

impl Environment {
    /// Describes a new environment.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) async fn start(builder: Builder, parent: Option<ActorCell>) -> Result<Self, Error> {
        let (setup, first) = builder.into_setup()?;
        let setup = Arc::new(setup);
        let (current, current_rx) = watch::channel(None);
        let (conn, conn_rx) = watch::channel(ConnState::default());
        let arguments = supervisor::Arguments {
            setup: setup.clone(),
            first,
            current,
            conn,
        };
        let spawned = match parent {
            Some(parent) => Supervisor::spawn_linked(None, Supervisor, arguments, parent).await,
            None => Supervisor::spawn(None, Supervisor, arguments).await,
        };
        let (supervisor, _) = spawned
            .map_err(|error| Error::protocol(format!("the supervisor cannot start: {error}")))?;
        let shared = Shared {
            supervisor,
            setup,
            current: current_rx,
            conn: conn_rx,
            waiters: AtomicU64::new(1),
        };
        Ok(Self {
            shared: Arc::new(shared),
            mode: Mode::Wait,
        })
    }

    /// The current session, connecting first if need be. A session that is being recovered is returned at once: its
    /// calls wait.
    ///
    /// # Errors
    /// The attempt's; all callers that waited for it share the inner error.
    pub async fn session(&self) -> Result<Session, Error> {
        let current = self.shared.current.borrow().clone();
        if let Some(session) = current.filter(|session| session.failure().is_none()) {
            if self.mode == Mode::FailFast {
                session.line().link(Mode::FailFast).await?;
            }
            return Ok(session.with_mode(self.mode));
        }
        self.request(|reply| SupervisorRequest::Acquire(self.mode, reply))
            .await?
    }

    /// Starts a process, connecting first if need be. Dropping the future abandons the start: a process that was
    /// started all the same is terminated.
    ///
    /// # Errors
    /// [`Error::delivery`] tells whether the process can have been started; [`Error::missing`] what it lacked.
    pub async fn exec(&self, command: Command) -> Result<Process, Error> {
        let session = self.session().await?;
        exec::exec(&session, command, self.shared.supervisor.get_cell()).await
    }

    /// The files of the executor's machine. The same object works over every refresh.
    pub fn files(&self) -> Files {
        Files::new(self.clone())
    }

    /// Makes an HTTP request from the executor's place. Once, whatever happens.
    ///
    /// # Errors
    /// As [`session`](Self::session) and the call; HTTP error statuses are answers.
    pub async fn http(&self, request: HttpRequest) -> Result<HttpResponse, Error> {
        http::buffered(&self.session().await?, request).await
    }

    /// Makes an HTTP request from the executor's place and reads its body as it arrives.
    ///
    /// # Errors
    /// As [`http`](Self::http), until the headers are there; later ones are the body's.
    pub async fn http_stream(&self, request: HttpRequest) -> Result<HttpStream, Error> {
        http::streaming(&self.session().await?, request).await
    }

    /// What the current session's executor says about itself; asked at most once per session.
    ///
    /// # Errors
    /// As [`session`](Self::session) and the call.
    pub async fn info(&self) -> Result<EnvironmentInfo, Error> {
        self.session().await?.info().await
    }

    /// Skills and plugins of the executor's machine: [`Session::discover`] on the current session.
    ///
    /// # Errors
    /// As [`session`](Self::session) and the call.
    pub async fn discover(&self, cwd: &str, sandbox: Option<Sandbox>) -> Result<Inventory, Error> {
        self.session().await?.discover(cwd, sandbox).await
    }

    /// What is in given directories: [`Session::discover_roots`] on the current session.
    ///
    /// # Errors
    /// As [`session`](Self::session) and the call.
    pub async fn discover_roots(
        &self,
        roots: impl IntoIterator<Item = CapabilityRoot>,
    ) -> Result<Vec<RootAnswer>, Error> {
        self.session().await?.discover_roots(roots).await
    }

    /// Parts of the executor's configuration: [`Session::read_config`] on the current session.
    ///
    /// # Errors
    /// As [`session`](Self::session) and the call.
    pub async fn read_config(&self, query: ConfigQuery) -> Result<ConfigReadAnswer, Error> {
        self.session().await?.read_config(query).await
    }

    /// Connects in the background.
    pub fn start_connecting(&self) {
        self.tell(SupervisorRequest::StartConnecting.into());
    }

    /// Waits until the first connection is made.
    ///
    /// # Errors
    /// As [`session`](Self::session).
    pub async fn wait_until_ready(&self) -> Result<(), Error> {
        self.request(SupervisorRequest::AwaitReady).await?
    }

    /// A view that never starts, waits for or recovers anything: its calls fail at once unless the session is up.
    pub fn fail_fast(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            mode: Mode::FailFast,
        }
    }

    /// Moves to the executor that is registered now, and returns when it has answered.
    ///
    /// # Errors
    /// A failed lookup changes nothing; a failed replacement leaves the old session retired.
    pub async fn refresh(&self) -> Result<(), Error> {
        self.request(SupervisorRequest::Refresh).await?.map(|_| ())
    }

    /// The state of this moment, behind everything that was reported before.
    ///
    /// # Errors
    /// The supervisor is gone.
    pub async fn snapshot(&self) -> Result<Snapshot, Error> {
        self.request(SupervisorRequest::Snapshot).await
    }

    /// Subscribes to the connection state.
    ///
    /// # Errors
    /// The supervisor is gone.
    pub async fn watch(&self) -> Result<watch::Receiver<ConnState>, Error> {
        self.request(SupervisorRequest::Subscribe).await
    }

    /// The connection state as published last.
    pub fn state(&self) -> ConnState {
        *self.shared.conn.borrow()
    }

    /// Tells the environment that the network is back or the machine awake: a pending retry runs now.
    pub fn nudge(&self) {
        self.tell(SupervisorRequest::Nudge.into());
    }

    /// Ends the environment: its session's link is closed, its handles fail. Processes live on until the executor's
    /// retention ends.
    pub async fn shutdown(&self) {
        // Without a supervisor it has ended already.
        let _ = self.request(SupervisorRequest::Shutdown).await;
    }

    /// Claims the exclusive right to hand over a socket, for an environment whose sockets the host supplies.
    ///
    /// # Errors
    /// Another claim is open, or this environment dials by itself.
    pub async fn claim_replacement(&self) -> Result<ReplacementClaim, Error> {
        let id = self
            .ask(|waiter, reply| Msg::ClaimReplacement { waiter, reply })
            .await??;
        Ok(ReplacementClaim::new(self.clone(), id))
    }

    /// Uses another registry token from now on, and forgets a startup failure that the old one may have caused.
    ///
    /// # Errors
    /// There is no registry, or the token cannot stand in a header.
    pub fn renew_token(&self, token: &SecretString) -> Result<(), Error> {
        match &self.shared.setup.destination {
            Destination::Registry(registry) => registry.renew(token)?,
            Destination::Direct(_) | Destination::Program(_) | Destination::Accepted => {
                return Err(Error::protocol(
                    "there is no registry whose token could be renewed",
                ));
            }
        }
        self.tell(Msg::CredentialsChanged);
        Ok(())
    }

    /// Says how far the provisioning of the executor is, for an environment built as
    /// [`provisioned`](crate::Builder::provisioned): *pending* until the first call. Without effect on any other.
    pub fn provisioning(&self, now: Provisioning) {
        if self.shared.setup.provisioned {
            self.tell(Msg::ProvisioningChanged(now));
        }
    }

    /// Feeds the session machine an event as if a child had sent it. For tests; no product code calls it.
    #[doc(hidden)]
    pub fn step_for_test(&self, event: mainstay_session::Event) {
        self.tell(Msg::Test(event));
    }

    /// Kills a child of the supervisor as a crash would. For tests.
    #[doc(hidden)]
    pub fn kill_for_test(&self, child: mainstay_session::ids::Child) {
        self.tell(Msg::Kill(child));
    }

    /// The supervisor, for hosts that live in ractor themselves: to link, monitor, message or kill it like any actor of
    /// their own. A request that a host has sent is not taken back when its port is dropped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use mainstay::{Environment, Readiness, SupervisorRequest};
    ///
    /// let environment = Environment::builder().url("ws://127.0.0.1:39731").spawn().await?;
    /// let supervisor = environment.supervisor();
    /// let snapshot = ractor::call_t!(supervisor, SupervisorRequest::Snapshot, 1_000)?;
    /// assert_eq!(snapshot.readiness, Readiness::Undecided);
    /// supervisor.cast(SupervisorRequest::Nudge)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn supervisor(&self) -> DerivedActorRef<SupervisorRequest> {
        self.shared.supervisor.get_derived()
    }

    pub(crate) fn tell(&self, message: Msg) {
        // Without a supervisor there is nothing to change.
        let _ = self.shared.supervisor.send_message(message);
    }

    async fn request<T>(
        &self,
        request: impl FnOnce(RpcReplyPort<T>) -> SupervisorRequest,
    ) -> Result<T, Error> {
        self.ask(|waiter, reply| Msg::Ask {
            waiter,
            request: request(reply.into()),
        })
        .await
    }

    /// Sends a request that names a waiter, and takes it back if the caller goes away.
    pub(crate) async fn ask<T>(
        &self,
        message: impl FnOnce(WaiterId, oneshot::Sender<T>) -> Msg,
    ) -> Result<T, Error> {
        let waiter = WaiterId(self.shared.waiters.fetch_add(1, Relaxed));
        let (reply, answer) = oneshot::channel();
        let _ = self.shared.supervisor.send_message(message(waiter, reply));
        let mut forget = Forget {
            supervisor: Some(&self.shared.supervisor),
            waiter,
        };
        let answer = answer.await.map_err(|_| gone());
        forget.supervisor = None;
        answer
    }
}

/// Takes a request back when its caller goes away.
struct Forget<'a> {
    supervisor: Option<&'a ActorRef<Msg>>,
    waiter: WaiterId,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if let Some(supervisor) = self.supervisor {
            let _ = supervisor.send_message(Msg::ForgetWaiter(self.waiter));
        }
    }
}

fn gone() -> Error {
    call::replaced(Ended::SupervisorGone, Delivery::NotSent)
}
