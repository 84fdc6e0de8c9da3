//! Starting the command, and what a failed start means.

use mainstay::{Environment, Error, Missing, Process};

use super::{request::Request, terminal};
use crate::ending::{Ending, NOT_EXECUTABLE, NOT_FOUND};

/// Starts the command; `place` names the far side in messages.
///
/// # Errors
/// The ending that a failed start is.
pub(crate) async fn start(
    environment: &Environment,
    place: &str,
    request: &Request,
) -> Result<Process, Ending> {
    if request.program().is_empty() {
        return Err(not_found(request));
    }
    let term = std::env::var("TERM").ok().filter(|term| !term.is_empty());
    let command = request.command(terminal::size(), term);
    match environment.exec(command).await {
        Ok(process) => Ok(process),
        Err(error) => Err(failed(place, request, &error)),
    }
}

fn failed(place: &str, request: &Request, error: &Error) -> Ending {
    let program = request.program();
    match error.missing() {
        Some(Missing::Program) => not_found(request),
        Some(Missing::Cwd) => Ending::own(format!(
            "no such directory on the executor: {}",
            request.cwd().unwrap_or(".")
        )),
        None if error.to_string().contains("Permission denied") => Ending::Failed {
            code: NOT_EXECUTABLE,
            why: format!("{program}: {error}"),
        },
        None => Ending::own(format!("cannot start {program} on {place}: {error}")),
    }
}

fn not_found(request: &Request) -> Ending {
    Ending::Failed {
        code: NOT_FOUND,
        why: format!("`{}`: no such program on the executor", request.program()),
    }
}
