//! An executor on a loopback port, and clients of it.

use anyhow::{Context, Result};
use mainstay_executor::{Config, Executor};
use mainstay_testkit::rpc_client::RpcClient;
use serde_json::{Value, json};

/// An executor that listens.
pub(crate) struct Rig {
    pub(crate) executor: Executor,
    pub(crate) url: String,
}

impl Rig {
    pub(crate) async fn start(config: Config) -> Result<Self> {
        let executor = Executor::start(config).await?;
        let url = executor.listen("127.0.0.1:0".parse()?).await?;
        Ok(Self { executor, url })
    }

    /// A connection before its handshake.
    pub(crate) async fn connect(&self) -> Result<RpcClient> {
        RpcClient::connect(&self.url).await
    }

    /// A connection with a new session, and its id.
    pub(crate) async fn session(&self) -> Result<(RpcClient, String)> {
        let mut client = self.connect().await?;
        let answer = client.initialize(None).await?;
        let id = answer["sessionId"]
            .as_str()
            .context("no session id")?
            .to_owned();
        Ok((client, id))
    }

    /// A connection of a client that announces these extensions.
    pub(crate) async fn extended(
        &self,
        resume: Option<&str>,
        mainstay: Value,
    ) -> Result<(RpcClient, Value)> {
        let mut client = self.connect().await?;
        let params = json!({"clientName": "test", "resumeSessionId": resume, "mainstay": mainstay});
        let answer = client.call("initialize", params).await?;
        let answer = answer.map_err(|error| anyhow::anyhow!("{error}"))?;
        client.notify("initialized", json!({})).await?;
        Ok((client, answer))
    }
}

/// Params of a start of `sh -c SCRIPT`.
pub(crate) fn sh(id: &str, script: &str) -> Value {
    json!({"processId": id, "argv": ["/bin/sh", "-c", script], "cwd": "file:///tmp",
           "env": {"PATH": "/usr/bin:/bin"}, "tty": false, "arg0": null})
}

/// The same with these members replaced.
pub(crate) fn sh_with(id: &str, script: &str, members: Value) -> Value {
    let mut params = sh(id, script);
    for (name, value) in members.as_object().into_iter().flatten() {
        params[name] = value.clone();
    }
    params
}

/// Starts a process and expects success.
pub(crate) async fn start(client: &mut RpcClient, params: Value) -> Result<()> {
    let id = params["processId"].clone();
    let answer = client.call("process/start", params).await?;
    assert_eq!(answer, Ok(json!({"processId": id, "sandboxType": "none"})));
    Ok(())
}

/// Resumes a session as soon as its former connection is known to be gone.
pub(crate) async fn resumed(rig: &Rig, id: &str) -> Result<RpcClient> {
    let mut client = rig.connect().await?;
    let params = json!({"clientName": "test", "resumeSessionId": id});
    loop {
        match client.call("initialize", params.clone()).await? {
            Ok(_) => break,
            Err(error) if error["code"] == -32010 => {}
            Err(error) => anyhow::bail!("{error}"),
        }
    }
    client.notify("initialized", json!({})).await?;
    Ok(client)
}

/// Calls and expects success.
pub(crate) async fn ok(client: &mut RpcClient, method: &str, params: Value) -> Result<Value> {
    let answer = client.call(method, params.clone()).await?;
    answer.map_err(|error| anyhow::anyhow!("{method} {params}: {error}"))
}

/// Calls and expects an error: its code and text.
pub(crate) async fn refused(
    client: &mut RpcClient,
    method: &str,
    params: Value,
) -> Result<(i64, String)> {
    let error = match client.call(method, params.clone()).await? {
        Ok(answer) => anyhow::bail!("{method} {params}: {answer}"),
        Err(error) => error,
    };
    Ok((
        error["code"].as_i64().context("code")?,
        error["message"].as_str().context("message")?.to_owned(),
    ))
}

/// The next event of a process.
pub(crate) async fn event(client: &mut RpcClient, id: &str) -> Result<Value> {
    client
        .until(|message| {
            let method = message["method"].as_str().unwrap_or_default();
            method.starts_with("process/") && message["params"]["processId"] == id
        })
        .await
}

/// Takes output events until they make up exactly this text.
pub(crate) async fn until_output(client: &mut RpcClient, id: &str, text: &str) -> Result<()> {
    let mut seen = Vec::new();
    while seen != text.as_bytes() {
        let event = event(client, id).await?;
        seen.extend(decode(&event["params"]["chunk"])?);
        let so_far = String::from_utf8_lossy(&seen);
        anyhow::ensure!(text.starts_with(&*so_far), "{so_far:?}, not {text:?}");
    }
    Ok(())
}

/// What a process did until it was closed.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Story {
    /// Sequence numbers in the order of arrival.
    pub(crate) seqs: Vec<u64>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) pty: Vec<u8>,
    pub(crate) exit: Option<i64>,
    /// `o`, `x`, `c` for output, exit, close, in the order of arrival, equal neighbours joined.
    pub(crate) shape: String,
}

/// Follows a process until it is closed.
pub(crate) async fn follow(client: &mut RpcClient, id: &str) -> Result<Story> {
    let mut story = Story::default();
    loop {
        let event = event(client, id).await?;
        let params = &event["params"];
        story.seqs.push(params["seq"].as_u64().context("seq")?);
        let kind = match event["method"].as_str().unwrap_or_default() {
            "process/output" => {
                let bytes = decode(&params["chunk"])?;
                match params["stream"].as_str() {
                    Some("stdout") => story.stdout.extend(bytes),
                    Some("stderr") => story.stderr.extend(bytes),
                    Some("pty") => story.pty.extend(bytes),
                    other => anyhow::bail!("stream {other:?}"),
                }
                'o'
            }
            "process/exited" => {
                story.exit = params["exitCode"].as_i64();
                'x'
            }
            "process/closed" => 'c',
            other => anyhow::bail!("method {other}"),
        };
        if !story.shape.ends_with(kind) {
            story.shape.push(kind);
        }
        if kind == 'c' {
            return Ok(story);
        }
    }
}

/// Runs `sh -c SCRIPT` to its end.
pub(crate) async fn run(client: &mut RpcClient, id: &str, script: &str) -> Result<Story> {
    start(client, sh(id, script)).await?;
    follow(client, id).await
}

pub(crate) fn decode(chunk: &Value) -> Result<Vec<u8>> {
    let text = chunk.as_str().context("chunk")?;
    Ok(base64_simd::STANDARD.decode_to_vec(text)?)
}

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    base64_simd::STANDARD.encode_to_string(bytes)
}

/// The SHA-256 of bytes, as sha256sum prints it.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    hex::encode(sha2::Sha256::digest(bytes))
}

/// Lets a program wait for the test: it reads to the end of the pipe.
pub(crate) struct Fifo {
    _directory: tempfile::TempDir,
    path: std::path::PathBuf,
}

impl Fifo {
    pub(crate) fn new() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("fifo");
        let mode = rustix::fs::Mode::from(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)?;
        Ok(Self {
            _directory: directory,
            path,
        })
    }

    pub(crate) fn path(&self) -> std::path::Display<'_> {
        self.path.display()
    }

    /// Opens the other end for a program that writes.
    pub(crate) fn open_to_read(&self) -> Result<std::fs::File> {
        Ok(std::fs::File::open(&self.path)?)
    }

    /// Ends the wait of whoever reads.
    pub(crate) fn release(&self) -> Result<()> {
        // Opening to write waits for the reader, and dropping it is the end.
        std::fs::OpenOptions::new().write(true).open(&self.path)?;
        Ok(())
    }
}
