//! What a client writes to a program: accepted once per id, in order, and not beyond what the queue holds.

use bytes::Bytes;
use mainstay_wire::RpcError;
use mainstay_wire::process::{WriteAnswer, WriteParams, WriteStatus};

use super::live::Live;
use super::record::{Record, WRITE_FAILED};
use super::stdin::Waiting;
use crate::outbox::Reply;

/// What ends a terminal's input line discipline's wait: end of file, as typed.
const END_OF_FILE: &[u8] = &[4];

impl Live {
    pub(super) fn on_write(&mut self, reply: Reply, params: WriteParams) {
        let record = &self.record;
        if record.log.exit_code().is_some() {
            answer_late(record, reply, &params.write_id);
        } else if !record.has_stdin {
            status(reply, WriteStatus::StdinClosed);
        } else if self.stdin.is_full() && !record.writes.contains(&params.write_id) {
            self.stdin.wait(Waiting::Write(reply, params));
        } else {
            self.write(reply, params);
        }
    }

    pub(super) fn on_close_stdin(&mut self, reply: Reply) {
        if !self.record.has_stdin {
            status(reply, WriteStatus::StdinClosed);
        } else if self.record.log.exit_code().is_none() && self.stdin.is_full() {
            self.stdin.wait(Waiting::Close(reply));
        } else {
            self.close(reply);
        }
    }

    /// A write whose turn it is.
    fn write(&mut self, reply: Reply, params: WriteParams) {
        let record = &mut self.record;
        if record.writes.contains(&params.write_id) {
            status(reply, WriteStatus::Accepted);
        } else if record.stdin_closed {
            status(reply, WriteStatus::StdinClosed);
        } else {
            record.writes.insert(&params.write_id);
            self.stdin.push(params.chunk.0);
            status(reply, WriteStatus::Accepted);
        }
    }

    /// A close whose turn it is. A pipe is closed once everything before it is written; a terminal cannot be, so its
    /// program is told the way a user would.
    fn close(&mut self, reply: Reply) {
        if !self.record.stdin_closed {
            self.record.stdin_closed = true;
            if self.record.tty {
                self.stdin.push(Bytes::from_static(END_OF_FILE));
            } else if self.stdin.front().is_none() {
                self.ends.close_input();
            }
        }
        status(reply, WriteStatus::Accepted);
    }

    pub(super) fn on_written(&mut self, written: std::io::Result<usize>) {
        match written {
            Ok(count) => {
                self.stdin.written(count);
                while let Some(next) = self.stdin.next() {
                    match next {
                        Waiting::Write(reply, params) => self.write(reply, params),
                        Waiting::Close(reply) => self.close(reply),
                    }
                }
                if self.record.stdin_closed && self.stdin.front().is_none() {
                    self.ends.close_input();
                }
            }
            // The program has closed it.
            Err(_) => {
                self.record.stdin_closed = true;
                self.abandon_stdin();
            }
        }
    }

    /// Nobody reads any more what is still to be written.
    pub(super) fn abandon_stdin(&mut self) {
        self.ends.close_input();
        let ended = self.record.log.exit_code().is_some();
        for waiting in self.stdin.give_up() {
            match waiting {
                Waiting::Write(reply, params) if ended => {
                    answer_late(&self.record, reply, &params.write_id)
                }
                Waiting::Write(reply, _) => status(reply, WriteStatus::StdinClosed),
                Waiting::Close(reply) => status(reply, WriteStatus::Accepted),
            }
        }
    }
}

/// Answers a write to a program that has ended.
pub(crate) fn answer_late(record: &Record, reply: Reply, write_id: &str) {
    match record.late_write(write_id) {
        Ok(late) => status(reply, late),
        Err(WRITE_FAILED) | Err(_) => reply.err(RpcError::internal(WRITE_FAILED)),
    }
}

fn status(reply: Reply, status: WriteStatus) {
    reply.ok(WriteAnswer { status });
}
