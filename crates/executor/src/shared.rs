//! What every actor of one executor knows and none changes.

use std::sync::Arc;

use mainstay_wire::environment::EnvironmentInfo;

use crate::config::Config;
use crate::http::HttpClient;
use crate::killer::Killer;
use crate::nursery::Nursery;

/// Set once at start.
#[derive(Debug)]
pub(crate) struct Shared {
    /// What the host configured.
    pub(crate) config: Config,
    /// Facts about this host, as every client is told them.
    pub(crate) environment: Arc<EnvironmentInfo>,
    /// Ends programs with their descendants.
    pub(crate) killer: Killer,
    /// Where births of children are told.
    pub(crate) nursery: Nursery,
    /// Sends HTTP requests for all connections.
    pub(crate) http: HttpClient,
}
