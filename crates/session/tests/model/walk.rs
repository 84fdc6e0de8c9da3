//! Beyond the bounds: seeded random walks through worlds that may do anything.

use mainstay_session::*;

use crate::bounds::{Bounds, Budget};
use crate::rest::comes_to_rest;
use crate::supervisor::noise;
use crate::world::World;

/// A world without bounds: everything may happen again and again.
fn anything(rules: Rules) -> Bounds {
    let many = u8::MAX;
    Bounds {
        rules,
        generations: u32::MAX,
        epochs: u32::MAX,
        retries: 20,
        lookup_failures: &[
            Class::Offline,
            Class::Terminal,
            Class::Denied,
            Class::Registry,
        ],
        dial_failures: &[
            Class::Dial,
            Class::Terminal,
            Class::Unauthorized,
            Class::AlreadyAttached,
            Class::Handshake,
        ],
        budget: Budget {
            acquires: many,
            readies: many,
            links: many,
            refreshes: many,
            forgets: many,
            crashes: many,
            provisionings: many,
            nudges: many,
            restarts: many,
            faults: many,
            retirements: 3,
            shutdowns: 0,
            sockets: many,
            renewals: many,
        },
        ..noise()
    }
}

/// A small generator of known quality (splitmix64): one seed, one walk.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// Walks `steps` steps, in walks of 300, and lets the world come to rest at the end of each.
fn walk(rules: Rules, seed: u64, steps: usize) {
    const LENGTH: usize = 300;
    let bounds = anything(rules);
    let mut random = Random(seed);
    let mut events = Vec::new();
    for walk in 0..steps.div_ceil(LENGTH) {
        let mut world = World::new(&bounds);
        let mut path = Vec::new();
        for _ in 0..LENGTH {
            events.clear();
            world.possible(&bounds, &mut events);
            // Children and timers are few among all that may happen; without this, hardly anything gets done.
            let event = if random.below(3) == 0 {
                world.fair()
            } else {
                None
            };
            let event = event.unwrap_or_else(|| events[random.below(events.len())]);
            path.push(event);
            world = world.next(event, &bounds);
            assert!(
                world.broken.is_none(),
                "{rules:?} seed {seed} walk {walk}: {:?}\n{path:#?}",
                world.broken
            );
        }
        assert!(
            comes_to_rest(&world, &bounds),
            "{rules:?} seed {seed} walk {walk}: no rest\n{path:#?}\n{world:#?}"
        );
    }
}

fn every_kind(steps: usize) {
    let kinds = [
        Transport::Noise,
        Transport::WebSocket,
        Transport::Accepted,
        Transport::Once,
    ];
    let kinds = kinds
        .into_iter()
        .flat_map(|transport| [(transport, false), (transport, true)]);
    std::thread::scope(|threads| {
        for (seed, (transport, deferred)) in (1..).zip(kinds) {
            let rules = Rules {
                deferred,
                ..Rules::new(transport)
            };
            threads.spawn(move || walk(rules, seed, steps / 8));
        }
    });
}

#[test]
fn random_walks() {
    every_kind(160_000);
}

/// Ten million steps: `just model`.
#[test]
fn model_walks_ten_million_steps() {
    if std::env::var_os("MAINSTAY_TEST_ALL").is_some() {
        every_kind(10_000_000);
    }
}
