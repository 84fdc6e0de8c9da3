//! The control: the reference's agent on the reference's executor, through this rig. What fails here is the rig's fault.

use mainstay_testkit::{
    reference::Reference,
    responses_api::{ResponsesApi, Step},
};
use serde_json::json;

#[tokio::test]
async fn the_references_agent_runs_a_command_on_the_references_executor() {
    let Some(reference) = Reference::find() else {
        return;
    };
    let executor = reference.executor().await.unwrap();
    let model = ResponsesApi::play(vec![Step::exec("echo hi; exit 3")])
        .await
        .unwrap();
    let events = reference
        .turn(&[("CODEX_EXEC_SERVER_URL", &executor.url)], &model.config())
        .await
        .unwrap();
    let outputs = model.outputs();
    assert!(
        outputs[0].contains("exited with code 3") && outputs[0].ends_with("hi\n"),
        "{outputs:?}"
    );
    assert_eq!(events.last().unwrap()["type"], "turn.completed");
    executor.kill().await;
}

#[tokio::test]
async fn the_references_client_asks_the_references_executor_for_its_status() {
    let Some(reference) = Reference::find() else {
        return;
    };
    let executor = reference.executor().await.unwrap();
    let mut client = reference
        .app_server(&[("CODEX_EXEC_SERVER_URL", &executor.url)], "")
        .await
        .unwrap();
    let info = client
        .call("environment/info", json!({"environmentId": "remote"}))
        .await
        .unwrap();
    let status = client
        .call("environment/status", json!({"environmentId": "remote"}))
        .await
        .unwrap();
    assert_eq!(
        info.unwrap()["shell"]["name"].as_str().map(str::is_empty),
        Some(false)
    );
    assert_eq!(status.unwrap(), json!({"status": "ready"}));
}
