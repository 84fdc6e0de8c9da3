//! A process that runs, as its session knows it.

use ractor::ActorId;
use tokio::sync::mpsc;

use crate::process::{Call, Letter};

/// The way to a process's loop.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) actor: ActorId,
    /// Gone once the session has ended.
    pub(super) letters: Option<mpsc::UnboundedSender<Letter>>,
    /// Its place in the order of starts.
    pub(super) number: u64,
    /// Calls that came after its loop had ended, before its record came.
    pub(super) late: Vec<Call>,
}

impl Running {
    /// Returns the letter if nobody reads it any more.
    pub(super) fn send(&self, letter: Letter) -> Option<Letter> {
        match &self.letters {
            Some(letters) => letters.send(letter).err().map(|unread| unread.0),
            None => Some(letter),
        }
    }
}
