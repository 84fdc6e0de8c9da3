//! What this process and others have, and how long things took.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use mainstay_testkit::program::tree;

/// These tests count what the whole process has, so that only one may run; a runtime of another has descriptors, too.
static ALONE: Mutex<()> = Mutex::new(());

/// The executor's log: a program stands still once that much of what it wrote is unacknowledged.
pub(crate) const LOG: u64 = 4 << 20;

/// Runs a scenario in a runtime of its own while no other of this binary has one.
pub(crate) fn alone(scenario: impl Future<Output = Result<()>>) -> Result<()> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?
        .block_on(scenario)
}

/// Whether the full size is asked for.
pub(crate) fn full() -> bool {
    std::env::var_os("MAINSTAY_TEST_ALL").is_some()
}

/// What must come back to where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// Open descriptors.
    pub(crate) descriptors: usize,
    /// Descendants.
    pub(crate) children: usize,
    /// Tasks of this runtime; 0 for another process.
    pub(crate) tasks: usize,
}

impl Held {
    /// What this process has.
    pub(crate) fn here() -> Self {
        Self {
            tasks: tokio::runtime::Handle::current()
                .metrics()
                .num_alive_tasks(),
            ..Self::of(std::process::id())
        }
    }

    /// What another process and its descendants have. Their descriptors are not counted.
    pub(crate) fn of(pid: u32) -> Self {
        Self {
            descriptors: std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count),
            children: tree(pid).len() - 1,
            tasks: 0,
        }
    }

    /// Waits until there is no more of anything than this; how long that took.
    pub(crate) async fn is_back(self, now: impl Fn() -> Self) -> Result<Duration> {
        const PATIENCE: Duration = Duration::from_secs(60);
        let begin = Instant::now();
        loop {
            let now = now();
            if now.descriptors <= self.descriptors
                && now.children <= self.children
                && now.tasks <= self.tasks
            {
                return Ok(begin.elapsed());
            }
            ensure!(begin.elapsed() < PATIENCE, "{self:?} became {now:?}");
            tokio::task::yield_now().await;
        }
    }
}

/// How much each program of this name below `root` has written.
pub(crate) fn written_below(root: u32, name: &str) -> Vec<u64> {
    let written = |pid: u32| -> Option<u64> {
        let running = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        if running.trim() != name {
            return None;
        }
        let io = std::fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
        let bytes = io.lines().find_map(|line| line.strip_prefix("wchar: "))?;
        bytes.parse().ok()
    };
    tree(root).into_iter().filter_map(written).collect()
}

/// Resident memory of a process, in KiB.
pub(crate) fn resident(pid: u32) -> u64 {
    status(pid, "VmRSS:")
}

/// The most resident memory a process had since it was told to [forget](forget_peak), in KiB.
pub(crate) fn peak(pid: u32) -> u64 {
    status(pid, "VmHWM:")
}

/// Makes this process count its [peak] from now on.
pub(crate) fn forget_peak() -> Result<()> {
    Ok(std::fs::write("/proc/self/clear_refs", "5")?)
}

fn status(pid: u32, field: &str) -> u64 {
    std::fs::read_to_string(format!("/proc/{pid}/status"))
        .unwrap_or_default()
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0)
}

/// Median, 99th and 99.9th percentile and maximum, as text.
pub(crate) fn percentiles(mut all: Vec<Duration>) -> String {
    all.sort_unstable();
    let at = |part: f64| {
        let rank = (all.len() as f64 * part) as usize;
        all.get(rank.min(all.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    };
    format!(
        "p50 {:.1?}, p99 {:.1?}, p99.9 {:.1?}, max {:.1?}",
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    )
}
