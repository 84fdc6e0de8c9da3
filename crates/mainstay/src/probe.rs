//! Probe: one live `environment/status` on one link, after a refresh has decided.
//!
//! Spawned by the supervisor; ends with one `ProbeDone`.
//!
//! | message | from | meaning |
//! |---|---|---|
//! | `Run` | supervisor | ask and report |

use std::time::Duration;

use mainstay_session::ids::RefreshId;
use mainstay_wire::NoParams;
use mainstay_wire::environment::Status;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::line::Line;
use crate::link::{Lane, LinkRef};
use crate::supervisor;

/// One message: the work.
#[derive(Debug)]
pub(crate) enum Msg {
    Run,
}

#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) refresh: RefreshId,
    pub(crate) line: Line,
    pub(crate) link: LinkRef,
    pub(crate) limit: Duration,
    pub(crate) supervisor: ActorRef<supervisor::Msg>,
}

#[derive(Debug)]
pub(crate) struct Probe;

impl Actor for Probe {
    type Msg = Msg;
    type State = Arguments;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        _: ActorRef<Msg>,
        work: Arguments,
    ) -> Result<Arguments, ActorProcessingErr> {
        Ok(work)
    }

    async fn handle(
        &self,
        myself: ActorRef<Msg>,
        message: Msg,
        work: &mut Arguments,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Msg::Run => {
                let result = work
                    .line
                    .timed_on::<Status>(&work.link, Lane::Probe, &NoParams {}, work.limit)
                    .await;
                let report = supervisor::Msg::ProbeDone {
                    refresh: work.refresh,
                    epoch: work.link.epoch(),
                    result: result.map(|_| ()),
                };
                let _ = work.supervisor.send_message(report);
                crate::lifecycle::done(&myself);
            }
        }
        Ok(())
    }
}
