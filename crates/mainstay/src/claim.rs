//! Replacing the socket of an environment whose sockets the host supplies (`session.md` 5.7).

use mainstay_link::Link;
use mainstay_session::ids::ClaimId;

use crate::environment::Environment;
use crate::error::Error;
use crate::supervisor::Msg;

/// The exclusive right to hand over one socket. Dropping it without one frees the right.
#[derive(Debug)]
pub struct ReplacementClaim {
    environment: Environment,
    /// `None` once used.
    id: Option<ClaimId>,
}

impl ReplacementClaim {
    pub(crate) fn new(environment: Environment, id: ClaimId) -> Self {
        Self {
            environment,
            id: Some(id),
        }
    }

    /// Hands the socket over: the session is resumed on it. A link that is still up is closed first.
    ///
    /// # Errors
    /// The session has failed: nobody would use the socket.
    pub async fn replace(mut self, socket: Link) -> Result<(), Error> {
        let Some(claim) = self.id.take() else {
            return Ok(());
        };
        let socket = Box::new(socket);
        self.environment
            .ask(|waiter, reply| Msg::ReplaceSocket {
                claim,
                socket,
                waiter,
                reply,
            })
            .await?
    }
}

impl Drop for ReplacementClaim {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.environment.tell(Msg::AbandonClaim(id));
        }
    }
}
