//! The place a conversation happens in: a directory that stands for the recording's file system, and the words that
//! differ between there and here.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use mainstay_testkit::http_server::HttpServer;
use mainstay_wire::base64;
use serde_json::Value;
use tempfile::TempDir;

/// Members that carry bytes.
const BYTES: [&str; 4] = ["chunk", "dataBase64", "bodyBase64", "deltaBase64"];

pub(crate) struct Place {
    _folder: TempDir,
    /// Stands for `/`.
    root: PathBuf,
    /// This host's name.
    pub(crate) hostname: String,
    /// The HTTP server of the recording, where it needs one.
    pub(crate) http: Option<HttpServer>,
    /// Recorded words, and ours: session ids as they become known.
    words: Vec<(String, String)>,
}

impl Place {
    /// Everything that any file needs. Cheap enough to be the same for all.
    pub(crate) async fn new() -> Result<Self> {
        let folder = TempDir::new()?;
        let root = folder.path().canonicalize()?;
        let hostname = fs::read_to_string("/proc/sys/kernel/hostname")?
            .trim()
            .to_owned();
        let mut place = Self {
            _folder: folder,
            root,
            hostname,
            http: None,
            words: Vec::new(),
        };
        place.furnish()?;
        place.http = Some(HttpServer::start().await?);
        Ok(place)
    }

    /// The working directory of the executor.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.root.join("workspace")
    }

    /// The home directory of its user.
    pub(crate) fn home(&self) -> PathBuf {
        self.root.join("home/user")
    }

    /// From now on `recorded` means `ours`.
    pub(crate) fn translate(&mut self, recorded: &str, ours: &str) {
        self.words.push((recorded.to_owned(), ours.to_owned()));
    }

    /// What was sent there, as it has to be sent here.
    pub(crate) fn outward(&self, text: &str) -> String {
        let root = self.root.to_string_lossy();
        let mut text = text
            .replace("/workspace", &format!("{root}/workspace"))
            .replace("/home/user", &format!("{root}/home/user"));
        if let (Some(port), Some(http)) = (recorded_port(&text), &self.http) {
            text = text.replace(&format!("127.0.0.1:{port}"), &http.addr().to_string());
        }
        for (recorded, ours) in &self.words {
            text = text.replace(recorded, ours);
        }
        text
    }

    /// What was received here, as it would have been recorded there; bytes inside base64 too.
    pub(crate) fn homeward(&self, value: Value, http_port: Option<&str>) -> Value {
        let text = |text: &str| self.homeward_text(text, http_port);
        let bytes = |bytes: &[u8]| {
            std::str::from_utf8(bytes).map_or(bytes.to_vec(), |found| text(found).into_bytes())
        };
        map_bytes(value, &bytes, &text)
    }

    fn homeward_text(&self, text: &str, http_port: Option<&str>) -> String {
        let mut text = text.replace(&*self.root.to_string_lossy(), "");
        if let (Some(port), Some(http)) = (http_port, &self.http) {
            text = text.replace(&http.addr().to_string(), &format!("127.0.0.1:{port}"));
        }
        for (recorded, ours) in &self.words {
            text = text.replace(ours, recorded);
        }
        text
    }

    /// Does what a note says was done outside the protocol. Notes that only remark do nothing.
    pub(crate) fn act(&self, note: &str) -> Result<()> {
        let path = |name: &str| self.workspace().join("wm").join(name);
        match note {
            "file wm/none.txt is created on the executor now" => fs::write(path("none.txt"), "")?,
            "removed and created again" => {
                fs::remove_file(path("none.txt"))?;
                fs::write(path("none.txt"), "")?;
            }
            "directory wm/a is created" => fs::create_dir(path("a"))?,
            "wm/a/b/c is created" => fs::create_dir_all(path("a/b/c"))?,
            "wm/n1 (watch 8, superseded) then wm/n2 (watch 9) are created" => {
                fs::write(path("n1"), "")?;
                fs::write(path("n2"), "")?;
            }
            "wm/exists is removed" => fs::remove_file(path("exists"))?,
            "wm/k1 is created after the empty registration" => fs::write(path("k1"), "")?,
            other => bail!("nobody knows how to do this: {other}"),
        }
        Ok(())
    }

    /// Creates a file of the workspace.
    pub(crate) fn write(&self, name: &str, contents: &[u8]) -> Result<()> {
        put(&self.workspace().join(name), contents)
    }

    fn furnish(&self) -> Result<()> {
        let tree = self.workspace().join("fsroot");
        put(&tree.join("a.txt"), b"hello world")?;
        put(&tree.join("sub/b.txt"), b"bee")?;
        fs::create_dir_all(tree.join("sub/deep"))?;
        symlink("a.txt", tree.join("link.txt"))?;
        symlink("sub", tree.join("dlink"))?;
        symlink("nowhere", tree.join("broken"))?;
        put(&tree.join(".hidden"), b"h")?;
        put(&tree.join(".hid/x"), b"x")?;
        put(&tree.join("sp ace é%.txt"), b"s")?;
        let made = std::process::Command::new("mkfifo")
            .arg(tree.join("fifo"))
            .status()
            .context("mkfifo")?;
        anyhow::ensure!(made.success(), "mkfifo failed");

        let encodings = self.workspace().join("enc");
        put(&encodings.join("a b#?%é.txt"), b"")?;
        put(&encodings.join("~t"), b"")?;
        put(
            &encodings.join(std::ffi::OsStr::from_bytes(b"\xFF\xFE.txt")),
            b"raw",
        )?;

        put(&self.workspace().join("wm/exists"), b"")?;

        let skill = |name: &str, description: &str, body: &str| {
            format!("---\nname: {name}\ndescription: {description}\n---\n{body}\n")
        };
        put(
            &self.home().join(".codex/config.toml"),
            b"model = \"user-model\"\n\n[mcp_servers.u]\ncommand = \"c\"\n",
        )?;
        put(
            &self.home().join(".codex/skills/hs/SKILL.md"),
            skill("hs", "Home skill", "x").as_bytes(),
        )?;
        put(
            &self.home().join(".agents/skills/us/SKILL.md"),
            skill("us", "User skill", "x").as_bytes(),
        )?;
        let plugin = self.workspace().join("plug");
        put(
            &plugin.join(".codex-plugin/plugin.json"),
            br#"{"name":"plug","version":"1.0.0","description":"d"}"#,
        )?;
        put(
            &plugin.join("skills/s1/SKILL.md"),
            skill("s1", "S one", "x").as_bytes(),
        )?;
        let project = self.workspace().join("proj/.agents/skills/demo/SKILL.md");
        put(&project, skill("demo", "A demo skill", "body").as_bytes())
    }
}

/// The port of the recording's HTTP server, if `text` names it. Port 1 is nobody's.
pub(crate) fn recorded_port(text: &str) -> Option<String> {
    text.match_indices("http://127.0.0.1:")
        .find_map(|(at, found)| {
            let digits: String = text[at + found.len()..]
                .chars()
                .take_while(char::is_ascii_digit)
                .collect();
            (digits.len() > 1).then_some(digits)
        })
}

/// `value` with every text and every byte string replaced.
pub(crate) fn map_bytes(
    value: Value,
    bytes: &dyn Fn(&[u8]) -> Vec<u8>,
    text: &dyn Fn(&str) -> String,
) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .map(|(key, value)| match value {
                Value::String(encoded) if BYTES.contains(&key.as_str()) => {
                    let value = base64::decode(encoded.as_bytes()).map_or(
                        Value::from(encoded),
                        |decoded| {
                            let mut again = String::new();
                            base64::encode_into(&bytes(&decoded), &mut again);
                            Value::from(again)
                        },
                    );
                    (key, value)
                }
                other => (key, map_bytes(other, bytes, text)),
            })
            .collect(),
        Value::Array(items) => items
            .into_iter()
            .map(|item| map_bytes(item, bytes, text))
            .collect(),
        Value::String(found) => Value::from(text(&found)),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_)) => other,
    }
}

fn put(path: &Path, contents: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, contents).with_context(|| path.display().to_string())
}
