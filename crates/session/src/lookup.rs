//! One lookup: how often the registry is asked before its answer is a failure (3.4, 5.3, 6.2, W17).

use std::time::Duration;

use crate::cause::Class;
use crate::config::Config;

/// Whose lookup it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LookupKind {
    /// An attempt's.
    Initial,
    /// An attempt's on a provisioned environment, whose executor may still be starting.
    Provisioned,
    /// A resume's: the recovery has its own retries.
    Resume,
    /// A refresh's.
    Refresh,
}

/// The requests of one lookup. The 401 refresh of an attempt is a new one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lookup {
    kind: LookupKind,
    failures: u32,
}

/// How long ago things were when a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Elapsed {
    /// Since this lookup began.
    pub lookup: Duration,
    /// Since the attempt saw provisioning ready: it goes on over the 401 refresh.
    pub ready: Duration,
}

/// What follows a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// The lookup fails with this request's error.
    GiveUp,
    /// Wait, then ask again. If wait and request together take longer than `within`, the lookup fails then, with the error of
    /// the request *before*.
    Again {
        /// For the delay: how many failures came before this one.
        earlier: u32,
        /// Time for the wait and the request.
        within: Duration,
    },
}

impl Lookup {
    /// No request was made yet.
    #[must_use]
    pub fn new(kind: LookupKind) -> Self {
        Self { kind, failures: 0 }
    }

    /// How long one request may take. For a resume the provider's own limit and the recovery's deadline count.
    #[must_use]
    pub fn request_timeout(&self, config: &Config) -> Duration {
        match self.kind {
            LookupKind::Initial | LookupKind::Provisioned => config.lookup_request_timeout,
            LookupKind::Resume => config.registry_request_timeout,
            LookupKind::Refresh => config.refresh_lookup_timeout,
        }
    }

    /// A request failed.
    pub fn failed(&mut self, class: Class, elapsed: Elapsed, config: &Config) -> Next {
        let earlier = self.failures;
        self.failures = earlier.saturating_add(1);
        let retryable = matches!(class, Class::Registry | Class::Offline);
        let within = match self.kind {
            LookupKind::Provisioned if class == Class::Offline => {
                config.offline_deadline.saturating_sub(elapsed.ready)
            }
            LookupKind::Initial | LookupKind::Provisioned
                if retryable && earlier < config.lookup_retries =>
            {
                config.lookup_deadline.saturating_sub(elapsed.lookup)
            }
            LookupKind::Refresh if retryable => {
                config.refresh_lookup_timeout.saturating_sub(elapsed.lookup)
            }
            LookupKind::Initial
            | LookupKind::Provisioned
            | LookupKind::Resume
            | LookupKind::Refresh => Duration::ZERO,
        };
        if within.is_zero() {
            Next::GiveUp
        } else {
            Next::Again { earlier, within }
        }
    }
}
