//! Catching up with a process after a resume (8.4): the executor's answer to `process/read {afterSeq: last}` is laid over what came
//! live, holes are judged, and only then is anything published (W7).

use std::collections::BTreeMap;

use mainstay_wire::process::ReadAnswer;

use crate::config::OnGap;
use crate::sequence::{Fact, Published, Sequencer};

/// Why an answer cannot be used: the process fails with "failed to recover process", and is terminated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ReplayError {
    /// The executor reports a failure of the process.
    #[error("the executor reports a failure of the process")]
    Failure,
    /// A chunk lies beyond what the executor says it has.
    #[error("output {seq} lies beyond the answer's end {target}")]
    Beyond {
        /// The chunk's.
        seq: u64,
        /// The answer's last.
        target: u64,
    },
    /// A chunk is larger than any event may be.
    #[error("output {seq} has {bytes} bytes")]
    TooLarge {
        /// Which.
        seq: u64,
        /// Its size.
        bytes: usize,
    },
    /// Something else is where the close must be.
    #[error("event {seq} is not the close that the answer reports")]
    Conflict {
        /// Where.
        seq: u64,
    },
    /// The process has exited, and there is no place for its exit.
    #[error("the answer reports an exit and has no place for it")]
    NoPlaceForExit,
    /// The process has exited, and how is not said.
    #[error("the answer reports an exit without its code")]
    NoExitCode,
    /// Output is missing, and gaps are not delivered (`OnGap::Fail`).
    #[error("output is no longer retained through seq {target}")]
    Gap {
        /// The answer's last.
        target: u64,
    },
}

/// An exit that the answer reports and that no event has told.
struct UntoldExit {
    code: i32,
    sandbox_denied: Option<bool>,
}

impl Sequencer {
    /// Takes the answer of `process/read {afterSeq: last, waitMs: 0}` on a new link and appends what can be published to `out`.
    /// Live events of the new link may come before and after.
    ///
    /// # Errors
    /// Nothing was changed or published; the caller fails the process.
    pub fn replay(
        &mut self,
        answer: ReadAnswer,
        on_gap: OnGap,
        out: &mut Vec<Published>,
    ) -> Result<(), ReplayError> {
        if answer.failure.is_some() {
            return Err(ReplayError::Failure);
        }
        let target = answer.next_seq.saturating_sub(1);
        if self.over() || target <= self.last {
            return Ok(());
        }
        self.check_chunks(&answer, target)?;
        let missing = self.missing(&answer, target);
        let exit = self.untold_exit(&answer, target)?;
        match (missing, &exit) {
            // The one hole is the exit.
            (1, Some(_)) | (0, None) => {}
            (0, Some(_)) => return Err(ReplayError::NoPlaceForExit),
            (_, _) if on_gap == OnGap::Fail => return Err(ReplayError::Gap { target }),
            (_, _) => {}
        }
        let known = self.lay_over(answer, target);
        self.publish_through(target, known, exit, missing == 1, out);
        self.wake = self.wake.max(target);
        self.drain(out);
        Ok(())
    }

    /// Whether the answer agrees with itself and with what came live.
    fn check_chunks(&self, answer: &ReadAnswer, target: u64) -> Result<(), ReplayError> {
        let close_conflicts = answer.closed
            && (matches!(
                self.pending.get(&target),
                Some(Fact::Output { .. } | Fact::Exited { .. })
            ) || answer.chunks.iter().any(|chunk| chunk.seq == target));
        if close_conflicts {
            return Err(ReplayError::Conflict { seq: target });
        }
        for chunk in &answer.chunks {
            let (seq, bytes) = (chunk.seq, chunk.chunk.0.len());
            if seq > target {
                return Err(ReplayError::Beyond { seq, target });
            }
            if seq > self.last && bytes > self.limits.bytes {
                return Err(ReplayError::TooLarge { seq, bytes });
            }
        }
        Ok(())
    }

    /// How many of the seqs after `last` up to `target` nobody has told.
    fn missing(&self, answer: &ReadAnswer, target: u64) -> u64 {
        let mut told: Vec<u64> = self.pending.range(..=target).map(|(seq, _)| *seq).collect();
        told.extend(
            answer
                .chunks
                .iter()
                .map(|chunk| chunk.seq)
                .filter(|seq| *seq > self.last),
        );
        told.extend(answer.closed.then_some(target));
        told.sort_unstable();
        told.dedup();
        target - self.last - told.len() as u64
    }

    fn untold_exit(
        &self,
        answer: &ReadAnswer,
        target: u64,
    ) -> Result<Option<UntoldExit>, ReplayError> {
        let held = |fact: &Fact| matches!(fact, Fact::Exited { .. });
        let told = self.exited || self.pending.range(..=target).any(|(_, fact)| held(fact));
        if told || !answer.exited {
            return Ok(None);
        }
        let code = answer.exit_code.ok_or(ReplayError::NoExitCode)?;
        Ok(Some(UntoldExit {
            code,
            sandbox_denied: Some(answer.sandbox_denied),
        }))
    }

    /// Everything that is known of the seqs after `last` up to `target`.
    fn lay_over(&mut self, answer: ReadAnswer, target: u64) -> BTreeMap<u64, Fact> {
        let mut known = self.take_held(target);
        for fact in known.values_mut() {
            if let Fact::Exited { sandbox_denied, .. } = fact {
                *sandbox_denied = Some(sandbox_denied.unwrap_or(false) || answer.sandbox_denied);
            }
        }
        for chunk in answer
            .chunks
            .into_iter()
            .filter(|chunk| chunk.seq > self.last)
        {
            let output = Fact::Output {
                stream: chunk.stream,
                data: chunk.chunk.0,
            };
            known.entry(chunk.seq).or_insert(output);
        }
        if answer.closed {
            known.entry(target).or_insert(Fact::Closed);
        }
        known
    }

    /// Publishes through `target`. A single hole is the untold exit's place; otherwise holes are gaps, and the exit follows the
    /// retained output without a place of its own.
    fn publish_through(
        &mut self,
        target: u64,
        known: BTreeMap<u64, Fact>,
        exit: Option<UntoldExit>,
        one_hole: bool,
        out: &mut Vec<Published>,
    ) {
        let mut exit = exit;
        for (seq, fact) in known {
            if self.closed {
                return;
            }
            if seq > self.next() {
                self.fill(seq - 1, one_hole, &mut exit, out);
            }
            if fact == Fact::Closed {
                self.publish_exit(exit.take(), out);
            }
            self.publish(seq, fact, out);
        }
        if target > self.last && !self.closed {
            self.fill(target, one_hole, &mut exit, out);
        }
        self.publish_exit(exit, out);
    }

    /// The hole from the last published event through `last`.
    fn fill(
        &mut self,
        last: u64,
        one_hole: bool,
        exit: &mut Option<UntoldExit>,
        out: &mut Vec<Published>,
    ) {
        match exit.take_if(|_| one_hole) {
            Some(UntoldExit {
                code,
                sandbox_denied,
            }) => {
                self.publish(
                    last,
                    Fact::Exited {
                        code,
                        sandbox_denied,
                    },
                    out,
                );
            }
            None => {
                out.push(Published::Gap {
                    first: self.next(),
                    last,
                });
                self.last = last;
            }
        }
    }

    fn publish_exit(&mut self, exit: Option<UntoldExit>, out: &mut Vec<Published>) {
        if let Some(UntoldExit {
            code,
            sandbox_denied,
        }) = exit
        {
            self.exited = true;
            out.push(Published::Exited {
                code,
                sandbox_denied,
            });
        }
    }
}
