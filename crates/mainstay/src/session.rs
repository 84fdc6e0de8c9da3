//! One session, as its holders see it: valid through recoveries, failed for ever once its executor was replaced.

use std::sync::Arc;

use mainstay_session::event::Mode;
use mainstay_session::ids::Gen;
use mainstay_wire::NoParams;
use mainstay_wire::environment::{EnvironmentInfo, Info, Status};
pub use mainstay_wire::extension::ProcessEntry;
use mainstay_wire::extension::{EndSession, Processes};
use mainstay_wire::process::{Terminate, TerminateParams};
use tokio::sync::{OnceCell, mpsc};

use crate::body_table::ToBodies;
use crate::error::{Error, ErrorKind};
use crate::features::Features;
use crate::line::Line;
use crate::link::Lane;
use crate::process_table::ToTable;
use crate::setup::Setup;

/// A handle of one session. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Session {
    shared: Arc<Shared>,
    mode: Mode,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) line: Line,
    pub(crate) id: String,
    pub(crate) table: mpsc::UnboundedSender<ToTable>,
    pub(crate) bodies: mpsc::UnboundedSender<ToBodies>,
    /// What `initialize` told, or the one request for it: set at most once in a session's life.
    pub(crate) info: OnceCell<EnvironmentInfo>,
    pub(crate) features: Features,
    pub(crate) setup: Arc<Setup>,
}

impl Session {
    pub(crate) fn new(shared: Shared) -> Self {
        Self {
            shared: Arc::new(shared),
            mode: Mode::Wait,
        }
    }

    /// The executor's id of this session.
    pub fn id(&self) -> &str {
        &self.shared.id
    }

    /// Whether both handles are of the very same session, not merely of one with an equal id.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Whether its executor was replaced.
    pub fn is_retired(&self) -> bool {
        self.line().is_retired()
    }

    /// Why it can never be used again, if so.
    pub fn failure(&self) -> Option<Error> {
        self.line().failure()
    }

    /// What the executor says about itself: from `initialize`, else asked once. Shared by all handles of the session.
    ///
    /// # Errors
    /// The call's; they are not remembered.
    pub async fn info(&self) -> Result<EnvironmentInfo, Error> {
        self.shared
            .info
            .get_or_try_init(|| self.ask_info())
            .await
            .cloned()
    }

    /// Asks for the executor's description now. Neither reads nor fills the cache.
    ///
    /// # Errors
    /// [`ErrorKind::RpcTimeout`] after 30 s; a session that can be recovered then is.
    pub async fn ask_info(&self) -> Result<EnvironmentInfo, Error> {
        let limit = self.shared.setup.config.session.info_timeout;
        let link = self.line().link(self.mode).await?;
        let result = self
            .line()
            .timed_on::<Info>(&link, Lane::Regular, &NoParams {}, limit)
            .await;
        if let Err(error) = &result
            && matches!(error.kind(), ErrorKind::RpcTimeout { .. })
        {
            // T4: the supervisor decides whether the link has to go.
            link.report_timeout(error.clone());
        }
        result
    }

    /// Asks whether the executor is alive, on the link there is: waits for nothing and recovers nothing.
    /// Where there is no link it fails at once, after others had their turn: a loop around it starves nobody.
    ///
    /// # Errors
    /// [`ErrorKind::RpcTimeout`] after 10 s, with the link left as it is.
    pub async fn status(&self) -> Result<(), Error> {
        let limit = self.shared.setup.config.session.status_timeout;
        let link = self.line().link(Mode::FailFast).await?;
        self.line()
            .timed_on::<Status>(&link, Lane::Probe, &NoParams {}, limit)
            .await
            .map(|_| ())
    }

    /// Kills a process of this session by its id, also one that no handle is left of. `true` if a kill was sent.
    ///
    /// # Errors
    /// As every call; a clean-up call waits for a link whatever the handle's mode.
    pub async fn terminate(&self, process_id: &str) -> Result<bool, Error> {
        let params = TerminateParams {
            process_id: process_id.to_owned(),
            grace_ms: None,
        };
        let answer = self
            .line()
            .clean_up::<Terminate>(self.mode, &params)
            .await?;
        Ok(answer.running)
    }

    /// The session's processes at the executor, oldest first, where it announces `mainstayProcessList`.
    ///
    /// # Errors
    /// The executor does not offer it; else as every call.
    pub async fn processes(&self) -> Result<Vec<ProcessEntry>, Error> {
        if !self.features().process_list {
            return Err(Error::unsupported("a list of processes"));
        }
        let answer = self
            .line()
            .call::<Processes>(self.mode, &NoParams {})
            .await?;
        Ok(answer.processes)
    }

    /// Kills the session's processes and makes the executor forget it, where it announces `mainstayEndSession`.
    ///
    /// # Errors
    /// The executor does not offer it; else as every call.
    pub async fn end(&self) -> Result<(), Error> {
        if !self.features().end_session {
            return Err(Error::unsupported("an end of the session"));
        }
        self.line()
            .call::<EndSession>(self.mode, &NoParams {})
            .await
            .map(|_| ())
    }

    /// Waits for a link. For tests.
    #[doc(hidden)]
    pub async fn link_for_test(&self) -> Result<(), Error> {
        self.line().link(self.mode).await.map(|_| ())
    }

    /// Closes the transport of the current link at this end. For tests.
    #[doc(hidden)]
    pub fn disconnect_for_test(&self) {
        self.line().disconnect();
    }

    /// The session's generation, for events of tests.
    #[doc(hidden)]
    pub fn generation_for_test(&self) -> Gen {
        self.generation()
    }

    /// Holds the body table up until the sender is used or dropped. For tests.
    #[doc(hidden)]
    pub fn hold_streams_for_test(&self) -> tokio::sync::oneshot::Sender<()> {
        let (release, held) = tokio::sync::oneshot::channel();
        let _ = self.bodies().send(ToBodies::Hold(held));
        release
    }

    pub(crate) fn with_mode(&self, mode: Mode) -> Self {
        Self {
            shared: self.shared.clone(),
            mode,
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    pub(crate) fn line(&self) -> &Line {
        &self.shared.line
    }

    pub(crate) fn table(&self) -> &mpsc::UnboundedSender<ToTable> {
        &self.shared.table
    }

    pub(crate) fn bodies(&self) -> &mpsc::UnboundedSender<ToBodies> {
        &self.shared.bodies
    }

    pub(crate) fn features(&self) -> &Features {
        &self.shared.features
    }

    pub(crate) fn setup(&self) -> &Arc<Setup> {
        &self.shared.setup
    }

    pub(crate) fn generation(&self) -> Gen {
        self.line().generation()
    }

    /// Whether anybody but the supervisor holds it.
    pub(crate) fn is_held(&self) -> bool {
        Arc::strong_count(&self.shared) > 1
    }
}
