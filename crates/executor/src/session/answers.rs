//! Requests about processes that do not run any more, or never did.

use mainstay_wire::process::{TerminateAnswer, WriteAnswer, WriteStatus};
use mainstay_wire::{Empty, RpcError};

use crate::process::record::Record;
use crate::process::{self, Call, Order};

/// Answers a request about a process that has ended.
pub(super) fn answer_ended(record: &mut Record, call: Call, first_seq: bool) {
    let Call { reply, order } = call;
    match order {
        Order::Read(params) => reply.frame(|id| record.read(id, &params, first_seq)),
        Order::Write(params) => process::answer_late(record, reply, &params.write_id),
        Order::CloseStdin if record.has_stdin => reply.ok(WriteAnswer {
            status: WriteStatus::Accepted,
        }),
        Order::CloseStdin => reply.ok(WriteAnswer {
            status: WriteStatus::StdinClosed,
        }),
        Order::Signal(_) | Order::Resize(_) => reply.ok(Empty {}),
        Order::Terminate(_) => reply.ok(TerminateAnswer { running: false }),
    }
}

/// Answers a request about a process nobody knows.
pub(super) fn answer_unknown(id: &str, call: Call) {
    let Call { reply, order } = call;
    match order {
        Order::Read(_) => reply.err(RpcError::unknown_process(id)),
        Order::Write(_) | Order::CloseStdin => reply.ok(WriteAnswer {
            status: WriteStatus::UnknownProcess,
        }),
        Order::Signal(_) | Order::Resize(_) => reply.ok(Empty {}),
        Order::Terminate(_) => reply.ok(TerminateAnswer { running: false }),
    }
}
