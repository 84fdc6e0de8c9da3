//! Process network policy: the host decides which connections of a remote process are allowed (`session.md` 10).

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub use mainstay_wire::network::{Decision, PolicyProtocol, PolicyTarget, ProxyMode, ProxyRules};
use mainstay_wire::network::{ManagedNetwork, NetworkProxy};
use tokio::sync::watch;

use crate::error::Error;

/// The future of one decision.
pub type Deciding = Pin<Box<dyn Future<Output = Decision> + Send>>;

/// Decides about connections. Sees where to, and whether the question is still open; nothing else.
pub trait Decider: Send + Sync + 'static {
    /// Starts one decision. The future is dropped when the question is closed; `cancelled` tells why, before that.
    fn decide(&self, target: PolicyTarget, cancelled: Cancelled) -> Deciding;
}

impl<F, D> Decider for F
where
    F: Fn(PolicyTarget, Cancelled) -> D + Send + Sync + 'static,
    D: Future<Output = Decision> + Send + 'static,
{
    fn decide(&self, target: PolicyTarget, cancelled: Cancelled) -> Deciding {
        Box::pin(self(target, cancelled))
    }
}

/// Why a question was closed without a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CancelCause {
    /// The link or the session ended.
    ConnectionClosed,
    /// The process was terminated, or nobody holds it any more.
    ProcessCancelled,
    /// The process exited and closed.
    ProcessFinished,
    /// No decision came in time.
    TimedOut,
}

/// Tells whether a question is still open.
#[derive(Clone, Debug)]
pub struct Cancelled(watch::Receiver<Option<CancelCause>>);

impl Cancelled {
    pub(crate) fn new() -> (watch::Sender<Option<CancelCause>>, Self) {
        let (sender, receiver) = watch::channel(None);
        (sender, Self(receiver))
    }

    /// Why it was closed; `None` while it is open, and after a decision.
    pub fn cause(&self) -> Option<CancelCause> {
        *self.0.borrow()
    }

    /// Waits until it is closed. Never ends if a decision comes.
    pub async fn closed(&mut self) -> CancelCause {
        match self.0.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(cause)) => *cause,
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}

/// What a process may reach.
#[derive(Clone, Default)]
pub struct Network {
    pub(crate) proxy: Option<NetworkProxy>,
    pub(crate) managed: Option<ManagedNetwork>,
    pub(crate) enforce: bool,
    pub(crate) decider: Option<Arc<dyn Decider>>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) audit: Option<BTreeMap<String, String>>,
}

impl Network {
    /// A private proxy with these rules.
    pub fn proxy(rules: ProxyRules) -> Self {
        let proxy = NetworkProxy {
            proxy: rules,
            audit_metadata: None,
            environment_id: None,
            execution_id: None,
            policy_decision_timeout_ms: None,
        };
        Self {
            proxy: Some(proxy),
            ..Self::default()
        }
    }

    /// Whether the process must go through it.
    pub fn enforce(mut self, enforce: bool) -> Self {
        self.enforce = enforce;
        self
    }

    /// What stays reachable beside the proxy.
    pub fn managed(mut self, managed: ManagedNetwork) -> Self {
        self.managed = Some(managed);
        self
    }

    /// Asks `decider` about what no rule decides; without a decision within `timeout` it is denied.
    pub fn decider(mut self, decider: impl Decider, timeout: Duration) -> Self {
        self.decider = Some(Arc::new(decider));
        self.timeout = Some(timeout);
        self
    }

    /// Logs the proxy's decisions under this identity. The identity is never taken from what the executor sends.
    pub fn audit(mut self, identity: BTreeMap<String, String>) -> Self {
        self.audit = Some(identity);
        self
    }

    /// Decider and timeout together or not at all, and the timeout not zero (8.1.1).
    pub(crate) fn check(&self) -> Result<(), Error> {
        match (&self.decider, self.timeout) {
            (None, None) => Ok(()),
            (Some(_), Some(timeout))
                if timeout >= Duration::from_millis(1) && self.proxy.is_some() =>
            {
                Ok(())
            }
            (Some(_), Some(timeout)) if timeout >= Duration::from_millis(1) => {
                Err(Error::protocol("a network policy decider needs a proxy"))
            }
            (Some(_), Some(_)) => Err(Error::protocol(
                "network policy decision timeout must not be zero",
            )),
            (Some(_), None) | (None, Some(_)) => Err(Error::protocol(
                "network policy decider and timeout belong together",
            )),
        }
    }

    /// `networkProxy` as it is sent.
    pub(crate) fn sent_proxy(&self) -> Option<NetworkProxy> {
        let mut proxy = self.proxy.clone()?;
        proxy.policy_decision_timeout_ms = self
            .timeout
            .map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        Some(proxy)
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("proxy", &self.proxy)
            .field("enforce", &self.enforce)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
