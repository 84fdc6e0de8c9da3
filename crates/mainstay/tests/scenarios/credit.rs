//! `mainstayCredit` at the client: whoever may be sent more is told so (docs/protocol-extensions.md).

use std::collections::HashSet;
use std::time::Duration;

use mainstay::Environment;
use serde_json::json;

use crate::script::Peer;

/// More than the link has room for on its way to a peer that does not read: 128 in the pair, 512 in the lane.
const PROCESSES: usize = 800;

#[tokio::test]
async fn grants_that_find_no_room_on_the_link_leave_when_there_is_some() {
    // In memory, where the room is known.
    let (environment, _session, mut peer) = Peer::session_on(
        Peer::in_memory(),
        Environment::builder(),
        json!({"mainstayCredit": true}),
    )
    .await;
    let mut processes = Vec::new();
    for number in 0..PROCESSES {
        processes.push(peer.start(&environment, &number.to_string()).await);
    }
    // The first window is smaller than ours: the first event of each is worth a grant. Nobody takes them yet.
    for number in 0..PROCESSES {
        peer.output(&number.to_string(), 1, "x").await;
    }
    for process in &mut processes {
        let stdout = process.stdout.as_mut().unwrap();
        assert_eq!(stdout.chunk().await.unwrap().unwrap(), "x");
    }
    let mut granted = HashSet::new();
    let all = async {
        while granted.len() < PROCESSES {
            let grant = peer.expect_notice("mainstay/credit").await;
            granted.insert(grant["processId"].as_str().unwrap().to_owned());
        }
    };
    let told = tokio::time::timeout(Duration::from_secs(60), all).await;
    assert!(told.is_ok(), "{} of {PROCESSES} were told", granted.len());
}
