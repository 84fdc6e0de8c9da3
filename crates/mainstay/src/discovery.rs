//! Skills, plugins and configuration on the executor's disk (`environment.md` 5, `protocol.md` 12 and 13).
//!
//! Discovery only reads, so it is the one thing beside `process/read` that is asked again: once, when its link ended
//! under it (`session.md` 4).

use std::time::Duration;

use mainstay_session::event::Mode;
use mainstay_wire::Call;
use mainstay_wire::capabilities::{
    DiscoverParams, DiscoverRootsParams, DiscoverRootsV1, DiscoverV2, RootRequest,
};
use mainstay_wire::environment::{ConfigRead, ConfigReadParams};
use mainstay_wire::sandbox::{FileSystemAccess, Permissions, Sandbox};
use tokio::time::timeout;

pub use mainstay_wire::capabilities::{DiscoverAnswer as Inventory, Plugin, RootAnswer, Skill};
pub use mainstay_wire::environment::ConfigReadAnswer;

use crate::error::{Error, ErrorKind};
use crate::link::Lane;
use crate::paths;
use crate::session::Session;

/// A directory of the executor's machine to look for skills and a plugin in.
#[derive(Clone, Debug)]
pub struct CapabilityRoot {
    id: String,
    path: String,
    sandbox: Option<Sandbox>,
}

impl CapabilityRoot {
    /// `id` comes back with what was found and need not be unique. `path` is absolute, a `file:` URI, or relative to
    /// the executor's own directory.
    pub fn new(id: impl Into<String>, path: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            path: path.into(),
            sandbox: None,
        }
    }

    /// What may be read while looking, in the executor's terms.
    pub fn sandbox(mut self, sandbox: Sandbox) -> Self {
        self.sandbox = Some(sandbox);
        self
    }
}

/// Which parts of the executor's configuration are wanted. At least one path is required.
#[derive(Clone, Debug)]
pub struct ConfigQuery {
    cwd: String,
    config: Vec<Vec<String>>,
    requirements: Vec<Vec<String>>,
    timeout: Option<Duration>,
}

impl ConfigQuery {
    /// About the configuration that holds in `cwd`: absolute, a `file:` URI, or relative to the executor's own
    /// directory.
    pub fn new(cwd: impl Into<String>) -> Self {
        Self {
            cwd: cwd.into(),
            config: Vec::new(),
            requirements: Vec::new(),
            timeout: None,
        }
    }

    /// Adds a key path of the configuration, taken literally: `["model_providers", "a.b"]`.
    pub fn config(mut self, path: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.config.push(path.into_iter().map(Into::into).collect());
        self
    }

    /// Adds a key path of the requirements.
    pub fn requirements(mut self, path: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.requirements
            .push(path.into_iter().map(Into::into).collect());
        self
    }

    /// Limits the exchange; the time to connect does not count. Without it there is no limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

impl Session {
    /// Plugins, and skills of the executor's own roots (`capabilities/discoverV2`). An inventory is good for this
    /// session, over its recoveries; nothing is kept here.
    ///
    /// `cwd` need not exist. A link that ends under the call costs one repetition, if the next one is there within 8 s.
    ///
    /// # Errors
    /// As every call: −32601 from an executor without `capabilityDiscoveryV2`.
    pub async fn discover(&self, cwd: &str, sandbox: Option<Sandbox>) -> Result<Inventory, Error> {
        let cwd = paths::resolve(self, Some(cwd)).await?;
        twice::<DiscoverV2>(self, &DiscoverParams { cwd, sandbox }).await
    }

    /// What is in these directories, in their order, duplicates kept (`capabilityRoots/discoverV1`). A directory that
    /// cannot be read says so in its own [`RootAnswer::error`]. At most 128 of them.
    ///
    /// A link that ends under the call costs one repetition, if the next one is there within 8 s.
    ///
    /// # Errors
    /// A root restricts what may be read and the executor does not announce `capabilityDiscoverySandbox`: nothing is
    /// sent then. The answer is about other roots. Else as every call.
    pub async fn discover_roots(
        &self,
        roots: impl IntoIterator<Item = CapabilityRoot>,
    ) -> Result<Vec<RootAnswer>, Error> {
        let mut asked = Vec::new();
        for root in roots {
            if root.sandbox.as_ref().is_some_and(restricts) && !self.features().discovery_sandbox {
                return Err(Error::unsupported("discovery inside a sandbox"));
            }
            let path = paths::resolve(self, Some(&root.path)).await?;
            asked.push(RootRequest {
                id: root.id,
                path,
                sandbox: root.sandbox,
            });
        }
        let params = DiscoverRootsParams { roots: asked };
        let answer = twice::<DiscoverRootsV1>(self, &params).await?;
        let same = |(asked, found): (&RootRequest, &RootAnswer)| {
            asked.id == found.id && asked.path == found.path
        };
        if answer.roots.len() == params.roots.len()
            && params.roots.iter().zip(&answer.roots).all(same)
        {
            Ok(answer.roots)
        } else {
            Err(Error::protocol("the answer is about other roots"))
        }
    }

    /// Selected parts of the executor's configuration files (`environmentConfig/read`), as layers of TOML.
    ///
    /// # Errors
    /// [`ErrorKind::RpcTimeout`] after the query's timeout; a session that can be recovered then is. Else as every
    /// call: −32602 for a query without a path.
    pub async fn read_config(&self, query: ConfigQuery) -> Result<ConfigReadAnswer, Error> {
        let params = ConfigReadParams {
            cwd: paths::resolve(self, Some(&query.cwd)).await?,
            config_paths: query.config,
            requirements_paths: query.requirements,
        };
        let Some(limit) = query.timeout else {
            return self.line().call::<ConfigRead>(self.mode(), &params).await;
        };
        let link = self.line().link(self.mode()).await?;
        let result = self
            .line()
            .timed_on::<ConfigRead>(&link, Lane::Regular, &params, limit)
            .await;
        if let Err(error) = &result
            && matches!(error.kind(), ErrorKind::RpcTimeout { .. })
        {
            // T4: the supervisor decides whether the link has to go.
            link.report_timeout(error.clone());
        }
        result
    }
}

/// Whether a policy forbids reading something.
fn restricts(sandbox: &Sandbox) -> bool {
    match &sandbox.permissions {
        Permissions::Managed { file_system, .. } => match file_system {
            FileSystemAccess::Restricted { .. } => true,
            FileSystemAccess::Unrestricted => false,
        },
        Permissions::Disabled => false,
        Permissions::External { .. } => false,
    }
}

/// Asks, and asks once more on the next link of the same session if this one ended under the call
/// (`environment.md` 5.1).
async fn twice<C: Call>(session: &Session, params: &C::Params) -> Result<C::Answer, Error> {
    let line = session.line();
    let first = match line.call::<C>(session.mode(), params).await {
        Err(error)
            if error.is_transport_closed()
                && line.failure().is_none()
                && session.mode() == Mode::Wait =>
        {
            error
        }
        other => return other,
    };
    let limit = session.setup().config.session.discovery_replay_wait;
    match timeout(limit, line.link(Mode::Wait)).await {
        Ok(link) => line.call_on::<C>(&link?, Lane::Regular, params).await,
        Err(_) => Err(first),
    }
}
