//! `mainstay executor`: the far end as a program.

use std::{net::SocketAddr, process::ExitCode, time::Duration};

use anyhow::{Context, Result};
use mainstay_executor::{
    Config, Executor, RegisterConfig, Registration,
    auth::{Auth, AuthConfigError, SignedBearer},
};

use crate::{
    UsageError,
    args::{ExecutorArgs, ListenAuth},
    destination::{self, RegistryAccess},
    shutdown::{Shutdown, announce},
};

/// Between SIGTERM and SIGKILL of running commands when the executor leaves.
const GRACE: Duration = Duration::from_secs(5);
/// Where an executor listens that was told nothing.
const DEFAULT_LISTEN: &str = "ws://127.0.0.1:0";

/// Where clients come from.
#[derive(Debug, PartialEq, Eq)]
enum Listen {
    Stdio,
    Socket(SocketAddr),
}

/// Serves until it is told to stop.
///
/// # Errors
/// Wrong usage, or a part that cannot start.
pub(crate) fn main(args: ExecutorArgs) -> Result<ExitCode> {
    let access = destination::of_rendezvous(&args.rendezvous, &destination::process_environment)
        .map_err(|error| UsageError::of(&error))?;
    let listen = match (&args.listen, &access) {
        (Some(url), _) => Some(parse_listen(url)?),
        (None, Some(_)) => None,
        (None, None) => Some(parse_listen(DEFAULT_LISTEN)?),
    };
    let auth = auth(&args.listen_auth).map_err(|error| UsageError::of(&error.into()))?;
    let config = Config::default()
        .session_retention(args.retention)
        .auth(auth);
    // Before any thread exists: the executor's children must not survive this program.
    mainstay_executor::guard().context("cannot start the guard process")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let code = runtime.block_on(serve(config, listen, access));
    runtime.shutdown_background();
    code
}

/// What clients of the listener must show.
fn auth(args: &ListenAuth) -> Result<Auth, AuthConfigError> {
    match (&args.listen_token_file, &args.listen_secret_file) {
        (Some(token), _) => Auth::capability_from_file(token),
        (None, Some(secret)) => {
            let mut signed = SignedBearer::from_file(secret)?;
            if let Some(issuer) = &args.listen_issuer {
                signed = signed.issuer(issuer);
            }
            if let Some(audience) = &args.listen_audience {
                signed = signed.audience(audience);
            }
            if let Some(skew) = args.listen_clock_skew {
                signed = signed.clock_skew(skew);
            }
            Ok(Auth::Signed(signed))
        }
        (None, None) => Ok(Auth::None),
    }
}

async fn serve(
    config: Config,
    listen: Option<Listen>,
    access: Option<RegistryAccess>,
) -> Result<ExitCode> {
    let mut shutdown = Shutdown::listen()?;
    let executor = Executor::start(config).await?;
    let mut stdio = false;
    match listen {
        Some(Listen::Socket(address)) => announce(&executor.listen(address).await?)?,
        Some(Listen::Stdio) => stdio = true,
        None => {}
    }
    let mut registration = None;
    if let Some(access) = access {
        let registering = executor.register(RegisterConfig::new(
            access.url,
            access.environment.clone(),
            access.token,
        ));
        tokio::select! {
            registered = registering => {
                let registered = registered?;
                announce(&format!("registered {} {}", access.environment, registered.id()))?;
                registration = Some(registered);
            }
            number = shutdown.requested() => {
                executor.shutdown(Duration::ZERO).await;
                return Ok(Shutdown::code(number));
            }
        }
    }
    let ended = tokio::select! {
        _ = shutdown.requested() => Ok(()),
        () = stdio_ended(&executor, stdio) => {
            // Nobody is left to finish for.
            executor.shutdown(Duration::ZERO).await;
            return Ok(ExitCode::SUCCESS);
        }
        error = registration_ended(registration) => Err(error),
    };
    tokio::select! {
        () = executor.shutdown(GRACE) => ended.map(|()| ExitCode::SUCCESS),
        number = shutdown.requested() => {
            executor.shutdown(Duration::ZERO).await;
            Ok(Shutdown::code(number))
        }
    }
}

async fn stdio_ended(executor: &Executor, stdio: bool) {
    if stdio {
        executor.serve_stdio().await;
    } else {
        std::future::pending().await
    }
}

/// Ends when the registration cannot be kept; says when it is made anew, as a registry that restarted has it.
async fn registration_ended(registration: Option<Registration>) -> anyhow::Error {
    let Some(mut registration) = registration else {
        return std::future::pending().await;
    };
    loop {
        match registration.renewed().await {
            Ok(id) => tracing::info!(registration = id, "registered anew"),
            Err(error) => return anyhow::Error::from(error).context("the registration is over"),
        }
    }
}

fn parse_listen(url: &str) -> Result<Listen> {
    if matches!(url, "stdio" | "stdio://") {
        return Ok(Listen::Stdio);
    }
    let address = url
        .strip_prefix("ws://")
        .map(|rest| rest.trim_end_matches('/'));
    match address.and_then(|address| address.parse().ok()) {
        Some(address) => Ok(Listen::Socket(address)),
        None => {
            Err(UsageError(format!("--listen takes ws://IP:PORT or stdio, not `{url}`")).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_literal_addresses_or_stdio() {
        assert_eq!(parse_listen("stdio").unwrap(), Listen::Stdio);
        assert_eq!(
            parse_listen("ws://127.0.0.1:9/").unwrap(),
            Listen::Socket(([127, 0, 0, 1], 9).into())
        );
        for wrong in [
            "",
            "127.0.0.1:9",
            "wss://127.0.0.1:9",
            "ws://localhost:9",
            "ws://127.0.0.1",
            "ws://127.0.0.1:9/path",
        ] {
            assert!(
                parse_listen(wrong).unwrap_err().is::<UsageError>(),
                "{wrong}"
            );
        }
    }
}
