//! Our own far sides, in this process and this runtime.

use std::sync::Arc;

use anyhow::Result;
use mainstay::Environment;
use mainstay_executor::{Config, Executor, RegisterConfig};
use mainstay_registry::{
    Config as RegistryConfig, Registry, TokenSource,
    tokens::{Role, Tokens},
};
use mainstay_testkit::{
    reference::{Reference, ReferenceExecutor},
    registry_front::{Call, RegistryFront},
};
use secrecy::{ExposeSecret, SecretString};

/// What the far sides register as.
pub(crate) const ENVIRONMENT: &str = "bench";

/// An executor with a listener, and a client of it.
pub(crate) async fn direct() -> Result<(Executor, Environment)> {
    let executor = Executor::start(Config::default()).await?;
    let url = executor.listen(([127, 0, 0, 1], 0).into()).await?;
    let environment = Environment::builder().url(url).spawn().await?;
    Ok((executor, environment))
}

/// The same through registry and relay.
pub(crate) async fn relayed() -> Result<(Executor, Registry, Environment)> {
    let (executor, registry, harness_token) = registered().await?;
    let environment = client(&registry, harness_token).await?;
    Ok((executor, registry, environment))
}

/// An executor that is registered, its registry, and a token for harnesses.
pub(crate) async fn registered() -> Result<(Executor, Registry, SecretString)> {
    let (executor_token, harness_token, registry) = registry().await?;
    let executor = Executor::start(Config::default()).await?;
    executor
        .register(RegisterConfig::new(
            registry.url(),
            ENVIRONMENT,
            executor_token,
        ))
        .await?;
    Ok((executor, registry, harness_token))
}

/// The reference's executor at our registry; it asks through the front, which must stay.
pub(crate) async fn reference(
    reference: &Reference,
) -> Result<(ReferenceExecutor, RegistryFront, Registry, Environment)> {
    let (executor_token, harness_token, registry) = registry().await?;
    let front = RegistryFront::start(registry.local_addr()).await?;
    let executor = reference
        .registered_executor(&front.url(), ENVIRONMENT, executor_token.expose_secret())
        .await?;
    front.until_calls(Call::Register, 1).await;
    let environment = client(&registry, harness_token).await?;
    Ok((executor, front, registry, environment))
}

async fn registry() -> Result<(SecretString, SecretString, Registry)> {
    let mut tokens = Tokens::new();
    let executor_token = tokens.issue(ENVIRONMENT, Role::Executor)?;
    let harness_token = tokens.issue(ENVIRONMENT, Role::Harness)?;
    let config = RegistryConfig::new(
        ([127, 0, 0, 1], 0).into(),
        TokenSource::Memory(Arc::new(tokens)),
    );
    Ok((executor_token, harness_token, Registry::bind(config).await?))
}

async fn client(registry: &Registry, token: SecretString) -> Result<Environment> {
    let access = mainstay::RegistryConfig {
        url: registry.url().to_owned(),
        environment: ENVIRONMENT.to_owned(),
        token,
        account: None,
    };
    Ok(Environment::builder().registry(access).spawn().await?)
}
