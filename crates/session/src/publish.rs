//! What others see: the connection-state watch (2.4), snapshots, readiness.

use crate::conn::{ConnState, Phase, Readiness, Snapshot};
use crate::effect::Effect;
use crate::machine::{Effects, Machine};
use crate::state::{Session, Status};

/// A session as far as the watch cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum View {
    /// It has a link, which may have closed without anybody having noticed.
    Connected {
        /// Its closed flag is not set.
        link_open: bool,
    },
    /// It has none.
    Recovering,
    /// It ended.
    Failed,
    /// Its executor was replaced.
    Retired,
}

/// The watch's value for the attached session (2.4). `can_recover`: its transport has a reconnect strategy (rule 6).
#[must_use]
pub fn publish(session: Option<View>, can_recover: bool) -> ConnState {
    match session {
        Some(View::Connected { link_open: true }) => ConnState::Connected,
        Some(View::Connected { link_open: false } | View::Recovering) if can_recover => {
            ConnState::Recovering
        }
        Some(View::Connected { link_open: false } | View::Recovering) => ConnState::Disconnected,
        Some(View::Failed | View::Retired) | None => ConnState::Disconnected,
    }
}

impl Machine {
    /// The value that the watch should have now. The machine hears of a closed link through `LinkDown`: until then it is open.
    #[must_use]
    pub fn conn(&self) -> ConnState {
        let view = self.session.as_ref().map(|session| match session.status {
            Status::Connected(_) => View::Connected { link_open: true },
            Status::Recovering(_) => View::Recovering,
            Status::Failed(_) => View::Failed,
        });
        publish(view, self.rules.can_recover())
    }

    /// Publishes the value. Called only where it has changed, and where a session fails or is retired: that wakes even if the
    /// value stays the same, for whoever waits for the end of a recovery (rule 1).
    pub(crate) fn publish_conn(&mut self, out: &mut Effects) {
        self.conn = self.conn();
        out.push(Effect::PublishConn(self.conn));
    }

    /// Where things stand.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            phase: self.phase(),
            startup_finished: self.session.is_some() || self.startup.result.is_some(),
            readiness: self.readiness(),
            registration: self.registration,
            session: self
                .session
                .as_ref()
                .map(|session| (session.generation, session.id)),
            conn: self.conn,
        }
    }

    fn phase(&self) -> Phase {
        if self.shut_down {
            return Phase::ShutDown;
        }
        // A failed session's replacement is what matters.
        if let Some(attempt) = &self.attempt {
            return Phase::Connecting(attempt.stage.phase());
        }
        match self.session.as_ref().map(|session| &session.status) {
            Some(Status::Connected(_)) => Phase::Connected,
            Some(Status::Recovering(recovery)) => Phase::Recovering(recovery.stage.phase()),
            Some(Status::Failed(_)) => Phase::Failed,
            None => Phase::Idle,
        }
    }

    fn readiness(&self) -> Readiness {
        match (&self.session, self.startup.result) {
            (
                Some(Session {
                    status: Status::Connected(_),
                    ..
                }),
                _,
            ) => Readiness::Ready,
            (
                Some(Session {
                    status: Status::Recovering(_),
                    ..
                }),
                _,
            ) => Readiness::Undecided,
            (
                Some(Session {
                    status: Status::Failed(cause),
                    ..
                }),
                _,
            ) => Readiness::Failed(*cause),
            (None, Some(Err(failure))) if !self.startup.superseded => {
                Readiness::Failed(crate::Cause::Attempt(failure))
            }
            (None, _) => Readiness::Undecided,
        }
    }
}
