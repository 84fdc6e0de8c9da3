//! Many programs of one connection that want to say something at once.

use std::collections::HashMap;

use anyhow::{Context, Result};
use mainstay_executor::Config;
use serde_json::json;

use crate::support::{Rig, decode, sh_with, start};

/// Many more than a connection has places for events.
const PROGRAMS: usize = 64;

/// Many chunks of each, so that all of them wait for places over and over.
const BYTES: usize = 1_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_programs_than_places_all_come_to_their_end() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    let script = format!("read x; exec head -c {BYTES} /dev/zero");
    for number in 0..PROGRAMS {
        let params = sh_with(&number.to_string(), &script, json!({"pipeStdin": true}));
        start(&mut client, params).await?;
    }
    // All of them go on while nobody reads.
    for number in 0..PROGRAMS {
        let params = json!({"processId": number.to_string()});
        client.send("mainstay/closeStdin", params).await?;
    }
    let mut received: HashMap<String, usize> = HashMap::new();
    let mut closed = 0;
    while closed < PROGRAMS {
        let event = client.next().await?;
        match event["method"].as_str() {
            Some("process/output") => {
                let id = event["params"]["processId"].as_str().context("id")?;
                *received.entry(id.to_owned()).or_default() +=
                    decode(&event["params"]["chunk"])?.len();
            }
            Some("process/closed") => closed += 1,
            _ => {}
        }
    }
    assert_eq!(received.len(), PROGRAMS);
    assert!(received.values().all(|bytes| *bytes == BYTES));
    Ok(())
}
