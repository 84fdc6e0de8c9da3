//! What the host itself has: skills and installed plugins.

use serde_json::json;

use crate::Host;

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
