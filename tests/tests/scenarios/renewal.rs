//! Registrations that come and go under a session: what is visible of them, and whether it survives (`session.md` 5).

use futures_util::StreamExt;
use mainstay::{Command, ConnState, ExitStatus, ProcessEvent};
use mainstay_testkit::registry_front::Call;
use mainstay_tests::rig::Rig;
use tokio::io::AsyncWriteExt;

use crate::callers::{cat, disconnected, frozen, refresh, registration, write_fails};

#[test]
fn s04_a_registration_becomes_visible_only_with_its_session() {
    frozen(|| async {
        let mut rig = Rig::start().await;
        let o = rig.executor().await;
        let environment = rig.environment().await;
        assert_eq!(registration(&environment).await, None);
        let session = environment.session().await.unwrap();
        let old = registration(&environment).await.unwrap();
        assert_eq!(old, o.registration.id());
        let n = rig.namesake(&o).await;
        let mut gate = rig.front.hold_next(Call::Validate);
        let refreshing = refresh(&environment);
        gate.arrived().await;
        assert_eq!(registration(&environment).await.unwrap(), old);
        gate.release();
        refreshing.await.unwrap().unwrap();
        assert_eq!(
            registration(&environment).await.unwrap(),
            n.registration.id()
        );
        assert_ne!(environment.session().await.unwrap().id(), session.id());
        assert!(session.failure().is_some());
    });
}

#[test]
fn s05_a_renewed_registration_recovers_session_and_process() {
    frozen(|| async {
        let mut rig = Rig::start().await;
        let o = rig.executor().await;
        let environment = rig.environment().await;
        let session = environment.session().await.unwrap();
        let command = Command::new("sh")
            .arg("-c")
            .arg("read line; echo from-stdin:$line")
            .pipe_stdin();
        let mut process = environment.exec(command).await.unwrap();
        let old = registration(&environment).await.unwrap();
        let renewed = rig.renew(&o).await;
        assert_ne!(renewed.id(), old);
        let mut gate = rig.front.hold_next(Call::Validate);
        session.disconnect_for_test();
        gate.arrived().await;
        assert_eq!(registration(&environment).await.unwrap(), old);
        gate.release();
        session.link_for_test().await.unwrap();
        assert_eq!(registration(&environment).await.unwrap(), renewed.id());
        let again = environment.session().await.unwrap();
        assert!(again.is_same(&session));
        assert_eq!(again.id(), session.id());
        let mut stdin = process.stdin.take().unwrap();
        stdin.write_all(b"after-renewal\n").await.unwrap();
        stdin.flush().await.unwrap();
        let mut output = Vec::new();
        let mut events = process.events();
        let end = loop {
            match events.next().await.unwrap() {
                ProcessEvent::Output { bytes, .. } => output.extend_from_slice(&bytes),
                other => break other,
            }
        };
        assert_eq!(output, b"from-stdin:after-renewal\n");
        assert!(
            matches!(end, ProcessEvent::Exited(ExitStatus { code: 0, .. })),
            "{end:?}"
        );
        assert_eq!(events.next().await, Some(ProcessEvent::Closed));
        assert_eq!(events.next().await, None);
    });
}

#[test]
fn s06_the_same_key_without_the_session_ends_it() {
    frozen(|| async {
        let mut rig = Rig::start().await;
        let o = rig.executor().await;
        let environment = rig.environment().await;
        let session = environment.session().await.unwrap();
        let mut process = cat(&environment).await;
        let old = registration(&environment).await.unwrap();
        let n = rig.namesake(&o).await;
        assert_ne!(n.registration.id(), old);
        session.disconnect_for_test();
        let error = session.link_for_test().await.unwrap_err();
        assert!(disconnected(&error), "{error}");
        assert!(error.to_string().contains("unknown session"), "{error}");
        assert_eq!(registration(&environment).await.unwrap(), old);
        write_fails(&mut process).await;
        assert!(disconnected(&session.status().await.unwrap_err()));
    });
}

#[test]
fn s20_the_watch_shows_recovery_before_the_recovery_runs() {
    frozen(|| async {
        let rig = Rig::start().await;
        let _o = rig.executor().await;
        let environment = rig.environment().await;
        let session = environment.session().await.unwrap();
        let mut recovery = rig.front.hold_next(Call::Connect);
        session.disconnect_for_test();
        assert!(environment.fail_fast().session().await.is_err());
        let mut watch = environment.watch().await.unwrap();
        assert_eq!(*watch.borrow_and_update(), ConnState::Recovering);
        recovery.arrived().await;
        environment.snapshot().await.unwrap();
        assert_eq!(*watch.borrow_and_update(), ConnState::Recovering);
        let waiting = tokio::spawn({
            let session = session.clone();
            async move { session.link_for_test().await }
        });
        environment.snapshot().await.unwrap();
        assert!(!waiting.is_finished());
        assert_eq!(*watch.borrow_and_update(), ConnState::Recovering);
        recovery.release();
        waiting.await.unwrap().unwrap();
        watch.changed().await.unwrap();
        assert_eq!(*watch.borrow_and_update(), ConnState::Connected);
        environment.snapshot().await.unwrap();
        assert!(!watch.has_changed().unwrap(), "exactly one change");
        session.status().await.unwrap();
    });
}
