//! The tables of `docs/performance.md`.

use std::path::Path;

use anyhow::{Context, Result};

use crate::stats::Samples;

/// A row: what is measured, and how a cell tells it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// What is measured, with its unit.
    pub(crate) name: &'static str,
    /// Digits after the point.
    pub(crate) digits: usize,
    /// The percentile that stands beside the median.
    pub(crate) tail: Option<f64>,
}

/// Rows by columns; the first column is the one the others are compared with.
#[derive(Debug)]
pub(crate) struct Table<const ROWS: usize> {
    rows: [Row; ROWS],
    columns: Vec<(&'static str, [Samples; ROWS])>,
}

impl<const ROWS: usize> Table<ROWS> {
    /// A table without columns.
    pub(crate) fn new(rows: [Row; ROWS]) -> Self {
        Self {
            rows,
            columns: Vec::new(),
        }
    }

    /// Adds samples to a column, in the units of the rows.
    pub(crate) fn add(&mut self, column: &'static str, samples: [Samples; ROWS]) {
        match self.columns.iter_mut().find(|(known, _)| *known == column) {
            Some((_, all)) => {
                for (all, more) in all.iter_mut().zip(samples) {
                    all.extend(more);
                }
            }
            None => self.columns.push((column, samples)),
        }
    }

    /// As Markdown, with the machine and the date; each cell with its ratio to the first column.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("{}\n\n| |", machine());
        for (column, _) in &self.columns {
            text += &format!(" {column} |");
        }
        text += &format!("\n|---|{}\n", "---|".repeat(self.columns.len()));
        for (number, row) in self.rows.iter().enumerate() {
            text += &format!("| {}: median", row.name);
            text += &match row.tail {
                Some(percent) => format!(" (p{percent}) |"),
                None => " |".to_owned(),
            };
            let base = self
                .columns
                .first()
                .map_or(f64::NAN, |(_, samples)| samples[number].median());
            for (place, (_, samples)) in self.columns.iter().enumerate() {
                let (samples, digits) = (&samples[number], row.digits);
                text += &format!(" {:.digits$}", samples.median());
                if let Some(percent) = row.tail {
                    text += &format!(" ({:.digits$})", samples.quantile(percent / 100.0));
                }
                if place > 0 {
                    text += &format!(", ×{:.2}", samples.median() / base);
                }
                text += " |";
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

/// Puts a table between the marks with its name.
///
/// # Errors
/// When the document has no marks of that name, or cannot be read or written.
pub(crate) fn write(file: &Path, name: &str, text: &str) -> Result<()> {
    let document = std::fs::read_to_string(file)?;
    let (begin, end) = (
        format!("<!-- {name}: begin -->"),
        format!("<!-- {name}: end -->"),
    );
    let from = document.find(&begin).context("no table in the document")? + begin.len();
    let to = document
        .find(&end)
        .context("no end of the table in the document")?;
    std::fs::write(
        file,
        format!("{}\n{text}{}", &document[..from], &document[to..]),
    )?;
    Ok(())
}
