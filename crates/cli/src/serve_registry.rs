//! `mainstay registry` and `mainstay registry token`.

use std::{process::ExitCode, time::Duration};

use anyhow::{Context, Result};
use mainstay_registry::{Config, Registry, TokenSource, tokens};
use secrecy::ExposeSecret;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    UsageError,
    args::{RegistryArgs, RegistryCommand, Role, TokenArgs},
    destination,
    shutdown::{Shutdown, announce},
};

/// The window over which peers are asked to come back when the registry leaves.
const WINDOW: Duration = Duration::from_secs(5);

/// Serves until it is told to stop, or makes a token.
///
/// # Errors
/// Wrong usage, or a registry that cannot start.
pub(crate) fn main(args: RegistryArgs) -> Result<ExitCode> {
    if let Some(RegistryCommand::Token(args)) = &args.command {
        return token(args);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let code = runtime.block_on(serve(args));
    runtime.shutdown_background();
    code
}

fn token(args: &TokenArgs) -> Result<ExitCode> {
    destination::check_environment_id(&args.environment).map_err(|error| UsageError::of(&error))?;
    let role = match args.role {
        Role::Executor => tokens::Role::Executor,
        Role::Harness => tokens::Role::Harness,
    };
    let token = tokens::issue(&args.tokens, &args.environment, role)?;
    announce(token.expose_secret())?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(args: RegistryArgs) -> Result<ExitCode> {
    let mut shutdown = Shutdown::listen()?;
    let mut reload = signal(SignalKind::hangup()).context("cannot listen for signals")?;
    // Required by the command line unless a token is made.
    let file = args.tokens.context("--tokens is missing")?;
    let config = Config {
        public_url: args.public_url,
        ..Config::new(args.listen, TokenSource::File(file))
    };
    let registry = Registry::bind(config).await?;
    announce(registry.url())?;
    loop {
        tokio::select! {
            _ = reload.recv() => {
                if let Err(error) = registry.reload() {
                    tracing::warn!(%error, "the tokens stay as they were");
                }
            }
            _ = shutdown.requested() => break,
        }
    }
    tokio::select! {
        () = registry.shutdown(WINDOW) => Ok(ExitCode::SUCCESS),
        number = shutdown.requested() => Ok(Shutdown::code(number)),
    }
}
