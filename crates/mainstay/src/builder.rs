//! How an environment is described and started.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mainstay_link::DialOptions;
use ractor::ActorCell;
use secrecy::{ExposeSecret, SecretString};

use crate::config::Config;
use crate::environment::Environment;
use crate::error::{Error, ErrorKind};
use crate::outbound::OutboundPolicy;
use crate::registry::{Registry, RegistryConfig};
use crate::setup::{Destination, Direct, Observer, Setup};

/// Describes an [`Environment`].
#[derive(Clone, Default)]
pub struct Builder {
    url: Option<String>,
    headers: Vec<(String, SecretString)>,
    registry: Option<RegistryConfig>,
    config: Config,
    observer: Option<Observer>,
    policy: Option<OutboundPolicy>,
}

impl Builder {
    /// Connects to an executor's own listener: `ws://` or `wss://`.
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.url = Some(url.into());
        self
    }

    /// Adds a header to every WebSocket upgrade of a direct connection. It needs `wss://` or a loopback host.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<SecretString>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Connects over a registry and its relay, with Noise between the two ends.
    pub fn registry(mut self, registry: RegistryConfig) -> Self {
        self.registry = Some(registry);
        self
    }

    /// Replaces every tunable.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// How long one recovery may take. By default what the executor keeps a detached session, less 5 s.
    pub fn recover_for(mut self, deadline: Duration) -> Self {
        self.config.session.recovery_deadline = Some(deadline);
        self
    }

    /// Told about each attempt to connect while no session has ever existed. Must not block.
    pub fn observer(mut self, observer: Observer) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Restricts what the client itself may contact. Until the policy is published, that is nothing.
    pub fn outbound_policy(mut self, policy: OutboundPolicy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Starts the environment's supervisor as a root actor. Nothing is dialled before the first use.
    ///
    /// # Errors
    /// A description that names no destination, or more than one.
    pub async fn spawn(self) -> Result<Environment, Error> {
        Environment::start(self, None).await
    }

    /// Starts the environment's supervisor under the host's own supervisor. A host that keeps ractor's default
    /// supervision handler stops when this environment ends.
    ///
    /// # Errors
    /// As [`Builder::spawn`].
    pub async fn spawn_linked(self, supervisor: ActorCell) -> Result<Environment, Error> {
        Environment::start(self, Some(supervisor)).await
    }

    pub(crate) fn into_setup(self) -> Result<Setup, Error> {
        let destination = match (self.url, self.registry) {
            (Some(url), None) => Destination::Direct(Arc::new(direct(
                url,
                &self.headers,
                self.config.session.connect_timeout,
            )?)),
            (None, Some(registry)) => {
                Destination::Registry(Arc::new(Registry::new(registry, self.policy)?))
            }
            (None, None) => {
                return Err(Error::protocol("no destination: give a URL or a registry"));
            }
            (Some(_), Some(_)) => {
                return Err(Error::protocol(
                    "two destinations: give a URL or a registry, not both",
                ));
            }
        };
        Ok(Setup {
            destination,
            config: self.config,
            observer: self.observer,
        })
    }
}

fn direct(
    url: String,
    headers: &[(String, SecretString)],
    timeout: Duration,
) -> Result<Direct, Error> {
    let mut options = DialOptions {
        timeout,
        ..DialOptions::default()
    };
    for (name, value) in headers {
        let name = reqwest::header::HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| bad(format!("header name {name:?}")))?;
        let mut secret = reqwest::header::HeaderValue::from_str(value.expose_secret())
            .map_err(|_| bad(format!("value of header {name}")))?;
        secret.set_sensitive(true);
        if options.headers.insert(name.clone(), secret).is_some() {
            return Err(bad(format!("header {name} twice")));
        }
    }
    Ok(Direct { url, options })
}

fn bad(text: String) -> Error {
    ErrorKind::ConnectConfiguration { text }.into()
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("url", &self.url)
            .field("registry", &self.registry)
            .finish_non_exhaustive()
    }
}
