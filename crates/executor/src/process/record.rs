//! What is known of a process, whether it runs or has ended.

use mainstay_wire::base64;
use mainstay_wire::envelope::RequestId;
use mainstay_wire::extension::ProcessEntry;
use mainstay_wire::process::{ReadParams, WriteStatus};

use super::log::Log;
use super::writes::WriteIds;

/// Bytes around one chunk and around one read answer in JSON, at most; ids have at most 20 digits.
const CHUNK_OVERHEAD: usize = 64;
const ANSWER_OVERHEAD: usize = 256;

/// A process's facts and its output.
#[derive(Debug)]
pub(crate) struct Record {
    /// Its id in the session.
    pub(crate) id: String,
    /// What was started.
    pub(crate) argv: Vec<String>,
    /// Whether it has a terminal.
    pub(crate) tty: bool,
    /// Whether it was started with something to write to: a pipe or a terminal.
    pub(crate) has_stdin: bool,
    /// Whether its client, or the program itself, closed it since.
    pub(crate) stdin_closed: bool,
    /// Whether its client grants credit: what it has not acknowledged is not forgotten to save memory.
    pub(crate) keeps_all: bool,
    /// Everything that happened.
    pub(crate) log: Log,
    /// Accepted writes.
    pub(crate) writes: WriteIds,
}

/// The failure of a write to a program that has ended (protocol.md 6).
pub(crate) const WRITE_FAILED: &str = "failed to write to process stdin";

impl Record {
    /// Decoded bytes that a read would return, and its answer's size in JSON at most.
    pub(crate) fn read_size(&self, params: &ReadParams) -> usize {
        let page = self
            .log
            .page(params.after_seq.unwrap_or(0), params.max_bytes);
        base64::encoded_len(page.bytes) + page.chunks.len() * (CHUNK_OVERHEAD + 4) + ANSWER_OVERHEAD
    }

    /// The answer to `process/read`, each chunk encoded straight into it; what it tells is final from now on.
    /// `first_seq`: whether the client wants `mainstayFirstSeq`.
    pub(crate) fn read(&mut self, id: &RequestId, params: &ReadParams, first_seq: bool) -> String {
        use std::fmt::Write as _;
        self.log.tell(self.log.next_seq() - 1);
        let mut frame = String::with_capacity(self.read_size(params));
        let page = self
            .log
            .page(params.after_seq.unwrap_or(0), params.max_bytes);
        frame.push_str(r#"{"id":"#);
        match id {
            RequestId::Int(id) => drop(write!(frame, "{id}")),
            RequestId::Text(text) => {
                frame.push_str(&serde_json::Value::from(text.as_str()).to_string())
            }
        }
        frame.push_str(r#","result":{"chunks":["#);
        let mut first = true;
        for chunk in page.chunks {
            if !std::mem::take(&mut first) {
                frame.push(',');
            }
            // Writing to a String cannot fail.
            let _ = write!(
                frame,
                r#"{{"seq":{},"stream":"{}","chunk":""#,
                chunk.seq,
                chunk.stream.as_str()
            );
            base64::encode_into(&chunk.bytes, &mut frame);
            frame.push_str(r#""}"#);
        }
        let exit_code = self.log.exit_code();
        let _ = write!(
            frame,
            r#"],"nextSeq":{},"exited":{},"exitCode":"#,
            page.next_seq,
            exit_code.is_some()
        );
        match exit_code {
            Some(code) => drop(write!(frame, "{code}")),
            None => frame.push_str("null"),
        }
        let _ = write!(
            frame,
            r#","closed":{},"failure":null,"sandboxDenied":false"#,
            self.log.is_closed()
        );
        if first_seq {
            let _ = write!(frame, r#","mainstayFirstSeq":{}"#, self.log.first_seq());
        }
        frame.push_str("}}");
        frame
    }

    /// What a write to the ended program gets.
    pub(crate) fn late_write(&self, write_id: &str) -> Result<WriteStatus, &'static str> {
        if !self.has_stdin {
            Ok(WriteStatus::StdinClosed)
        } else if self.writes.contains(write_id) {
            Ok(WriteStatus::Accepted)
        } else if self.stdin_closed {
            Ok(WriteStatus::StdinClosed)
        } else {
            Err(WRITE_FAILED)
        }
    }

    /// Its line in `mainstay/processes`.
    pub(crate) fn entry(&self) -> ProcessEntry {
        ProcessEntry {
            process_id: self.id.clone(),
            argv: self.argv.clone(),
            tty: self.tty,
            next_seq: self.log.next_seq(),
            exited: self.log.exit_code().is_some(),
            exit_code: self.log.exit_code(),
            closed: self.log.is_closed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_wire::envelope::{self, Message};
    use mainstay_wire::process::{Read, Stream};

    fn record() -> Record {
        let mut log = Log::new(1 << 20);
        log.output(Stream::Stdout, b"out".to_vec());
        log.output(Stream::Stderr, b"err".to_vec());
        Record {
            id: "p".into(),
            argv: vec!["x".into()],
            tty: false,
            has_stdin: true,
            stdin_closed: false,
            keeps_all: false,
            log,
            writes: WriteIds::default(),
        }
    }

    #[test]
    fn the_answer_is_what_serde_reads() {
        let mut record = record();
        let params = ReadParams {
            process_id: "p".into(),
            after_seq: Some(0),
            max_bytes: None,
            wait_ms: None,
        };
        for id in [RequestId::Int(-7), RequestId::Text("a\"b".into())] {
            let size = record.read_size(&params);
            let frame = record.read(&id, &params, true);
            assert!(frame.len() <= size);
            let Ok(Message::Success(success)) = envelope::parse(frame.as_bytes()) else {
                panic!("{frame}")
            };
            assert_eq!(success.id, id);
            let answer = success.answer::<Read>().unwrap();
            let texts: Vec<_> = answer
                .chunks
                .iter()
                .map(|c| (c.seq, c.stream, c.chunk.to_vec()))
                .collect();
            assert_eq!(
                texts,
                [
                    (1, Stream::Stdout, b"out".to_vec()),
                    (2, Stream::Stderr, b"err".to_vec())
                ]
            );
            assert_eq!(
                (
                    answer.next_seq,
                    answer.exited,
                    answer.exit_code,
                    answer.closed
                ),
                (3, false, None, false)
            );
            assert_eq!(answer.mainstay_first_seq, Some(1));
        }
    }

    #[test]
    fn what_was_read_does_not_grow() {
        let mut record = record();
        let params = ReadParams {
            process_id: "p".into(),
            after_seq: Some(2),
            max_bytes: None,
            wait_ms: None,
        };
        record.read(&RequestId::Int(1), &params, false);
        assert!(record.log.output(Stream::Stderr, b"more".to_vec()));
    }
}
