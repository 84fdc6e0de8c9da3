//! Reads of a process's log: answered at once, when there is news, or when their time is over.

use std::time::Duration;

use mainstay_wire::limits;
use mainstay_wire::process::ReadParams;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Letter;
use super::live::Live;
use crate::outbox::Reply;

/// A read answer above this waits for room in the outbox, so that many of them are not built at once.
const LARGE_READ: usize = 64 * limits::KIB;

/// A read that waits for news.
pub(super) struct Poll {
    pub(super) reply: Reply,
    params: ReadParams,
    /// `None`: for ever.
    pub(super) until: Option<Instant>,
}

impl Live {
    pub(super) fn on_read(&mut self, reply: Reply, params: ReadParams) {
        let wait = Duration::from_millis(params.wait_ms.unwrap_or(0));
        // A wait that no clock can hold is for ever.
        let until = Instant::now().checked_add(wait);
        self.polls.push(Poll {
            reply,
            params,
            until,
        });
    }

    pub(super) fn on_roomy(&mut self, reply: Reply, params: ReadParams) {
        self.roomless -= 1;
        self.on_read(reply, params);
    }

    /// Answers the reads that have something to say or have waited long enough.
    pub(super) fn answer_polls(&mut self) {
        if self.polls.is_empty() {
            return;
        }
        let now = Instant::now();
        let first_seq = self
            .attached
            .as_ref()
            .is_some_and(|attached| attached.to.first_seq);
        let mut waiting = Vec::new();
        for mut poll in self.polls.drain(..) {
            let news = self.record.log.has_news(poll.params.after_seq.unwrap_or(0));
            if !news && poll.until.is_none_or(|until| until > now) {
                waiting.push(poll);
                continue;
            }
            let size = self.record.read_size(&poll.params);
            if size > LARGE_READ && !poll.reply.try_room(size) {
                self.roomless += 1;
                wait_for_room(poll, size, self.again.clone());
                continue;
            }
            let Poll { reply, params, .. } = poll;
            reply.frame(|id| self.record.read(id, &params, first_seq));
        }
        self.polls = waiting;
    }
}

/// Lets a large answer wait outside of the loop; it comes back with its room.
fn wait_for_room(poll: Poll, size: usize, again: mpsc::WeakUnboundedSender<Letter>) {
    let Poll {
        mut reply, params, ..
    } = poll;
    tokio::spawn(async move {
        reply.wait_room(size).await;
        // Without a sender the session has ended: the dropped reply says so.
        if let Some(letters) = again.upgrade() {
            let params = ReadParams {
                wait_ms: None,
                ..params
            };
            let _ = letters.send(Letter::Roomy(reply, params));
        }
    });
}
