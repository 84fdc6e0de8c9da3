//! How sessions end: retirement (7), shutdown.

use mainstay_session::ids::*;
use mainstay_session::*;

use crate::rig::*;

#[test]
fn s17_s18_retirement_closes_the_link_before_any_slow_clean_up() {
    let (mut rig, generation, epoch) = Rig::connected(Transport::Noise);
    let (waiter, _) = rig.ask(|waiter| Event::AwaitLink {
        generation,
        dead: Some(epoch),
        waiter,
    });
    let expected = [
        Effect::SetGate(generation),
        Effect::PublishConn(ConnState::Disconnected),
        Effect::PublishSlot(generation, LinkSlot::Retired),
        Effect::Reply(waiter, Answer::Failed(Cause::Replaced)),
        Effect::CloseLink(epoch),
        Effect::FailProcesses(generation, Cause::Replaced),
        Effect::FailStreams(generation, Cause::Replaced),
    ];
    assert_eq!(rig.step(Event::RetireForTest(generation)), expected);
    assert_eq!(rig.step(Event::RetireForTest(generation)), []);
}

#[test]
fn retirement_stops_every_stage_of_a_recovery() {
    type Reach = fn(&mut Rig, Vec<Effect>);
    let stages: [Reach; 3] = [
        |_, _| {},
        |rig, effects| {
            rig.looked_up(&effects, bundle(1));
        },
        |rig, effects| {
            let effects = rig.looked_up(&effects, bundle(1));
            rig.link_ready(&effects, SESSION);
        },
    ];
    let epoch = Epoch(2);
    let recovery = RecoveryId(1);
    let stopped = [
        vec![Effect::Stop(Child::Lookup(LookupTag {
            op: Op::Recovery(recovery),
            turn: 0,
        }))],
        vec![Effect::Stop(Child::Connector(
            Op::Recovery(recovery),
            epoch,
        ))],
        vec![
            Effect::Stop(Child::Replay(recovery, epoch)),
            Effect::CloseLink(epoch),
        ],
    ];
    for (reach, expected) in stages.into_iter().zip(stopped) {
        let (mut rig, generation, epoch) = Rig::connected(Transport::Noise);
        let (_, effects) = rig.lose(epoch);
        reach(&mut rig, effects);
        let effects = rig.step(Event::RetireForTest(generation));
        assert_eq!(effects[3], Effect::CancelTimer(Timer::Deadline(recovery)));
        assert_eq!(effects[4..4 + expected.len()], expected);
    }
}

#[test]
fn shutdown_ends_everything_and_everybody() {
    let (mut rig, generation, epoch) = Rig::connected(Transport::Noise);
    let (refreshing, effects) = rig.refresh();
    let (queued, _) = rig.refresh();
    let (holder, _) = rig.ask(|waiter| Event::AwaitLink {
        generation,
        dead: Some(epoch),
        waiter,
    });
    let (owner, ended) = rig.ask(|waiter| Event::Shutdown { waiter });
    let over = Cause::ShutDown;
    let expected = [
        Effect::SetGate(generation),
        Effect::PublishConn(ConnState::Disconnected),
        Effect::PublishSlot(generation, LinkSlot::Failed(over)),
        Effect::Reply(holder, Answer::Failed(over)),
        Effect::CloseLink(epoch),
        Effect::FailProcesses(generation, over),
        Effect::FailStreams(generation, over),
        Effect::Stop(Child::Lookup(lookup(&effects))),
        Effect::Reply(refreshing, Answer::Failed(over)),
        Effect::Reply(queued, Answer::Failed(over)),
        Effect::Reply(owner, Answer::ShutDown),
    ];
    assert_eq!(ended, expected);
}

#[test]
fn after_shutdown_requests_are_refused_and_reports_ignored() {
    let mut rig = Rig::new(Transport::WebSocket);
    let (get, effects) = rig.acquire();
    let (op, epoch, _) = connector(&effects);
    let (_, effects) = rig.ask(|waiter| Event::Shutdown { waiter });
    assert_eq!(answer(&effects, get), Some(Answer::Failed(Cause::ShutDown)));
    assert!(effects.contains(&Effect::Stop(Child::Connector(op, epoch))));
    assert!(effects.contains(&Effect::Observe(AttemptId(1), Outcome::Cancelled)));
    let late = rig.step(Event::LinkReady {
        op,
        epoch,
        session: SESSION,
    });
    assert!(late.contains(&Effect::CloseLink(epoch)));
    let refused = Answer::Failed(Cause::ShutDown);
    let mode = Mode::Wait;
    assert_eq!(
        rig.at_once(|waiter| Event::Acquire { mode, waiter }),
        refused
    );
    assert_eq!(rig.fail_fast(), refused);
    assert_eq!(rig.at_once(|waiter| Event::AwaitReady { waiter }), refused);
    assert_eq!(rig.at_once(|waiter| Event::Refresh { waiter }), refused);
    assert_eq!(
        rig.at_once(|waiter| Event::AwaitLink {
            generation: Gen(1),
            dead: None,
            waiter
        }),
        refused
    );
    assert_eq!(
        rig.at_once(|waiter| Event::ClaimReplacement { waiter }),
        refused
    );
    assert_eq!(
        rig.at_once(|waiter| Event::Shutdown { waiter }),
        Answer::ShutDown
    );
    assert_eq!(rig.snapshot().phase, Phase::ShutDown);
    assert!(ignored(&rig.step(Event::Nudge)));
}
