//! Random histories, cut and reordered at random: what is published equals the uninterrupted stream (invariant 31), and the sequencer
//! equals a naive one.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_session::config::OnGap;
use mainstay_session::sequence::*;
use mainstay_wire::process::ReadAnswer;
use proptest::prelude::*;

use crate::order::*;

/// Everything a process will ever say, seq 1 first: outputs, the exit somewhere, the close last.
fn history() -> impl Strategy<Value = Vec<Fact>> {
    (0..24_usize, any::<prop::sample::Index>(), any::<bool>()).prop_map(
        |(outputs, exit_at, ends)| {
            let mut facts: Vec<Option<Fact>> = vec![None; outputs];
            if ends {
                facts.insert(exit_at.index(outputs + 1), Some(exit(5)));
                facts.push(Some(Fact::Closed));
            }
            let facts = (1..)
                .zip(facts)
                .map(|(seq, fact)| fact.unwrap_or_else(|| out(seq)));
            facts.collect()
        },
    )
}

/// One link's life: how much of the history exists when its replay is answered and when it breaks, what gets lost in between, and
/// how the deliveries are shuffled and repeated.
#[derive(Debug, Clone)]
struct LinkLife {
    answered_at: prop::sample::Index,
    broken_at: prop::sample::Index,
    lost: BTreeSet<u64>,
    order: Vec<(prop::sample::Index, prop::sample::Index)>,
    repeated: BTreeSet<u64>,
    replay_place: prop::sample::Index,
}

prop_compose! {
    fn link_life()(
        answered_at: prop::sample::Index,
        broken_at: prop::sample::Index,
        lost in prop::collection::btree_set(1..26_u64, 0..6),
        order in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index)>(), 0..12),
        repeated in prop::collection::btree_set(1..26_u64, 0..4),
        replay_place: prop::sample::Index,
    ) -> LinkLife {
        LinkLife { answered_at, broken_at, lost, order, repeated, replay_place }
    }
}

/// What `process/read {afterSeq}` says when the first `said` events exist and the log retains those from `first`.
fn read(history: &[Fact], after: u64, said: usize, first: u64) -> ReadAnswer {
    let mut answer = answer([], said as u64 + 1);
    for (seq, fact) in (1..).zip(&history[..said]) {
        match fact {
            Fact::Output { .. } if seq > after && seq >= first => {
                answer.chunks.extend(self::answer([seq], 0).chunks);
            }
            Fact::Output { .. } => {}
            Fact::Exited { code, .. } => answer = exited(answer, *code),
            Fact::Closed => answer = closed(answer),
        }
    }
    answer
}

/// Plays all links over a sequencer; `evict` says from where on the log still has output at each replay.
fn play(
    history: &[Fact],
    links: &[LinkLife],
    on_gap: OnGap,
    evict: impl Fn(usize) -> u64,
) -> (Sequencer, Vec<Published>) {
    let mut order = sequencer();
    let mut published = Vec::new();
    let mut exists = 0;
    for (number, link) in links.iter().enumerate() {
        let answered = exists + link.answered_at.index(history.len() - exists + 1);
        let last_link = number + 1 == links.len();
        let broken = if last_link {
            history.len()
        } else {
            answered + link.broken_at.index(history.len() - answered + 1)
        };
        // Live notifications begin where the link was attached, which is before the replay is answered.
        let mut live: Vec<u64> = (exists as u64 + 1..=broken as u64).collect();
        // What a link loses, the next replay must bring; on the last link nothing is lost.
        if !last_link {
            live.retain(|seq| !link.lost.contains(seq));
        }
        let repeats: Vec<u64> = live
            .iter()
            .copied()
            .filter(|seq| link.repeated.contains(seq))
            .collect();
        live.extend(repeats);
        for (one, other) in &link.order {
            if !live.is_empty() {
                let (one, other) = (one.index(live.len()), other.index(live.len()));
                live.swap(one, other);
            }
        }
        let place = link.replay_place.index(live.len() + 1);
        let after = order.last();
        let mut answer = Some(read(history, after, answered, evict(answered)));
        for step in 0..=live.len() {
            if step == place
                && let Some(answer) = answer.take()
                && order.replay(answer, on_gap, &mut published).is_err()
            {
                assert!(order.fail() || order.over());
            }
            if let Some(seq) = live.get(step) {
                let fact = history[*seq as usize - 1].clone();
                order
                    .accept(*seq, fact, &mut published)
                    .expect("within the limits");
            }
        }
        exists = broken;
    }
    (order, published)
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 12_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    /// Invariant 31: with the log complete, any number of link changes leaves no trace.
    #[test]
    fn i31_the_stream_equals_the_uninterrupted_one(
        history in history(),
        links in prop::collection::vec(link_life(), 1..5),
        mark: bool,
    ) {
        let on_gap = if mark { OnGap::Mark } else { OnGap::Fail };
        let (order, published) = play(&history, &links, on_gap, |_| 0);
        let expected: Vec<_> = (1..).zip(history).map(|(seq, fact)| event(seq, fact)).collect();
        prop_assert_eq!(published, expected);
        prop_assert_eq!(order.held(), (0, 0));
    }

    /// Invariants 29 and 32, with a log that evicts: every seq once, as event or gap; at most one exit, with the true code; the
    /// close last. With `Fail`: a prefix of the history, and then nothing.
    #[test]
    fn i29_i32_evicted_output_is_told_or_ends_the_process(
        history in history(),
        links in prop::collection::vec(link_life(), 1..5),
        evicted in 0..26_u64,
        mark: bool,
    ) {
        let on_gap = if mark { OnGap::Mark } else { OnGap::Fail };
        let (order, published) = play(&history, &links, on_gap, |_| evicted);
        let mut covered = 0;
        let mut exits = 0;
        for one in &published {
            match one {
                Published::Event { seq, fact } => {
                    prop_assert_eq!(*seq, covered + 1);
                    prop_assert_eq!(fact, &history[*seq as usize - 1]);
                    covered = *seq;
                    exits += usize::from(matches!(fact, Fact::Exited { .. }));
                }
                Published::Gap { first, last } => {
                    prop_assert!(mark);
                    prop_assert_eq!(*first, covered + 1);
                    prop_assert!(last >= first);
                    covered = *last;
                }
                Published::Exited { code, .. } => {
                    prop_assert!(mark);
                    prop_assert_eq!(*code, 5);
                    exits += 1;
                }
            }
        }
        prop_assert!(exits <= 1);
        if !order.over() || order.closed() {
            prop_assert_eq!(covered, history.len() as u64);
            prop_assert_eq!(exits, usize::from(history.contains(&exit(5))));
        } else {
            prop_assert!(!mark);
        }
    }

    /// The sequencer against a naive one that keeps everything and publishes what is contiguous.
    #[test]
    fn the_sequencer_equals_a_naive_one(events in prop::collection::vec((0..30_u64, 0..4_u8), 0..60)) {
        let limits = Limits { events: 5, bytes: 40 };
        let mut order = Sequencer::new(limits);
        let mut published = Vec::new();
        let mut naive = Naive { limits, seen: BTreeMap::new(), published: Vec::new(), over: false };
        for (seq, kind) in events {
            let fact = match kind {
                0 => exit(1),
                1 if seq > 20 => Fact::Closed,
                _ => out(seq),
            };
            let accepted = order.accept(seq, fact.clone(), &mut published).is_ok();
            prop_assert_eq!(accepted, naive.accept(seq, fact));
            prop_assert_eq!(&published, &naive.published);
            let (held, bytes) = order.held();
            prop_assert!(held <= limits.events && bytes <= limits.bytes);
        }
    }
}

struct Naive {
    limits: Limits,
    seen: BTreeMap<u64, Fact>,
    published: Vec<Published>,
    over: bool,
}

impl Naive {
    fn accept(&mut self, seq: u64, fact: Fact) -> bool {
        if self.over || seq == 0 || self.seen.contains_key(&seq) {
            return true;
        }
        let size = |fact: &Fact| match fact {
            Fact::Output { data, .. } => data.len(),
            _ => 0,
        };
        let next = self.published.len() as u64 + 1;
        let waiting: Vec<_> = self.seen.range(next..).collect();
        let bytes: usize = waiting.iter().map(|(_, fact)| size(fact)).sum();
        if seq != next
            && (waiting.len() == self.limits.events || bytes + size(&fact) > self.limits.bytes)
        {
            self.over = true;
            return false;
        }
        self.seen.insert(seq, fact);
        while let Some(fact) = self.seen.get(&(self.published.len() as u64 + 1)) {
            self.over |= *fact == Fact::Closed;
            self.published
                .push(event(self.published.len() as u64 + 1, fact.clone()));
            if self.over {
                break;
            }
        }
        true
    }
}
