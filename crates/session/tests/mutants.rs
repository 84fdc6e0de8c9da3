//! Does the model bite? Each mutant is one changed line of the crate; the model must refuse it, and name the invariant.
//!
//! A mutant is built like the crate itself, in a small workspace of its own, so the product carries no trace of it. That takes some
//! minutes, so it runs only with `MAINSTAY_MUTANTS=1` (`just mutants`), or with a part of a mutant's name; that each mutated line still exists is
//! checked always.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

struct Mutant {
    /// What is wrong with it.
    name: &'static str,
    file: &'static str,
    /// The line, without indentation: the first such line after this text.
    after: &'static str,
    line: &'static str,
    /// What replaces it.
    with: &'static str,
    /// The model that finds it, and what it says.
    model: &'static str,
    says: &'static str,
}

const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a late report ends an attempt that it does not belong to",
        file: "attempt.rs",
        after: "fn looks_up",
        line: "self.stage == AttemptStage::Looking && self.lookup() == lookup",
        with: "self.stage == AttemptStage::Looking && lookup.turn < 9",
        model: "model_a1",
        says: "invariant: 23,",
    },
    Mutant {
        name: "a link that died during its handshake is used",
        file: "recovery.rs",
        after: "fn link_down",
        line: "connecting.down = Some(cause);",
        with: "let _ = (connecting, cause);",
        model: "model_a1",
        says: "invariant: 2,",
    },
    Mutant {
        name: "a failed session comes back",
        file: "recovery.rs",
        after: "fn recovery_over",
        line: "self.fail_session(Cause::Lost { down, end }, out);",
        with: "if let Some(session) = &self.session { out.push(Effect::PublishSlot(session.generation, LinkSlot::Failed(Cause::Lost { down, end }))); }",
        model: "model_a1",
        says: "invariant: ",
    },
    Mutant {
        name: "a refresh trusts a lookup that is older than a recovery",
        file: "refresh.rs",
        after: "fn decide_refresh",
        line: "if observed != current.map(|current| current.seen) {",
        with: "if observed.is_some() != current.is_some() {",
        model: "model_a1",
        says: "invariant: 5,",
    },
    Mutant {
        name: "retirement is not published",
        file: "retire.rs",
        after: "fn retire",
        line: "self.publish_conn(out);",
        with: "",
        model: "model_a1",
        says: "invariant: 6,",
    },
    Mutant {
        name: "retirement leaves the gate open",
        file: "retire.rs",
        after: "fn retire",
        line: "out.push(Effect::SetGate(session.generation));",
        with: "",
        model: "model_b1",
        says: "invariant: 9,",
    },
    Mutant {
        name: "a probe's answer counts although its link is gone",
        file: "refresh.rs",
        after: "fn probe_done",
        line: "Ok(()) if self.current_link() == Some(epoch) => Answer::Refreshed(generation),",
        with: "Ok(()) if epoch > Epoch(0) => Answer::Refreshed(generation),",
        model: "model_a1",
        says: "invariant: 10,",
    },
    Mutant {
        name: "a refresh that failed before its decision supersedes the startup",
        file: "refresh.rs",
        after: "Ok(bundle) => self.decide(refresh, bundle, out),",
        line: "Err(failure) => refresh.end(Answer::Failed(Cause::Told(failure)), out),",
        with: "Err(failure) => { self.startup.superseded = true; refresh.end(Answer::Failed(Cause::Told(failure)), out) }",
        model: "model_a1",
        says: "invariant: 12,",
    },
    Mutant {
        name: "a caller who left is answered",
        file: "acquire.rs",
        after: "fn forget",
        line: "attempt.waiters.retain(|(one, _)| *one != waiter);",
        with: "attempt.waiters.retain(|(one, _)| *one != waiter || one.0 > 0);",
        model: "model_a2",
        says: "invariant: 13,",
    },
    Mutant {
        name: "a superseded attempt's child goes on",
        file: "attempt.rs",
        after: "fn supersede_attempt",
        line: "attempt.stop(out);",
        with: "",
        model: "model_a1",
        says: "invariant: 14,",
    },
    Mutant {
        name: "a resume keeps the old registration",
        file: "recovery.rs",
        after: "fn replay_done",
        line: "self.registration = registration;",
        with: "",
        model: "model_a1",
        says: "invariant: 15,",
    },
    Mutant {
        name: "a resume goes to an executor with another key",
        file: "resume.rs",
        after: "fn recovery_looked_up",
        line: "Ok(bundle) if session.key != Some(bundle.key) => {",
        with: "Ok(bundle) if session.key.is_none() && bundle.key.0 > 0 => {",
        model: "model_a1",
        says: "invariant: 16,",
    },
    Mutant {
        name: "fail-fast starts an attempt",
        file: "acquire.rs",
        after: "fn acquire",
        line: "Mode::FailFast => reply(waiter, self.acquire_fail_fast(), out),",
        with: "Mode::FailFast => { self.start_connecting(out); reply(waiter, self.acquire_fail_fast(), out) }",
        model: "model_a1",
        says: "invariant: 17,",
    },
    Mutant {
        name: "streams are cleaned up before the link is closed",
        file: "retire.rs",
        after: "fn tear_down",
        line: "for waiter in &self.waiters {",
        with: "out.push(Effect::FailStreams(self.generation, cause)); for waiter in &self.waiters {",
        model: "model_a1",
        says: "invariant: 18,",
    },
    Mutant {
        name: "a resume does not wait for the starts to end",
        file: "recovery.rs",
        after: "fn recover",
        line: "out.push(Effect::FailStreams(generation, Cause::LinkLost(down)));",
        with: "self.starts_drained(id, out);",
        model: "model_a6",
        says: "invariant: ",
    },
    Mutant {
        name: "a failure that may pass is remembered",
        file: "acquire.rs",
        after: "let reconnect = ",
        line: "_ if reconnect => self.start_attempt(AttemptKind::Reconnect, None, waiters, out),",
        with: "Some(Err(failure)) if !reconnect => for (waiter, _) in waiters { reply(waiter, Answer::Failed(Cause::Attempt(failure)), out) }, _ if reconnect => self.start_attempt(AttemptKind::Reconnect, None, waiters, out),",
        model: "model_a3",
        says: "invariant: 20,",
    },
    Mutant {
        name: "a crashed lookup of a recovery is not missed",
        file: "child_gone.rs",
        after: "fn lookup_gone",
        line: ".is_some_and(|recovery| recovery.looks_up(lookup))",
        with: ".is_some_and(|recovery| recovery.looks_up(lookup) && recovery.failures > 9)",
        model: "model_a1",
        says: "invariant: 21,",
    },
    Mutant {
        name: "the deadline does not end a recovery",
        file: "recovery.rs",
        after: "fn deadline_hit",
        line: "self.recovery_over(end, out);",
        with: "let _ = (end, out);",
        model: "model_a1",
        says: "invariant: ",
    },
    Mutant {
        name: "a link nobody wants stays open",
        file: "machine.rs",
        after: "fn stale_link",
        line: "out.push(Effect::CloseLink(epoch));",
        with: "let _ = epoch;",
        model: "model_a1",
        says: "invariant: 4,",
    },
    Mutant {
        name: "the watch wakes for nothing",
        file: "refresh.rs",
        after: "Decision::Keep => {",
        line: "self.end_cooldown(out);",
        with: "self.publish_conn(out);",
        model: "model_a1",
        says: "invariant: 24,",
    },
    Mutant {
        name: "the observer hears of a refresh's attempt",
        file: "attempt.rs",
        after: "fn start_attempt",
        line: "observed: self.last.generation == Gen::default() && kind != AttemptKind::Replacement,",
        with: "observed: self.last.generation == Gen::default(),",
        model: "model_a1",
        says: "invariant: 26,",
    },
    Mutant {
        name: "who waits for a link gets no answer",
        file: "recovery.rs",
        after: "fn replay_done",
        line: "reply(waiter, Answer::Link(generation, epoch), out);",
        with: "let _ = waiter;",
        model: "model_a3",
        says: "not so: comes to rest",
    },
    Mutant {
        name: "a refresh does not hear that its attempt failed",
        file: "attempt.rs",
        after: "fn end_attempt",
        line: "self.replacement_failed(attempt.id, failure, out);",
        with: "",
        model: "model_a1",
        says: "not so: ",
    },
    Mutant {
        name: "output that came live is published again",
        file: "replay.rs",
        after: "fn lay_over",
        line: ".filter(|chunk| chunk.seq > self.last)",
        with: ".filter(|chunk| chunk.seq > 0)",
        model: "model_c",
        says: "29: an event out of place",
    },
    Mutant {
        name: "lost output becomes an exit",
        file: "replay.rs",
        after: "pub fn replay",
        line: "(1, Some(_)) | (0, None) => {}",
        with: "(_, Some(_)) | (0, None) => {}",
        model: "model_c",
        says: "31: a gap although",
    },
    Mutant {
        name: "output of an answer is thrown away",
        file: "replay.rs",
        after: "fn lay_over",
        line: "known.entry(chunk.seq).or_insert(output);",
        with: "let _ = output;",
        model: "model_c",
        says: "29: an event out of place",
    },
];

#[test]
fn every_mutated_line_is_a_line_of_the_crate() {
    for mutant in MUTANTS {
        let text = fs::read_to_string(source(mutant.file)).expect("the crate's source");
        mutate(mutant, &text);
    }
}

#[test]
fn the_model_refuses_every_mutant() {
    let Ok(wanted) = env::var("MAINSTAY_MUTANTS") else {
        return;
    };
    let workspace = Workspace::new();
    let chosen = MUTANTS
        .iter()
        .filter(|mutant| wanted == "1" || mutant.name.contains(&wanted));
    let survivors: Vec<_> = chosen
        .filter_map(|mutant| workspace.survives(mutant))
        .collect();
    assert!(survivors.is_empty(), "{}", survivors.join("\n"));
}

fn source(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file)
}

/// The source with the one line replaced.
fn mutate(mutant: &Mutant, text: &str) -> String {
    let start = text
        .find(mutant.after)
        .unwrap_or_else(|| panic!("{}: no {:?}", mutant.name, mutant.after));
    let mut done = false;
    let mut mutated = text[..start].to_owned();
    for line in text[start..].lines() {
        let hit = !done && line.trim() == mutant.line;
        done |= hit;
        mutated.push_str(if hit { mutant.with } else { line });
        mutated.push('\n');
    }
    assert!(
        done,
        "{}: no line {:?} after {:?}",
        mutant.name, mutant.line, mutant.after
    );
    mutated
}

/// A copy of this crate and what it needs, with the profiles of the real workspace.
struct Workspace {
    root: PathBuf,
}

impl Workspace {
    fn new() -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutants");
        let real = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let manifest =
            fs::read_to_string(real.join("Cargo.toml")).expect("the workspace's manifest");
        let (head, rest) = manifest
            .split_once("[workspace.package]")
            .expect("its sections");
        assert!(head.contains("members"));
        let members =
            "[workspace]\nresolver = \"3\"\nmembers = [\"crates/session\", \"crates/wire\"]\n\n";
        let _ = fs::remove_dir_all(&root);
        copy(&real.join("crates/session"), &root.join("crates/session"));
        copy(&real.join("crates/wire"), &root.join("crates/wire"));
        fs::write(
            root.join("Cargo.toml"),
            format!("{members}[workspace.package]{rest}"),
        )
        .expect("a manifest");
        fs::copy(real.join("Cargo.lock"), root.join("Cargo.lock")).expect("a lock file");
        Self { root }
    }

    /// Says so if the model accepts the mutant, or refuses it for another reason.
    fn survives(&self, mutant: &Mutant) -> Option<String> {
        let file = self.root.join("crates/session/src").join(mutant.file);
        let text = fs::read_to_string(source(mutant.file)).expect("the crate's source");
        fs::write(&file, mutate(mutant, &text)).expect("a mutant");
        let run = Command::new(env!("CARGO"))
            .args([
                "test",
                "--offline",
                "-p",
                "mainstay-session",
                "--test",
                "model",
                "--",
                mutant.model,
            ])
            .current_dir(&self.root)
            .env(
                "CARGO_TARGET_DIR",
                self.root.with_file_name("mutants-target"),
            )
            .output()
            .expect("cargo runs");
        fs::write(&file, text).expect("the original again");
        let output = String::from_utf8_lossy(&run.stdout).into_owned()
            + &String::from_utf8_lossy(&run.stderr);
        let found = !run.status.success() && output.contains(mutant.says);
        println!(
            "{} {}",
            if found { "refused " } else { "SURVIVES" },
            mutant.name
        );
        let tail = output.len().saturating_sub(3_000);
        let tail = (tail..output.len())
            .find(|at| output.is_char_boundary(*at))
            .unwrap_or(0);
        (!found).then(|| {
            format!(
                "{}: expected {:?}\n{}",
                mutant.name,
                mutant.says,
                &output[tail..]
            )
        })
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a copy");
        }
    }
}
