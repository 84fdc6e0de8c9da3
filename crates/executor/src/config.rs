//! What a host can choose about an executor.

use std::time::Duration;

use mainstay_wire::limits;

use crate::auth::Auth;

/// The smallest output log: two full chunks, or a program could never write.
const SMALLEST_LOG: usize = 128 * limits::KIB;

/// The largest output log: a read without `maxBytes` answers with all of it, and a message has at most 64 MiB.
const LARGEST_LOG: usize = 32 * limits::MIB;

/// Configuration of an executor; the defaults are the contract's.
///
/// ```
/// use mainstay_executor::Config;
/// use std::time::Duration;
/// let config = Config::default().session_retention(Duration::from_secs(300)).output_log(16 << 20);
/// ```
#[derive(Debug)]
pub struct Config {
    pub(crate) session_retention: Duration,
    pub(crate) process_retention: Duration,
    pub(crate) output_log: usize,
    pub(crate) connections: usize,
    pub(crate) auth: Auth,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            session_retention: limits::SESSION_RETENTION,
            process_retention: limits::PROCESS_RETENTION,
            output_log: limits::LOG,
            connections: 1024,
            auth: Auth::None,
        }
    }
}

impl Config {
    /// How long a session without a connection can be resumed; 80 s by default (protocol.md 4).
    #[must_use]
    pub fn session_retention(self, session_retention: Duration) -> Self {
        Self {
            session_retention,
            ..self
        }
    }

    /// How long an ended process is remembered; 80 s by default (protocol.md 6).
    #[must_use]
    pub fn process_retention(self, process_retention: Duration) -> Self {
        Self {
            process_retention,
            ..self
        }
    }

    /// Bytes of output kept per process, between 128 KiB and 32 MiB; 4 MiB by default. Towards a client that grants
    /// credit a program has to wait when so much is unacknowledged; otherwise the oldest output is forgotten.
    #[must_use]
    pub fn output_log(self, bytes: usize) -> Self {
        let output_log = bytes.clamp(SMALLEST_LOG, LARGEST_LOG);
        Self { output_log, ..self }
    }

    /// Direct connections open at once; 1024 by default. Further ones are closed with 1013.
    #[must_use]
    pub fn connections(self, connections: usize) -> Self {
        Self {
            connections,
            ..self
        }
    }

    /// What an upgrade on the direct listener must show; nothing by default, and then only loopback is listened on.
    #[must_use]
    pub fn auth(self, auth: Auth) -> Self {
        Self { auth, ..self }
    }
}
