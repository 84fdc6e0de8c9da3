use std::time::Duration;

use mainstay_session::config::Delays;
use mainstay_session::delay::*;
use mainstay_session::ids::CauseId;
use mainstay_session::*;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn now() -> Circumstances<'static> {
    Circumstances {
        key: "session-1",
        transport: Transport::Noise,
        retry_after: None,
        restart_window: None,
        retention: Duration::from_secs(80),
        remaining: None,
        random: u64::MAX,
    }
}

fn after(class: Class, earlier: u32) -> Wait {
    Wait::Backoff {
        after: Failure {
            cause: CauseId(1),
            class,
        },
        earlier,
    }
}

#[test]
fn a14_the_references_backoff_has_its_golden_values() {
    let rows = [
        ("session-1", [715, 1245, 2256, 5474, 7482, 5102, 6016, 6038]),
        ("", [572, 1023, 2049, 4749, 7463, 6462, 7201, 6260]),
        (
            "00000000-0000-0000-0000-000000000000",
            [739, 1340, 2326, 5387, 5518, 6854, 5501, 6691],
        ),
    ];
    for (key, row) in rows {
        for (earlier, expected) in [0, 1, 2, 3, 4, 5, 6, 20].into_iter().zip(row) {
            assert_eq!(
                reference_backoff(key, earlier),
                ms(expected),
                "{key:?} {earlier}"
            );
        }
    }
}

#[test]
fn a14_the_references_backoff_stays_within_its_bounds() {
    let bases = [
        (0, 500),
        (1, 1000),
        (2, 2000),
        (3, 4000),
        (4, 5000),
        (20, 5000),
        (u32::MAX, 5000),
    ];
    for (earlier, base) in bases {
        for key in 0..200 {
            let delay = reference_backoff(&format!("key-{key}"), earlier);
            assert!(
                delay >= ms(base) && delay <= ms(base * 3 / 2),
                "{earlier} {delay:?}"
            );
        }
    }
}

#[test]
fn the_references_delays_can_be_chosen() {
    let config = config(|config| config.delays = Delays::Reference);
    assert_eq!(duration(after(Class::Dial, 1), &config, &now()), ms(1245));
    let plain = Circumstances {
        transport: Transport::WebSocket,
        ..now()
    };
    assert_eq!(duration(after(Class::Dial, 9), &config, &plain), ms(100));
}

fn config(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config::default();
    change(&mut config);
    config
}

#[test]
fn w01_the_delay_depends_on_the_cause() {
    // (class, earlier failures, least, most)
    let rows = [
        (Class::AlreadyAttached, 0, 5, 15),
        (Class::AlreadyAttached, 3, 5, 85),
        (Class::AlreadyAttached, 30, 5, 255),
        (Class::Dial, 0, 0, 50),
        (Class::Dial, 2, 0, 200),
        (Class::Dial, 40, 0, 2_000),
        (Class::Closed, 1, 0, 100),
        (Class::Handshake, 0, 1_000, 1_500),
        (Class::Handshake, 9, 1_000, 5_000),
        (Class::Registry, 0, 0, 500),
        (Class::Offline, 1, 0, 1_000),
        (Class::Registry, 63, 0, 5_000),
    ];
    for (class, earlier, least, most) in rows {
        assert_eq!(
            backoff(class, earlier, None, 0),
            ms(least),
            "{class:?} {earlier}"
        );
        let top = backoff(class, earlier, None, u64::MAX);
        assert!(
            top <= ms(most) && top > ms(most) - Duration::from_micros(1),
            "{class:?} {earlier} {top:?}"
        );
        let middle = backoff(class, earlier, None, u64::MAX / 2);
        assert!(
            middle.abs_diff(ms(least + (most - least) / 2)) < ms(1),
            "{class:?} {earlier} {middle:?}"
        );
    }
}

#[test]
fn w04_retry_after_is_a_bounded_floor() {
    let config = Config::default();
    let told = |seconds| Circumstances {
        retry_after: Some(Duration::from_secs(seconds)),
        random: 0,
        ..now()
    };
    assert_eq!(
        duration(after(Class::Registry, 0), &config, &told(7)),
        ms(7_000)
    );
    assert_eq!(
        duration(after(Class::Registry, 0), &config, &told(3_600)),
        ms(30_000)
    );
    // It replaces the cause's own floor.
    assert_eq!(
        duration(after(Class::Handshake, 0), &config, &told(0)),
        ms(0)
    );
    let late = Circumstances {
        remaining: Some(ms(900)),
        ..told(7)
    };
    assert_eq!(duration(after(Class::Registry, 0), &config, &late), ms(900));
}

#[test]
fn w03_an_announced_restart_is_spread_over_its_window() {
    let config = Config::default();
    let wait = Wait::Restart(CauseId(1));
    assert!(duration(wait, &config, &now()).abs_diff(ms(5_000)) < ms(1));
    let told = Circumstances {
        restart_window: Some(ms(12_000)),
        random: 1 << 63,
        ..now()
    };
    assert_eq!(duration(wait, &config, &told), ms(6_000));
}

#[test]
fn w06_the_deadline_follows_the_peers_retention() {
    let config = Config::default();
    let rows = [
        (Some(ms(60_000)), None, 55_000),
        (Some(ms(6_000)), Some("0.171.0"), 3_000),
        (None, Some("0.171.0"), 75_000),
        (None, Some("0.172.3-alpha.1"), 75_000),
        (None, Some("1.0.0"), 75_000),
        (None, Some("0.170.9"), 25_000),
        (None, Some("nonsense"), 25_000),
        (None, Some("0.171"), 25_000),
        (None, None, 25_000),
    ];
    for (announced, version, expected) in rows {
        let retention = retention(&config, announced, version);
        let around = Circumstances { retention, ..now() };
        let deadline = duration(Wait::RecoveryDeadline, &config, &around);
        assert_eq!(deadline, ms(expected), "{announced:?} {version:?}");
    }
    let fixed = self::config(|config| config.recovery_deadline = Some(ms(500)));
    assert_eq!(duration(Wait::RecoveryDeadline, &fixed, &now()), ms(500));
    assert_eq!(duration(Wait::PanicWindow, &config, &now()), ms(60_000));
}
