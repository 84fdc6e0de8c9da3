//! What the client finds out about our executor's disk.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use mainstay::{CapabilityRoot, ConfigQuery, Environment, WatchEnd};
use mainstay_executor::{Config, Executor};

async fn both() -> (Executor, Environment) {
    let executor = Executor::start(Config::default()).await.unwrap();
    let url = executor
        .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        .await
        .unwrap();
    (
        executor,
        Environment::builder().url(url).spawn().await.unwrap(),
    )
}

#[tokio::test]
async fn roots_are_answered_in_their_order_each_with_its_own_error() {
    let (executor, environment) = both().await;
    let folder = tempfile::tempdir().unwrap();
    let skill = folder.path().join("skills/s1/SKILL.md");
    std::fs::create_dir_all(skill.parent().unwrap()).unwrap();
    let text = "---\nname: s1\ndescription: one\n---\n";
    std::fs::write(&skill, text).unwrap();
    let root = folder.path().to_str().unwrap();
    let found = environment
        .discover_roots([
            CapabilityRoot::new("a", format!("{root}/none")),
            CapabilityRoot::new("a", root),
        ])
        .await
        .unwrap();
    assert!(found[0].error.is_some() && found[1].error.is_none());
    assert_eq!(found[1].skills[0].instructions.contents, text);
    // The executor's own roots are those of whoever runs the test.
    environment
        .discover(&format!("{root}/none"), None)
        .await
        .unwrap();
    let nothing = environment
        .read_config(ConfigQuery::new(root))
        .await
        .unwrap_err();
    assert_eq!(nothing.code(), Some(-32602), "{nothing}");
    environment.shutdown().await;
    executor.shutdown(Duration::ZERO).await;
}

#[tokio::test]
async fn a_watch_tells_that_something_missing_is_there() {
    let (executor, environment) = both().await;
    let folder = tempfile::tempdir().unwrap();
    let missing = format!("{}/a/b", folder.path().to_str().unwrap());
    let files = environment.files();
    let mut watch = files
        .watch_missing(&[&missing], None)
        .await
        .unwrap()
        .expect("it is missing");
    files.create_dir_all(&missing).await.unwrap();
    assert_eq!(watch.ended().await.unwrap(), WatchEnd::Fired);
    let there = files.watch_missing(&[&missing], None).await.unwrap();
    assert!(there.is_none());
    environment.shutdown().await;
    executor.shutdown(Duration::ZERO).await;
}
