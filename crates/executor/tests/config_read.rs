//! `environmentConfig/read` (protocol.md 12, T50; the layers as 0.171.0 gives them).
#![allow(missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};

use mainstay_executor::config_read::ConfigFiles;
use mainstay_executor::lane::Lane;
use mainstay_wire::environment::ConfigReadAnswer;
use mainstay_wire::{PathUri, RpcError, limits};
use serde_json::{Value, json};

struct Host {
    _folder: tempfile::TempDir,
    root: PathBuf,
    files: ConfigFiles,
}

impl Host {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let files = ConfigFiles {
            home: Some(root.join("home")),
            codex_home: root.join("home/.codex"),
            system: root.join("etc"),
        };
        for directory in [&files.codex_home, &files.system] {
            fs::create_dir_all(directory).unwrap();
        }
        Self {
            _folder: folder,
            root,
            files,
        }
    }

    fn user(&self, toml: impl AsRef<[u8]>) {
        fs::write(self.files.codex_home.join("config.toml"), toml).unwrap();
    }

    fn system(&self, name: &str, toml: &str) {
        fs::write(self.files.system.join(name), toml).unwrap();
    }

    async fn ask(&self, config: Value, requirements: Value) -> Result<ConfigReadAnswer, RpcError> {
        let params = json!({ "cwd": uri(&self.root), "configPaths": config, "requirementsPaths": requirements });
        self.files
            .clone()
            .read(Lane::default(), serde_json::from_value(params).unwrap())
            .await
            .map(|answered| answered.answer)
    }

    /// What of the user's file is selected.
    async fn selected(&self, config: Value) -> Option<String> {
        let answer = self.ask(config, json!([])).await.unwrap();
        answer
            .config
            .layers
            .into_iter()
            .next()
            .map(|layer| layer.toml)
    }
}

fn uri(path: &Path) -> PathUri {
    PathUri::from_native(path).unwrap()
}

#[tokio::test]
async fn t50_config_read() {
    let host = Host::new();
    host.user("model = \"user-model\"\nother = 1\n[mcp_servers.u]\ncommand = \"c\"\n");
    let answer = host
        .ask(json!([["model"], ["mcp_servers", "u"]]), json!([]))
        .await
        .unwrap();
    assert_eq!(answer.user_home_dir, Some(uri(&host.root.join("home"))));
    assert_eq!(answer.codex_home_dir, uri(&host.files.codex_home));
    assert!(answer.hostname.is_some());
    let [layer] = &answer.config.layers[..] else {
        panic!("{answer:?}")
    };
    assert_eq!(
        layer.source,
        format!(
            "user ({})",
            host.files.codex_home.join("config.toml").display()
        )
    );
    assert_eq!(layer.base_dir, uri(&host.files.codex_home));
    assert_eq!(
        layer.toml,
        "model = \"user-model\"\n\n[mcp_servers.u]\ncommand = \"c\"\n"
    );
    assert_eq!(answer.config.cloud_insertion_index, 0);
    assert!(answer.requirements.layers.is_empty());

    assert_eq!(host.selected(json!([["nope"]])).await, None);
    fs::remove_file(host.files.codex_home.join("config.toml")).unwrap();
    assert_eq!(host.selected(json!([["model"]])).await, None);
}

#[tokio::test]
async fn t50_bad_selectors() {
    let host = Host::new();
    let refused = async |config: Value, requirements: Value| {
        let error = host.ask(config, requirements).await.unwrap_err();
        (error.code, error.message)
    };
    let none = "at least one config or requirements path is required";
    assert_eq!(
        refused(json!([]), json!([])).await,
        (-32602, none.to_owned())
    );
    let empty = "TOML paths must contain at least one key segment";
    assert_eq!(
        refused(json!([[]]), json!([])).await,
        (-32602, empty.to_owned())
    );
    assert_eq!(
        refused(json!([["a"]]), json!([[]])).await,
        (-32602, empty.to_owned())
    );
    let params = json!({ "cwd": "file:///c:/x", "configPaths": [["a"]], "requirementsPaths": [] });
    let error = host
        .files
        .clone()
        .read(Lane::default(), serde_json::from_value(params).unwrap())
        .await
        .unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (-32602, "'file:///C:/x' is invalid on 'linux'")
    );
}

#[tokio::test]
async fn key_paths_select_in_the_order_of_the_file() {
    let host = Host::new();
    host.user(
        r#"a.b.c = 1
a.d = 2
"x y".z = 3
[a.e]
f = 1
[[t.u]]
v = 1
[[t.u]]
v = 2
[m]
[n]
inline = { B = "2", A = "1" }
list = [1, [2, "3"], { k = 1 }]
when = 2020-01-01T00:00:00Z
"#,
    );
    let expected = [
        (
            json!([["a"]]),
            "[a]\nd = 2\n\n[a.b]\nc = 1\n\n[a.e]\nf = 1\n",
        ),
        (
            json!([["a", "e"], ["a", "b"]]),
            "[a.b]\nc = 1\n\n[a.e]\nf = 1\n",
        ),
        (json!([["a", "e"], ["a", "nope"]]), "[a.e]\nf = 1\n"),
        (json!([["a", "d", "below", "a", "scalar"]]), "[a]\nd = 2\n"),
        (json!([["x y", "z"]]), "[\"x y\"]\nz = 3\n"),
        (
            json!([["t", "u", "v"]]),
            "[[t.u]]\nv = 1\n\n[[t.u]]\nv = 2\n",
        ),
        (json!([["m"], ["m"]]), "[m]\n"),
        (
            json!([["n"]]),
            "[n]\nlist = [1, [2, \"3\"], { k = 1 }]\nwhen = 2020-01-01T00:00:00Z\n\n[n.inline]\nB = \"2\"\nA = \"1\"\n",
        ),
    ];
    for (paths, toml) in expected {
        assert_eq!(
            host.selected(paths.clone()).await.as_deref(),
            Some(toml),
            "{paths}"
        );
    }
}

#[tokio::test]
async fn layers_stand_in_the_order_of_precedence() {
    let host = Host::new();
    host.user("model = \"user\"\n");
    host.system("config.toml", "model = \"system\"\n");
    host.system("requirements.toml", "model = \"required\"\n");
    host.system(
        "managed_config.toml",
        "model = \"managed\"\napproval_policy = \"never\"\nsandbox_mode = \"workspace-write\"\n",
    );
    let requirements = json!([
        ["model"],
        ["allowed_approval_policies"],
        ["allowed_sandbox_modes"]
    ]);
    let answer = host
        .ask(json!([["model"]]), requirements.clone())
        .await
        .unwrap();

    let etc = host.files.system.display();
    let layers = |stack: &mainstay_wire::environment::ConfigStack| {
        let layers = stack
            .layers
            .iter()
            .map(|layer| (layer.source.clone(), layer.toml.clone()));
        (layers.collect::<Vec<_>>(), stack.cloud_insertion_index)
    };
    assert_eq!(
        layers(&answer.config),
        (
            vec![
                (
                    format!("system ({etc}/config.toml)"),
                    "model = \"system\"\n".to_owned()
                ),
                (
                    format!(
                        "user ({})",
                        host.files.codex_home.join("config.toml").display()
                    ),
                    "model = \"user\"\n".to_owned()
                ),
                (
                    format!("legacy managed_config.toml ({etc}/managed_config.toml)"),
                    "model = \"managed\"\n".to_owned()
                ),
            ],
            1
        )
    );
    let managed = "allowed_approval_policies = [\"never\"]\nallowed_sandbox_modes = [\"read-only\", \"workspace-write\"]\n";
    assert_eq!(
        layers(&answer.requirements),
        (
            vec![
                (
                    format!("{etc}/requirements.toml"),
                    "model = \"required\"\n".to_owned()
                ),
                (format!("{etc}/managed_config.toml"), managed.to_owned()),
            ],
            1
        )
    );
    // The cloud's place is counted in the layers that are told.
    let answer = host
        .ask(
            json!([["approval_policy"]]),
            json!([["allowed_sandbox_modes"]]),
        )
        .await
        .unwrap();
    assert_eq!(
        (
            answer.config.layers.len(),
            answer.config.cloud_insertion_index
        ),
        (1, 0)
    );
    assert_eq!(
        (
            answer.requirements.layers.len(),
            answer.requirements.cloud_insertion_index
        ),
        (1, 0)
    );
}

#[tokio::test]
async fn what_cannot_be_read_is_told() {
    let host = Host::new();
    let path = host.files.codex_home.join("config.toml");
    let failed = async || {
        let error = host.ask(json!([["model"]]), json!([])).await.unwrap_err();
        assert_eq!(error.code, -32603);
        error
            .message
            .strip_prefix("failed to load executor-local config: ")
            .unwrap()
            .to_owned()
    };
    host.user("a = 1\nmodel = \"u2\n");
    assert!(
        failed()
            .await
            .starts_with(&format!("{}:2:12: ", path.display())),
        "{}",
        failed().await
    );
    host.user("a=1\na=2\n");
    assert_eq!(
        failed().await,
        format!("{}:2:1: duplicate key", path.display())
    );
    host.user(b"model=\"\xff\"\n");
    let text = format!(
        "Failed to read config file {}: invalid utf-8 sequence of 1 bytes from index 7",
        path.display()
    );
    assert_eq!(failed().await, text);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let text = format!(
        "Failed to read config file {0}: path `{0}` is not a file",
        path.display()
    );
    assert_eq!(failed().await, text);
    fs::remove_dir(&path).unwrap();

    host.system("managed_config.toml", "sandbox_mode = 1\n");
    assert!(failed().await.contains("`sandbox_mode`"));
    host.system("managed_config.toml", "");
    host.system("requirements.toml", "a=\"\n");
    let text = format!(
        "failed to parse requirements layer {}/requirements.toml: TOML parse error at line 1",
        host.files.system.display()
    );
    assert!(failed().await.starts_with(&text), "{}", failed().await);
}

#[tokio::test]
async fn limit_config_file() {
    let host = Host::new();
    let size = usize::try_from(limits::CONFIG_FILE).unwrap();
    let file = |bytes: usize| format!("model = 1 #{}", "x".repeat(bytes - 11));
    host.user(file(size));
    assert_eq!(
        host.selected(json!([["model"]])).await.as_deref(),
        Some("model = 1\n")
    );
    host.user(file(size + 1));
    let error = host.ask(json!([["model"]]), json!([])).await.unwrap_err();
    assert!(
        error
            .message
            .ends_with("file is too large to read: limit is 1048576 bytes"),
        "{}",
        error.message
    );
}
