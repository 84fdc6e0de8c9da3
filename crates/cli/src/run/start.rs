//! Starting the command, and what a failed start means.

use mainstay::{Environment, Error, Missing, Process};

use super::{request::Request, terminal};
use crate::ending::{Ending, NOT_EXECUTABLE, NOT_FOUND};

/// The executor's code for a file that is not there (protocol.md 14).
const NOT_FOUND_CODE: i64 = -32004;
/// What the system says of a missing file, and the reference of a missing program or directory alike.
const NO_SUCH_FILE: &str = "(os error 2)";
/// What the system says of a file that cannot be executed.
const PERMISSION_DENIED: &str = "(os error 13)";

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
    let error = match environment.exec(command).await {
        Ok(process) => return Ok(process),
        Err(error) => error,
    };
    let missing = match error.missing() {
        Some(missing) => Some(missing),
        None if says(&error, NO_SUCH_FILE) => Some(look(environment, request).await),
        None => None,
    };
    let program = request.program();
    Err(match missing {
        Some(Missing::Program) => not_found(request),
        Some(Missing::Cwd) => Ending::own(format!(
            "no such directory on the executor: {}",
            request.cwd().unwrap_or(".")
        )),
        None if says(&error, PERMISSION_DENIED) => Ending::Failed {
            code: NOT_EXECUTABLE,
            why: format!("`{program}` cannot be executed: {error}"),
        },
        None => Ending::own(format!("cannot start `{program}` on {place}: {error}")),
    })
}

/// Whether the executor itself answered with this text of its system.
fn says(error: &Error, text: &str) -> bool {
    error.code().is_some() && error.to_string().contains(text)
}

/// Which of the two is missing, for an executor that does not say: is the directory there?
async fn look(environment: &Environment, request: &Request) -> Missing {
    match request.cwd() {
        Some(cwd) => match environment.files().metadata(cwd).await {
            Err(error) if error.code() == Some(NOT_FOUND_CODE) => Missing::Cwd,
            Ok(_) | Err(_) => Missing::Program,
        },
        None => Missing::Program,
    }
}

fn not_found(request: &Request) -> Ending {
    Ending::Failed {
        code: NOT_FOUND,
        why: format!("`{}`: no such program on the executor", request.program()),
    }
}
