//! What one connection attempt through the rendezvous needs.

use std::fmt;

use mainstay_noise::{PublicKey, Suite};
use mainstay_wire::registry::ConnectAnswer;

use super::BadBundle;

/// A registry's answer to `connect`: good for one attempt, fetched again for every further one.
#[derive(Clone, PartialEq, Eq)]
pub struct Bundle {
    /// The harness's rendezvous URL. It carries its own authentication: never logged.
    pub url: String,
    /// The environment.
    pub environment: String,
    /// The executor's registration.
    pub registration: String,
    /// Whom to expect; its suite decides the handshake.
    pub executor_key: PublicKey,
    /// Goes into Noise message 1: never logged.
    pub authorization: String,
}

impl TryFrom<ConnectAnswer> for Bundle {
    type Error = BadBundle;

    /// Checks what noise-relay.md 2.2 asks of the answer itself; that the environment is the requested one is the
    /// caller's to check. The profile alone decides the suite, and the key must be of that suite (9.1).
    fn try_from(answer: ConnectAnswer) -> Result<Bundle, BadBundle> {
        let suite = Suite::from_profile(&answer.security_profile)
            .ok_or_else(|| BadBundle::Profile(answer.security_profile.clone()))?;
        if !answer.is_complete() {
            return Err(BadBundle::Incomplete);
        }
        let executor_key = PublicKey::from_wire(&answer.executor_public_key)?;
        if executor_key.suite() != suite {
            return Err(BadBundle::Suite);
        }
        Ok(Bundle {
            url: answer.url,
            environment: answer.environment_id,
            registration: answer.executor_registration_id,
            executor_key,
            authorization: answer.harness_key_authorization,
        })
    }
}

impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bundle")
            .field("environment", &self.environment)
            .field("registration", &self.registration)
            .field("executor_key", &self.executor_key)
            .finish_non_exhaustive()
    }
}
