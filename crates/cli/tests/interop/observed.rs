//! Where the reference differs from the specification, in its own words: the requests of `differences.rs` are played to
//! its executor, and stand in `docs/compatibility.md` with the answers that came.

use std::{os::unix::fs::symlink, path::Path};

use anyhow::{Context, Result, ensure};
use mainstay_testkit::{
    reference::{Reference, ReferenceExecutor},
    rpc_client::RpcClient,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::differences::{Ask, Case, PROTECTED, Then};

/// What stands in the document for the run's own directory.
const PLACE: &str = "/t";
/// An answer above this length is shown in part.
const LONG: usize = 320;

/// An executor in a furnished directory, and what it said.
pub(crate) struct Observed {
    executor: ReferenceExecutor,
    directory: TempDir,
}

impl Observed {
    /// Starts the executor.
    pub(crate) async fn start(reference: &Reference) -> Result<Self> {
        let directory = TempDir::new()?;
        let root = directory.path();
        furnish(root)?;
        let home = root.join("home").to_string_lossy().into_owned();
        let mut variables: Vec<(&str, &str)> =
            vec![("CODEX_HOME", &home), ("HOME", &home), ("TMPDIR", "/c:")];
        for name in [
            "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "SHELL", "TEMP", "TMP", "USER", "EDITOR",
            "LC_TIME", "TERM", "TZ", "USERNAME",
        ] {
            variables.push((name, "C"));
        }
        let executor = reference.executor_with(&variables).await?;
        Ok(Self {
            executor,
            directory,
        })
    }

    /// Plays every case; the section of the document.
    pub(crate) async fn markdown(&self, cases: &[Case]) -> Result<String> {
        let mut text = String::new();
        for case in cases {
            let lines = self
                .play(case)
                .await
                .with_context(|| case.what.to_owned())?;
            text += &format!(
                "\n**{}** Specification: {}\n\n```text\n{lines}```\n",
                case.what, case.specification
            );
        }
        Ok(text)
    }

    /// One case on a connection of its own.
    async fn play(&self, case: &Case) -> Result<String> {
        let mut client = RpcClient::connect(&self.executor.url).await?;
        client.initialize(None).await?;
        let mut heard = Vec::new();
        let mut lines = String::new();
        for (place, ask) in case.asks.iter().enumerate() {
            // 1 was `initialize`.
            let id = place + 2;
            let request = format!(
                r#"{{"id":{id},"method":"{}","params":{}}}"#,
                ask.method, ask.params
            );
            self.send(&mut client, &request).await?;
            let is_answer = |message: &Value| message.get("method").is_none();
            let answer = self.hear(&mut client, &mut heard, is_answer).await?;
            lines += &format!("→ {request}\n← {}\n", shorten(&answer, ask));
            match ask.then {
                Then::Nothing | Then::Near(_) => {}
                Then::Notice(method) => {
                    let is_notice = |message: &Value| message["method"] == method;
                    let notice = self.hear(&mut client, &mut heard, is_notice).await?;
                    lines += &format!("← {}\n", with_text(&notice)?);
                }
                Then::Protected => {
                    let others = &PROTECTED[1..];
                    for name in others {
                        let swap = |text: &str| text.replace(PROTECTED[0], name);
                        self.send(&mut client, &swap(&request)).await?;
                        let same = self.hear(&mut client, &mut heard, is_answer).await?;
                        ensure!(same == swap(&answer), "{name}: {same}");
                    }
                    lines += &format!("  and so for {}\n", others.join(", "));
                }
            }
        }
        Ok(lines)
    }

    async fn send(&self, client: &mut RpcClient, request: &str) -> Result<()> {
        let root = self.directory.path().to_str().context("plain")?;
        let place = format!("file://{root}/");
        client
            .send_text(request.replace("file:///t/", &place))
            .await
    }

    /// The next message of a kind, as it came; others are kept in `heard`.
    async fn hear(
        &self,
        client: &mut RpcClient,
        heard: &mut Vec<String>,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<String> {
        let is_wanted =
            |text: &str| serde_json::from_str(text).is_ok_and(|message| wanted(&message));
        if let Some(place) = heard.iter().position(|text| is_wanted(text)) {
            return Ok(heard.remove(place));
        }
        loop {
            let text = self.generic(&client.next_text().await?);
            if is_wanted(&text) {
                return Ok(text);
            }
            heard.push(text);
        }
    }

    fn generic(&self, text: &str) -> String {
        text.replace(&*self.directory.path().to_string_lossy(), PLACE)
    }
}

/// What the cases need.
fn furnish(root: &Path) -> Result<()> {
    for directory in ["source", "destination", "real", "empty"] {
        std::fs::create_dir(root.join(directory))?;
    }
    for (file, text) in [("file", "hello"), ("outside", "old"), ("source/x", "new")] {
        std::fs::write(root.join(file), text)?;
    }
    symlink(root.join("outside"), root.join("destination/x"))?;
    symlink(root.join("real"), root.join("link"))?;
    let plugin = root.join("home/plugins/cache/market/plug/1.0.0/.codex-plugin");
    std::fs::create_dir_all(&plugin)?;
    let manifest = r#"{"name":"plug","interface":{"displayName":"A plugin"}}"#;
    Ok(std::fs::write(plugin.join("plugin.json"), manifest)?)
}

/// A notification, and the text of its chunk behind it.
fn with_text(notice: &str) -> Result<String> {
    let message: Value = serde_json::from_str(notice)?;
    let Some(chunk) = message["params"]["chunk"].as_str() else {
        return Ok(notice.to_owned());
    };
    let bytes = mainstay_wire::base64::decode(chunk.as_bytes())?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(format!("{notice}  chunk: {text:?}"))
}

/// The part of a long answer that matters.
fn shorten(answer: &str, ask: &Ask) -> String {
    let Then::Near(needle) = ask.then else {
        return answer.to_owned();
    };
    match answer.find(needle) {
        Some(at) if answer.len() > LONG => {
            let end = (at + needle.len() + 60).min(answer.len());
            format!("{{…{}…}}", &answer[at..end])
        }
        Some(_) | None => answer.to_owned(),
    }
}
