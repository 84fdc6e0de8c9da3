//! The table of scenarios in `docs/testing.md` against the sources: every scenario has its test, or says why it has none.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Where scenarios are tested, and whether that is over a real link. Files directly in the folder, or one file.
const SOURCES: [(&str, bool); 5] = [
    ("tests/tests/scenarios", true),
    ("crates/mainstay/tests/scenarios", true),
    ("crates/mainstay/src/inbound.rs", false),
    ("crates/session/tests/scenarios", false),
    ("crates/session/tests/functions", false),
];

/// The highest number of each kind.
const LAST: [(char, u32); 2] = [('S', 21), ('A', 39)];

/// Scenarios without a test over a real link, or without a part of it.
const WITHOUT_A_LINK: [(char, u32, &str); 4] = [
    (
        'S',
        2,
        "pending: needs the environment manager and its discovery cache",
    ),
    (
        'S',
        14,
        "the manager that hands the same environment out again is pending; the rest is tested",
    ),
    ('A', 14, "a formula"),
    ('A', 15, "a table"),
];

/// A scenario, and its tests as `file::name`, each with whether it is over a real link.
type Scenarios = BTreeMap<(char, u32), Vec<(String, bool)>>;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The scenarios that a test's name begins with.
fn numbers(name: &str) -> Vec<(char, u32)> {
    name.split('_')
        .map_while(|word| {
            let kind = word.chars().next().filter(|kind| "sa".contains(*kind))?;
            Some((kind.to_ascii_uppercase(), word[1..].parse().ok()?))
        })
        .collect()
}

fn read(file: &str, linked: bool, scenarios: &mut Scenarios) {
    let text = std::fs::read_to_string(root().join(file)).expect("a source file");
    let mut attribute = "";
    for line in text.lines().map(str::trim) {
        let declared = line.strip_prefix("async ").unwrap_or(line);
        if let Some(name) = declared
            .strip_prefix("fn ")
            .filter(|_| attribute.contains("test"))
        {
            let name = name.split('(').next().unwrap_or_default();
            for number in numbers(name) {
                let test = (format!("{file}::{name}"), linked);
                scenarios.entry(number).or_default().push(test);
            }
        }
        attribute = if line.starts_with("#[") { line } else { "" };
    }
}

fn scenarios() -> Scenarios {
    let mut scenarios = Scenarios::new();
    for (place, linked) in SOURCES {
        if place.ends_with(".rs") {
            read(place, linked, &mut scenarios);
            continue;
        }
        let folder = std::fs::read_dir(root().join(place)).expect("a folder of tests");
        let mut files: Vec<String> = folder
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .into_string()
                    .expect("UTF-8")
            })
            .filter(|file| file.ends_with(".rs"))
            .collect();
        files.sort();
        for file in files {
            read(&format!("{place}/{file}"), linked, &mut scenarios);
        }
    }
    scenarios
}

fn table() -> String {
    let scenarios = scenarios();
    let mut table = String::from("| scenario | test |\n|---|---|\n");
    for (kind, last) in LAST {
        for number in 1..=last {
            let tests = scenarios
                .get(&(kind, number))
                .map_or(&[][..], Vec::as_slice);
            let reason = WITHOUT_A_LINK
                .iter()
                .find(|(k, n, _)| (*k, *n) == (kind, number))
                .map(|(_, _, reason)| *reason);
            let linked = tests.iter().any(|(_, linked)| *linked);
            assert!(
                linked || reason.is_some(),
                "{kind}{number}: a test over a real link, or a reason why there is none"
            );
            let mut label = format!("{kind}{number}");
            if let Some(reason) = reason {
                writeln!(table, "| {label} | {reason} |").expect("a string");
                label.clear();
            }
            for (test, _) in tests {
                writeln!(table, "| {label} | `{test}` |").expect("a string");
                label.clear();
            }
        }
    }
    let beyond = scenarios.keys().find(|(kind, number)| {
        !LAST
            .iter()
            .any(|(k, last)| k == kind && (1..=*last).contains(number))
    });
    assert_eq!(beyond, None, "no such scenario");
    table
}

const BEGIN: &str = "<!-- scenarios: written by tests/tests/scenarios/document.rs -->\n";
const END: &str = "<!-- end of scenarios -->\n";

#[test]
fn the_table_of_scenarios_names_the_tests_there_are() {
    let path = root().join("docs/testing.md");
    let text = std::fs::read_to_string(&path).expect("the document");
    let (head, rest) = text.split_once(BEGIN).expect("the table's begin");
    let (written, tail) = rest.split_once(END).expect("the table's end");
    let table = table();
    if std::env::var_os("MAINSTAY_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{head}{BEGIN}{table}{END}{tail}")).expect("written");
    } else {
        assert_eq!(written, table, "MAINSTAY_WRITE_DOCS=1 writes it anew");
    }
}
