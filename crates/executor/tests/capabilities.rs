//! Capability discovery (protocol.md 13, T51, and what 0.171.0 does with other trees).
#![allow(missing_docs)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use mainstay_executor::capabilities;
use mainstay_executor::config_read::ConfigFiles;
use mainstay_executor::lane::Lane;
use mainstay_wire::capabilities::{DiscoverAnswer, RootAnswer};
use mainstay_wire::{PathUri, RpcError, limits};
use serde_json::{Value, json};

struct Host {
    _folder: tempfile::TempDir,
    root: PathBuf,
}

impl Host {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        Self {
            _folder: folder,
            root,
        }
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn skill(&self, directory: &str, name: &str) {
        self.write(
            &format!("{directory}/SKILL.md"),
            format!("---\nname: {name}\ndescription: about {name}\n---\n"),
        );
    }

    fn uri(&self, path: &str) -> PathUri {
        PathUri::from_native(&self.root.join(path)).unwrap()
    }

    /// A URI without the host's folder.
    fn below(&self, uri: &PathUri) -> String {
        uri.as_str()
            .strip_prefix(self.uri("").as_str())
            .unwrap()
            .trim_start_matches('/')
            .to_owned()
    }

    async fn discover(&self) -> DiscoverAnswer {
        let files = ConfigFiles {
            home: Some(self.root.join("home")),
            codex_home: self.root.join("home/.codex"),
            system: self.root.join("etc"),
        };
        let params = json!({ "cwd": self.uri("proj") });
        capabilities::discover(
            Lane::default(),
            files,
            serde_json::from_value(params).unwrap(),
        )
        .await
        .unwrap()
        .answer
    }

    async fn try_roots(&self, roots: Value) -> Result<Vec<RootAnswer>, RpcError> {
        let params = serde_json::from_value(json!({ "roots": roots })).unwrap();
        capabilities::discover_roots(Lane::default(), params)
            .await
            .map(|answered| answered.answer.roots)
    }

    async fn roots(&self, paths: &[&str]) -> Vec<RootAnswer> {
        let roots: Vec<_> = paths
            .iter()
            .map(|path| json!({ "id": path, "path": self.uri(path) }))
            .collect();
        self.try_roots(json!(roots)).await.unwrap()
    }

    async fn one(&self, path: &str) -> RootAnswer {
        self.roots(&[path]).await.remove(0)
    }

    fn skills(&self, root: &RootAnswer) -> Vec<String> {
        root.skills
            .iter()
            .map(|skill| self.below(&skill.instructions.path))
            .collect()
    }

    fn namespaces(&self, root: &RootAnswer) -> Vec<String> {
        root.namespace_manifests
            .iter()
            .map(|manifest| self.below(&manifest.path))
            .collect()
    }
}

const INCOMPLETE: &str =
    "some capability metadata could not be loaded; discovery may be incomplete";

#[tokio::test]
async fn t51_discover_v2() {
    let host = Host::new();
    host.skill("home/.codex/skills/hs", "hs");
    host.skill("home/.agents/skills/us", "us");
    host.skill("proj/.agents/skills/demo", "demo");
    let answer = serde_json::to_value(host.discover().await).unwrap();
    let skill = |name: &str, root: &str, id: &str| {
        json!({
            "name": name,
            "description": format!("about {name}"),
            "shortDescription": null,
            "path": host.uri(&format!("{root}/{name}/SKILL.md")),
            "discoveryRoot": { "id": id, "path": host.uri(root) },
            "dependencies": null,
            "policy": null,
        })
    };
    let expected = json!({
        "plugins": [],
        "skills": [
            skill("hs", "home/.codex/skills", "codex-home-skills"),
            skill("us", "home/.agents/skills", "user-agent-skills"),
        ],
        "warnings": [],
    });
    assert_eq!(answer, expected);
}

#[tokio::test]
async fn skills_that_cannot_be_understood_are_left_out_with_one_warning() {
    let host = Host::new();
    host.skill("home/.codex/skills/good", "good");
    host.write("home/.codex/skills/none/SKILL.md", "no front matter");
    host.write(
        "home/.codex/skills/binary/SKILL.md",
        b"---\nname: \xff\n---\n",
    );
    host.write(
        "home/.codex/skills/unnamed/SKILL.md",
        "---\ndescription: d\n---\n",
    );
    host.write(
        "home/.codex/skills/odd/SKILL.md",
        "---\nname: odd\ndescription: d\n---\n",
    );
    // What is beside a skill and cannot be understood is nothing to warn about.
    host.write(
        "home/.codex/skills/odd/agents/openai.yaml",
        "dependencies: [",
    );
    host.skill("home/.codex/skills/.hidden/deep/er", "hidden");
    let answer = host.discover().await;
    let names: Vec<_> = answer
        .skills
        .iter()
        .map(|skill| skill.name.as_str())
        .collect();
    assert_eq!(names, ["hidden", "good", "odd", "unnamed"]);
    assert_eq!(answer.warnings, [INCOMPLETE]);
}

#[tokio::test]
async fn a_plugin_gives_its_skills_a_namespace() {
    let host = Host::new();
    host.write(
        "home/.codex/skills/pl/.codex-plugin/plugin.json",
        r#"{"name":"nsp"}"#,
    );
    host.skill("home/.codex/skills/pl/skills/s", "s");
    assert_eq!(host.discover().await.skills[0].name, "nsp:s");
}

#[tokio::test]
async fn installed_plugins() {
    let host = Host::new();
    let at = "home/.codex/plugins/cache/mk/pl";
    host.write(
        &format!("{at}/1.2.3/.codex-plugin/plugin.json"),
        r#"{"name":"old"}"#,
    );
    let manifest = r#"{"name":"pl","interface":{"displayName":"PL"},"mcpServers":"./m.json"}"#;
    host.write(&format!("{at}/1.10.0/.codex-plugin/plugin.json"), manifest);
    host.write(&format!("{at}/1.10.0/m.json"), "{}");
    host.skill(&format!("{at}/1.10.0/skills/ps"), "ps");
    host.write(
        &format!("{at}/1.10.0/skills/ps/agents/openai.yaml"),
        "policy: {allow_implicit_invocation: false}",
    );
    host.write(
        "home/.codex/plugins/cache/mk/broken/1/.codex-plugin/plugin.json",
        "{nope",
    );

    let answer = host.discover().await;
    assert_eq!(answer.warnings, [INCOMPLETE]);
    let root = format!("{at}/1.10.0");
    let expected = json!([{
        "id": "pl@mk",
        "displayName": "PL",
        "remotePluginId": null,
        "version": "1.10.0",
        "root": host.uri(&root),
        "files": {
            "manifest": { "path": host.uri(&format!("{root}/.codex-plugin/plugin.json")), "contents": manifest },
            "mcpConfig": { "path": host.uri(&format!("{root}/m.json")), "contents": "{}" },
            "appsConfig": null,
        },
        "skills": [{
            "name": "pl:ps",
            "description": "about ps",
            "shortDescription": null,
            "path": host.uri(&format!("{root}/skills/ps/SKILL.md")),
            "dependencies": null,
            "policy": { "allowImplicitInvocation": false, "products": [] },
        }],
    }]);
    assert_eq!(serde_json::to_value(&answer.plugins).unwrap(), expected);

    host.write(
        &format!("{at}/local/.codex-plugin/plugin.json"),
        r#"{"name":"mine"}"#,
    );
    let plugin = &host.discover().await.plugins[0];
    assert_eq!(
        (plugin.version.as_deref(), plugin.display_name.as_deref()),
        (Some("local"), Some("mine"))
    );
}

#[tokio::test]
async fn t51_discover_roots() {
    let host = Host::new();
    host.write("plug/.codex-plugin/plugin.json", r#"{"name":"plug"}"#);
    host.skill("plug/skills/s1", "s1");
    host.write("file", "");
    host.skill("proj/demo", "demo");
    let [plugin, none, file, skills] = &host.roots(&["plug", "none", "file", "proj"]).await[..]
    else {
        panic!()
    };

    let manifest = json!({
        "path": host.uri("plug/.codex-plugin/plugin.json"), "contents": r#"{"name":"plug"}"#,
    });
    let instructions = json!({
        "path": host.uri("plug/skills/s1/SKILL.md"),
        "contents": "---\nname: s1\ndescription: about s1\n---\n",
    });
    let expected = json!({
        "id": "plug",
        "path": host.uri("plug"),
        "plugin": { "manifest": manifest, "mcpConfig": null, "appsConfig": null },
        "skills": [{ "instructions": instructions, "metadata": null }],
        "namespaceManifests": [manifest],
        "warnings": [],
        "error": null,
    });
    assert_eq!(serde_json::to_value(plugin).unwrap(), expected);
    let text = format!(
        "failed to inspect capability root {}: {}",
        host.uri("none"),
        "No such file or directory (os error 2)"
    );
    assert_eq!(none.error, Some(text));
    assert_eq!(
        file.error,
        Some(format!(
            "capability root {} is not a directory",
            host.uri("file")
        ))
    );
    assert_eq!(
        (host.skills(skills), &skills.plugin),
        (vec!["proj/demo/SKILL.md".to_owned()], &None)
    );
    assert!(host.namespaces(skills).is_empty());
    assert!(host.try_roots(json!([])).await.unwrap().is_empty());
    let foreign = host
        .try_roots(json!([{ "id": "a", "path": "file://host/x" }]))
        .await
        .unwrap()
        .remove(0);
    let text =
        "failed to inspect capability root file://host/x: 'file://host/x' is invalid on 'linux'";
    assert_eq!(foreign.error.as_deref(), Some(text));
}

#[tokio::test]
async fn what_a_scan_finds() {
    let host = Host::new();
    host.skill("ss", "root");
    host.skill("ss/a", "a");
    host.write("ss/a/agents/openai.yaml", "interface: {}\n");
    host.skill("ss/.hid/b", "b");
    host.skill("ss/d1/d2/d3/d4/d5/d6", "six");
    host.skill("ss/d1/d2/d3/d4/d5/d6/d7", "seven");
    host.write("ss/low/skill.md", "");
    fs::create_dir_all(host.root.join("ss/dirskill/SKILL.md")).unwrap();
    host.skill("ext/q", "q");
    symlink(host.root.join("ext/q"), host.root.join("ss/lnk")).unwrap();
    host.write("ss/ln2/other", "");
    symlink(
        host.root.join("ext/q/SKILL.md"),
        host.root.join("ss/ln2/SKILL.md"),
    )
    .unwrap();
    host.write("ss/plug/.claude-plugin/plugin.json", "{}");
    host.skill("ss/plug/skills/np", "np");

    let root = host.one("ss").await;
    let found = [
        "ss/.hid/b/SKILL.md",
        "ss/SKILL.md",
        "ss/a/SKILL.md",
        "ss/d1/d2/d3/d4/d5/d6/SKILL.md",
        "ss/lnk/SKILL.md",
        "ss/plug/skills/np/SKILL.md",
    ];
    assert_eq!(host.skills(&root), found);
    let metadata = root.skills[2].metadata.as_ref().unwrap();
    assert_eq!(
        (
            host.below(&metadata.path).as_str(),
            metadata.contents.as_str()
        ),
        ("ss/a/agents/openai.yaml", "interface: {}\n")
    );
    assert_eq!(
        host.namespaces(&root),
        ["ss/plug/.claude-plugin/plugin.json"]
    );
    assert!(root.warnings.is_empty(), "{:?}", root.warnings);
    // The plugin may lie above the root.
    for below in ["ss/plug/skills", "ss/plug/skills/np"] {
        assert_eq!(
            host.namespaces(&host.one(below).await),
            ["ss/plug/.claude-plugin/plugin.json"]
        );
    }
}

#[tokio::test]
async fn what_a_manifest_names() {
    let host = Host::new();
    let plugin = async |name: &str, manifest: &str| {
        host.write(&format!("{name}/.codex-plugin/plugin.json"), manifest);
        host.write(&format!("{name}/.mcp.json"), "default");
        host.write(&format!("{name}/m.json"), "named");
        let root = host.one(name).await;
        let plugin = root.plugin.unwrap();
        (plugin.mcp_config.map(|file| file.contents), root.warnings)
    };
    assert_eq!(plugin("a", "{}").await, (Some("default".into()), vec![]));
    assert_eq!(
        plugin("b", r#"{"mcpServers":"./m.json"}"#).await,
        (Some("named".into()), vec![])
    );
    assert_eq!(
        plugin("c", r#"{"mcpServers":{"x":{}}}"#).await,
        (None, vec![])
    );
    let ignoring = |name: &str, reason: &str| {
        vec![format!(
            "ignoring mcpServers in {}: {reason}",
            host.uri(&format!("{name}/.codex-plugin/plugin.json"))
        )]
    };
    let prefix = ignoring("d", "path must start with `./`");
    assert_eq!(
        plugin("d", r#"{"mcpServers":"../a/m.json"}"#).await,
        (None, prefix)
    );
    let outside = ignoring("e", "path must stay within the plugin");
    assert_eq!(
        plugin("e", r#"{"mcpServers":"./../a/m.json"}"#).await,
        (None, outside)
    );
    // The first kind of manifest counts.
    host.write("f/.cursor-plugin/plugin.json", "cursor");
    host.write("f/.claude-plugin/plugin.json", "claude");
    assert_eq!(
        host.one("f").await.plugin.unwrap().manifest.contents,
        "claude"
    );
}

#[tokio::test]
async fn limit_capability_file() {
    let host = Host::new();
    let size = usize::try_from(limits::CAPABILITY_FILE).unwrap();
    host.write("r/fits/SKILL.md", "x".repeat(size));
    host.write("r/more/SKILL.md", "x".repeat(size + 1));
    host.write("r/binary/SKILL.md", b"\xff\xfe");
    let root = host.one("r").await;
    assert_eq!(host.skills(&root), ["r/fits/SKILL.md"]);
    let warnings = [
        format!(
            "capability file {} is not UTF-8: invalid utf-8 sequence of 1 bytes from index 0",
            host.uri("r/binary/SKILL.md")
        ),
        format!(
            "capability file {} exceeds the 1048576-byte limit",
            host.uri("r/more/SKILL.md")
        ),
    ];
    assert_eq!(root.warnings, warnings);
}

#[tokio::test]
async fn limit_capability_bundle_and_answer() {
    let host = Host::new();
    let file = "x".repeat(limits::MIB);
    let per_root = limits::CAPABILITY_BUNDLE / limits::MIB;
    for number in 0..=per_root {
        host.write(&format!("r/s{number:03}/SKILL.md"), &file);
    }
    let roots = host.roots(&["r", "r", "r"]).await;
    let warning = vec!["capability root bundle exceeds the 16777216-byte limit".to_owned()];
    for (root, skills) in roots.iter().zip([per_root, per_root, 0]) {
        assert_eq!(
            (root.skills.len(), &root.warnings, &root.error),
            (skills, &warning, &None)
        );
    }
}

#[tokio::test]
async fn limit_capability_roots() {
    let host = Host::new();
    let roots = |count: usize| json!(vec![json!({ "id": "a", "path": host.uri("none") }); count]);
    assert_eq!(
        host.try_roots(roots(limits::CAPABILITY_ROOTS))
            .await
            .unwrap()
            .len(),
        limits::CAPABILITY_ROOTS
    );
    let error = host
        .try_roots(roots(limits::CAPABILITY_ROOTS + 1))
        .await
        .unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (
            -32600,
            "capability root discovery accepts at most 128 roots"
        )
    );
}

#[tokio::test]
async fn limit_capability_scan() {
    let host = Host::new();
    let directories = limits::CAPABILITY_DIRECTORIES;
    // The root is one of them.
    for number in 1..directories {
        fs::create_dir_all(host.root.join(format!("r/d{number:04}"))).unwrap();
    }
    host.skill(&format!("r/d{:04}", directories - 1), "last");
    let root = host.one("r").await;
    assert_eq!((root.skills.len(), root.warnings.len()), (1, 0));
    fs::create_dir_all(host.root.join("r/d0000")).unwrap();
    let root = host.one("r").await;
    let warning = format!(
        "capability scan reached its traversal limit (root: {})",
        host.uri("r")
    );
    assert_eq!((root.skills.len(), root.warnings), (0, vec![warning]));
}

#[tokio::test]
async fn limit_capability_warnings() {
    let host = Host::new();
    for number in 0..limits::CAPABILITY_WARNINGS + 2 {
        host.write(&format!("r/s{number:03}/SKILL.md"), b"\xff");
    }
    let warnings = host.one("r").await.warnings;
    assert_eq!(warnings.len(), limits::CAPABILITY_WARNINGS);
    assert_eq!(warnings.last().unwrap(), "and 3 warnings more");
}

#[tokio::test]
async fn sandboxes_of_roots() {
    let host = Host::new();
    host.skill("r/s", "s");
    let root = |entry: Value| {
        let permissions = json!({
            "type": "managed", "file_system": { "type": "restricted", "entries": [entry] }, "network": "restricted",
        });
        json!([
            { "id": "a", "path": host.uri("r"), "sandbox": { "permissions": permissions, "windowsSandboxLevel": "disabled" } },
            { "id": "b", "path": host.uri("r") },
        ])
    };
    let all =
        json!({ "path": { "type": "special", "value": { "kind": "root" } }, "access": "read" });
    let some = json!({ "path": { "type": "path", "path": host.uri("r") }, "access": "read" });
    let relative =
        json!({ "path": { "type": "glob_pattern", "pattern": "src/**" }, "access": "read" });

    let found = host.try_roots(root(all)).await.unwrap();
    assert_eq!((found[0].skills.len(), &found[0].error), (1, &None));
    let found = host.try_roots(root(some)).await.unwrap();
    assert!(
        found[0]
            .error
            .as_ref()
            .unwrap()
            .ends_with("this executor has no sandbox for these permissions")
    );
    assert_eq!(found[1].skills.len(), 1);
    let error = host.try_roots(root(relative)).await.unwrap_err();
    assert_eq!(error.code, -32602);
}
