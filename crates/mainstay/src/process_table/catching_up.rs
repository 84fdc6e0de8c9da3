//! Catching up after a resume: the table's part of Replay (`session.md` 8.4).

use mainstay_wire::process::ReadAnswer;
use tokio::sync::oneshot;

use super::{Desk, Paged, ToReplay};
use crate::error::Error;
use crate::outlet::Key;

impl Desk {
    pub(super) fn take_replay(&mut self, reply: oneshot::Sender<Vec<ToReplay>>) {
        let processes = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.recoverable)
            .map(|(id, entry)| ToReplay {
                key: Key {
                    process_id: id.clone(),
                    number: entry.number,
                },
                last: entry.last(),
            });
        let _ = reply.send(processes.collect());
    }

    pub(super) fn page(&mut self, key: &Key, answer: ReadAnswer, reply: oneshot::Sender<Paged>) {
        let Some(entry) = self
            .entries
            .get_mut(&key.process_id)
            .filter(|entry| entry.number == key.number)
        else {
            return;
        };
        let was_full = entry.is_full();
        let paged = entry.page(answer);
        let (full, over) = (entry.is_full(), entry.is_over());
        self.full = self.full + usize::from(full) - usize::from(was_full);
        if over {
            self.drop_entry(&key.process_id);
        }
        let _ = reply.send(paged);
    }

    pub(super) fn replayed(
        &mut self,
        key: &Key,
        answer: ReadAnswer,
        reply: oneshot::Sender<Result<(), Error>>,
    ) {
        let on_gap = self.setup.config.session.on_gap;
        let result = match self
            .entries
            .get_mut(&key.process_id)
            .filter(|entry| entry.number == key.number)
        {
            Some(entry) => {
                let was_full = entry.is_full();
                let result = entry.replay(answer, on_gap);
                let (full, over) = (entry.is_full(), entry.is_over());
                self.full = self.full + usize::from(full) - usize::from(was_full);
                if over {
                    self.drop_entry(&key.process_id);
                }
                result.map_err(|error| {
                    Error::protocol(format!(
                        "failed to recover process {}: {error}",
                        key.process_id
                    ))
                })
            }
            // Gone meanwhile: nothing to catch up with.
            None => Ok(()),
        };
        let _ = reply.send(result);
    }
}
