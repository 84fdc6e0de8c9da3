//! What every mutation's caller was told, and what the executor's machine counted.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use mainstay::{Delivery, Error};

/// How often a mutation may have been applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Exactly once: it was answered.
    Done,
    /// Not at all: it was not sent.
    NotSent,
    /// Once or not at all.
    Unknown,
}

impl Told {
    /// What an error tells. An executor's own refusal is none of it: each mutation is one that only its repetition
    /// makes fail.
    ///
    /// # Panics
    /// When the executor refused.
    pub(crate) fn by(error: &Error) -> Self {
        assert_eq!(error.code(), None, "refused: {error}");
        match error.delivery() {
            Some(Delivery::Unknown) => Self::Unknown,
            // Without a delivery there was no link to send it on.
            Some(Delivery::NotSent) | None => Self::NotSent,
        }
    }
}

/// Lines in a file: the counter on the executor's side.
#[derive(Debug)]
pub(crate) struct Ledger {
    counter: PathBuf,
    told: Vec<(String, Told)>,
}

impl Ledger {
    pub(crate) fn new(counter: &Path) -> Self {
        Self {
            counter: counter.to_owned(),
            told: Vec::new(),
        }
    }

    /// Notes what the caller of `mutation` was told.
    pub(crate) fn note(&mut self, mutation: String, told: Told) {
        self.told.push((mutation, told));
    }

    /// Compares, and returns how many mutations were done, and of how many that is not known.
    ///
    /// # Panics
    /// When a mutation was applied twice, or not as its caller was told.
    pub(crate) fn check(self) -> (usize, usize) {
        let lines = std::fs::read_to_string(&self.counter).unwrap_or_default();
        let mut applied: HashMap<&str, usize> = HashMap::new();
        for line in lines.lines() {
            *applied.entry(line).or_default() += 1;
        }
        let (mut done, mut unknown) = (0, 0);
        for (mutation, told) in &self.told {
            let times = applied.get(mutation.as_str()).copied().unwrap_or(0);
            let allowed = match told {
                Told::Done => 1..=1,
                Told::NotSent => 0..=0,
                Told::Unknown => 0..=1,
            };
            assert!(
                allowed.contains(&times),
                "{mutation} applied {times} times, told {told:?}"
            );
            done += usize::from(*told == Told::Done);
            unknown += usize::from(*told == Told::Unknown);
        }
        (done, unknown)
    }
}
