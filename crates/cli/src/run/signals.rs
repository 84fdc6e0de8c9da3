//! The signals that mean something to `run`, whether they reach it or its guard.

use std::io;

use mainstay_executor::signal;
use tokio::signal::unix::{self, SignalKind};

use super::terminal;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Ctrl-C, or SIGINT from elsewhere.
    Interrupt,
    /// End the command and `run`; the signal's number.
    End(i32),
    /// The local terminal has another size.
    Resize,
    /// Stop until continued.
    Suspend,
}

/// Listens for as long as it lives.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: mainstay_executor::Signal,
    terminate: mainstay_executor::Signal,
    hangup: mainstay_executor::Signal,
    resize: unix::Signal,
    /// Only while the terminal is raw: otherwise the default action does all there is to do.
    suspend: Option<unix::Signal>,
}

impl Signals {
    /// Starts listening.
    ///
    /// # Errors
    /// When the system refuses a handler.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            resize: unix::signal(SignalKind::window_change())?,
            suspend: None,
        })
    }

    /// Listens for SIGTSTP too: a raw terminal must be restored before the program stops.
    ///
    /// # Errors
    /// When the system refuses the handler.
    pub(crate) fn listen_for_suspend(&mut self) -> io::Result<()> {
        if terminal::is_raw() {
            self.suspend = Some(unix::signal(SignalKind::from_raw(
                rustix::process::Signal::TSTP.as_raw(),
            ))?);
        }
        Ok(())
    }

    /// The next wish. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Wish {
        let suspend = async {
            match &mut self.suspend {
                Some(suspend) => suspend.recv().await,
                None => std::future::pending().await,
            }
        };
        // A signal stream ends only with the runtime.
        tokio::select! {
            _ = self.interrupt.recv() => Wish::Interrupt,
            _ = self.terminate.recv() => Wish::End(SignalKind::terminate().as_raw_value()),
            _ = self.hangup.recv() => Wish::End(SignalKind::hangup().as_raw_value()),
            _ = self.resize.recv() => Wish::Resize,
            _ = suspend => Wish::Suspend,
        }
    }

    /// The number of the first signal that ends a `run` whose command has not started yet.
    pub(crate) async fn fatal(&mut self) -> i32 {
        loop {
            match self.next().await {
                Wish::Interrupt => return SignalKind::interrupt().as_raw_value(),
                Wish::End(number) => return number,
                Wish::Resize | Wish::Suspend => {}
            }
        }
    }
}

/// Stops this process as SIGTSTP would have, with the terminal restored for whoever is in front meanwhile.
pub(crate) fn suspend() {
    terminal::restore();
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
    // Here again after SIGCONT.
    let _ = terminal::make_raw();
}
