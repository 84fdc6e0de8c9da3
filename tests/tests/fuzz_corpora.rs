//! A short replay of the fuzz seeds with the ordinary toolchain: as they are, cut short, and with single bytes damaged.

#[path = "../../crates/fuzz/src/lib.rs"]
#[allow(missing_docs, unreachable_pub)]
mod targets;

use std::path::Path;

use targets::{TARGETS, Target};

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../crates/fuzz/seeds")
        .join(target);
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.sort();
    names
        .into_iter()
        .map(|name| std::fs::read(name).unwrap())
        .collect()
}

fn replay(name: &str) {
    let (_, target): &(&str, Target) = TARGETS.iter().find(|(target, _)| *target == name).unwrap();
    let seeds = seeds(name);
    assert!(!seeds.is_empty());
    for seed in &seeds {
        target(seed);
        for cut in 1..4 {
            target(&seed[..seed.len() * cut / 4]);
        }
        // A fixed sequence of damages, spread over the input.
        for n in 1..=8usize {
            let mut damaged = seed.clone();
            if let Some(byte) = damaged.get_mut(n * 2_654_435_761 % seed.len().max(1)) {
                *byte ^= 1 << (n % 8);
                target(&damaged);
            }
        }
    }
}

#[test]
fn every_target_is_replayed_and_has_seeds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/fuzz");
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    for (name, _) in TARGETS {
        assert!(
            manifest.contains(&format!("name = \"{name}\"")),
            "{name} is no target"
        );
        assert!(
            folder
                .join("fuzz_targets")
                .join(format!("{name}.rs"))
                .exists(),
            "{name} has no program"
        );
        assert!(!seeds(name).is_empty(), "{name} has no seeds");
    }
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
}

#[test]
fn envelope() {
    replay("envelope");
}

#[test]
fn params() {
    replay("params");
}

#[test]
fn relay_frame() {
    replay("relay_frame");
}

#[test]
fn path_uri() {
    replay("path_uri");
}

#[test]
fn registry_body() {
    replay("registry_body");
}

#[test]
fn stdio_line() {
    replay("stdio_line");
}

#[test]
fn websocket() {
    replay("websocket");
}

#[test]
fn noise_handshake() {
    replay("noise_handshake");
}

#[test]
fn noise_records() {
    replay("noise_records");
}
