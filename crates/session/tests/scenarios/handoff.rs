//! Sockets from the host (5.7).

use mainstay_session::ids::*;
use mainstay_session::*;

use crate::rig::*;

fn claim(rig: &mut Rig) -> Answer {
    rig.at_once(|waiter| Event::ClaimReplacement { waiter })
}

fn claimed(rig: &mut Rig) -> ClaimId {
    match claim(rig) {
        Answer::Claim(claim) => claim,
        other => panic!("{other:?}"),
    }
}

const SOCKET: SocketId = SocketId(3);

fn hand_over(rig: &mut Rig, claim: ClaimId) -> (Answer, Vec<Effect>) {
    let (waiter, effects) = rig.ask(|waiter| Event::ReplaceSocket {
        claim,
        socket: SOCKET,
        waiter,
    });
    (
        answer(&effects, waiter).expect("an answer at once"),
        effects,
    )
}

#[test]
fn a37_one_handoff_at_a_time_and_an_abandoned_one_frees_the_claim() {
    let (mut rig, _, _) = Rig::connected(Transport::Accepted);
    let first = claimed(&mut rig);
    assert_eq!(claim(&mut rig), Answer::Failed(Cause::HandoffInProgress));
    rig.step(Event::AbandonClaim(first));
    let second = claimed(&mut rig);
    assert_eq!(
        hand_over(&mut rig, first).0,
        Answer::Failed(Cause::HandoffInProgress)
    );
    rig.step(Event::AbandonClaim(first));
    assert_eq!(hand_over(&mut rig, second).0, Answer::SocketTaken);
}

#[test]
fn t12_the_old_link_is_closed_and_the_session_resumes_on_the_socket() {
    let (mut rig, generation, epoch) = Rig::connected(Transport::Accepted);
    let claim = claimed(&mut rig);
    let (_, effects) = hand_over(&mut rig, claim);
    assert_eq!(effects[1], Effect::CloseLink(epoch));
    let recovery = drain(&effects);
    assert_eq!(rig.machine.keeps().socket, Some(SOCKET));
    let effects = rig.step(Event::StartsDrained(recovery));
    let route = Route::Socket(SOCKET);
    assert!(
        matches!(effects[..], [Effect::SpawnConnector { route: on, resume: Some(SESSION), .. }] if on == route)
    );
    // The claim is held until the resume that uses the socket has ended.
    assert_eq!(
        self::claim(&mut rig),
        Answer::Failed(Cause::HandoffInProgress)
    );
    rig.resume(&effects, bundle(1));
    assert_eq!(rig.snapshot().session, Some((generation, SESSION)));
    claimed(&mut rig);
}

#[test]
fn a_lost_session_waits_for_the_hosts_socket_until_its_deadline() {
    let (mut rig, _, epoch) = Rig::connected(Transport::Accepted);
    let (recovery, effects) = rig.lose(epoch);
    assert_eq!(effects, []);
    assert_eq!(
        rig.snapshot().phase,
        Phase::Recovering(RecoveryPhase::Socket)
    );
    let claim = claimed(&mut rig);
    let (_, effects) = hand_over(&mut rig, claim);
    let effects = rig.connect_failed(&effects, Class::Handshake);
    assert!(
        !effects
            .iter()
            .any(|effect| matches!(effect, Effect::StartTimer(..))),
        "the next try is the host's"
    );
    let claim = claimed(&mut rig);
    rig.step(Event::Due(Timer::Deadline(recovery)));
    assert!(matches!(
        hand_over(&mut rig, claim).0,
        Answer::Failed(Cause::HandoffInProgress)
    ));
    assert!(matches!(
        self::claim(&mut rig),
        Answer::Failed(Cause::Lost { .. })
    ));
}

#[test]
fn a_socket_ends_the_wait_for_an_announced_restart() {
    let (mut rig, _, epoch) = Rig::connected(Transport::Accepted);
    let effects = rig.step(Event::LinkDown {
        epoch,
        cause: CAUSE,
        restart: true,
    });
    let recovery = drain(&effects);
    rig.step(Event::StartsDrained(recovery));
    let claim = claimed(&mut rig);
    let (_, effects) = hand_over(&mut rig, claim);
    assert_eq!(effects[1], Effect::CancelTimer(Timer::Retry(recovery)));
    connector(&effects);
}

#[test]
fn other_transports_and_idle_ones_take_no_sockets() {
    for transport in [Transport::Noise, Transport::WebSocket, Transport::Once] {
        let (mut rig, _, _) = Rig::connected(transport);
        assert_eq!(claim(&mut rig), Answer::Failed(Cause::CannotReplaceSocket));
    }
    let mut rig = Rig::new(Transport::Accepted);
    assert_eq!(claim(&mut rig), Answer::Failed(Cause::NotReady));
}
