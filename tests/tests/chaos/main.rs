//! Random cuts and planned replacements under load, against real executors: no output lost or repeated, no mutation
//! applied twice, nothing of an old generation delivered, every waiter answered. Prints the median gaps.
//!
//! ```text
//! load: echoes, numbers, mutations, callers ──► environment ──► fault proxy ──► (relay ──►) executor
//!                                                  ▲                ▲
//!                                  refresh ────────┘                └──── cuts: a seed's bytes; RST, FIN or silence
//! ```
//!
//! `MAINSTAY_TEST_ALL=1` plays a thousand cuts and forty replacements; the default is a sample of them.

mod ledger;
mod load;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use mainstay::{Command, Delivery, Environment, Exit};
use mainstay_executor::{Config, Executor};
use mainstay_testkit::fault_proxy::{Counted, FaultProxy, Mode, Plan};
use mainstay_testkit::seed::Seed;
use mainstay_tests::rig::{Far, Rig};
use tokio::time::{Instant, timeout};

use load::{Load, Losses};

/// From the order to stop to the end of every worker, and for each replacement: a waiter that nobody answers fails the
/// test here.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);

/// How long the client trusts a link that says nothing: what notices that a connection is half-open. Many times what an
/// answer takes; a live link that is slower only costs a recovery more.
const TRUST: Duration = Duration::from_secs(1);

/// The whole number of `MAINSTAY_TEST_ALL=1`, else the sample.
fn amount(sample: u64, whole: u64) -> u64 {
    if std::env::var_os("MAINSTAY_TEST_ALL").is_some() {
        whole
    } else {
        sample
    }
}

/// The life of the next connection: some bytes, some milliseconds, and sometimes not even its handshake.
fn plan(seed: &mut Seed, cuts: u64) -> Plan {
    let plan = match seed.within(&(0..=7)) {
        0 => Plan::cut_after_bytes(Counted::Both, 1..=8_000),
        1..=3 => Plan::cut_after_bytes(Counted::Both, 50_000..=500_000),
        _ => Plan::cut_after(Duration::from_millis(20)..=Duration::from_millis(150)),
    };
    let mode = match seed.within(&(0..=4)) {
        0 => Mode::Silence,
        1..=2 => Mode::Abort,
        _ => Mode::Close,
    };
    plan.with_mode(mode).at_most(cuts)
}

/// A client that notices within [`TRUST`] that a link is half-open.
fn distrustful() -> mainstay::Config {
    let mut config = mainstay::Config::default();
    config.session.connect_timeout = TRUST;
    config.session.initialize_timeout = TRUST;
    config.session.info_timeout = TRUST;
    config.session.replay_timeout = TRUST;
    config.session.status_timeout = TRUST;
    config
}

/// Cuts until `cuts` connections are cut; returns the times from a cut to the next answered call.
async fn cut(
    environment: &Environment,
    proxy: &FaultProxy,
    mut seed: Seed,
    cuts: u64,
) -> Vec<Duration> {
    proxy.set_plan(plan(&mut seed, cuts));
    proxy.cut(Mode::Silence);
    // Drawn again with every cut, so that no recovery meets short connections only.
    let drawing = async {
        let mut seen = 0;
        while seen < cuts {
            seen = proxy.until(|counters| counters.cut > seen).await.cut;
            proxy.set_plan(plan(&mut seed, cuts));
        }
    };
    let measuring = async {
        let mut gaps = Vec::new();
        let mut seen = 0;
        while seen < cuts {
            seen = proxy.until(|counters| counters.cut > seen).await.cut;
            let cut = Instant::now();
            while load::call(environment).await.is_err() {}
            gaps.push(cut.elapsed());
        }
        gaps
    };
    tokio::join!(drawing, measuring).1
}

fn median(gaps: &mut [Duration]) -> Duration {
    gaps.sort();
    gaps.get(gaps.len() / 2).copied().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_cuts_under_load_lose_and_repeat_nothing() {
    let cuts = amount(40, 700);
    let began = Instant::now();
    let executor = Executor::start(Config::default()).await.unwrap();
    let url = executor
        .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        .await
        .unwrap();
    let target = url.trim_start_matches("ws://").parse().unwrap();
    let proxy = FaultProxy::transparent(target).await.unwrap();
    let environment = Environment::builder()
        .config(distrustful())
        .url(proxy.url("ws"))
        .spawn()
        .await
        .unwrap();
    let session = environment.session().await.unwrap();

    let load = Load::start(&environment, Losses::Never);
    load.under_way().await;
    let mut gaps = cut(&environment, &proxy, Seed::from_env(11), cuts).await;
    let report = timeout(ANSWERED_WITHIN, load.finish())
        .await
        .expect("a waiter was not answered");

    assert!(environment.session().await.unwrap().is_same(&session));
    assert!(session.failure().is_none());
    let counters = proxy.counters();
    println!(
        "{} cuts, {} of them silent, in {:?}: {report}; median gap of a resume {:?}",
        counters.cut,
        counters.silenced,
        began.elapsed(),
        median(&mut gaps)
    );
    environment.shutdown().await;
    executor.shutdown(Duration::ZERO).await;
}

/// A new executor that is not reached through the proxy itself, while its clients are.
async fn executor(rig: &Rig, proxy: &FaultProxy) -> Far {
    rig.front.set_relay(None);
    let far = rig.executor().await;
    rig.front.set_relay(Some(proxy.addr()));
    far
}

/// Replaces the executor: the old generation fails for good, its waiters hear it, and the new one answers. The old
/// executor lives, and so do its programs, until then.
async fn replace(environment: &Environment, rig: &Rig, proxy: &FaultProxy, current: &mut Far) {
    let mut process = loop {
        // Its standard input stays open, so that it ends with its session only.
        if let Ok(process) = environment.exec(Command::new("cat").pipe_stdin()).await {
            break process;
        }
    };
    let session = process.session().clone();
    let waiting = tokio::spawn(async move { process.wait().await });
    let old = std::mem::replace(current, executor(rig, proxy).await);
    while environment.refresh().await.is_err() {}
    let new = loop {
        if let Ok(session) = environment.session().await {
            break session;
        }
    };
    assert!(!new.is_same(&session));
    // Retired by the refresh, or failed by a recovery that met the new executor first.
    assert!(session.failure().is_some());
    let refused = session.ask_info().await.unwrap_err();
    assert_eq!(refused.delivery(), Some(Delivery::NotSent), "{refused}");
    assert!(matches!(waiting.await.unwrap(), Exit::Lost(_)));
    let snapshot = environment.snapshot().await.unwrap();
    assert_eq!(
        snapshot.registration.as_deref(),
        Some(current.registration.id())
    );
    old.executor.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planned_replacements_and_cuts_under_load_keep_the_generations_apart() {
    let replacements = amount(4, 40);
    let cuts = amount(20, 300);
    let began = Instant::now();
    let rig = Rig::start().await;
    let proxy = FaultProxy::transparent(rig.registry.local_addr())
        .await
        .unwrap();
    let mut current = executor(&rig, &proxy).await;
    let environment = rig.builder().config(distrustful()).spawn().await.unwrap();
    environment.session().await.unwrap();

    let load = Load::start(&environment, Losses::WithTheSession);
    load.under_way().await;
    let cutting = cut(&environment, &proxy, Seed::from_env(12), cuts);
    let replacing = async {
        for number in 1..=replacements {
            let due = number * cuts / (replacements + 1);
            proxy.until(|counters| counters.cut >= due).await;
            let replacing = replace(&environment, &rig, &proxy, &mut current);
            timeout(ANSWERED_WITHIN, replacing)
                .await
                .expect("a replacement did not end");
        }
    };
    let (mut resumes, ()) = tokio::join!(cutting, replacing);
    let mut report = timeout(ANSWERED_WITHIN, load.finish())
        .await
        .expect("a waiter was not answered");

    assert!(report.changes.len() as u64 >= replacements);
    let counters = proxy.counters();
    println!(
        "{replacements} replacements and {} cuts, {} of them silent, in {:?}: {report}; median gap of a replacement {:?}, of a resume {:?}",
        counters.cut,
        counters.silenced,
        began.elapsed(),
        median(&mut report.changes),
        median(&mut resumes)
    );
    environment.shutdown().await;
    current.executor.shutdown(Duration::ZERO).await;
}
