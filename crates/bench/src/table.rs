//! The table of `docs/performance.md`.

use std::path::Path;

use anyhow::{Context, Result};

use crate::stats::Samples;

/// Who did the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// Nobody of ours: the bare task shape, a local child, its pipe.
    Local,
    /// Our client and executor over a WebSocket.
    Direct,
    /// Our client and executor over our relay, with Noise.
    Relayed,
    /// Our client, the reference's executor, over a WebSocket.
    Reference,
    /// Our client and relay, the reference's executor.
    ReferenceRelayed,
}

impl Column {
    fn title(self) -> &'static str {
        match self {
            Self::Local => "without Mainstay",
            Self::Direct => "direct",
            Self::Relayed => "relay + Noise",
            Self::Reference => "reference executor, direct",
            Self::ReferenceRelayed => "reference executor, relay + Noise",
        }
    }
}

/// Three rows a column.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<(Column, [Samples; 3])>);

impl Table {
    /// Adds samples to a column: round trips and short commands in microseconds, output in MB/s.
    pub(crate) fn add(&mut self, column: Column, samples: [Samples; 3]) {
        match self.0.iter_mut().find(|(known, _)| *known == column) {
            Some((_, all)) => {
                for (all, more) in all.iter_mut().zip(samples) {
                    all.extend(more);
                }
            }
            None => self.0.push((column, samples)),
        }
    }

    /// As Markdown, with the machine and the date; each cell with its ratio to the first column.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("{}\n\n| |", machine());
        for (column, _) in &self.0 {
            text += &format!(" {} |", column.title());
        }
        text += &format!("\n|---|{}\n", "---|".repeat(self.0.len()));
        for (row, name) in [
            "call, µs: median (p95)",
            "`true` start → closed, µs: median (p95)",
            "output, MB/s: median",
        ]
        .iter()
        .enumerate()
        {
            text += &format!("| {name} |");
            let base = self
                .0
                .first()
                .map_or(f64::NAN, |(_, samples)| samples[row].median());
            for (number, (_, samples)) in self.0.iter().enumerate() {
                let samples = &samples[row];
                let cell = match row {
                    0 | 1 => format!("{:.0} ({:.0})", samples.median(), samples.quantile(0.95)),
                    _ => format!("{:.0}", samples.median()),
                };
                text += &match number {
                    0 => format!(" {cell} |"),
                    _ => format!(" {cell}, ×{:.2} |", samples.median() / base),
                };
            }
            text.push('\n');
        }
        text
    }
}

fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map(|rest| rest.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let now = std::process::Command::new("date")
        .args(["-u", "+%Y-%m-%d"])
        .output();
    let date = now
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default();
    let profile = if cfg!(debug_assertions) {
        "debug build"
    } else {
        "release build"
    };
    format!(
        "{date}, {profile}, {cores} cores of {}.",
        model.unwrap_or("an unknown processor")
    )
}

/// Puts the table between its marks.
///
/// # Errors
/// When the document has no marks, or cannot be read or written.
pub(crate) fn write(file: &Path, text: &str) -> Result<()> {
    let document = std::fs::read_to_string(file)?;
    let (begin, end) = ("<!-- table: begin -->", "<!-- table: end -->");
    let from = document.find(begin).context("no table in the document")? + begin.len();
    let to = document
        .find(end)
        .context("no end of the table in the document")?;
    std::fs::write(
        file,
        format!("{}\n{text}{}", &document[..from], &document[to..]),
    )?;
    Ok(())
}
