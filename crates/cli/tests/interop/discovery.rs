//! What a client of either make finds out about the executor's disk: skills, configuration, and that something
//! missing is there now.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use mainstay::{CapabilityRoot, ConfigQuery, Environment, WatchEnd};
use mainstay_testkit::{reference::Reference, responses_api::ResponsesApi};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    agent::{Destination, pairs, turn},
    matrix::Outcome,
};

/// What the skill says that every executor's home has (`far-home` of the testkit).
const FAR_SKILL: &str = "a skill of the executor's machine";
/// What the skill in a given directory says.
const ROOT_SKILL: &str = "a skill in a given directory";

fn furnish(root: &Path) -> Result<()> {
    let directory = root.join("skills/given");
    std::fs::create_dir_all(&directory)?;
    let text = format!("---\nname: given\ndescription: {ROOT_SKILL}\n---\n");
    Ok(std::fs::write(directory.join("SKILL.md"), text)?)
}

/// Both kinds of discovery, configuration, and the watch for missing paths, by our client.
pub(crate) async fn ours(environment: Environment) -> Result<Outcome> {
    let directory = TempDir::new()?;
    furnish(directory.path())?;
    let root = directory.path().to_str().context("plain")?;
    let missing = format!("{root}/none");
    let roots = [
        CapabilityRoot::new("a", &missing),
        CapabilityRoot::new("b", root),
    ];
    let found = environment.discover_roots(roots).await?;
    ensure!(
        found[0].error.is_some() && found[0].skills.is_empty(),
        "{found:?}"
    );
    let skill = found[1].skills.first().context("no skill")?;
    ensure!(
        skill.instructions.contents.contains(ROOT_SKILL),
        "{found:?}"
    );

    let inventory = environment.discover(root, None).await?;
    let far = inventory
        .skills
        .iter()
        .find(|skill| skill.description == FAR_SKILL);
    ensure!(
        far.is_some_and(|far| far.discovery_root.id == "codex-home-skills"),
        "{inventory:?}"
    );

    environment
        .read_config(ConfigQuery::new(root).config(["model"]))
        .await?;

    let files = environment.files();
    let mut watch = files
        .watch_missing(&[&missing], None)
        .await?
        .context("it is missing")?;
    files.create_dir(&missing).await?;
    ensure!(watch.ended().await? == WatchEnd::Fired, "replaced");
    Ok(Outcome::Pass)
}

/// Skills of a directory that the thread names (`capabilityRoots/discoverV1`): the model hears of them, in a read-only
/// thread, too. The reference's agent does it when a feature of its configuration says so.
pub(crate) async fn theirs_given(
    reference: Reference,
    destination: Destination,
) -> Result<Outcome> {
    let directory = TempDir::new()?;
    furnish(directory.path())?;
    let location =
        json!({"type": "environment", "environmentId": "remote", "path": directory.path()});
    let roots = json!([{"id": "given", "location": location}]);
    let requests = thread(
        reference,
        destination,
        "executor_capability_discovery",
        roots,
    )
    .await?;
    ensure!(
        requests.contains(ROOT_SKILL),
        "the model did not hear of it"
    );
    Ok(Outcome::Pass)
}

/// Skills of the executor's own roots (`capabilities/discoverV2`).
pub(crate) async fn theirs_own(reference: Reference, destination: Destination) -> Result<Outcome> {
    let feature = "executor_capability_discovery_v2";
    let requests = thread(reference, destination, feature, json!([])).await?;
    ensure!(requests.contains(FAR_SKILL), "the model did not hear of it");
    Ok(Outcome::Pass)
}

/// One turn of a read-only thread; all that the model was told.
async fn thread(
    reference: Reference,
    destination: Destination,
    feature: &str,
    roots: Value,
) -> Result<String> {
    let model = ResponsesApi::play(Vec::new()).await?;
    let config = format!("{}\n[features]\n{feature} = true\n", model.config());
    let mut client = reference.app_server(&pairs(&destination), &config).await?;
    let thread = json!({
        "cwd": client.work.path(),
        "approvalPolicy": "never",
        "sandbox": "read-only",
        "selectedCapabilityRoots": roots,
    });
    let thread = client
        .call("thread/start", thread)
        .await?
        .map_err(|e| anyhow::anyhow!("thread: {e}"))?;
    turn(&mut client, &thread["thread"]["id"]).await?;
    Ok(Value::from(model.requests()).to_string())
}
