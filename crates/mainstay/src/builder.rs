//! How an environment is described and started.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mainstay_link::{DialOptions, Link};
use ractor::ActorCell;
use secrecy::{ExposeSecret, SecretString};

use crate::config::Config;
use crate::dialling;
use crate::environment::Environment;
use crate::error::{Error, ErrorKind};
use crate::outbound::OutboundPolicy;
use crate::program::Program;
use crate::registry::{Registry, RegistryConfig};
use crate::setup::{Destination, Direct, Observer, Setup};
use crate::telemetry::{TraceSource, Tracing};

/// Describes an [`Environment`].
#[derive(Default)]
pub struct Builder {
    url: Option<String>,
    headers: Vec<(String, SecretString)>,
    registry: Option<RegistryConfig>,
    config: Config,
    observer: Option<Observer>,
    policy: Option<OutboundPolicy>,
    program: Option<Program>,
    socket: Option<Box<Link>>,
    tracing: Tracing,
    provisioned: bool,
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

    /// Starts a program that serves over its standard input and output. It cannot be reconnected.
    pub fn program(mut self, program: Program) -> Self {
        self.program = Some(program);
        self
    }

    /// Uses a socket of the host's, and later those it hands over through
    /// [`Environment::claim_replacement`](crate::Environment::claim_replacement).
    pub fn socket(mut self, socket: Link) -> Self {
        self.socket = Some(Box::new(socket));
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

    /// Sends the active trace context along with outgoing requests: in the `trace` member of those to the executor, in
    /// `traceparent` and `tracestate` headers of lookups. It never stands in clear on a relay.
    pub fn trace_source(mut self, source: TraceSource) -> Self {
        self.tracing = Tracing(Some(source));
        self
    }

    /// Somebody is still providing the executor: attempts to connect wait until
    /// [`Environment::provisioning`](crate::Environment::provisioning) says that it is ready, and an executor that has not
    /// registered by then is waited for, up to 5 min. Needs a registry.
    pub fn provisioned(mut self) -> Self {
        self.provisioned = true;
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

    /// Starts the environment's supervisor under the host's own actor, inside the runtime that calls this. The host
    /// messages it through [`Environment::supervisor`], and its supervision handler hears of its end like of any child's:
    /// an actor that keeps ractor's default handler stops then, so a host that lives on overrides it. When the host's
    /// actor ends, so does the environment; its handles fail, and its processes live until the executor's retention is over.
    ///
    /// # Errors
    /// As [`Builder::spawn`].
    pub async fn spawn_linked(self, supervisor: ActorCell) -> Result<Environment, Error> {
        Environment::start(self, Some(supervisor)).await
    }

    pub(crate) fn into_setup(self) -> Result<(Setup, Option<Box<Link>>), Error> {
        let timeout = self.config.session.connect_timeout;
        let mut destinations = Vec::new();
        if let Some(url) = self.url {
            let direct = direct(url, &self.headers, timeout, self.policy.clone())?;
            destinations.push(Destination::Direct(Arc::new(direct)));
        }
        if let Some(registry) = self.registry {
            let registry = Registry::new(
                registry,
                self.policy.clone(),
                self.tracing.clone(),
                self.config.suite,
            )?;
            destinations.push(Destination::Registry(Arc::new(registry)));
        }
        destinations.extend(self.program.map(Destination::Program));
        if self.socket.is_some() {
            destinations.push(Destination::Accepted);
        }
        let destination = match (destinations.pop(), destinations.is_empty()) {
            (Some(destination), true) => destination,
            (Some(_), false) => return Err(Error::protocol("more than one destination")),
            (None, _) => return Err(Error::protocol("no destination: give a URL or a registry")),
        };
        if self.provisioned && !matches!(destination, Destination::Registry(_)) {
            return Err(Error::protocol(
                "a provisioned environment needs a registry",
            ));
        }
        let setup = Setup {
            provisioned: self.provisioned,
            destination,
            config: self.config,
            observer: self.observer,
            policy: self.policy,
            tracing: self.tracing,
        };
        Ok((setup, self.socket))
    }
}

fn direct(
    url: String,
    headers: &[(String, SecretString)],
    timeout: Duration,
    policy: Option<OutboundPolicy>,
) -> Result<Direct, Error> {
    let mut options = DialOptions {
        timeout,
        ..DialOptions::default()
    };
    if !headers.is_empty() && !keeps_secrets(&url) {
        return Err(bad("headers need wss:// or a loopback host".to_owned()));
    }
    for (name, value) in headers {
        let name = reqwest::header::HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| bad(format!("header name {name:?}")))?;
        if is_the_upgrades(name.as_str()) {
            return Err(bad(format!("header {name} belongs to the upgrade")));
        }
        let mut secret = reqwest::header::HeaderValue::from_str(value.expose_secret())
            .map_err(|_| bad(format!("value of header {name}")))?;
        secret.set_sensitive(true);
        if options.headers.insert(name.clone(), secret).is_some() {
            return Err(bad(format!("header {name} twice")));
        }
    }
    options.policy = policy.clone().map(dialling::policy);
    Ok(Direct {
        url,
        options,
        policy,
    })
}

/// Headers are credentials: they go over TLS, or stay on this machine (`environment.md` 1.3).
fn keeps_secrets(url: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(url.trim()) else {
        return false;
    };
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    url.scheme() == "wss"
        || host.eq_ignore_ascii_case("localhost")
        || address
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// Headers that the WebSocket upgrade sets itself.
fn is_the_upgrades(name: &str) -> bool {
    matches!(
        name,
        "connection" | "content-length" | "host" | "transfer-encoding" | "upgrade"
    ) || name.starts_with("sec-websocket-")
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str, headers: &[(&str, &str)]) -> bool {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), SecretString::from(*value)))
            .collect();
        direct(url.to_owned(), &headers, Duration::from_secs(1), None).is_err()
    }

    #[test]
    fn e24_headers_stay_secret_and_leave_the_upgrade_alone() {
        for url in [
            "ws://localhost:1",
            "ws://LOCALHOST:1",
            "ws://127.9.9.9:1",
            "ws://[::1]:1",
            "wss://example.org",
        ] {
            assert!(!refused(url, &[("authorization", "Bearer x")]), "{url}");
        }
        assert!(refused(
            "ws://example.org",
            &[("authorization", "Bearer x")]
        ));
        assert!(!refused("ws://example.org", &[]));
        for name in [
            "Host",
            "Connection",
            "Upgrade",
            "Content-Length",
            "Transfer-Encoding",
            "Sec-WebSocket-Key",
        ] {
            assert!(refused("wss://example.org", &[(name, "x")]), "{name}");
        }
        assert!(
            refused("wss://example.org", &[("a", "1"), ("A", "2")]),
            "twice"
        );
        assert!(refused("wss://example.org", &[("bad name", "1")]));
        assert!(refused("wss://example.org", &[("a", "line\nbreak")]));
    }
}
