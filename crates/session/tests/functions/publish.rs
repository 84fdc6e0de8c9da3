use mainstay_session::ConnState;
use mainstay_session::ids::*;
use mainstay_session::publish::{View, publish};
use mainstay_session::refresh::{Current, Decision, decide_refresh};
use mainstay_session::{Bundle, Observed};

#[test]
fn every_row_of_the_watch() {
    let rows = [
        (
            Some(View::Connected { link_open: true }),
            ConnState::Connected,
            ConnState::Connected,
        ),
        (
            Some(View::Connected { link_open: false }),
            ConnState::Recovering,
            ConnState::Disconnected,
        ),
        (
            Some(View::Recovering),
            ConnState::Recovering,
            ConnState::Disconnected,
        ),
        (
            Some(View::Failed),
            ConnState::Disconnected,
            ConnState::Disconnected,
        ),
        (
            Some(View::Retired),
            ConnState::Disconnected,
            ConnState::Disconnected,
        ),
        (None, ConnState::Disconnected, ConnState::Disconnected),
    ];
    for (view, with_strategy, without) in rows {
        assert_eq!(publish(view, true), with_strategy, "{view:?}");
        assert_eq!(publish(view, false), without, "{view:?}");
    }
}

#[test]
fn every_row_of_a_refreshs_decision() {
    let seen = |generation, registration| Observed {
        generation: Gen(generation),
        registration: Some(Registration(registration)),
    };
    let current = |generation, registration, key, failed| {
        Some(Current {
            seen: seen(generation, registration),
            key: Some(ExecutorKey(key)),
            failed,
        })
    };
    let bundle = Bundle {
        id: BundleId(1),
        registration: Registration(5),
        key: ExecutorKey(5),
    };
    let rows = [
        // Appeared, vanished, another one (a); renewed by a recovery (b).
        (None, current(1, 5, 5, false), Decision::LookUpAgain),
        (Some(seen(1, 5)), None, Decision::LookUpAgain),
        (
            Some(seen(1, 5)),
            current(2, 5, 5, false),
            Decision::LookUpAgain,
        ),
        (
            Some(seen(1, 4)),
            current(1, 5, 5, false),
            Decision::LookUpAgain,
        ),
        // The right one already (c).
        (Some(seen(1, 5)), current(1, 5, 5, false), Decision::Keep),
        // Failed; another registration; the same registration with another key; none at all (d).
        (Some(seen(1, 5)), current(1, 5, 5, true), Decision::Replace),
        (Some(seen(1, 4)), current(1, 4, 5, false), Decision::Replace),
        (Some(seen(1, 5)), current(1, 5, 4, false), Decision::Replace),
        (None, None, Decision::Replace),
    ];
    for (observed, current, expected) in rows {
        assert_eq!(
            decide_refresh(observed, current, &bundle),
            expected,
            "{observed:?} {current:?}"
        );
    }
}
