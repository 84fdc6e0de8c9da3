//! The embedded default: registry, relay and executor of this very process, on loopback, over real sockets and real Noise.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use mainstay::RegistryConfig;
use mainstay_executor::{Config as ExecutorConfig, Executor, RegisterConfig};
use mainstay_registry::{
    Config, Registry, TokenSource,
    tokens::{Role, Tokens},
};

/// The one environment of the embedded registry.
const ENVIRONMENT: &str = "embedded";

/// What was started for one command.
#[derive(Debug)]
pub(crate) struct Embedded {
    executor: Executor,
    /// Ends when dropped.
    _registry: Registry,
}

/// Starts all of it, with random tokens and a free port, and says how the client gets there.
///
/// # Errors
/// When a part cannot start.
pub(crate) async fn start() -> Result<(Embedded, RegistryConfig)> {
    let mut tokens = Tokens::new();
    let executor_token = tokens.issue(ENVIRONMENT, Role::Executor)?;
    let harness_token = tokens.issue(ENVIRONMENT, Role::Harness)?;
    let config = Config::new(
        ([127, 0, 0, 1], 0).into(),
        TokenSource::Memory(Arc::new(tokens)),
    );
    let registry = Registry::bind(config).await?;
    let executor = Executor::start(ExecutorConfig::default()).await?;
    let registration = RegisterConfig::new(registry.url(), ENVIRONMENT, executor_token);
    executor
        .register(registration)
        .await
        .context("cannot register with the embedded registry")?;
    let access = RegistryConfig {
        url: registry.url().to_owned(),
        environment: ENVIRONMENT.to_owned(),
        token: harness_token,
        account: None,
    };
    Ok((
        Embedded {
            executor,
            _registry: registry,
        },
        access,
    ))
}

impl Embedded {
    /// Stops all of it; what still runs is killed.
    pub(crate) async fn stop(self) {
        self.executor.shutdown(Duration::ZERO).await;
    }
}
