//! Roots that the client names.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::Host;

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
