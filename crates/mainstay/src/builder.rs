//! How an environment is described and started.

use ractor::ActorCell;
use secrecy::SecretString;

use crate::config::Config;
use crate::environment::Environment;
use crate::error::Error;

/// An environment registry that knows the current executor of an environment.
#[derive(Clone, Debug)]
pub struct RegistryConfig {
    /// Base URL, `http://` or `https://`.
    pub url: String,
    /// Environment id, `[A-Za-z0-9_-]{1,256}`.
    pub environment: String,
    /// Bearer token of the harness role.
    pub token: SecretString,
    /// Sent as `chatgpt-account-id` when set.
    pub account: Option<String>,
}

/// Describes an [`Environment`].
#[derive(Clone, Debug, Default)]
pub struct Builder {
    pub(crate) url: Option<String>,
    pub(crate) headers: Vec<(String, SecretString)>,
    pub(crate) registry: Option<RegistryConfig>,
    pub(crate) config: Config,
}

impl Builder {
    /// Connects to an executor's own listener: `ws://` or `wss://`.
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.url = Some(url.into());
        self
    }

    /// Adds a header to every WebSocket upgrade of a direct connection.
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

    /// How long one recovery may take.
    pub fn recover_for(mut self, deadline: std::time::Duration) -> Self {
        self.config.recovery_deadline = Some(deadline);
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
}
