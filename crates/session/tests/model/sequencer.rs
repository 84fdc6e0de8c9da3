//! Model C: one process, its executor's log, and two link changes. Notifications are lost, reordered and repeated at will; old ones
//! arrive after the resume; the replay's answer is made and delivered at any time.

use std::collections::BTreeSet;

use bytes::Bytes;
use mainstay_session::config::OnGap;
use mainstay_session::sequence::{Fact, Limits, Published, Sequencer};
use mainstay_wire::base64::Base64;
use mainstay_wire::process::{Chunk, ReadAnswer, Stream};
use stateright::{Model, Property};

use crate::explore::explore;

#[derive(Clone, Debug)]
pub(crate) struct Process {
    /// What it does: `o`utput, `x` exit, `c`losed.
    pub(crate) script: &'static str,
    pub(crate) on_gap: OnGap,
    pub(crate) cuts: u8,
    /// How far the log may forget output.
    pub(crate) evicts: u64,
    /// How often a notification may come twice.
    pub(crate) repeats: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Story {
    order: Sequencer,
    published: Vec<Published>,
    failures: u8,
    /// Events that exist.
    said: u64,
    /// Output up to here is not retained.
    forgotten: u64,
    attached: bool,
    cuts: u8,
    repeats: u8,
    /// Notifications under way, of this link and of the ones before.
    live: BTreeSet<u64>,
    late: BTreeSet<u64>,
    replay: Replay,
    broken: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Replay {
    Done,
    /// `process/read {afterSeq}` is under way.
    Asked(u64),
    /// Answered when so much was said and forgotten.
    Answered {
        after: u64,
        said: u64,
        forgotten: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Act {
    /// The process does its next thing.
    Say,
    Forget,
    Deliver(u64),
    DeliverAndKeep(u64),
    DeliverLate(u64),
    Cut,
    Attach,
    Answer,
    Replay,
}

const CODE: i32 = 5;

impl Process {
    fn fact(&self, seq: u64) -> Fact {
        match self.script.as_bytes()[seq as usize - 1] {
            b'x' => Fact::Exited {
                code: CODE,
                sandbox_denied: Some(false),
            },
            b'c' => Fact::Closed,
            _ => Fact::Output {
                stream: Stream::Stdout,
                data: data(seq),
            },
        }
    }

    fn read(&self, after: u64, said: u64, forgotten: u64) -> ReadAnswer {
        let seen = &self.script[..said as usize];
        let outputs = (1..=said).filter(|seq| self.script.as_bytes()[*seq as usize - 1] == b'o');
        let retained = outputs.filter(|seq| *seq > after && *seq > forgotten);
        ReadAnswer {
            chunks: retained
                .map(|seq| Chunk {
                    seq,
                    stream: Stream::Stdout,
                    chunk: Base64(data(seq)),
                })
                .collect(),
            next_seq: said + 1,
            exited: seen.contains('x'),
            exit_code: seen.contains('x').then_some(CODE),
            closed: seen.contains('c'),
            failure: None,
            sandbox_denied: false,
            mainstay_first_seq: None,
        }
    }

    fn accept(&self, story: &mut Story, seq: u64) {
        let mut out = Vec::new();
        if story.order.accept(seq, self.fact(seq), &mut out).is_err() {
            story.broken = Some("30: the buffer overflowed within the bounds");
        }
        self.check(story, out);
    }

    fn take_replay(&self, story: &mut Story, after: u64, said: u64, forgotten: u64) {
        let mut out = Vec::new();
        let before = story.order.clone();
        if story
            .order
            .replay(self.read(after, said, forgotten), self.on_gap, &mut out)
            .is_err()
        {
            if !out.is_empty() || story.order != before {
                story.broken = Some("W7: an answer was published before it was judged");
            }
            story.failures += u8::from(story.order.fail());
            if self.on_gap == OnGap::Mark || story.forgotten == 0 {
                story.broken = Some("31: a process was failed that nothing is missing of");
            }
        }
        self.check(story, out);
    }

    /// 29 and 32, for what was just published.
    fn check(&self, story: &mut Story, out: Vec<Published>) {
        if !out.is_empty() && story.failures > 0 {
            story.broken = Some("29: something was published after the failure");
        }
        for one in out {
            let covered = story.published.iter().rev().find_map(last_seq).unwrap_or(0);
            let closed = |one: &Published| {
                matches!(
                    one,
                    Published::Event {
                        fact: Fact::Closed,
                        ..
                    }
                )
            };
            let exits = |one: &&Published| {
                matches!(
                    one,
                    Published::Exited { .. }
                        | Published::Event {
                            fact: Fact::Exited { .. },
                            ..
                        }
                )
            };
            if story.published.last().is_some_and(closed) {
                story.broken = Some("29: something was published after the close");
            }
            match &one {
                Published::Event { seq, fact }
                    if *seq != covered + 1 || *fact != self.fact(*seq) =>
                {
                    story.broken = Some("29: an event out of place");
                }
                Published::Gap { first, last } => {
                    if *first != covered + 1 || last < first {
                        story.broken = Some("29: a gap out of place");
                    }
                    if self.on_gap == OnGap::Fail || story.forgotten == 0 {
                        story.broken = Some("31: a gap although nothing is missing");
                    }
                }
                Published::Exited { code, .. }
                    if *code != CODE || !self.script[..story.said as usize].contains('x') =>
                {
                    story.broken = Some("32: a false exit");
                }
                Published::Event { .. } | Published::Exited { .. } => {}
            }
            story.published.push(one);
            if story.published.iter().filter(exits).count() > 1 {
                story.broken = Some("29: two exits");
            }
        }
        let (events, bytes) = story.order.held();
        if events > LIMITS.events || bytes > LIMITS.bytes {
            story.broken = Some("30: the buffer is too large");
        }
    }

    /// With nothing under way and everything said, everything has been told, or the process failed once.
    fn told(&self, story: &Story) -> bool {
        let all = self.script.len() as u64;
        let quiet = story.attached
            && story.said == all
            && story.live.is_empty()
            && story.replay == Replay::Done;
        let covered = story.published.iter().rev().find_map(last_seq).unwrap_or(0);
        let complete =
            covered == all && story.order.closed() && story.order.exited() && story.failures == 0;
        !quiet
            || complete
            || (story.failures == 1 && self.on_gap == OnGap::Fail && story.forgotten > 0)
    }
}

fn data(seq: u64) -> Bytes {
    Bytes::copy_from_slice(&[seq as u8])
}

fn last_seq(one: &Published) -> Option<u64> {
    match one {
        Published::Event { seq, .. } => Some(*seq),
        Published::Gap { last, .. } => Some(*last),
        Published::Exited { .. } => None,
    }
}

const LIMITS: Limits = Limits {
    events: 8,
    bytes: 64,
};

impl Model for Process {
    type State = Story;
    type Action = Act;

    fn init_states(&self) -> Vec<Story> {
        vec![Story {
            order: Sequencer::new(LIMITS),
            published: Vec::new(),
            failures: 0,
            said: 0,
            forgotten: 0,
            attached: true,
            cuts: self.cuts,
            repeats: self.repeats,
            live: BTreeSet::new(),
            late: BTreeSet::new(),
            replay: Replay::Done,
            broken: None,
        }]
    }

    fn actions(&self, story: &Story, acts: &mut Vec<Act>) {
        if story.broken.is_some() {
            return;
        }
        if story.said < self.script.len() as u64 {
            acts.push(Act::Say);
        }
        if story.forgotten < self.evicts.min(story.said) {
            acts.push(Act::Forget);
        }
        acts.extend(story.live.iter().map(|seq| Act::Deliver(*seq)));
        if story.repeats > 0 {
            acts.extend(story.live.iter().map(|seq| Act::DeliverAndKeep(*seq)));
        }
        acts.extend(story.late.iter().map(|seq| Act::DeliverLate(*seq)));
        if story.attached && story.cuts > 0 {
            acts.push(Act::Cut);
        }
        if !story.attached {
            acts.push(Act::Attach);
        }
        match story.replay {
            Replay::Done => {}
            Replay::Asked(_) => acts.push(Act::Answer),
            Replay::Answered { .. } => acts.push(Act::Replay),
        }
    }

    fn next_state(&self, story: &Story, act: Act) -> Option<Story> {
        let mut next = story.clone();
        match act {
            Act::Say => {
                next.said += 1;
                // Nothing that is said while nobody is attached is sent later (8.4).
                if next.attached {
                    next.live.insert(next.said);
                }
            }
            Act::Forget => next.forgotten += 1,
            Act::Deliver(seq) => {
                next.live.remove(&seq);
                self.accept(&mut next, seq);
            }
            Act::DeliverAndKeep(seq) => {
                next.repeats -= 1;
                self.accept(&mut next, seq);
            }
            Act::DeliverLate(seq) => {
                next.late.remove(&seq);
                self.accept(&mut next, seq);
            }
            Act::Cut => {
                next.cuts -= 1;
                next.attached = false;
                next.replay = Replay::Done;
                let lost = std::mem::take(&mut next.live);
                next.late.extend(lost);
            }
            Act::Attach => {
                next.attached = true;
                next.replay = Replay::Asked(next.order.last());
            }
            Act::Answer => {
                if let Replay::Asked(after) = next.replay {
                    next.replay = Replay::Answered {
                        after,
                        said: next.said,
                        forgotten: next.forgotten,
                    };
                }
            }
            Act::Replay => {
                if let Replay::Answered {
                    after,
                    said,
                    forgotten,
                } = next.replay
                {
                    next.replay = Replay::Done;
                    self.take_replay(&mut next, after, said, forgotten);
                }
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no invariant is broken", |_, story: &Story| {
                story.broken.is_none()
            }),
            Property::always("everything is told", |process, story| process.told(story)),
        ]
    }
}

#[test]
fn model_c_one_process_over_two_link_changes() {
    // What it does, how much of its output is forgotten, how often a notification may be repeated.
    let processes = [
        ("ooxc", 0, 1),
        ("oxoc", 2, 0),
        ("oooxc", 3, 0),
        ("ooxoc", 0, 1),
        ("xooc", 3, 1),
    ];
    for (script, evicts, repeats) in processes {
        for on_gap in [OnGap::Mark, OnGap::Fail] {
            let process = Process {
                script,
                on_gap,
                cuts: 2,
                evicts,
                repeats,
            };
            explore(&format!("C {script} {on_gap:?}"), process);
        }
    }
}
