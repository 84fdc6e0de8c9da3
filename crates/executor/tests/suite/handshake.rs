//! Handshake order, envelope, and what ends a connection (protocol.md 2, 3).

use anyhow::Result;
use mainstay_executor::Config;
use serde_json::{Value, json};

use crate::support::{Rig, ok, refused};

#[tokio::test]
async fn t01_every_family_says_what_is_missing() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let mut client = rig.connect().await?;
    let calls = [
        (
            "exec",
            "process/start",
            json!({"processId": "p", "argv": ["x"], "cwd": "file:///", "env": {}, "tty": false}),
        ),
        ("exec", "process/read", json!({"processId": "p"})),
        ("environment info", "environment/info", json!({})),
        ("environment status", "environment/status", json!({})),
        ("filesystem", "fs/readFile", json!({"path": "file:///x"})),
    ];
    for (family, method, params) in calls.clone() {
        let expected = format!("client must call initialize before using {family} methods");
        assert_eq!(
            refused(&mut client, method, params).await?,
            (-32600, expected)
        );
    }
    ok(&mut client, "initialize", json!({"clientName": "t"})).await?;
    for (family, method, params) in calls {
        let expected = format!("client must send initialized before using {family} methods");
        assert_eq!(
            refused(&mut client, method, params).await?,
            (-32600, expected)
        );
    }
    client.notify("initialized", json!({})).await?;
    for params in [json!({}), Value::Null] {
        assert_eq!(
            ok(&mut client, "environment/status", params).await?,
            json!({"status": "ready"})
        );
    }
    Ok(())
}

#[tokio::test]
async fn t01_params_are_decoded_before_the_order_is_looked_at() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let mut client = rig.connect().await?;
    let cases = [
        (
            "process/start",
            json!({"processId": "p"}),
            "missing field `argv`",
        ),
        ("initialize", json!({}), "missing field `clientName`"),
        (
            "environment/status",
            json!([]),
            "invalid type: sequence, expected unit",
        ),
        (
            "environment/status",
            json!({"x": 1}),
            "invalid type: map, expected unit",
        ),
    ];
    for (method, params, text) in cases {
        assert_eq!(
            refused(&mut client, method, params).await?,
            (-32602, text.to_owned())
        );
    }
    let unknown = "exec-server stub does not implement `nope/method` yet";
    assert_eq!(
        refused(&mut client, "nope/method", json!({})).await?,
        (-32601, unknown.to_owned())
    );
    Ok(())
}

#[tokio::test]
async fn t01_a_failed_initialize_may_be_repeated_and_a_successful_one_not() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let mut client = rig.connect().await?;
    for id in ["00000000-0000-0000-0000-000000000000", "not-a-uuid"] {
        let params = json!({"clientName": "t", "resumeSessionId": id});
        assert_eq!(
            refused(&mut client, "initialize", params).await?,
            (-32600, format!("unknown session id {id}"))
        );
    }
    let answer = client.initialize(None).await?;
    assert_eq!(answer["environmentInfo"]["platformOs"], "linux");
    let twice = "initialize may only be sent once per connection";
    let again = refused(&mut client, "initialize", json!({"clientName": "t"})).await?;
    assert_eq!(again, (-32600, twice.to_owned()));
    ok(&mut client, "environment/status", json!({})).await?;
    Ok(())
}

#[tokio::test]
async fn t02_malformed_messages_are_answered_and_tolerated() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    let prefix = "failed to parse websocket JSON-RPC message from exec-server websocket 127.0.0.1:";
    for text in [
        "not json",
        "",
        "[]",
        "{}",
        r#"{"id":1.5,"method":"environment/status"}"#,
    ] {
        client.send_text(text.to_owned()).await?;
        let answer = client.next().await?;
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!(-1), &json!(-32600)),
            "{text}"
        );
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.starts_with(prefix), "{message}");
    }
    client
        .send_binary(br#"{"id":"b","method":"environment/status"}"#.to_vec())
        .await?;
    assert_eq!(
        client.next().await?,
        json!({"id": "b", "result": {"status": "ready"}})
    );
    Ok(())
}

#[tokio::test]
async fn t03_what_ends_a_connection_ends_it_with_a_reason() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    for text in [
        r#"{"id":-1,"result":{}}"#,
        r#"{"id":99,"error":{"code":1,"message":"x"}}"#,
        r#"{"method":"process/start","params":{}}"#,
        r#"{"method":"nope"}"#,
    ] {
        let (mut client, _) = rig.session().await?;
        client.send_text(text.to_owned()).await?;
        let close = client.ended().await.expect(text);
        assert_eq!(u16::from(close.code), 1002, "{text}");
        assert!(!close.reason.is_empty(), "{text}");
    }
    let mut early = rig.connect().await?;
    early.notify("initialized", json!({})).await?;
    assert!(early.ended().await.is_some());
    Ok(())
}

#[tokio::test]
async fn t05_the_handshake_may_be_pipelined() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let mut client = rig.connect().await?;
    let first = client
        .send("initialize", json!({"clientName": "t"}))
        .await?;
    client.notify("initialized", json!({})).await?;
    let second = client.send("environment/status", json!({})).await?;
    assert_eq!(client.next().await?["id"], first);
    assert_eq!(client.next().await?["id"], second);
    Ok(())
}
