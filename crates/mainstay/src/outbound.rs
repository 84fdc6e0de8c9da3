//! Outbound policy: what the client itself may contact (`session.md` 9.4). Registry requests and WebSocket dials alike.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;

use crate::error::{Denial, Error, ErrorKind, RequestFailure};

/// What is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outbound {
    /// Everything.
    Unrestricted,
    /// These hosts, compared without case.
    Hosts(BTreeSet<String>),
}

/// A policy that its host publishes. Until it does, everything is denied as *unavailable*. Cheap to clone.
#[derive(Clone, Debug)]
pub struct OutboundPolicy(Arc<watch::Sender<(u64, Option<Outbound>)>>);

impl Default for OutboundPolicy {
    fn default() -> Self {
        Self(Arc::new(watch::channel((0, None)).0))
    }
}

impl OutboundPolicy {
    /// A policy with nothing published.
    pub fn new() -> Self {
        Self::default()
    }

    /// The current revision; 0 before the first publication.
    pub fn revision(&self) -> u64 {
        self.0.borrow().0
    }

    /// Puts `outbound` in force if `revision` is still the current one. Says whether it did.
    pub fn publish(&self, revision: u64, outbound: Outbound) -> bool {
        self.0.send_if_modified(|current| {
            let fresh = current.0 == revision;
            if fresh {
                *current = (revision + 1, Some(outbound));
            }
            fresh
        })
    }

    /// Tells its subscribers about publications.
    pub(crate) fn subscribe(&self) -> watch::Receiver<(u64, Option<Outbound>)> {
        self.0.subscribe()
    }

    /// Why `host` may not be contacted, if so.
    pub(crate) fn denies(&self, host: &str) -> Option<Denial> {
        match &self.0.borrow().1 {
            None => Some(Denial::Unavailable),
            Some(Outbound::Unrestricted) => None,
            Some(Outbound::Hosts(hosts)) => {
                let allowed = hosts
                    .iter()
                    .any(|allowed| allowed.eq_ignore_ascii_case(host));
                (!allowed).then_some(Denial::Destination)
            }
        }
    }

    pub(crate) fn check_url(&self, url: &str) -> Result<(), Error> {
        let url = reqwest::Url::parse(url).map_err(|error| ErrorKind::RegistryConfiguration {
            text: error.to_string(),
        })?;
        let host = url
            .host_str()
            .unwrap_or_default()
            .trim_start_matches('[')
            .trim_end_matches(']');
        match self.denies(host) {
            None => Ok(()),
            Some(denial) => Err(ErrorKind::RegistryRequest {
                failure: RequestFailure::Denied(denial),
                text: denial.to_string(),
            }
            .into()),
        }
    }
}
