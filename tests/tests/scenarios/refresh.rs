//! What a refresh decides, over real sockets: registry, relay, Noise, executors (`session.md` 6).

use std::time::Duration;

use mainstay::{ConnState, ErrorKind, Readiness};
use mainstay_session::Event;
use mainstay_testkit::http_message::Answer;
use mainstay_testkit::registry_front::{Call, error};
use mainstay_tests::rig::Rig;
use serde_json::json;
use tokio::time::Instant;

use crate::callers::{cat, disconnected, frozen, late_reports, refresh, registration, write_fails};

#[test]
fn s01_refresh_beats_recovery() {
    frozen(|| async {
        let rig = Rig::start().await;
        let _o = rig.executor().await;
        let environment = rig.environment().await;
        let session = environment.session().await.unwrap();
        let mut process = cat(&environment).await;
        let mut old_lookup = rig.front.hold_next(Call::Connect);
        let mut watch = environment.watch().await.unwrap();
        session.disconnect_for_test();
        old_lookup.arrived().await;
        let _n = rig.executor().await;
        assert_eq!(*watch.borrow_and_update(), ConnState::Recovering);

        let started = Instant::now();
        let mut gate = rig.front.hold_next(Call::Validate);
        let refreshing = refresh(&environment);
        gate.arrived().await;
        assert_eq!(started.elapsed(), Duration::ZERO);
        assert!(!refreshing.is_finished());
        assert!(session.is_retired());
        assert!(disconnected(&session.failure().unwrap()));
        assert_eq!(*watch.borrow_and_update(), ConnState::Disconnected);
        late_reports(&environment);
        environment.snapshot().await.unwrap();
        assert!(!watch.has_changed().unwrap());

        gate.release();
        refreshing.await.unwrap().unwrap();
        let new = environment.session().await.unwrap();
        assert_ne!(new.id(), session.id());
        assert_eq!(*watch.borrow_and_update(), ConnState::Connected);
        write_fails(&mut process).await;

        old_lookup.release();
        late_reports(&environment);
        new.status().await.unwrap();
        assert!(environment.session().await.unwrap().is_same(&new));
        let snapshot = environment.snapshot().await.unwrap();
        assert_eq!(
            (snapshot.state, snapshot.readiness),
            (ConnState::Connected, Readiness::Ready)
        );
        assert!(!watch.has_changed().unwrap());
    });
}

#[test]
fn s03_two_refreshes_of_a_current_registration_keep_the_session() {
    frozen(|| async {
        let rig = Rig::start().await;
        let _o = rig.executor().await;
        let environment = rig.environment().await;
        let session = environment.session().await.unwrap();
        let calls = rig.front.calls(Call::Connect);
        let (first, second) = tokio::join!(environment.refresh(), environment.refresh());
        first.unwrap();
        second.unwrap();
        assert!(
            rig.front.calls(Call::Connect) > calls,
            "the registry was asked"
        );
        assert!(environment.session().await.unwrap().is_same(&session));
        session.status().await.unwrap();
    });
}

#[test]
fn s07_a_refresh_whose_lookup_was_overtaken_by_a_renewal_keeps_the_session() {
    frozen(|| async {
        let mut rig = Rig::start().await;
        let o = rig.executor().await;
        let environment = rig.environment().await;
        let session = environment.session().await.unwrap();
        let before = rig.front.calls(Call::Connect);
        let mut stale = rig.front.hold_next(Call::Connect);
        let refreshing = refresh(&environment);
        stale.arrived().await;
        let renewed = rig.renew(&o).await;
        assert_ne!(renewed.id(), o.registration.id());
        let mut recovery = rig.front.hold_next(Call::Connect);
        session.disconnect_for_test();
        recovery.arrived().await;
        recovery.release();
        session.link_for_test().await.unwrap();
        assert_eq!(registration(&environment).await.unwrap(), renewed.id());
        stale.release();
        refreshing.await.unwrap().unwrap();
        assert!(environment.session().await.unwrap().is_same(&session));
        assert!(!session.is_retired());
        assert_eq!(registration(&environment).await.unwrap(), renewed.id());
        session.status().await.unwrap();
        // The stale lookup, the recovery's, and the one that was made again.
        assert_eq!(rig.front.calls(Call::Connect), before + 3);
        // The session is R's now: a refresh finds it right.
        environment.refresh().await.unwrap();
        assert!(environment.session().await.unwrap().is_same(&session));
    });
}

#[test]
fn s10_a_failed_refresh_lookup_changes_nothing() {
    frozen(|| async {
        let rig = Rig::start().await;
        let _o = rig.executor().await;
        let environment = rig.environment().await;
        let session = environment.session().await.unwrap();
        // One that fails, one with an answer about another environment, one that is none.
        let other = Answer {
            status: 200,
            body: json!({
                "environment_id": "other", "url": "ws://127.0.0.1:1/", "security_profile": "noise_hybrid_ik_v1",
                "executor_registration_id": "r", "harness_key_authorization": "a",
                "executor_public_key": rig.front.bodies(Call::Connect)[0]["harness_public_key"],
            })
            .to_string()
            .into_bytes(),
            ..Answer::default()
        };
        let nonsense = Answer {
            status: 200,
            body: b"released without an answer".to_vec(),
            ..Answer::default()
        };
        let expected: [fn(&ErrorKind) -> bool; 3] = [
            |kind| matches!(kind, ErrorKind::RegistryHttp { status: 404, .. }),
            |kind| matches!(kind, ErrorKind::Protocol { .. }),
            |kind| matches!(kind, ErrorKind::Json { .. }),
        ];
        for (answer, expected) in [error(404, "no_such_environment"), other, nonsense]
            .iter()
            .zip(expected)
        {
            rig.front.answer_next(Call::Connect, 1, answer);
            let (calls, started) = (rig.front.calls(Call::Connect), Instant::now());
            let failed = environment.refresh().await.unwrap_err();
            assert!(expected(failed.kind()), "{failed}");
            assert_eq!(started.elapsed(), Duration::ZERO);
            assert_eq!(rig.front.calls(Call::Connect), calls + 1, "no retry");
            assert!(environment.session().await.unwrap().is_same(&session));
            session.status().await.unwrap();
        }
    });
}

#[test]
fn s11_a_failed_replacement_leaves_the_old_session_retired_and_a_later_get_connects() {
    frozen(|| async {
        let rig = Rig::start().await;
        let _o = rig.executor().await;
        let environment = rig.environment().await;
        let session = environment.session().await.unwrap();
        let mut process = cat(&environment).await;
        let _n = rig.executor().await;
        // An address that nobody listens on.
        let nowhere = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        rig.front.set_relay(Some(nowhere));
        let failed = environment.refresh().await.unwrap_err();
        assert!(matches!(failed.kind(), ErrorKind::Attempt(_)), "{failed}");
        assert!(session.is_retired());
        assert!(disconnected(&session.status().await.unwrap_err()));
        write_fails(&mut process).await;
        assert_eq!(
            environment.watch().await.unwrap().borrow().clone(),
            ConnState::Disconnected
        );
        rig.front.set_relay(None);
        let new = environment.session().await.unwrap();
        assert_ne!(new.id(), session.id());
        new.status().await.unwrap();
        assert_eq!(environment.state(), ConnState::Connected);
        assert!(disconnected(&process.terminate().await.unwrap_err()));
    });
}

#[test]
fn s12_a_refresh_keeps_a_session_newer_than_what_it_observed() {
    frozen(|| async {
        let rig = Rig::start().await;
        let _o = rig.executor().await;
        let environment = rig.environment().await;
        let session = environment.session().await.unwrap();
        let mut stale = rig.front.hold_next(Call::Connect);
        let refreshing = refresh(&environment);
        stale.arrived().await;
        let _n = rig.executor().await;
        environment.step_for_test(Event::RetireForTest(session.generation_for_test()));
        environment.snapshot().await.unwrap();
        assert!(session.is_retired());
        let newer = environment.session().await.unwrap();
        assert!(!newer.is_same(&session));
        stale.release();
        refreshing.await.unwrap().unwrap();
        assert!(environment.session().await.unwrap().is_same(&newer));
        assert!(!newer.is_retired());
        newer.status().await.unwrap();
    });
}

#[test]
fn s15_cached_metadata_is_not_readiness() {
    frozen(|| async {
        let rig = Rig::start().await;
        let _o = rig.executor().await;
        let environment = rig.environment().await;
        let session = environment.session().await.unwrap();
        session.info().await.unwrap();
        let mut recovery = rig.front.hold_next(Call::Connect);
        session.disconnect_for_test();
        recovery.arrived().await;
        let started = Instant::now();
        let failed = environment.refresh().await.unwrap_err();
        assert!(disconnected(&failed), "{failed}");
        assert_eq!(started.elapsed(), Duration::ZERO);
        assert!(!session.is_retired());
    });
}

#[test]
fn s16_a_refresh_may_be_the_first_to_connect() {
    frozen(|| async {
        let rig = Rig::start().await;
        let _o = rig.executor().await;
        let environment = rig.environment().await;
        assert!(!environment.snapshot().await.unwrap().startup_finished);
        environment.refresh().await.unwrap();
        let snapshot = environment.snapshot().await.unwrap();
        assert!(snapshot.startup_finished);
        assert_eq!(snapshot.readiness, Readiness::Ready);
    });
}
