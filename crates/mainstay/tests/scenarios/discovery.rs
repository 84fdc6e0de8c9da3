//! Capability discovery, configuration, and the watch for missing paths (`environment.md` 5, `protocol.md` 9.4, 12, 13).

use std::time::Duration;

use mainstay::{
    CapabilityRoot, ConfigQuery, ConnState, Environment, ErrorKind, Sandbox, Session, WatchEnd,
};
use serde_json::{Value, json};

use crate::script::Peer;

/// A session in memory, for tests whose time stands still.
async fn in_memory() -> (Environment, Session, Peer) {
    Peer::session_on(Peer::in_memory(), Environment::builder(), json!({})).await
}

fn sandbox(file_system: Value) -> Sandbox {
    serde_json::from_value(json!({
        "permissions": {"type": "managed", "file_system": file_system, "network": "enabled"},
        "windowsSandboxLevel": "disabled",
    }))
    .unwrap()
}

#[tokio::test]
async fn e27_a_discovery_whose_link_ends_is_asked_once_more() {
    let (environment, session, mut peer) = Peer::session(json!({})).await;
    let asking = tokio::spawn(async move { session.discover("/work", None).await });
    let first = peer.expect("capabilities/discoverV2").await;
    assert_eq!(first.params, json!({"cwd": "file:///work"}));
    drop(peer);
    let mut peer = Peer::resume(&environment).await;
    let second = peer.expect("capabilities/discoverV2").await;
    assert_eq!(second.params, first.params);
    let warned = json!({"plugins": [], "skills": [], "warnings": ["w"]});
    peer.answer(&second.id, warned).await;
    assert_eq!(asking.await.unwrap().unwrap().warnings, ["w"]);
}

#[tokio::test]
async fn e27_a_discovery_is_asked_no_third_time() {
    let (environment, session, mut peer) = Peer::session(json!({})).await;
    let asking = tokio::spawn(async move { session.discover("/work", None).await });
    peer.expect("capabilities/discoverV2").await;
    drop(peer);
    let mut peer = Peer::resume(&environment).await;
    peer.expect("capabilities/discoverV2").await;
    drop(peer);
    let error = asking.await.unwrap().unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Disconnected { .. }),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn e27_without_a_link_for_eight_seconds_it_is_the_first_failure() {
    let (_environment, session, mut peer) = in_memory().await;
    let asking = tokio::spawn(async move { session.discover("/work", None).await });
    peer.expect("capabilities/discoverV2").await;
    let lost = tokio::time::Instant::now();
    drop(peer);
    let error = asking.await.unwrap().unwrap_err();
    assert!(error.delivery().is_some(), "{error}");
    assert_eq!(lost.elapsed().as_secs(), 8);
}

#[tokio::test]
async fn a_restricted_root_is_asked_for_only_where_it_is_kept() {
    let (environment, session, mut peer) = Peer::session(json!({})).await;
    let root = |policy| [CapabilityRoot::new("r", "/root").sandbox(sandbox(policy))];
    let restricted = json!({"type": "restricted", "entries": []});
    let refused = session.discover_roots(root(restricted)).await.unwrap_err();
    assert!(refused.to_string().contains("sandbox"), "{refused}");
    let open = root(json!({"type": "unrestricted"}));
    let asking = tokio::spawn(async move { environment.discover_roots(open).await });
    // The first message of all: the refused one was never sent.
    let asked = peer.expect("capabilityRoots/discoverV1").await;
    assert_eq!(asked.params["roots"][0]["path"], "file:///root");
    let found = json!({"roots": [{"id": "r", "path": "file:///root", "error": "gone"}]});
    peer.answer(&asked.id, found).await;
    let found = asking.await.unwrap().unwrap();
    assert_eq!(found[0].error.as_deref(), Some("gone"));
}

#[tokio::test]
async fn an_answer_about_other_roots_is_refused() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    for answer in [
        json!([]),
        json!([{"id": "r", "path": "file:///other"}]),
        json!([{"id": "s", "path": "file:///root"}]),
    ] {
        let root = [CapabilityRoot::new("r", "/root")];
        let environment = environment.clone();
        let asking = tokio::spawn(async move { environment.discover_roots(root).await });
        let asked = peer.expect("capabilityRoots/discoverV1").await;
        peer.answer(&asked.id, json!({"roots": answer})).await;
        let error = asking.await.unwrap().unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Protocol { .. }),
            "{error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_configuration_that_is_not_read_in_time_costs_the_link() {
    let (environment, _session, mut peer) = in_memory().await;
    let query = ConfigQuery::new("/work")
        .config(["model"])
        .requirements(["a", "b.c"]);
    let limit = Duration::from_secs(5);
    let asking = tokio::spawn({
        let (environment, query) = (environment.clone(), query.timeout(limit));
        async move { environment.read_config(query).await }
    });
    let asked = peer.expect("environmentConfig/read").await;
    assert_eq!(
        asked.params,
        json!({"cwd": "file:///work", "configPaths": [["model"]], "requirementsPaths": [["a", "b.c"]]})
    );
    let error = asking.await.unwrap().unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::RpcTimeout { timeout, .. } if *timeout == limit),
        "{error}"
    );
    let mut states = environment.watch().await.unwrap();
    states
        .wait_for(|state| *state == ConnState::Recovering)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_watch_fires_is_replaced_and_ends_with_its_link() {
    let (environment, _session, mut peer) = Peer::session(json!({"fsWatchMissing": true})).await;
    let mut watches = Vec::new();
    for id in 1..=3 {
        let files = environment.files();
        let setting =
            tokio::spawn(async move { files.watch_missing(&["/a", "/b"], Some("/c")).await });
        let asked = peer.expect("fs/watchMissing").await;
        let wanted =
            json!({"watchId": id, "missing": ["file:///a", "file:///b"], "present": "file:///c"});
        assert_eq!(asked.params, wanted);
        if id == 1 {
            // Right behind the request, before its answer.
            peer.notify("fs/missingChanged", json!({"watchId": 1}))
                .await;
        }
        peer.answer(&asked.id, json!({"watching": true})).await;
        let mut watch = setting.await.unwrap().unwrap().expect("it stands");
        if id == 1 {
            assert_eq!(watch.ended().await.unwrap(), WatchEnd::Fired);
        }
        watches.push(watch);
    }
    let mut last = watches.pop().unwrap();
    let mut replaced = watches.pop().unwrap();
    assert_eq!(replaced.ended().await.unwrap(), WatchEnd::Replaced);
    peer.notify("fs/missingChanged", json!({})).await;
    drop(peer);
    let error = last.ended().await.unwrap_err();
    assert!(error.delivery().is_some(), "{error}");
}

#[tokio::test]
async fn a_watch_that_the_executor_cannot_keep_is_not_sent() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let files = environment.files();
    let refused = files.watch_missing(&["/a"], None).await.unwrap_err();
    assert!(
        matches!(refused.kind(), ErrorKind::Protocol { .. }),
        "{refused}"
    );
    let asking = tokio::spawn(async move { files.metadata("/a").await });
    peer.expect("fs/getMetadata").await;
    asking.abort();
}
