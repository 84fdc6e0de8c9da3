//! Catching up after a resume: the table's part of Replay (`session.md` 8.4).

use mainstay_wire::process::ReadAnswer;
use tokio::sync::oneshot;

use super::{Desk, Paged, ToReplay};
use crate::error::Error;
use crate::outlet::Key;

impl Desk {
    pub(super) fn take_replay(&mut self, reply: oneshot::Sender<Vec<ToReplay>>) {
        let processes = self.entries.iter();
        let processes = processes.filter(|(_, entry)| entry.recoverable);
        let processes = processes.map(|(id, entry)| ToReplay {
            key: Key {
                process_id: id.clone(),
                number: entry.number,
            },
            last: entry.last(),
        });
        let _ = reply.send(processes.collect());
    }

    pub(super) fn page(&mut self, key: &Key, answer: ReadAnswer, reply: oneshot::Sender<Paged>) {
        if let Some(paged) = self.entries.change(key, |entry| entry.page(answer)) {
            let _ = reply.send(paged);
        }
    }

    pub(super) fn replayed(
        &mut self,
        key: &Key,
        answer: ReadAnswer,
        reply: oneshot::Sender<Result<(), Error>>,
    ) {
        let on_gap = self.setup.config.session.on_gap;
        let replayed = self
            .entries
            .change(key, |entry| entry.replay(answer, on_gap));
        // Gone meanwhile: nothing to catch up with.
        let result = replayed.unwrap_or(Ok(())).map_err(|error| {
            Error::protocol(format!(
                "failed to recover process {}: {error}",
                key.process_id
            ))
        });
        let _ = reply.send(result);
    }
}
