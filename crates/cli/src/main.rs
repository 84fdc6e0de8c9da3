//! The `mainstay` command: runs commands on a remote executor, is that executor, or is the registry between them.
//!
//! What others need is in the libraries; here are the command line, the terminal, signals and exit codes.
#![allow(
    clippy::disallowed_types,
    reason = "not an actor crate: the saved terminal is process-wide state that a panic hook must reach"
)]

mod args;
mod destination;
mod duration;
mod ending;
mod logging;
mod run;
mod serve_executor;
mod serve_registry;
mod shutdown;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};

/// Usage errors and failures of every subcommand but `run`.
const USAGE: u8 = 2;
const FAILURE: u8 = 1;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return explain(&error),
    };
    logging::start(cli.verbose);
    match cli.command {
        Command::Run(args) => run::main(&args).finish(),
        Command::Executor(args) => finish(serve_executor::main(args)),
        Command::Registry(args) => finish(serve_registry::main(args)),
    }
}

/// Prints help, version or a usage error. Usage errors of `run` are 125, so that they never look like the command's own code.
fn explain(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    let first = std::env::args_os()
        .skip(1)
        .find(|arg| !arg.to_string_lossy().starts_with('-'));
    ExitCode::from(if first.is_some_and(|arg| arg == "run") {
        ending::OWN_FAILURE
    } else {
        USAGE
    })
}

fn finish(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        ending::say(&format!("{error:#}"));
        ExitCode::from(if error.is::<UsageError>() {
            USAGE
        } else {
            FAILURE
        })
    })
}

/// Marks an error of the command line or its variables that only a look at both can find.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct UsageError(String);

impl UsageError {
    fn of(error: &anyhow::Error) -> anyhow::Error {
        Self(format!("{error:#}")).into()
    }
}
