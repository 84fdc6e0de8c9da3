use std::time::Duration;

use mainstay_session::lookup::*;
use mainstay_session::{Class, Config};

fn at(seconds: u64) -> Elapsed {
    Elapsed {
        lookup: Duration::from_secs(seconds),
        ready: Duration::from_secs(seconds),
    }
}

fn again(earlier: u32, seconds: u64) -> Next {
    Next::Again {
        earlier,
        within: Duration::from_secs(seconds),
    }
}

#[test]
fn a29_five_requests_within_fourteen_seconds() {
    let config = Config::default();
    let mut lookup = Lookup::new(LookupKind::Initial);
    assert_eq!(lookup.request_timeout(&config), Duration::from_secs(6));
    for earlier in 0..4 {
        assert_eq!(
            lookup.failed(Class::Offline, at(1), &config),
            again(earlier, 13)
        );
    }
    assert_eq!(lookup.failed(Class::Offline, at(1), &config), Next::GiveUp);
    let mut late = Lookup::new(LookupKind::Initial);
    assert_eq!(late.failed(Class::Registry, at(12), &config), again(0, 2));
    assert_eq!(late.failed(Class::Registry, at(14), &config), Next::GiveUp);
}

#[test]
fn a29_a_terminal_answer_stops_at_once() {
    let config = Config::default();
    let mut lookup = Lookup::new(LookupKind::Initial);
    assert_eq!(lookup.failed(Class::Offline, at(0), &config), again(0, 14));
    for class in [Class::Terminal, Class::Denied, Class::Closed, Class::Dial] {
        assert_eq!(
            lookup.clone().failed(class, at(1), &config),
            Next::GiveUp,
            "{class:?}"
        );
    }
}

#[test]
fn a30_a_provisioned_environment_may_be_offline_for_five_minutes() {
    let config = Config::default();
    let mut lookup = Lookup::new(LookupKind::Provisioned);
    for earlier in 0..100 {
        assert_eq!(
            lookup.failed(Class::Offline, at(250), &config),
            again(earlier, 50)
        );
    }
    assert_eq!(
        lookup.failed(Class::Offline, at(300), &config),
        Next::GiveUp
    );
    // Other trouble keeps the ordinary limits, in number and in time.
    assert_eq!(
        lookup.clone().failed(Class::Registry, at(1), &config),
        Next::GiveUp
    );
    let mut young = Lookup::new(LookupKind::Provisioned);
    assert_eq!(young.failed(Class::Registry, at(13), &config), again(0, 1));
    assert_eq!(young.failed(Class::Registry, at(15), &config), Next::GiveUp);
    // A stalled request is no offline answer: it has its six seconds, and the lookup its fourteen.
    let mut stalled = Lookup::new(LookupKind::Provisioned);
    assert_eq!(stalled.request_timeout(&config), Duration::from_secs(6));
    assert_eq!(stalled.failed(Class::Registry, at(6), &config), again(0, 8));
    // The eleventh request: ten answers were offline, this one is a refusal.
    let mut refused = Lookup::new(LookupKind::Provisioned);
    for earlier in 0..10 {
        let next = refused.failed(Class::Offline, at(60), &config);
        assert_eq!(next, again(earlier, 240));
    }
    assert_eq!(
        refused.failed(Class::Terminal, at(60), &config),
        Next::GiveUp
    );
}

#[test]
fn a31_the_second_lookup_of_an_attempt_has_its_own_limits_but_not_its_own_five_minutes() {
    let config = Config::default();
    let mut lookup = Lookup::new(LookupKind::Provisioned);
    let elapsed = Elapsed {
        lookup: Duration::from_secs(2),
        ready: Duration::from_secs(290),
    };
    assert_eq!(
        lookup.failed(Class::Registry, elapsed, &config),
        again(0, 12)
    );
    assert_eq!(
        lookup.failed(Class::Offline, elapsed, &config),
        again(1, 10)
    );
}

#[test]
fn a33_a_resume_leaves_retries_to_the_recovery() {
    let config = Config::default();
    let mut lookup = Lookup::new(LookupKind::Resume);
    assert_eq!(lookup.failed(Class::Offline, at(0), &config), Next::GiveUp);
}

#[test]
fn w17_a_refresh_retries_within_its_ten_seconds() {
    let config = Config::default();
    let mut lookup = Lookup::new(LookupKind::Refresh);
    for earlier in 0..9 {
        assert_eq!(
            lookup.failed(Class::Registry, at(4), &config),
            again(earlier, 6)
        );
    }
    assert_eq!(
        lookup.failed(Class::Registry, at(10), &config),
        Next::GiveUp
    );
    assert_eq!(
        Lookup::new(LookupKind::Refresh).failed(Class::Terminal, at(0), &config),
        Next::GiveUp
    );
}
