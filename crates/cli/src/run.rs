//! `mainstay run`: one remote command that feels local.
//!
//! ```text
//! stdin  ──thread──► Input  ──► process ──► events ──► Output ──thread──► stdout, stderr
//! signals ─────────────────► Conductor ──► exit code
//! ```

mod conductor;
mod embedded;
mod input;
mod output;
mod request;
mod signals;
mod start;
pub(crate) mod terminal;

use std::time::Duration;

use anyhow::{Context, Result};
use mainstay::{Environment, RegistryConfig};
use secrecy::ExposeSecret;

use crate::{
    args::RunArgs,
    destination::{self, Destination},
    ending::Ending,
};
use request::Request;
use signals::Signals;

/// How long the farewells to executor and registry may take once the outcome is known.
const FAREWELL: Duration = Duration::from_secs(1);

/// Runs the command; the returned ending is the whole story.
pub(crate) fn main(args: &RunArgs) -> Ending {
    match prepare(args) {
        Ok((request, destination)) => {
            if matches!(destination, Destination::Embedded) {
                // Before any thread exists: the executor's children must not survive this program.
                if let Err(error) = mainstay_executor::guard() {
                    return Ending::own(format!("cannot start the guard process: {error}"));
                }
            }
            terminal::restore_on_panic();
            let ending = match tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
            {
                Ok(runtime) => {
                    let ending = runtime.block_on(conduct(request, destination, args.recover_for));
                    runtime.shutdown_background();
                    ending
                }
                Err(error) => Ending::own(format!("cannot start: {error}")),
            };
            terminal::restore();
            ending
        }
        Err(error) => Ending::own(format!("{error:#}")),
    }
}

fn prepare(args: &RunArgs) -> Result<(Request, Destination)> {
    let request = Request::of(args, terminal::is_null_stdin())?;
    let destination = destination::of_run(args, &destination::process_environment)?;
    Ok((request, destination))
}

async fn conduct(
    request: Request,
    destination: Destination,
    recover_for: Option<Duration>,
) -> Ending {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => return Ending::own(format!("cannot listen for signals: {error}")),
    };
    let place = destination.name();
    let far_side = tokio::select! {
        far_side = FarSide::open(destination, recover_for) => far_side,
        number = signals.fatal() => return Ending::signal(number),
    };
    match far_side {
        Ok(far_side) => {
            let ending =
                conductor::conduct(&far_side.environment, &place, request, &mut signals).await;
            terminal::restore();
            let _ = tokio::time::timeout(FAREWELL, far_side.close()).await;
            ending
        }
        Err(error) => Ending::own(format!("{error:#}")),
    }
}

/// The environment the command runs in, and whatever of it is ours.
struct FarSide {
    environment: Environment,
    embedded: Option<embedded::Embedded>,
}

impl FarSide {
    async fn open(destination: Destination, recover_for: Option<Duration>) -> Result<Self> {
        let mut builder = Environment::builder();
        let mut embedded = None;
        match destination {
            Destination::Direct { url, token } => {
                builder = builder.url(url);
                if let Some(token) = token {
                    builder = builder
                        .header("authorization", format!("Bearer {}", token.expose_secret()));
                }
            }
            Destination::Registry(access) => {
                builder = builder.registry(RegistryConfig {
                    url: access.url,
                    environment: access.environment,
                    token: access.token,
                    account: None,
                });
            }
            Destination::Embedded => {
                let (own, registry) = embedded::start()
                    .await
                    .context("cannot start the embedded executor")?;
                embedded = Some(own);
                builder = builder.registry(registry);
            }
        }
        if let Some(deadline) = recover_for {
            builder = builder.recover_for(deadline);
        }
        Ok(Self {
            environment: builder.spawn().await?,
            embedded,
        })
    }

    async fn close(self) {
        self.environment.shutdown().await;
        if let Some(embedded) = self.embedded {
            embedded.stop().await;
        }
    }
}
