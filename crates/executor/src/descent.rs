//! Who descends from whom, by a look at /proc.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rustix::process::{self, Pid, Signal, WaitId, WaitIdOptions};

/// Between two looks while the last descendants go.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// One process as /proc tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    pid: Pid,
    parent: i32,
    group: i32,
    session: i32,
    ended: bool,
}

/// Our children that have ended and wait to be reaped.
pub(crate) fn ended_children() -> impl Iterator<Item = Pid> {
    let own = process::getpid().as_raw_pid();
    let children = entries().filter(move |entry| entry.parent == own && entry.ended);
    children.map(|entry| entry.pid)
}

/// Everything that descends from `ancestor` right now, itself excluded, and whoever is in its group or its terminal
/// session.
pub(crate) fn family(ancestor: Pid) -> Vec<Pid> {
    let entries: Vec<Entry> = entries().collect();
    let number = ancestor.as_raw_pid();
    let mut family = descendants(&entries, ancestor);
    let related = |entry: &&Entry| entry.group == number || entry.session == number;
    family.extend(entries.iter().filter(related).map(|entry| entry.pid));
    family.retain(|pid| *pid != ancestor);
    family
}

/// Kills everything that descends from this process and reaps it, until nothing is left or the time is over. For a
/// subreaper that ends: nothing escapes, because orphans become its children.
pub(crate) fn end_descendants(within: Duration) {
    let begin = Instant::now();
    let own = process::getpid();
    loop {
        let entries: Vec<Entry> = entries().collect();
        let descendants = descendants(&entries, own);
        if descendants.is_empty() || begin.elapsed() > within {
            return;
        }
        for pid in descendants {
            // One that has just gone is no error.
            let _ = process::kill_process(pid, Signal::KILL);
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        while let Ok(Some(_)) = process::waitid(WaitId::All, options) {}
        std::thread::sleep(LOOK_EVERY);
    }
}

fn descendants(entries: &[Entry], ancestor: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<Pid>> = HashMap::new();
    for entry in entries {
        children.entry(entry.parent).or_default().push(entry.pid);
    }
    let mut found = Vec::new();
    let mut next = vec![ancestor];
    while let Some(parent) = next.pop() {
        // Taken out, so that a pid used twice while we looked cannot make a circle.
        for child in children.remove(&parent.as_raw_pid()).unwrap_or_default() {
            found.push(child);
            next.push(child);
        }
    }
    found
}

fn entries() -> impl Iterator<Item = Entry> {
    let directory = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    directory.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read(entry.path().join("stat")).ok()?;
        parse(pid, &stat)
    })
}

/// `PID (NAME) STATE PPID PGRP SESSION …`; the name may hold anything, also parentheses.
fn parse(pid: i32, stat: &[u8]) -> Option<Entry> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let mut number = || fields.next()?.parse().ok();
    Some(Entry {
        pid: Pid::from_raw(pid)?,
        parent: number()?,
        group: number()?,
        session: number()?,
        ended: state == "Z" || state == "X",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(pid: i32, parent: i32) -> Entry {
        Entry {
            pid: Pid::from_raw(pid).unwrap(),
            parent,
            group: pid,
            session: pid,
            ended: false,
        }
    }

    #[test]
    fn reads_a_line_whose_name_is_hostile() {
        let line = b"42 (a) Z 1 (b) S 7 8 9 0 -1 4194304 0";
        let expected = Entry {
            group: 8,
            session: 9,
            ..entry(42, 7)
        };
        assert_eq!(parse(42, line), Some(expected));
        assert!(parse(43, b"43 (x) Z 1 2 3").unwrap().ended);
        assert_eq!(parse(1, b"garbage"), None);
    }

    #[test]
    fn finds_all_generations_and_no_strangers() {
        let entries = [
            entry(3, 2),
            entry(5, 1),
            entry(4, 3),
            entry(6, 5),
            entry(7, 3),
        ];
        let mut found: Vec<i32> = descendants(&entries, Pid::from_raw(2).unwrap())
            .iter()
            .map(|pid| pid.as_raw_pid())
            .collect();
        found.sort();
        assert_eq!(found, [3, 4, 7]);
    }

    #[test]
    fn a_circle_ends() {
        let entries = [entry(2, 3), entry(3, 2)];
        assert_eq!(descendants(&entries, Pid::from_raw(2).unwrap()).len(), 2);
    }
}
