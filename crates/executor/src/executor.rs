//! The handle: how a host starts an executor and gives it work.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mainstay_link::Link;
use ractor::{Actor, ActorRef, SpawnErr};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

use crate::auth::Auth;
use crate::config::Config;
use crate::http::HttpClient;
use crate::killer::Killer;
use crate::listener::{self, Listener};
use crate::nursery::Nursery;
use crate::peer::Peer;
use crate::registrar::{self, RegisterConfig, RegisterError, Registrar, Registration, Standing};
use crate::root::{self, Door, Root};
use crate::shared::Shared;

/// A running executor. Cheap to clone; it runs until [`Executor::shutdown`].
///
/// ```no_run
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// use mainstay_executor::{Config, Executor};
/// let executor = Executor::start(Config::default()).await?;
/// let url = executor.listen("127.0.0.1:0".parse()?).await?;
/// println!("{url}");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Executor {
    root: ActorRef<root::Message>,
    shared: Arc<Shared>,
}

/// Why an executor did not start.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the executor: {0}")]
pub struct StartError(#[from] SpawnErr);

/// Why a listener did not start.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Everybody who can reach this address could run programs.
    #[error("{0} can be reached from other machines: that needs a token or a shared secret")]
    Unprotected(SocketAddr),
    /// The address cannot be used.
    #[error("cannot listen on {0}: {1}")]
    Bind(SocketAddr, #[source] std::io::Error),
    /// The executor has been shut down.
    #[error("the executor has been shut down")]
    Over,
}

impl Executor {
    /// Starts an executor that nobody can reach yet.
    ///
    /// # Errors
    /// When the actor system refuses.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        crate::dispositions::keep_from_programs();
        let shared = Arc::new(Shared {
            environment: Arc::new(crate::environment::info(&config)),
            config,
            killer: Killer::start(),
            nursery: Nursery::open(),
            http: HttpClient::new(),
        });
        let (root, _) = Root::spawn(None, Root, shared.clone()).await?;
        Ok(Self { root, shared })
    }

    /// Accepts WebSocket connections on `address` and returns the URL to reach it: `ws://IP:PORT`. Port 0 takes a
    /// free one.
    ///
    /// # Errors
    /// An address that other machines can reach is refused without authentication; see [`Config::auth`].
    pub async fn listen(&self, address: SocketAddr) -> Result<String, ListenError> {
        if matches!(self.shared.config.auth, Auth::None) && !address.ip().is_loopback() {
            return Err(ListenError::Unprotected(address));
        }
        let bind = |error| ListenError::Bind(address, error);
        let socket = TcpListener::bind(address).await.map_err(bind)?;
        let bound = socket.local_addr().map_err(bind)?;
        let arguments = listener::Arguments {
            socket,
            shared: self.shared.clone(),
            root: self.root.clone(),
        };
        let (actor, _) = Listener::spawn_linked(None, Listener, arguments, self.root.get_cell())
            .await
            .map_err(|_| ListenError::Over)?;
        let door = Door {
            actor: actor.get_cell(),
            closing: None,
        };
        let opened = self.root.cast(root::Message::Opened(door));
        opened.map_err(|_| ListenError::Over)?;
        actor
            .cast(listener::Message::Run)
            .map_err(|_| ListenError::Over)?;
        Ok(format!("ws://{bound}"))
    }

    /// Registers with an environment registry and serves the harnesses it vouches for; returns once the rendezvous socket
    /// is open. From then on the executor comes back by itself, whatever happens to the socket or the registry, until
    /// the registry refuses it for good or the executor is shut down.
    ///
    /// # Errors
    /// The first registration fails: everything but a conflict with another registration is final (noise-relay.md 2.1).
    pub async fn register(&self, config: RegisterConfig) -> Result<Registration, RegisterError> {
        let registry = registrar::prepare(config)?;
        let (standing, state) = watch::channel(Standing::default());
        let (close, closing) = oneshot::channel();
        let arguments = registrar::Arguments {
            registry,
            root: self.root.clone(),
            standing,
            closing,
        };
        let (actor, _) =
            Registrar::spawn_linked(None, Registrar, Box::new(arguments), self.root.get_cell())
                .await
                .map_err(|_| RegisterError::Over)?;
        let door = Door {
            actor: actor.get_cell(),
            closing: Some(close),
        };
        let opened = self.root.cast(root::Message::Opened(door));
        opened.map_err(|_| RegisterError::Over)?;
        actor
            .cast(registrar::Message::Run)
            .map_err(|_| RegisterError::Over)?;
        Registration::wait(state).await
    }

    /// Converses over this program's standard input and output, one JSON object per line, until the end of input
    /// (protocol.md 1.3). No session survives it: shut the executor down afterwards.
    pub async fn serve_stdio(&self) {
        let link = mainstay_link::stdio(tokio::io::stdin(), tokio::io::stdout());
        self.serve(link, Peer::Stdio).await;
    }

    /// Converses over a link within this process until it ends.
    pub async fn serve_link(&self, link: Link) {
        self.serve(link, Peer::Memory).await;
    }

    /// Stops accepting, closes every connection with code 1001, sends SIGTERM to every process group and SIGKILL to what
    /// is left after `grace`; returns when nothing is left. A second call kills at once.
    pub async fn shutdown(&self, grace: Duration) {
        let (done, over) = oneshot::channel();
        let asked = self.root.cast(root::Message::Shutdown { grace, done });
        if asked.is_ok() {
            // Dropped, not sent, when all is over.
            let _ = over.await;
        }
    }

    async fn serve(&self, link: Link, peer: Peer) {
        let (ended, end) = oneshot::channel();
        let link = Box::new(link);
        let accepted = self.root.cast(root::Message::Accept {
            link,
            peer,
            ended: Some(ended),
        });
        if accepted.is_ok() {
            let _ = end.await;
        }
    }
}
