//! The registrar: the actor that keeps this executor reachable through a registry's rendezvous (noise-relay.md 2, 3, 6).
//!
//! Child of the root, which gets a link for every harness that the registry vouches for.
//!
//! ```text
//! register ─► dial ─► serve streams ─► socket lost ─► pause ─► dial …
//!    ▲                                  4xx at dial: the registration is unknown or stale
//!    └──────────────────────────────────────┘
//! ```
//!
//! | message | meaning |
//! |---|---|
//! | `Run` | stay registered until closed; the mailbox is not used after that |

mod pace;
mod registry;

use std::sync::Arc;

use mainstay_link::relay::{self, Accepted, Station};
use mainstay_link::{Close, DialError, DialOptions, RawSocket, dial_raw};
use mainstay_noise::{Identity, PublicKey, Suite};
use mainstay_wire::limits;
use mainstay_wire::registry::{EnvironmentId, RegisterAnswer};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use secrecy::SecretString;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::peer::Peer;
use crate::root;
use pace::Pace;
use registry::Registry;

pub use registry::RegisterError;

/// Where and as what an executor registers.
#[derive(Clone, Debug)]
pub struct RegisterConfig {
    /// Base URL of the registry, `http://` or `https://`.
    pub registry: String,
    /// Environment id, `[A-Za-z0-9_-]{1,256}`.
    pub environment: String,
    /// Bearer token of the executor role.
    pub token: SecretString,
    /// The suites offered, the one that registries of the reference know first; none falls back to another.
    pub suites: Vec<Suite>,
    /// The keys to register with; new ones when absent. An executor that registers again with the same keys is the same
    /// executor to its harnesses: they resume their sessions.
    pub identity: Option<Identity>,
}

impl RegisterConfig {
    /// With both suites, the hybrid one first.
    pub fn new(
        registry: impl Into<String>,
        environment: impl Into<String>,
        token: SecretString,
    ) -> Self {
        Self {
            registry: registry.into(),
            environment: environment.into(),
            token,
            suites: vec![Suite::HybridIk, Suite::Ik],
            identity: None,
        }
    }
}

/// A standing registration, as [`crate::Executor::register`] returns it. Dropping it changes nothing.
#[derive(Debug)]
pub struct Registration {
    state: watch::Receiver<Standing>,
    current: String,
}

/// How a registration stands.
#[derive(Clone, Debug, Default)]
pub(crate) enum Standing {
    /// No rendezvous socket has been open yet.
    #[default]
    Pending,
    /// The rendezvous socket is, or was last, open for this registration.
    Open(String),
    /// It cannot be kept; the registrar has ended.
    Failed(Arc<RegisterError>),
}

impl Registration {
    pub(crate) async fn wait(mut state: watch::Receiver<Standing>) -> Result<Self, RegisterError> {
        let current = next(&mut state, None).await?;
        Ok(Self { state, current })
    }

    /// The current registration's id.
    pub fn id(&self) -> &str {
        &self.current
    }

    /// Waits until the executor is registered anew (a registry that restarted knows nobody) and its rendezvous socket is
    /// open again; returns the new id. Cancel-safe.
    ///
    /// # Errors
    /// The registration cannot be kept, or the executor was shut down. Direct connections go on.
    pub async fn renewed(&mut self) -> Result<&str, RegisterError> {
        self.current = next(&mut self.state, Some(&self.current)).await?;
        Ok(&self.current)
    }
}

async fn next(
    state: &mut watch::Receiver<Standing>,
    before: Option<&str>,
) -> Result<String, RegisterError> {
    let news = |standing: &Standing| match standing {
        Standing::Pending => false,
        Standing::Open(id) => Some(id.as_str()) != before,
        Standing::Failed(_) => true,
    };
    match state.wait_for(news).await.as_deref() {
        Ok(Standing::Open(id)) => Ok(id.clone()),
        Ok(Standing::Failed(error)) => Err(RegisterError::clone(error)),
        Ok(Standing::Pending) | Err(_) => Err(RegisterError::Over),
    }
}

/// The actor.
#[derive(Debug)]
pub(crate) struct Registrar;

/// Its only message.
#[derive(Debug)]
pub(crate) enum Message {
    /// Stay registered.
    Run,
}

/// What a registrar is started with.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) registry: Registry,
    pub(crate) root: ActorRef<root::Message>,
    pub(crate) standing: watch::Sender<Standing>,
    pub(crate) closing: oneshot::Receiver<Close>,
}

impl Actor for Registrar {
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
                    stay_registered(*arguments).await;
                }
                myself.drain()?;
            }
        }
        Ok(())
    }
}

async fn stay_registered(arguments: Arguments) {
    let Arguments {
        registry,
        root,
        standing,
        mut closing,
    } = arguments;
    let registry = Arc::new(registry);
    let mut pace = Pace::new();
    let mut known = false;
    loop {
        let registered = tokio::select! {
            registered = register(&registry, &mut pace, known) => registered,
            _ = &mut closing => return,
        };
        let answer = match registered {
            Ok(answer) => answer,
            Err(error) => {
                tracing::error!(%error, "registration failed");
                standing.send_replace(Standing::Failed(Arc::new(error)));
                return;
            }
        };
        tracing::info!(
            environment = registry.environment.as_str(),
            registration = answer.executor_registration_id,
            "registered"
        );
        known = true;
        match keep_socket(
            &registry,
            &answer,
            &root,
            &standing,
            &mut pace,
            &mut closing,
        )
        .await
        {
            Left::Stale { opened: true } => {}
            // A registration that was refused from the first moment: not in a circle as fast as it goes.
            Left::Stale { opened: false } => {
                tokio::select! {
                    () = pace.pause(None) => {}
                    _ = &mut closing => return,
                }
            }
            Left::Closed => return,
        }
    }
}

/// Why the sockets of one registration ended.
enum Left {
    /// The rendezvous does not know the registration any more; whether it ever did.
    Stale { opened: bool },
    /// We were told to close.
    Closed,
}

/// Registers; a first time every failure but a conflict is final, later only what time cannot heal.
async fn register(
    registry: &Registry,
    pace: &mut Pace,
    known: bool,
) -> Result<RegisterAnswer, RegisterError> {
    loop {
        let error = match registry.register().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        if !(error.is_conflict() || known && error.is_transient()) {
            return Err(error);
        }
        tracing::warn!(%error, "registration refused for now");
        pace.pause(error.retry_after()).await;
    }
}

async fn keep_socket(
    registry: &Arc<Registry>,
    answer: &RegisterAnswer,
    root: &ActorRef<root::Message>,
    standing: &watch::Sender<Standing>,
    pace: &mut Pace,
    closing: &mut oneshot::Receiver<Close>,
) -> Left {
    let id = &answer.executor_registration_id;
    let mut opened = false;
    loop {
        let dialled = tokio::select! {
            dialled = dial(&answer.url) => dialled,
            _ = &mut *closing => return Left::Closed,
        };
        let hint = match dialled {
            Ok(socket) => {
                opened = true;
                standing.send_if_modified(|standing| {
                    let new = !matches!(standing, Standing::Open(open) if open == id);
                    *standing = Standing::Open(id.clone());
                    new
                });
                let begin = Instant::now();
                let ended = serve(socket, registry, id, root, closing).await;
                pace.held(begin.elapsed());
                match ended {
                    Ok(close) => {
                        if closing.is_terminated() {
                            return Left::Closed;
                        }
                        tracing::info!(?close, "rendezvous socket closed");
                        close
                            .and_then(|close| close.restart_window())
                            .map(pace::Hint::Within)
                    }
                    Err(error) => {
                        tracing::info!(%error, "rendezvous socket lost");
                        None
                    }
                }
            }
            Err(DialError::Refused(refusal)) => {
                tracing::warn!(
                    status = refusal.status,
                    reason = refusal.reason,
                    "rendezvous refused"
                );
                if (400..500).contains(&refusal.status) {
                    return Left::Stale { opened };
                }
                refusal.retry_after.map(pace::Hint::After)
            }
            Err(error) => {
                tracing::warn!(%error, "rendezvous cannot be reached");
                None
            }
        };
        tokio::select! {
            () = pace.pause(hint) => {}
            _ = &mut *closing => return Left::Closed,
        }
    }
}

async fn dial(url: &str) -> Result<RawSocket, DialError> {
    let mut options = DialOptions::rendezvous();
    let request = format!("req_{}", uuid::Uuid::new_v4().simple());
    if let Ok(value) = request.parse() {
        options.headers.insert("x-request-id", value);
    }
    dial_raw(url, &options).await
}

/// Serves one socket; every validated stream becomes a connection.
async fn serve(
    socket: RawSocket,
    registry: &Arc<Registry>,
    registration: &str,
    root: &ActorRef<root::Message>,
    closing: &mut oneshot::Receiver<Close>,
) -> Result<Option<Close>, mainstay_link::LinkError> {
    let station = Station {
        identity: registry.identity.clone(),
        environment: registry.environment.as_str().to_owned(),
        registration: registration.to_owned(),
        suites: registry.suites.clone(),
    };
    let validate = {
        let (registry, registration) = (registry.clone(), registration.to_owned());
        move |claim| {
            let (registry, registration) = (registry.clone(), registration.clone());
            async move { registry.validate(&registration, claim).await }
        }
    };
    let (accept, mut accepted) = mpsc::channel(limits::RELAY_STREAMS);
    let close = async {
        // A root that is gone ends everything anyway.
        closing.await.unwrap_or_else(|_| Close::going_away())
    };
    let serving = relay::executor(socket, station, validate, accept, close);
    let forwarding = async {
        while let Some(Accepted {
            link, harness_key, ..
        }) = accepted.recv().await
        {
            let link = Box::new(link);
            let peer = Peer::Relay(Box::new(harness_key));
            let _ = root.cast(root::Message::Accept {
                link,
                peer,
                ended: None,
            });
        }
        std::future::pending().await
    };
    tokio::select! {
        ended = serving => ended,
        () = forwarding => Ok(None),
    }
}

/// Keys of an identity, the first of which is registered under its own name.
fn keys(identity: &Identity, suites: &[Suite]) -> Vec<PublicKey> {
    suites.iter().map(|suite| identity.public(*suite)).collect()
}

/// The environment a configuration names.
pub(crate) fn prepare(config: RegisterConfig) -> Result<Registry, RegisterError> {
    let environment = EnvironmentId::parse(&config.environment)
        .map_err(|error| RegisterError::Configuration(error.to_string()))?;
    Registry::new(config, environment)
}
