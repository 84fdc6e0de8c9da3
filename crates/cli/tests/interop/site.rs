//! One cell's far side: an executor, the way to it, and the enemy on that way.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use mainstay::{Environment, RegistryConfig};
use mainstay_testkit::{
    fault_proxy::FaultProxy,
    place::{ENVIRONMENT, RegistryPlace, listening_executor},
    program::Server,
    reference::{Reference, ReferenceExecutor},
    registry_front::{Call, RegistryFront},
};

use crate::{BIN, agent::Destination, matrix::Cell};

/// An executor of either make, as a real process.
#[derive(Debug)]
pub(crate) enum Executor {
    Ours(Server),
    Theirs(ReferenceExecutor),
}

impl Executor {
    /// Kills it and waits until it is gone.
    pub(crate) async fn kill(self) {
        match self {
            Self::Ours(server) => {
                let _ = server.kill().await;
            }
            Self::Theirs(executor) => executor.kill().await,
        }
    }
}

/// A registry of ours behind the scripted front, where the cell has one.
#[derive(Debug)]
struct Relay {
    registry: RegistryPlace,
    front: RegistryFront,
}

/// Everything one cell needs. Every connection of the client goes through the proxy.
#[derive(Debug)]
pub(crate) struct Site {
    cell: Cell,
    reference: Reference,
    relay: Option<Relay>,
    /// The enemy.
    pub(crate) proxy: Arc<FaultProxy>,
}

impl Site {
    /// Starts the cell's far side, with one executor.
    pub(crate) async fn start(cell: Cell, reference: &Reference) -> Result<(Self, Executor)> {
        let (relay, executor, proxy) = match cell {
            Cell::OursRelayed | Cell::TheirsRelayed | Cell::ControlRelayed => {
                let registry = RegistryPlace::start(BIN).await?;
                let proxy = FaultProxy::transparent(registry.addr()?).await?;
                let front = RegistryFront::start(registry.addr()?).await?;
                front.set_relay(Some(proxy.addr()));
                (Some(Relay { registry, front }), None, proxy)
            }
            Cell::TheirsDirect => {
                let server = listening_executor(BIN, &[]).await?;
                let proxy = FaultProxy::transparent(addr(&server.first_line)?).await?;
                (None, Some(Executor::Ours(server)), proxy)
            }
            Cell::OursDirect | Cell::ControlDirect => {
                let executor = reference.executor().await?;
                let proxy = FaultProxy::transparent(addr(&executor.url)?).await?;
                (None, Some(Executor::Theirs(executor)), proxy)
            }
        };
        let site = Self {
            cell,
            reference: reference.clone(),
            relay,
            proxy: Arc::new(proxy),
        };
        let executor = match executor {
            Some(executor) => executor,
            None => site.register().await?,
        };
        Ok((site, executor))
    }

    /// A further executor that takes the place of the one before, as a planned replacement does.
    pub(crate) async fn replace(&self) -> Result<Executor> {
        match self.cell {
            Cell::OursRelayed | Cell::TheirsRelayed | Cell::ControlRelayed => self.register().await,
            Cell::TheirsDirect => {
                let server = listening_executor(BIN, &[]).await?;
                self.proxy.set_target(addr(&server.first_line)?);
                Ok(Executor::Ours(server))
            }
            Cell::OursDirect | Cell::ControlDirect => {
                let executor = self.reference.executor().await?;
                self.proxy.set_target(addr(&executor.url)?);
                Ok(Executor::Theirs(executor))
            }
        }
    }

    /// Kills an executor and waits until the client has noticed: it dials again, or asks the registry again.
    pub(crate) async fn kill_and_be_noticed(&self, executor: Executor) {
        match self.front() {
            Some(front) => {
                let before = front.calls(Call::Connect);
                executor.kill().await;
                front.until_calls(Call::Connect, before + 1).await;
            }
            None => {
                let before = self.proxy.counters();
                executor.kill().await;
                self.proxy.until(|now| now.accepted > before.accepted).await;
            }
        }
    }

    /// The scripted registry, where the cell has one.
    pub(crate) fn front(&self) -> Option<&RegistryFront> {
        self.relay.as_ref().map(|relay| &relay.front)
    }

    /// What sends the reference's client there.
    pub(crate) fn destination(&self) -> Destination {
        match &self.relay {
            Some(relay) => vec![
                ("CODEX_EXEC_SERVER_NOISE_REGISTRY_URL", relay.front.url()),
                (
                    "CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID",
                    ENVIRONMENT.to_owned(),
                ),
                (
                    "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN",
                    relay.registry.harness_token.clone(),
                ),
            ],
            None => vec![("CODEX_EXEC_SERVER_URL", self.proxy.url("ws"))],
        }
    }

    /// Our client's handle there.
    pub(crate) async fn environment(&self) -> Result<Environment> {
        let builder = Environment::builder().recover_for(Duration::from_secs(20));
        let builder = match &self.relay {
            Some(relay) => builder.registry(RegistryConfig {
                url: relay.front.url(),
                environment: ENVIRONMENT.to_owned(),
                token: relay.registry.harness_token.clone().into(),
                account: None,
            }),
            None => builder.url(self.proxy.url("ws")),
        };
        Ok(builder.spawn().await?)
    }

    async fn register(&self) -> Result<Executor> {
        let Some(relay) = &self.relay else {
            anyhow::bail!("no registry here")
        };
        let token = &relay.registry.executor_token;
        match self.cell {
            Cell::TheirsRelayed => Ok(Executor::Ours(
                relay.registry.executor_at(&relay.front.url()).await?,
            )),
            Cell::OursRelayed | Cell::ControlRelayed => {
                let before = relay.front.calls(Call::Register);
                let url = relay.front.url();
                let executor = self
                    .reference
                    .registered_executor(&url, ENVIRONMENT, token)
                    .await?;
                relay.front.until_calls(Call::Register, before + 1).await;
                Ok(Executor::Theirs(executor))
            }
            Cell::OursDirect | Cell::TheirsDirect | Cell::ControlDirect => {
                anyhow::bail!("no registry here")
            }
        }
    }
}

fn addr(url: &str) -> Result<std::net::SocketAddr> {
    let (_, rest) = url
        .split_once("://")
        .ok_or_else(|| anyhow::anyhow!("not a URL: {url}"))?;
    Ok(rest.trim_end_matches('/').parse()?)
}
