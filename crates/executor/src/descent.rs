//! Who descends from whom, by a look at /proc.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use rustix::process::{self, Pid, Signal, WaitId, WaitIdOptions};

/// Between two looks while the last descendants go.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Looks for members of a family at most: each further one finds what was started during the one before.
const MOST_LOOKS: usize = 16;

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

/// Kills these programs with everything that descends from them or is in their groups or terminal sessions. Each look at
/// /proc is for all of them.
pub(crate) fn kill_families(programs: &[Pid]) {
    // Stopped before killed: what is stopped starts nothing, so once a look finds nobody new, it has found all, and no
    // parent has gone before its children were found. Parents first: a shell must not see what happens to its jobs.
    let mut stopped = Vec::new();
    let mut known = HashSet::new();
    for _ in 0..MOST_LOOKS {
        let entries: Vec<Entry> = entries().collect();
        let before = stopped.len();
        for pid in families(&entries, programs) {
            if known.insert(pid) {
                signal(pid, Signal::STOP);
                stopped.push(pid);
            }
        }
        if stopped.len() == before {
            break;
        }
    }
    for pid in stopped {
        signal(pid, Signal::KILL);
    }
}

fn signal(pid: Pid, signal: Signal) {
    // One that has just gone is no error.
    let _ = process::kill_process(pid, signal);
}

/// Kills everything that descends from this process and reaps it, until nothing is left or the time is over. For a
/// subreaper that ends: nothing escapes, because orphans become its children.
pub(crate) fn end_descendants(within: Duration) {
    let begin = Instant::now();
    let own = process::getpid();
    loop {
        let entries: Vec<Entry> = entries().collect();
        let descendants = descendants(&entries, &[own]);
        if descendants.is_empty() || begin.elapsed() > within {
            return;
        }
        for pid in descendants {
            signal(pid, Signal::KILL);
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        while let Ok(Some(_)) = process::waitid(WaitId::All, options) {}
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The programs, what is in their groups and sessions, and what descends from all that, parents before children; some
/// more than once.
fn families(entries: &[Entry], programs: &[Pid]) -> Vec<Pid> {
    let numbers: HashSet<i32> = programs.iter().map(|pid| pid.as_raw_pid()).collect();
    let related =
        |entry: &&Entry| numbers.contains(&entry.group) || numbers.contains(&entry.session);
    let mut families = programs.to_vec();
    families.extend(descendants(entries, programs));
    families.extend(entries.iter().filter(related).map(|entry| entry.pid));
    families
}

/// Every generation below the ancestors, parents before children.
fn descendants(entries: &[Entry], ancestors: &[Pid]) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<Pid>> = HashMap::new();
    for entry in entries {
        children.entry(entry.parent).or_default().push(entry.pid);
    }
    let mut found: Vec<Pid> = Vec::new();
    let mut next = 0;
    let mut take = |parent: Pid, found: &mut Vec<Pid>| {
        // Taken out, so that a pid used twice while we looked cannot make a circle.
        found.extend(children.remove(&parent.as_raw_pid()).into_iter().flatten());
    };
    for ancestor in ancestors {
        take(*ancestor, &mut found);
    }
    while let Some(parent) = found.get(next).copied() {
        take(parent, &mut found);
        next += 1;
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

    fn numbers(found: Vec<Pid>) -> Vec<i32> {
        found.iter().map(|pid| pid.as_raw_pid()).collect()
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
        let ancestors = [Pid::from_raw(2).unwrap()];
        assert_eq!(numbers(descendants(&entries, &ancestors)), [3, 4, 7]);
    }

    #[test]
    fn a_circle_ends() {
        let entries = [entry(2, 3), entry(3, 2)];
        assert_eq!(descendants(&entries, &[Pid::from_raw(2).unwrap()]).len(), 2);
    }

    #[test]
    fn a_family_has_its_group_and_its_session_too() {
        let in_group = Entry {
            group: 2,
            ..entry(8, 1)
        };
        let in_session = Entry {
            session: 2,
            ..entry(9, 1)
        };
        let entries = [entry(2, 1), entry(3, 2), in_group, in_session, entry(10, 1)];
        assert_eq!(
            numbers(families(&entries, &[Pid::from_raw(2).unwrap()])),
            [2, 3, 2, 8, 9]
        );
    }
}
