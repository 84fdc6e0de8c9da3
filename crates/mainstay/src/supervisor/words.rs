//! The machine's causes in words for people.

use std::sync::Arc;

use mainstay_session::cause::Class;
use mainstay_session::{Cause, Down, End, Failure, RecoveryPhase};

use super::State;
use crate::error::{Delivery, Error, ErrorKind};

impl State {
    /// The error that callers get for a cause.
    pub(super) fn words(&self, cause: Cause) -> Error {
        let gone = |text: &str| Error::disconnected(text, Delivery::NotSent);
        match cause {
            Cause::NotReady => gone("not ready: nothing has been connected yet"),
            Cause::Recovering => gone("the session is being recovered"),
            Cause::Attempt(failure) => attempt(self.shelf.error(failure.cause)),
            Cause::LinkLost(down) => attempt(gone(&self.down(down))),
            Cause::Superseded => attempt(gone("superseded by a refresh")),
            Cause::Told(failure) => self.shelf.error(failure.cause),
            Cause::Lost { down, end } => self.lost(down, end),
            Cause::Replaced => gone("the executor was replaced"),
            Cause::NotCurrent => gone("the session has ended"),
            Cause::ProcessTableLost => internal("the process table crashed"),
            Cause::BodyTableLost => internal("the body table crashed"),
            Cause::Crashed => internal("an actor crashed"),
            Cause::TooManyPanics => internal("actors crashed too often"),
            Cause::CannotRefresh => Error::protocol("refresh needs a registry"),
            Cause::CannotReplaceSocket => {
                Error::protocol("this environment takes no sockets from the host")
            }
            Cause::HandoffInProgress => {
                Error::protocol("another replacement of the socket is in progress")
            }
            Cause::ShutDown => gone("the environment was shut down"),
        }
    }

    fn down(&self, down: Down) -> String {
        match down {
            Down::Told(cause) => plain(&self.shelf.error(cause)),
            Down::SocketReplaced => "connection replaced".to_owned(),
            Down::Crashed => "link crashed".to_owned(),
        }
    }

    /// Disconnect text, then how the recovery ended (5.2.6).
    fn lost(&self, down: Down, end: End) -> Error {
        let mut text = self.down(down);
        match end {
            End::NoStrategy => {}
            End::Fatal(Failure {
                cause,
                class: Class::Denied,
            }) => return self.shelf.error(cause),
            End::Fatal(failure) => text.push_str(&format!(
                "; recovery failed: {}",
                self.shelf.error(failure.cause)
            )),
            End::KeyChanged => {
                text.push_str("; recovery failed: the registry names an executor with another key")
            }
            End::SessionChanged => {
                text.push_str("; recovery failed: the executor answered with another session id")
            }
            End::TimedOut { phase, last } => {
                text.push_str(&format!("; recovery timed out ({})", phase_name(phase)));
                if let Some(failure) = last {
                    text.push_str(&format!(
                        "; last error: {}",
                        self.shelf.error(failure.cause)
                    ));
                }
            }
        }
        Error::disconnected(text, Delivery::NotSent)
    }
}

/// Without the prefix that `disconnected` will add again.
fn plain(error: &Error) -> String {
    match error.kind() {
        ErrorKind::Disconnected { text, .. } => text.clone(),
        _ => error.to_string(),
    }
}

fn attempt(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Attempt(_) => error,
        _ => ErrorKind::Attempt(Arc::new(error.into_kind())).into(),
    }
}

fn internal(text: &str) -> Error {
    ErrorKind::Internal {
        text: text.to_owned(),
    }
    .into()
}

/// What used up the time, as in the telemetry (`session.md` 13).
pub(super) fn phase_name(phase: RecoveryPhase) -> &'static str {
    match phase {
        RecoveryPhase::StartDrain => "process_start_drain",
        RecoveryPhase::Backoff => "backoff",
        RecoveryPhase::Lookup => "recovery_deadline",
        RecoveryPhase::Attach => "attach_deadline",
        RecoveryPhase::Socket => "recovery_deadline",
        RecoveryPhase::Replay => "process_replay",
    }
}
