//! The matrix of `docs/compatibility.md`: who was tried with whom, and what came of it.

use std::{collections::BTreeMap, fmt, future::Future, time::Duration};

use anyhow::Result;

/// No scenario takes this long; one that does has hung.
const HANG: Duration = Duration::from_secs(120);

/// Who plays which side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cell {
    /// Our client, the reference's executor, its own listener.
    OursDirect,
    /// Our client, our registry and relay, the reference's executor.
    OursRelayed,
    /// The reference's client, our executor's own listener.
    TheirsDirect,
    /// The reference's client, our registry and relay, our executor.
    TheirsRelayed,
    /// Both theirs, direct: the control.
    ControlDirect,
    /// Both theirs, our registry and relay between.
    ControlRelayed,
}

impl Cell {
    /// The order of the table.
    pub(crate) const ALL: [Self; 6] = [
        Self::OursDirect,
        Self::OursRelayed,
        Self::TheirsDirect,
        Self::TheirsRelayed,
        Self::ControlDirect,
        Self::ControlRelayed,
    ];

    fn title(self) -> &'static str {
        match self {
            Self::OursDirect => "our client → reference executor",
            Self::OursRelayed => "our client → our relay → reference executor",
            Self::TheirsDirect => "reference client → our executor",
            Self::TheirsRelayed => "reference client → our relay → our executor",
            Self::ControlDirect => "reference client → reference executor",
            Self::ControlRelayed => "reference client → our relay → reference executor",
        }
    }
}

/// What came of one scenario in one cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// As specified.
    Pass,
    /// This side cannot be made to do it from outside: why.
    NotDrivable(&'static str),
    /// It works otherwise than specified: how.
    Differs(&'static str),
    /// It does not work: how.
    Fails(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass => f.write_str("pass"),
            Self::NotDrivable(why) => write!(f, "not drivable: {why}"),
            Self::Differs(how) => write!(f, "differs: {how}"),
            Self::Fails(how) => write!(
                f,
                "**fails**: {}",
                how.replace('\n', " ").replace('|', "\\|")
            ),
        }
    }
}

/// The table while it grows.
#[derive(Debug, Default)]
pub(crate) struct Matrix {
    rows: Vec<&'static str>,
    outcomes: BTreeMap<(&'static str, Cell), Outcome>,
}

impl Matrix {
    /// Runs one scenario in one cell, whatever it does: an error, a panic and a hang are outcomes.
    pub(crate) async fn run(
        &mut self,
        scenario: &'static str,
        cell: Cell,
        body: impl Future<Output = Result<Outcome>> + Send + 'static,
    ) {
        // For work on one scenario: a part of its name, or of its cell's title.
        if std::env::var("MAINSTAY_INTEROP_ONLY")
            .is_ok_and(|only| !scenario.contains(&only) && !cell.title().contains(&only))
        {
            return;
        }
        let started = std::time::Instant::now();
        let mut task = tokio::spawn(body);
        let outcome = match tokio::time::timeout(HANG, &mut task).await {
            Ok(Ok(Ok(outcome))) => outcome,
            Ok(Ok(Err(error))) => Outcome::Fails(format!("{error:#}")),
            Ok(Err(panic)) => Outcome::Fails(panic.to_string()),
            Err(_) => {
                task.abort();
                Outcome::Fails(format!("hangs for {} s", HANG.as_secs()))
            }
        };
        eprintln!(
            "{:5} ms  {}: {scenario}: {outcome}",
            started.elapsed().as_millis(),
            cell.title()
        );
        if !self.rows.contains(&scenario) {
            self.rows.push(scenario);
        }
        self.outcomes.insert((scenario, cell), outcome);
    }

    /// Everything that does not work.
    pub(crate) fn failures(&self) -> Vec<String> {
        let failed = self
            .outcomes
            .iter()
            .filter(|(_, outcome)| matches!(outcome, Outcome::Fails(_)));
        failed
            .map(|((scenario, cell), outcome)| format!("{}: {scenario}: {outcome}", cell.title()))
            .collect()
    }

    /// The table as Markdown; reasons that are longer than a word stand in notes below it.
    pub(crate) fn markdown(&self, version: &str) -> String {
        let mut notes: Vec<String> = Vec::new();
        let mut text = format!("With {version}.\n\n| scenario |");
        for cell in Cell::ALL {
            text += &format!(" {} |", cell.title());
        }
        text += &format!("\n|---|{}\n", "---|".repeat(Cell::ALL.len()));
        for row in &self.rows {
            text += &format!("| {row} |");
            for cell in Cell::ALL {
                text += &match self.outcomes.get(&(*row, cell)) {
                    None => " – |".to_owned(),
                    Some(Outcome::Pass) => " pass |".to_owned(),
                    Some(
                        outcome @ (Outcome::NotDrivable(_)
                        | Outcome::Differs(_)
                        | Outcome::Fails(_)),
                    ) => {
                        let note = outcome.to_string();
                        let number = notes
                            .iter()
                            .position(|known| *known == note)
                            .unwrap_or_else(|| {
                                notes.push(note.clone());
                                notes.len() - 1
                            });
                        let word = note.split(':').next().unwrap_or_default();
                        format!(" {word} ({}) |", number + 1)
                    }
                };
            }
            text.push('\n');
        }
        text += "\n`–`: the scenario is the other side's.\n";
        for (number, note) in notes.iter().enumerate() {
            text += &format!("\n{}. {note}", number + 1);
        }
        text.push('\n');
        text
    }
}
