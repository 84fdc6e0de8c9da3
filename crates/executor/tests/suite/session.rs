//! Sessions and resume (protocol.md 4).

use anyhow::Result;
use mainstay_executor::Config;
use serde_json::json;

use crate::support::{Rig, ok, refused};

#[tokio::test]
async fn t20_a_resume_while_attached_is_refused_and_disturbs_nobody() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut first, id) = rig.session().await?;
    let mut second = rig.connect().await?;
    let params = json!({"clientName": "t", "resumeSessionId": id});
    let text = format!("session {id} is already attached to another connection");
    assert_eq!(
        refused(&mut second, "initialize", params).await?,
        (-32010, text)
    );
    ok(&mut first, "environment/status", json!({})).await?;
    assert_ne!(second.initialize(None).await?["sessionId"], json!(id));
    Ok(())
}
