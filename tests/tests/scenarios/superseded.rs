//! What comes too late changes nothing: first attempts under a refresh, reports about a retired session (`session.md` 12).

use mainstay::{ConnState, Delivery};
use mainstay_session::Event;
use mainstay_testkit::registry_front::Call;
use mainstay_tests::rig::{Far, Rig};

use crate::callers::{disconnected, frozen, get, late_reports, refresh};

#[test]
fn s08_refresh_supersedes_a_stalled_first_lookup() {
    superseded(Call::Connect);
}

#[test]
fn s09_refresh_supersedes_a_stalled_first_handshake() {
    superseded(Call::Validate);
}

fn superseded(stalled: Call) {
    frozen(|| async move {
        let rig = Rig::start().await;
        let _o = rig.executor().await;
        let environment = rig.environment().await;
        let mut held = rig.front.hold_next(stalled);
        let first = get(&environment);
        held.arrived().await;
        let _n = rig.executor().await;
        refresh(&environment).await.unwrap().unwrap();
        let mut watch = environment.watch().await.unwrap();
        assert_eq!(*watch.borrow_and_update(), ConnState::Connected);
        let first = first.await.unwrap().unwrap_err();
        assert!(disconnected(&first), "{first}");
        let current = environment.session().await.unwrap();
        held.release();
        environment.snapshot().await.unwrap();
        assert!(!watch.has_changed().unwrap());
        assert!(environment.session().await.unwrap().is_same(&current));
        current.status().await.unwrap();
    });
}

#[test]
fn s21_a_late_report_cannot_undo_a_retirement() {
    for before in [true, false] {
        frozen(|| async move {
            let rig = Rig::start().await;
            let Far { executor, .. } = rig.executor().await;
            let environment = rig.environment().await;
            let session = environment.session().await.unwrap();
            let generation = session.generation_for_test();
            let mut watch = environment.watch().await.unwrap();
            if before {
                late_reports(&environment);
            }
            environment.step_for_test(Event::RetireForTest(generation));
            if !before {
                late_reports(&environment);
            }
            let snapshot = environment.snapshot().await.unwrap();
            assert!(session.is_retired());
            assert_eq!(snapshot.state, ConnState::Disconnected);
            assert_eq!(*watch.borrow_and_update(), ConnState::Disconnected);
            late_reports(&environment);
            environment.snapshot().await.unwrap();
            assert!(!watch.has_changed().unwrap());
            let refused = environment.files().metadata("/").await;
            // A new session was made for the call; the old one stays failed.
            refused.unwrap();
            assert_eq!(
                session.status().await.unwrap_err().delivery(),
                Some(Delivery::NotSent)
            );
            drop(executor);
        });
    }
}
