//! `docs/state-machine.md` against the code: its transition table is what `step` does, its diagram shows no other arrow.
//! `MAINSTAY_WRITE_DOCS=1` writes the table anew.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use mainstay_session::ids::*;
use mainstay_session::*;

use crate::rig::*;

/// A state, and how to get there from nothing. What was started last is what the events are about.
struct Place {
    rig: Rig,
    effects: Vec<Effect>,
}

fn idle() -> Place {
    Place {
        rig: Rig::new(Transport::Noise),
        effects: vec![],
    }
}

fn pending() -> Place {
    let mut rig = Rig::deferred();
    let (_, effects) = rig.acquire();
    Place { rig, effects }
}

fn cooling() -> Place {
    let mut rig = Rig::new(Transport::Noise);
    for _ in 0..2 {
        let (_, effects) = rig.acquire();
        rig.lookup_failed(&effects, Class::Registry);
    }
    let (_, effects) = rig.acquire();
    Place { rig, effects }
}

fn looking() -> Place {
    let mut rig = Rig::new(Transport::Noise);
    let (_, effects) = rig.acquire();
    Place { rig, effects }
}

fn dialling() -> Place {
    let Place { mut rig, effects } = looking();
    let effects = rig.looked_up(&effects, bundle(1));
    Place { rig, effects }
}

fn connected() -> Place {
    let (rig, _, _) = Rig::connected(Transport::Noise);
    Place {
        rig,
        effects: vec![],
    }
}

fn draining() -> Place {
    let Place { mut rig, .. } = connected();
    let effects = rig.step(down(Epoch(1)));
    Place { rig, effects }
}

fn resuming() -> Place {
    let Place { mut rig, .. } = draining();
    let effects = rig.step(Event::StartsDrained(RecoveryId(1)));
    Place { rig, effects }
}

fn waiting() -> Place {
    let Place { mut rig, effects } = resuming();
    let effects = rig.lookup_failed(&effects, Class::Offline);
    Place { rig, effects }
}

fn attaching() -> Place {
    let Place { mut rig, effects } = resuming();
    let effects = rig.looked_up(&effects, bundle(1));
    Place { rig, effects }
}

fn replaying() -> Place {
    let Place { mut rig, effects } = attaching();
    let (_, effects) = rig.link_ready(&effects, SESSION);
    Place { rig, effects }
}

fn failed() -> Place {
    let Place { mut rig, effects } = resuming();
    let effects = rig.lookup_failed(&effects, Class::Terminal);
    Place { rig, effects }
}

/// A failed session is being replaced.
fn failed_again() -> Place {
    let Place { mut rig, .. } = failed();
    let (_, effects) = rig.acquire();
    Place { rig, effects }
}

/// A refresh's lookup is under way in the given state.
fn refreshing(place: fn() -> Place) -> impl Fn() -> Place {
    move || {
        let Place { mut rig, .. } = place();
        let (_, effects) = rig.refresh();
        Place { rig, effects }
    }
}

/// What a row does in its state.
type Act = fn(&mut Rig, &[Effect]) -> Vec<Effect>;

fn acquire(rig: &mut Rig, _: &[Effect]) -> Vec<Effect> {
    rig.acquire().1
}

fn shut_down(rig: &mut Rig, _: &[Effect]) -> Vec<Effect> {
    rig.ask(|waiter| Event::Shutdown { waiter }).1
}

fn found(rig: &mut Rig, effects: &[Effect]) -> Vec<Effect> {
    rig.looked_up(effects, bundle(1))
}

fn found_other(rig: &mut Rig, effects: &[Effect]) -> Vec<Effect> {
    rig.looked_up(effects, bundle(2))
}

fn will_pass(rig: &mut Rig, effects: &[Effect]) -> Vec<Effect> {
    rig.lookup_failed(effects, Class::Offline)
}

fn will_not_pass(rig: &mut Rig, effects: &[Effect]) -> Vec<Effect> {
    rig.lookup_failed(effects, Class::Terminal)
}

fn refused(rig: &mut Rig, effects: &[Effect]) -> Vec<Effect> {
    rig.connect_failed(effects, Class::Dial)
}

fn stale_bundle(rig: &mut Rig, effects: &[Effect]) -> Vec<Effect> {
    rig.connect_failed(effects, Class::Unauthorized)
}

fn unknown_session(rig: &mut Rig, effects: &[Effect]) -> Vec<Effect> {
    rig.connect_failed(effects, Class::Terminal)
}

fn ready(rig: &mut Rig, effects: &[Effect]) -> Vec<Effect> {
    rig.link_ready(effects, SESSION).1
}

fn other_session(rig: &mut Rig, effects: &[Effect]) -> Vec<Effect> {
    rig.link_ready(effects, SESSION.next()).1
}

fn replayed(rig: &mut Rig, effects: &[Effect]) -> Vec<Effect> {
    rig.replayed(effects)
}

fn deadline(rig: &mut Rig, _: &[Effect]) -> Vec<Effect> {
    rig.step(Event::Due(Timer::Deadline(RecoveryId(1))))
}

fn nudge(rig: &mut Rig, _: &[Effect]) -> Vec<Effect> {
    rig.step(Event::Nudge)
}

fn link_lost(rig: &mut Rig, _: &[Effect]) -> Vec<Effect> {
    let epoch = match rig.machine.snapshot().phase {
        Phase::Connected => Epoch(1),
        _ => Epoch(2),
    };
    rig.step(down(epoch))
}

fn table() -> String {
    let mut rows: Vec<(String, &str, String, String)> = Vec::new();
    let mut row = |place: &dyn Fn() -> Place, event: &'static str, act: Act| {
        let Place { mut rig, effects } = place();
        let from = name(&rig);
        let effects = act(&mut rig, &effects);
        rows.push((from, event, name(&rig), short(&effects)));
    };
    row(&idle, "Acquire(Wait)", acquire);
    row(&idle, "StartConnecting", |rig, _| {
        rig.step(Event::StartConnecting)
    });
    row(&refreshing(idle), "LookupDone(refresh): bundle", found);
    row(&idle, "Shutdown", shut_down);
    row(&pending, "ProvisioningChanged(Ready)", |rig, _| {
        rig.step(Event::ProvisioningChanged(Provisioning::Ready))
    });
    row(&pending, "ProvisioningChanged(Failed)", |rig, _| {
        let failed = Provisioning::Failed(failure(Class::Provisioning));
        rig.step(Event::ProvisioningChanged(failed))
    });
    row(&cooling, "Due(Cooldown)", |rig, _| {
        rig.step(Event::Due(Timer::Cooldown(AttemptId(2))))
    });
    row(&cooling, "Nudge", nudge);
    row(&looking, "Acquire(Wait)", acquire);
    row(&looking, "LookupDone: bundle", found);
    row(&looking, "LookupDone: failure", will_not_pass);
    row(
        &refreshing(looking),
        "LookupDone(refresh): bundle",
        found_other,
    );
    row(&looking, "Shutdown", shut_down);
    row(&dialling, "LinkReady", ready);
    row(&dialling, "ConnectFailed: 401, the first", stale_bundle);
    row(&dialling, "ConnectFailed: other", refused);
    row(
        &refreshing(dialling),
        "LookupDone(refresh): bundle",
        found_other,
    );
    row(&connected, "Acquire(Wait)", acquire);
    row(&connected, "LinkDown", link_lost);
    row(&connected, "LinkFault", |rig, _| {
        rig.step(Event::LinkFault {
            epoch: Epoch(1),
            fault: Fault::BadId,
            cause: CAUSE,
        })
    });
    row(&connected, "ChildGone(Reader or Writer)", |rig, _| {
        rig.step(Event::ChildGone {
            child: Child::Reader(Epoch(1)),
            how: How::Killed,
        })
    });
    row(&connected, "ChildGone(ProcessTable)", |rig, _| {
        rig.step(Event::ChildGone {
            child: Child::ProcessTable(Gen(1)),
            how: How::Killed,
        })
    });
    row(
        &refreshing(connected),
        "LookupDone(refresh): same registration",
        found,
    );
    row(
        &refreshing(connected),
        "LookupDone(refresh): another",
        found_other,
    );
    row(
        &refreshing(connected),
        "LookupDone(refresh): failure",
        will_pass,
    );
    row(&connected, "Shutdown", shut_down);
    row(&draining, "StartsDrained", |rig, _| {
        rig.step(Event::StartsDrained(RecoveryId(1)))
    });
    row(&draining, "Due(Deadline)", deadline);
    row(&resuming, "LookupDone: pinned key", found);
    row(&resuming, "LookupDone: another key", found_other);
    row(&resuming, "LookupDone: failure that may pass", will_pass);
    row(
        &resuming,
        "LookupDone: failure that will not",
        will_not_pass,
    );
    row(&resuming, "Due(Deadline)", deadline);
    row(
        &refreshing(resuming),
        "LookupDone(refresh): same registration",
        found,
    );
    row(
        &refreshing(resuming),
        "LookupDone(refresh): another",
        found_other,
    );
    row(&resuming, "Shutdown", shut_down);
    row(&waiting, "Due(Retry)", |rig, _| {
        rig.step(Event::Due(Timer::Retry(RecoveryId(1))))
    });
    row(&waiting, "Nudge", nudge);
    row(&waiting, "Due(Deadline)", deadline);
    row(&attaching, "LinkReady", ready);
    row(&attaching, "LinkReady: another session", other_session);
    row(&attaching, "ConnectFailed: may pass", refused);
    row(&attaching, "ConnectFailed: will not", unknown_session);
    row(&attaching, "Due(Deadline)", deadline);
    row(&replaying, "ReplayDone", replayed);
    row(&replaying, "LinkDown", link_lost);
    row(&replaying, "Due(Deadline)", deadline);
    row(&failed, "Acquire(Wait)", acquire);
    row(&failed_again, "LookupDone: failure", will_not_pass);
    row(&refreshing(failed), "LookupDone(refresh): any", found);
    row(&failed, "Shutdown", shut_down);

    let mut table = String::from("| From | Event | To | Effects, in order |\n|---|---|---|---|\n");
    for (from, event, to, effects) in rows {
        let _ = writeln!(table, "| {from} | {event} | {to} | {effects} |");
    }
    table
}

/// A phase, and what it is doing.
fn name(rig: &Rig) -> String {
    match rig.machine.snapshot().phase {
        Phase::Connecting(phase) => format!("Connecting: {phase:?}"),
        Phase::Recovering(phase) => format!("Recovering: {phase:?}"),
        phase => format!("{phase:?}"),
    }
}

/// Effects without their tags.
fn short(effects: &[Effect]) -> String {
    let words: Vec<String> = effects.iter().map(word).collect();
    if words.is_empty() {
        "–".to_owned()
    } else {
        words.join(", ")
    }
}

fn word(effect: &Effect) -> String {
    let slot = |slot: &LinkSlot| match slot {
        LinkSlot::Up(_) => "Up",
        LinkSlot::Recovering => "Recovering",
        LinkSlot::Failed(_) => "Failed",
        LinkSlot::Retired => "Retired",
    };
    let answer = |answer: &Answer| match answer {
        Answer::Failed(_) => "failure",
        Answer::Session(_) => "session",
        _ => "done",
    };
    match effect {
        Effect::PublishSlot(_, to) => format!("PublishSlot({})", slot(to)),
        Effect::PublishConn(conn) => format!("PublishConn({conn:?})"),
        Effect::Reply(_, with) => format!("Reply({})", answer(with)),
        Effect::Observe(_, outcome) => format!("Observe({outcome:?})"),
        Effect::Stop(child) => format!("Stop({})", head(child)),
        Effect::StartTimer(timer, _) => format!("StartTimer({})", head(timer)),
        Effect::CancelTimer(timer) => format!("CancelTimer({})", head(timer)),
        Effect::Trace(note) => format!("Trace({})", head(note)),
        other => head(other),
    }
}

/// The name of a variant.
fn head(value: &impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    text.split(|letter: char| !letter.is_alphanumeric())
        .next()
        .unwrap_or_default()
        .to_owned()
}

const BEGIN: &str = "<!-- transitions: written by crates/session/tests/scenarios/document.rs -->\n";
const END: &str = "<!-- end of transitions -->\n";

#[test]
fn the_transition_table_is_what_step_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/state-machine.md");
    let text = std::fs::read_to_string(&path).expect("the document");
    let (head, rest) = text.split_once(BEGIN).expect("the table's begin");
    let (written, tail) = rest.split_once(END).expect("the table's end");
    let table = table();
    if std::env::var_os("MAINSTAY_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{head}{BEGIN}{table}{END}{tail}")).expect("written");
    } else {
        assert_eq!(written, table, "MAINSTAY_WRITE_DOCS=1 writes it anew");
    }
    assert_eq!(
        arrows(&text),
        steps(&table),
        "the diagram's arrows and the table's"
    );
}

/// `A --> B` of the diagram.
fn arrows(text: &str) -> BTreeSet<(String, String)> {
    let arrow = |line: &str| {
        let (from, to) = line.trim().split_once(" --> ")?;
        let to = to.split_once(':').map_or(to, |(to, _)| to);
        (from != "[*]").then(|| (from.to_owned(), to.trim().to_owned()))
    };
    text.lines().filter_map(arrow).collect()
}

/// Changes of phase in the table. A retired session is not a phase: what follows it is.
fn steps(table: &str) -> BTreeSet<(String, String)> {
    let phase = |cell: &str| cell.split(':').next().unwrap_or_default().trim().to_owned();
    let step = |line: &str| {
        let mut cells = line.split('|').skip(1);
        let (from, to) = (phase(cells.next()?), phase(cells.nth(1)?));
        (from != to).then_some((from, to))
    };
    table.lines().skip(2).filter_map(step).collect()
}
