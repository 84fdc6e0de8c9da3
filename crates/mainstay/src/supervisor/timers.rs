//! Timers: how long, and how they become messages.

use std::time::Duration;

use mainstay_session::Wait;
use mainstay_session::delay::{self, Circumstances};
use mainstay_session::ids::{CauseId, Timer};
use ractor::ActorRef;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::{Msg, State};

/// A timer that runs; dropping it disarms it.
#[derive(Debug)]
pub(super) struct Armed {
    task: AbortHandle,
    due: Instant,
}

impl Drop for Armed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl State {
    pub(super) fn start_timer(&mut self, myself: &ActorRef<Msg>, timer: Timer, wait: Wait) {
        let delay = self.duration(timer, wait);
        tracing::debug!(?timer, ?delay, "timer");
        let supervisor = myself.clone();
        let due = Instant::now() + delay;
        let task = tokio::spawn(async move {
            tokio::time::sleep_until(due).await;
            let _ = supervisor.send_message(Msg::Due(timer));
        });
        self.timers.insert(
            timer,
            Armed {
                task: task.abort_handle(),
                due,
            },
        );
    }

    fn duration(&self, timer: Timer, wait: Wait) -> Duration {
        let config = &self.setup.config.session;
        let session = self.newest().map(|entry| &entry.session);
        let features = session
            .map(|session| session.features().clone())
            .unwrap_or_default();
        let circumstances = Circumstances {
            key: session.map_or("", |session| session.id()),
            transport: self.setup.rules().transport,
            retry_after: match wait {
                Wait::Backoff { after, .. } => self.shelf.error(after.cause).retry_after(),
                Wait::RecoveryDeadline | Wait::Restart(_) | Wait::PanicWindow => None,
            },
            restart_window: match wait {
                Wait::Restart(cause) => self.restart_window(cause),
                Wait::RecoveryDeadline | Wait::Backoff { .. } | Wait::PanicWindow => None,
            },
            retention: delay::retention(config, features.retention, features.version.as_deref()),
            remaining: match timer {
                Timer::Retry(recovery) => self
                    .timers
                    .get(&Timer::Deadline(recovery))
                    .map(|deadline| deadline.due.saturating_duration_since(Instant::now())),
                Timer::Deadline(_) | Timer::Cooldown(_) | Timer::Panic(_) => None,
            },
            random: crate::chance::random(),
        };
        delay::duration(wait, config, &circumstances)
    }

    /// What a peer announces is bounded like `Retry-After`.
    fn restart_window(&self, cause: CauseId) -> Option<Duration> {
        self.shelf
            .restart_window(cause)
            .map(|window| window.min(self.setup.config.session.retry_after_max))
    }
}
