//! What executor and registry share as programs: the line that says they are ready, and how they are asked to leave.

use std::{io::Write, process::ExitCode};

use anyhow::{Context, Result};
use mainstay_executor::{Signal, signal};
use tokio::signal::unix::SignalKind;

use crate::ending::SIGNAL;

/// SIGTERM and SIGINT, whether they reach this process or its guard.
#[derive(Debug)]
pub(crate) struct Shutdown {
    terminate: Signal,
    interrupt: Signal,
}

impl Shutdown {
    /// Starts listening; must be called inside the runtime.
    ///
    /// # Errors
    /// When the system refuses a handler.
    pub(crate) fn listen() -> Result<Self> {
        let install = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            terminate: install(SignalKind::terminate())?,
            interrupt: install(SignalKind::interrupt())?,
        })
    }

    /// The number of the next request to leave. Cancel-safe.
    pub(crate) async fn requested(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate().as_raw_value(),
            _ = self.interrupt.recv() => SignalKind::interrupt().as_raw_value(),
        }
    }

    /// The exit code of a program that left at once because of this signal.
    pub(crate) fn code(number: i32) -> ExitCode {
        ExitCode::from(SIGNAL | u8::try_from(number).unwrap_or(0))
    }
}

/// One line on standard output, at once: this program is ready.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn announce(line: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")
        .and_then(|()| stdout.flush())
        .context("cannot write standard output")
}
