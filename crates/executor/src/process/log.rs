//! The output log of one process: every event in the order of its sequence number (protocol.md 7).
//!
//! One counter, from 1, without holes, for output, exit and close. Output is kept until it is acknowledged, or until
//! the log is over its limits and nobody was promised it; exit and close are facts and are kept for ever.
//! Pure: no clock, no IO.

use std::collections::VecDeque;

use mainstay_wire::process::Stream;

/// Decoded bytes in one chunk at most: its base64 and the envelope around it fit one relay record
/// of 60 KiB (noise-relay.md 5.5), so that one chunk costs one AEAD pass and one frame.
pub(crate) const CHUNK_BYTES: usize = 44 * 1024;

/// Chunks kept per process at most, whatever their size: the reference's number (protocol.md 7).
pub(crate) const CHUNK_COUNT: usize = 50_000;

/// What a log holds of one process.
#[derive(Debug)]
pub(crate) struct Log {
    limit: usize,
    chunks: VecDeque<Chunk>,
    bytes: usize,
    next: u64,
    first: u64,
    told: u64,
    exited: Option<(u64, i32)>,
    closed: Option<u64>,
}

/// Output under one sequence number.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Its sequence number.
    pub(crate) seq: u64,
    /// Where the program wrote it.
    pub(crate) stream: Stream,
    /// What it wrote.
    pub(crate) bytes: Vec<u8>,
}

/// One event as it is sent.
#[derive(Debug)]
pub(crate) enum Event<'a> {
    Output(&'a Chunk),
    Exited { seq: u64, code: i32 },
    Closed { seq: u64 },
}

/// The part of a log that one `process/read` returns.
#[derive(Debug)]
pub(crate) struct Page<'a> {
    /// Chunks above `afterSeq`, ascending.
    pub(crate) chunks: std::collections::vec_deque::Iter<'a, Chunk>,
    /// Decoded bytes in them.
    pub(crate) bytes: usize,
    /// What `nextSeq` says (protocol.md 6, `process/read`).
    pub(crate) next_seq: u64,
}

impl Log {
    /// An empty log that wants to keep at most `limit` decoded bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            chunks: VecDeque::new(),
            bytes: 0,
            next: 1,
            first: 1,
            told: 0,
            exited: None,
            closed: None,
        }
    }

    /// Adds output. Joins it with the last chunk if nobody was told of that one yet: a consumer that is behind gets
    /// few large chunks instead of many small ones. Returns whether a new sequence number was used.
    pub(crate) fn output(&mut self, stream: Stream, mut bytes: Vec<u8>) -> bool {
        debug_assert!(self.closed.is_none() && !bytes.is_empty());
        self.bytes += bytes.len();
        if let Some(last) = self.chunks.back_mut()
            && last.seq + 1 == self.next
            && last.seq > self.told
            && last.stream == stream
            && last.bytes.len() + bytes.len() <= CHUNK_BYTES
        {
            last.bytes.append(&mut bytes);
            return false;
        }
        if let Some(last) = self.chunks.back_mut() {
            last.bytes.shrink_to_fit();
        }
        let seq = self.take_seq();
        self.chunks.push_back(Chunk { seq, stream, bytes });
        true
    }

    /// The program ended with this code.
    pub(crate) fn exit(&mut self, code: i32) {
        debug_assert!(self.exited.is_none());
        self.exited = Some((self.take_seq(), code));
    }

    /// Exit and the end of all output are known: nothing follows.
    pub(crate) fn close(&mut self) {
        debug_assert!(self.exited.is_some() && self.closed.is_none());
        self.closed = Some(self.take_seq());
    }

    /// Everything up to `seq` is known outside and must not change any more.
    pub(crate) fn tell(&mut self, seq: u64) {
        self.told = self.told.max(seq);
    }

    /// Forgets output up to `ack`: its consumer has it. Returns the decoded bytes of the forgotten chunks in `counted`.
    pub(crate) fn release(&mut self, ack: u64, counted: std::ops::Range<u64>) -> usize {
        let mut released = 0;
        while let Some(chunk) = self.chunks.front()
            && chunk.seq <= ack
        {
            if counted.contains(&chunk.seq) {
                released += chunk.bytes.len();
            }
            self.drop_first();
        }
        released
    }

    /// Forgets the oldest output until the log is within its limits.
    pub(crate) fn evict(&mut self) {
        while self.bytes > self.limit || self.chunks.len() > CHUNK_COUNT {
            self.drop_first();
        }
    }

    /// Whether nothing more can be kept without forgetting something.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes + CHUNK_BYTES > self.limit || self.chunks.len() >= CHUNK_COUNT
    }

    /// Whether more than so many decoded bytes, or chunks, are kept from `seq` on.
    pub(crate) fn exceeds(&self, seq: u64, bytes: usize, chunks: usize) -> bool {
        let mut total = 0;
        let behind = self
            .chunks
            .iter()
            .rev()
            .take_while(|chunk| chunk.seq >= seq);
        behind.enumerate().any(|(count, chunk)| {
            total += chunk.bytes.len();
            total > bytes || count >= chunks
        })
    }

    /// Decoded bytes kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The sequence number the next event will get.
    pub(crate) fn next_seq(&self) -> u64 {
        self.next
    }

    /// The first sequence number from which on all output is kept.
    pub(crate) fn first_seq(&self) -> u64 {
        self.first
    }

    /// The exit code, once the program ended.
    pub(crate) fn exit_code(&self) -> Option<i32> {
        self.exited.map(|(_, code)| code)
    }

    /// Whether nothing follows.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// The event with this number, if it happened and is kept.
    pub(crate) fn event(&self, seq: u64) -> Option<Event<'_>> {
        match (self.exited, self.closed) {
            (Some((exited, code)), _) if exited == seq => Some(Event::Exited { seq, code }),
            (_, Some(closed)) if closed == seq => Some(Event::Closed { seq }),
            _ => {
                let chunk = self.chunks.get(self.index(seq))?;
                (chunk.seq == seq).then_some(Event::Output(chunk))
            }
        }
    }

    /// Whether a `process/read` after this number has something to say at once (protocol.md 6).
    pub(crate) fn has_news(&self, after: u64) -> bool {
        self.chunks.back().is_some_and(|chunk| chunk.seq > after)
            || self.closed.is_some()
            || (self.exited.is_some() && after < self.next - 1)
    }

    /// Output after a number: the first chunk always, further ones while they fit `max_bytes` together.
    pub(crate) fn page(&self, after: u64, max_bytes: Option<u64>) -> Page<'_> {
        let start = self.index(after.saturating_add(1));
        let (mut end, mut bytes) = (start, 0);
        let budget = max_bytes.unwrap_or(u64::MAX);
        for chunk in self.chunks.range(start..) {
            let total = bytes + chunk.bytes.len();
            if end > start && total as u64 > budget {
                break;
            }
            (end, bytes) = (end + 1, total);
        }
        let next_seq = match max_bytes {
            Some(_) if end > start => self.chunks[end - 1].seq + 1,
            Some(_) | None => self.next,
        };
        Page {
            chunks: self.chunks.range(start..end),
            bytes,
            next_seq,
        }
    }

    fn index(&self, seq: u64) -> usize {
        self.chunks.partition_point(|chunk| chunk.seq < seq)
    }

    fn drop_first(&mut self) {
        if let Some(chunk) = self.chunks.pop_front() {
            self.bytes -= chunk.bytes.len();
            self.first = chunk.seq + 1;
        }
    }

    fn take_seq(&mut self) -> u64 {
        let seq = self.next;
        self.next += 1;
        seq
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Stream::{Stderr, Stdout};

    fn log() -> Log {
        Log::new(4 << 20)
    }

    fn seqs(page: Page<'_>) -> Vec<u64> {
        page.chunks.map(|chunk| chunk.seq).collect()
    }

    #[test]
    fn one_counter_without_holes_over_all_kinds() {
        let mut log = log();
        log.output(Stdout, b"a".to_vec());
        log.output(Stderr, b"b".to_vec());
        log.exit(3);
        log.output(Stdout, b"late".to_vec());
        log.close();
        let kinds: Vec<_> = (1..=5)
            .map(|seq| match log.event(seq) {
                Some(Event::Output(chunk)) => String::from_utf8_lossy(&chunk.bytes).into_owned(),
                Some(Event::Exited { code, .. }) => format!("exit {code}"),
                Some(Event::Closed { .. }) => "closed".to_owned(),
                None => "hole".to_owned(),
            })
            .collect();
        assert_eq!(kinds, ["a", "b", "exit 3", "late", "closed"]);
        assert_eq!(log.next_seq(), 6);
        assert!(log.event(6).is_none() && log.event(0).is_none());
    }

    #[test]
    fn joins_output_nobody_was_told_of() {
        let mut log = log();
        assert!(log.output(Stdout, b"a".to_vec()));
        assert!(!log.output(Stdout, b"b".to_vec()));
        log.tell(1);
        assert!(log.output(Stdout, b"c".to_vec()));
        assert!(log.output(Stderr, b"d".to_vec()));
        assert!(log.output(Stdout, vec![0; CHUNK_BYTES]));
        assert!(log.output(Stdout, b"e".to_vec()));
        assert_eq!(log.next_seq(), 6);
    }

    #[test]
    fn does_not_join_across_the_exit() {
        let mut log = log();
        log.output(Stdout, b"a".to_vec());
        log.exit(0);
        assert!(log.output(Stdout, b"b".to_vec()));
        assert_eq!(seqs(log.page(0, None)), [1, 3]);
    }

    #[test]
    fn pages_as_the_reference_does() {
        let mut log = log();
        for (stream, text) in [(Stdout, "out"), (Stderr, "err"), (Stdout, "out2")] {
            log.output(stream, text.as_bytes().to_vec());
        }
        log.exit(3);
        log.close();
        for (after, max, expected, next) in [
            (0, None, vec![1, 2, 3], 6),
            (1, None, vec![2, 3], 6),
            (3, None, vec![], 6),
            (99, None, vec![], 6),
            (u64::MAX, None, vec![], 6),
            (0, Some(0), vec![1], 2),
            (0, Some(3), vec![1], 2),
            (0, Some(5), vec![1], 2),
            (0, Some(6), vec![1, 2], 3),
            (0, Some(1000), vec![1, 2, 3], 4),
            (3, Some(1000), vec![], 6),
        ] {
            let page = log.page(after, max);
            assert_eq!(page.next_seq, next, "after {after} max {max:?}");
            assert_eq!(seqs(page), expected, "after {after} max {max:?}");
        }
    }

    #[test]
    fn news_are_a_chunk_or_close_or_an_unseen_exit() {
        let mut log = log();
        assert!(!log.has_news(0));
        log.output(Stdout, b"a".to_vec());
        assert!(log.has_news(0) && !log.has_news(1) && !log.has_news(9));
        log.exit(0);
        assert!(log.has_news(1) && !log.has_news(2));
        log.close();
        assert!(log.has_news(2) && log.has_news(99));
    }

    #[test]
    fn evicts_the_oldest_and_says_where_it_begins() {
        let mut log = Log::new(10);
        for _ in 0..4 {
            log.output(Stdout, vec![b'x'; 4]);
            log.tell(u64::MAX);
        }
        assert_eq!((log.bytes, log.first_seq()), (16, 1));
        log.evict();
        assert_eq!((log.bytes, log.first_seq()), (8, 3));
        assert_eq!(seqs(log.page(0, None)), [3, 4]);
    }

    #[test]
    fn evicts_by_count_too() {
        let mut log = Log::new(usize::MAX / 2);
        for _ in 0..=CHUNK_COUNT {
            log.output(Stdout, b"x".to_vec());
            log.tell(log.next_seq());
        }
        log.evict();
        assert_eq!(log.first_seq(), 2);
    }

    #[test]
    fn is_full_when_one_more_chunk_would_not_fit() {
        let mut log = Log::new(4 * CHUNK_BYTES);
        for _ in 0..3 {
            assert!(!log.is_full());
            log.output(Stdout, vec![b'x'; CHUNK_BYTES]);
        }
        assert!(!log.is_full());
        log.output(Stderr, b"x".to_vec());
        assert!(log.is_full());
        log.release(1, 0..0);
        assert!(!log.is_full());
    }

    #[test]
    fn is_full_at_the_number_of_chunks_too() {
        let mut log = Log::new(usize::MAX / 2);
        for stream in [Stdout, Stderr].into_iter().cycle().take(CHUNK_COUNT) {
            assert!(!log.is_full());
            log.output(stream, b"x".to_vec());
        }
        assert!(log.is_full());
    }

    #[test]
    fn release_forgets_what_is_acknowledged_and_counts_what_was_sent() {
        let mut log = log();
        for _ in 0..3 {
            log.output(Stdout, vec![b'x'; 4]);
            log.tell(u64::MAX);
        }
        assert_eq!(log.release(2, 2..9), 4);
        assert_eq!((log.bytes, log.first_seq()), (4, 3));
        assert_eq!(log.release(99, 0..4), 4);
        assert_eq!((log.bytes, log.first_seq()), (0, 4));
    }
}
