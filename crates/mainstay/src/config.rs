//! Every tunable of one environment, with the specification's defaults.

use std::time::Duration;

/// What happens when an executor's log no longer holds output that was produced during an outage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnGap {
    /// The hole is delivered in its place as [`ProcessEvent::Gap`](crate::ProcessEvent::Gap); the process lives on.
    #[default]
    Mark,
    /// The process is terminated and reported lost (the reference's rule).
    Fail,
}

/// Constants of `session.md` section 1 that a host may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `clientName` of `initialize`.
    pub client_name: String,
    /// How long one recovery may take. `None`: what the executor keeps a detached session, less 5 s.
    pub recovery_deadline: Option<Duration>,
    /// Time for opening one WebSocket. 10 s.
    pub connect_timeout: Duration,
    /// Time for Noise handshake and `initialize` together, from the open WebSocket. 10 s.
    pub initialize_timeout: Duration,
    /// Time for one `environment/status`. 10 s.
    pub status_timeout: Duration,
    /// Time for one `environment/info`. 30 s.
    pub info_timeout: Duration,
    /// Time for the lookups of one refresh. 10 s.
    pub refresh_lookup_timeout: Duration,
    /// Time for one lookup of an attempt. 6 s.
    pub lookup_timeout: Duration,
    /// Time for all lookups of an attempt. 14 s.
    pub lookup_deadline: Duration,
    /// Output bytes of one process that may wait for its consumer before the link is held up. 8 MiB.
    pub process_buffer: usize,
    /// Output bytes of one process that a peer with credit may have under way. 2 MiB.
    pub credit_window: usize,
    /// What to do about output that is gone.
    pub on_gap: OnGap,
    /// Follow the registry's announcements of a new executor by refreshing. Off.
    pub automatic_refresh: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            client_name: "mainstay".to_owned(),
            recovery_deadline: None,
            connect_timeout: Duration::from_secs(10),
            initialize_timeout: Duration::from_secs(10),
            status_timeout: Duration::from_secs(10),
            info_timeout: Duration::from_secs(30),
            refresh_lookup_timeout: Duration::from_secs(10),
            lookup_timeout: Duration::from_secs(6),
            lookup_deadline: Duration::from_secs(14),
            process_buffer: 8 << 20,
            credit_window: 2 << 20,
            on_gap: OnGap::Mark,
            automatic_refresh: false,
        }
    }
}
