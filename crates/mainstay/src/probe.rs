//! Probe: one live `environment/status` on one link, after a refresh has decided.
//!
//! A [worker](crate::worker) of the supervisor's; ends with one `ProbeDone`.

use std::time::Duration;

use mainstay_session::ids::RefreshId;
use mainstay_wire::NoParams;
use mainstay_wire::environment::Status;
use ractor::ActorRef;

use crate::line::Line;
use crate::link::{Lane, LinkRef};
use crate::supervisor;
use crate::worker::Work;

#[derive(Debug)]
pub(crate) struct Probe {
    pub(crate) refresh: RefreshId,
    pub(crate) line: Line,
    pub(crate) link: LinkRef,
    /// How long the answer may take.
    pub(crate) limit: Duration,
    pub(crate) supervisor: ActorRef<supervisor::Msg>,
}

impl Work for Probe {
    async fn run(self) {
        let result = self
            .line
            .timed_on::<Status>(&self.link, Lane::Probe, &NoParams {}, self.limit)
            .await;
        let report = supervisor::Msg::ProbeDone {
            refresh: self.refresh,
            epoch: self.link.epoch(),
            result: result.map(|_| ()),
        };
        let _ = self.supervisor.send_message(report);
    }
}
