//! Commands through registry, relay and Noise, against our executor.

use mainstay::{Command, Exit};
use mainstay_testkit::fault_proxy::{Counted, FaultProxy, Plan};
use mainstay_testkit::seed::Seed;
use mainstay_tests::rig::Rig;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_runs_through_registry_relay_and_noise() {
    let rig = Rig::start().await;
    let _executor = rig.executor().await;
    let environment = rig.environment().await;
    let command = Command::new("sh")
        .arg("-c")
        .arg("printf out; printf err >&2; exit 7");
    let output = environment
        .exec(command)
        .await
        .unwrap()
        .wait_with_output()
        .await
        .unwrap();
    assert_eq!(&output.stdout[..], b"out");
    assert_eq!(&output.stderr[..], b"err");
    assert!(matches!(output.exit, Exit::Exited(status) if status.code == 7));
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_survives_cuts_through_the_relay() {
    let rig = Rig::start().await;
    let _executor = rig.executor().await;
    let plan = Plan::cut_after_bytes(Counted::Down, 2_500_000..=3_500_000);
    let proxy = FaultProxy::start(rig.registry.local_addr(), plan, Seed::from_env(7))
        .await
        .unwrap();
    rig.front.set_relay(Some(proxy.addr()));
    let environment = rig.environment().await;
    let last = 2_000_000;
    let mut process = environment
        .exec(Command::new("seq").arg("1").arg(last.to_string()))
        .await
        .unwrap();
    let mut stdout = process.stdout.take().unwrap();
    drop(process.stderr.take());
    let mut received = Vec::new();
    while let Some(chunk) = stdout.chunk().await.unwrap() {
        received.extend_from_slice(&chunk);
    }
    assert!(matches!(process.wait().await, Exit::Exited(status) if status.code == 0));
    let mut expected = String::new();
    for number in 1..=last {
        expected.push_str(&format!("{number}\n"));
    }
    assert!(received == expected.as_bytes());
    assert!(proxy.counters().cut >= 3);
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_announced_executor_is_followed_where_the_host_asked_for_it() {
    let rig = Rig::start().await;
    let _old = rig.executor().await;
    let config = mainstay::Config {
        automatic_refresh: true,
        ..mainstay::Config::default()
    };
    let environment = rig.builder().config(config).spawn().await.unwrap();
    let session = environment.session().await.unwrap();
    let new = rig.executor().await;
    let mut watch = environment.watch().await.unwrap();
    while environment
        .snapshot()
        .await
        .unwrap()
        .registration
        .as_deref()
        != Some(new.registration.id())
    {
        watch.changed().await.unwrap();
    }
    assert!(session.is_retired());
    environment.session().await.unwrap().status().await.unwrap();
}
