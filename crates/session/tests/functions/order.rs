//! Short words for the events of a process.

use bytes::Bytes;
use mainstay_session::sequence::{Fact, Limits, Published, Sequencer};
use mainstay_wire::base64::Base64;
use mainstay_wire::process::{Chunk, ReadAnswer, Stream};

pub(crate) const LIMITS: Limits = Limits {
    events: 256,
    bytes: 1 << 20,
};

pub(crate) fn data(seq: u64) -> Bytes {
    Bytes::from(format!("chunk-{seq}"))
}

pub(crate) fn out(seq: u64) -> Fact {
    Fact::Output {
        stream: Stream::Stdout,
        data: data(seq),
    }
}

pub(crate) fn exit(code: i32) -> Fact {
    Fact::Exited {
        code,
        sandbox_denied: Some(false),
    }
}

pub(crate) fn event(seq: u64, fact: Fact) -> Published {
    Published::Event { seq, fact }
}

pub(crate) fn sequencer() -> Sequencer {
    Sequencer::new(LIMITS)
}

/// Feeds events that must be accepted.
pub(crate) fn feed(
    sequencer: &mut Sequencer,
    events: impl IntoIterator<Item = (u64, Fact)>,
) -> Vec<Published> {
    let mut published = Vec::new();
    for (seq, fact) in events {
        sequencer
            .accept(seq, fact, &mut published)
            .expect("accepted");
    }
    published
}

/// An answer with the default chunks for these seqs.
pub(crate) fn answer(chunks: impl IntoIterator<Item = u64>, next_seq: u64) -> ReadAnswer {
    let chunk = |seq| Chunk {
        seq,
        stream: Stream::Stdout,
        chunk: Base64(data(seq)),
    };
    ReadAnswer {
        chunks: chunks.into_iter().map(chunk).collect(),
        next_seq,
        exited: false,
        exit_code: None,
        closed: false,
        failure: None,
        sandbox_denied: false,
        mainstay_first_seq: None,
    }
}

pub(crate) fn exited(mut answer: ReadAnswer, code: i32) -> ReadAnswer {
    answer.exited = true;
    answer.exit_code = Some(code);
    answer
}

pub(crate) fn closed(mut answer: ReadAnswer) -> ReadAnswer {
    answer.closed = true;
    answer
}
