//! A registry, executors that register with it, and harnesses by hand.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result};
use mainstay_executor::{Config, Executor, RegisterConfig, Registration};
use mainstay_link::relay::{self, Bundle};
use mainstay_link::{DialOptions, Link};
use mainstay_noise::{Identity, Suite};
use mainstay_registry::tokens::{Role, Tokens};
use mainstay_registry::{Registry, TokenSource};
use mainstay_testkit::program::HANG;
use mainstay_testkit::registry_front::RegistryFront;
use mainstay_wire::registry::{ConnectAnswer, ConnectRequest};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

pub(crate) const ENVIRONMENT: &str = "env-1";

/// A registry, and a front of it that can be told what to answer.
pub(crate) struct Far {
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) executor_token: SecretString,
    pub(crate) harness_token: SecretString,
    pub(crate) registry: Registry,
    pub(crate) front: RegistryFront,
}

impl Far {
    pub(crate) async fn start() -> Result<Self> {
        let mut tokens = Tokens::new();
        let executor_token = tokens.issue(ENVIRONMENT, Role::Executor)?;
        let harness_token = tokens.issue(ENVIRONMENT, Role::Harness)?;
        let tokens = Arc::new(tokens);
        let registry = registry(&tokens, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let front = RegistryFront::start(registry.local_addr()).await?;
        Ok(Self {
            tokens,
            executor_token,
            harness_token,
            registry,
            front,
        })
    }

    pub(crate) fn config(&self) -> RegisterConfig {
        RegisterConfig::new(self.front.url(), ENVIRONMENT, self.executor_token.clone())
    }

    pub(crate) async fn register(&self) -> Result<(Executor, Registration)> {
        let executor = Executor::start(Config::default()).await?;
        let registration = executor.register(self.config()).await?;
        Ok((executor, registration))
    }

    pub(crate) async fn bundle(&self, identity: &Identity, suite: Suite) -> Result<Bundle> {
        let body = ConnectRequest {
            harness_public_key: identity.public(suite).to_wire(),
        };
        let url = format!(
            "{}/cloud/environment/{ENVIRONMENT}/connect",
            self.front.url()
        );
        let request = http()?.post(url).json(&body);
        let response = request
            .bearer_auth(self.harness_token.expose_secret())
            .send()
            .await?;
        let answer: ConnectAnswer = response.error_for_status()?.json().await?;
        Ok(Bundle::try_from(answer)?)
    }

    /// Waits until an executor is registered and connected, as far as the registry has noticed.
    pub(crate) async fn until_announced(&self) -> Result<()> {
        let address = self.registry.local_addr();
        let url = format!("http://{address}/mainstay/environment/{ENVIRONMENT}/registration");
        let token = self.harness_token.expose_secret();
        let client = http()?;
        loop {
            // No content: it was held for as long as it may be.
            let response = client.get(&url).bearer_auth(token).send().await?;
            if response.error_for_status()?.status() == reqwest::StatusCode::OK {
                return Ok(());
            }
        }
    }

    /// A harness's link; tried again while the registry has not noticed yet that the executor is away.
    pub(crate) async fn harness(&self, identity: &Identity) -> Result<Harness> {
        let tries = async {
            loop {
                self.until_announced().await?;
                let attempt = async {
                    let bundle = self.bundle(identity, Suite::HybridIk).await?;
                    let socket = relay::dial(&bundle, &DialOptions::rendezvous()).await?;
                    Ok::<_, anyhow::Error>(relay::harness(socket, identity, &bundle).await?)
                };
                if let Ok(link) = attempt.await {
                    return Ok(Harness { link, id: 0 });
                }
            }
        };
        tokio::time::timeout(HANG, tries)
            .await
            .context("no way to the executor")?
    }
}

fn http() -> Result<reqwest::Client> {
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(mainstay_link::tls::trusting_nobody()?);
    Ok(client.build()?)
}

/// A registry that knows these tokens.
pub(crate) async fn registry(tokens: &Arc<Tokens>, address: SocketAddr) -> Result<Registry> {
    let source = TokenSource::Memory(tokens.clone());
    Ok(Registry::bind(mainstay_registry::Config::new(address, source)).await?)
}

/// The harness's end of a stream.
pub(crate) struct Harness {
    pub(crate) link: Link,
    pub(crate) id: i64,
}

impl Harness {
    pub(crate) async fn call(
        &mut self,
        method: &str,
        params: Value,
    ) -> Result<Result<Value, Value>> {
        self.id += 1;
        let request = json!({"id": self.id, "method": method, "params": params});
        self.send(request).await?;
        loop {
            let message = self.next().await?;
            if message["id"] == self.id {
                return Ok(match message.get("error") {
                    Some(error) => Err(error.clone()),
                    None => Ok(message["result"].clone()),
                });
            }
        }
    }

    pub(crate) async fn initialize(
        &mut self,
        resume: Option<&str>,
        take_over: bool,
    ) -> Result<Result<String, Value>> {
        let mut params = json!({"clientName": "t", "resumeSessionId": resume});
        if take_over {
            params["mainstay"] = json!({"capabilities": ["mainstayTakeOver"], "takeOver": true});
        }
        let answer = self.call("initialize", params).await?;
        if answer.is_ok() {
            self.send(json!({"method": "initialized"})).await?;
        }
        Ok(answer.map(|answer| answer["sessionId"].as_str().unwrap_or_default().to_owned()))
    }

    pub(crate) async fn send(&mut self, message: Value) -> Result<()> {
        self.link.sink.send(message.to_string()).await?;
        Ok(self.link.sink.flush().await?)
    }

    pub(crate) async fn next(&mut self) -> Result<Value> {
        let bytes = self.link.source.recv().await?.context("the end")?;
        Ok(serde_json::from_slice(&bytes)?)
    }
}
