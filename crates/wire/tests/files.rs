//! Files, HTTP, environment, capabilities and policy types against the protocol's tables and recorded answers.

use mainstay_wire::capabilities::*;
use mainstay_wire::environment::*;
use mainstay_wire::fs::*;
use mainstay_wire::http::*;
use mainstay_wire::network::*;
use mainstay_wire::sandbox::*;
use mainstay_wire::{NoParams, envelope};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn decode<T: DeserializeOwned>(params: Value) -> Result<T, String> {
    let text = params.to_string();
    let raw: &serde_json::value::RawValue = serde_json::from_str(&text).unwrap();
    envelope::decode_params(Some(raw)).map_err(|error| error.message)
}

/// What the reference wrote, read and written again, is the same.
#[track_caller]
fn same<T: DeserializeOwned + Serialize>(recorded: Value) -> T {
    let value: T = decode(recorded.clone()).unwrap();
    assert_eq!(serde_json::to_value(&value).unwrap(), recorded);
    value
}

#[test]
fn s9_defaults_of_absent_and_null_flags() {
    let path = "file:///a";
    for null in [
        json!({"path": path}),
        json!({"path": path, "followSymlinks": null, "sandbox": null}),
    ] {
        assert!(
            decode::<ReadFileParams>(null.clone())
                .unwrap()
                .follow_symlinks
        );
        assert!(decode::<GetMetadataParams>(null).unwrap().follow_symlinks);
    }
    let remove =
        decode::<RemoveParams>(json!({"path": path, "recursive": null, "force": null})).unwrap();
    assert!(remove.recursive && remove.force && remove.follow_symlinks);
    let remove =
        decode::<RemoveParams>(json!({"path": path, "recursive": false, "force": false})).unwrap();
    assert!(!remove.recursive && !remove.force);
    assert!(
        decode::<CreateDirectoryParams>(json!({"path": path}))
            .unwrap()
            .recursive
    );
    let copy = json!({"sourcePath": path, "destinationPath": path});
    assert_eq!(
        decode::<CopyParams>(copy).unwrap_err(),
        "missing field `recursive`"
    );
    let walk = decode::<WalkParams>(
        json!({"path": path, "options": {"maxDepth": 1, "maxDirectories": 1, "maxEntries": 1}}),
    );
    assert_eq!(walk.unwrap_err(), "missing field `followDirectorySymlinks`");
}

#[test]
fn t31_bad_base64_of_a_written_file_is_reported_late() {
    let params =
        decode::<WriteFileParams>(json!({"path": "file:///a", "dataBase64": "!!!"})).unwrap();
    assert_eq!(
        params.data_base64.into_bytes().unwrap_err().to_string(),
        "Invalid symbol 33, offset 0."
    );
    let params =
        decode::<WriteFileParams>(json!({"path": "file:///a", "dataBase64": "eA=="})).unwrap();
    assert_eq!(&params.data_base64.into_bytes().unwrap()[..], b"x");
    assert!(decode::<WriteFileParams>(json!({"path": "file:///a", "dataBase64": 7})).is_err());
}

#[test]
fn t33_open_modes() {
    assert_eq!(
        decode::<OpenParams>(json!({"handleId": "", "path": "file:///a"}))
            .unwrap()
            .mode,
        OpenMode::Read
    );
    assert_eq!(
        decode::<OpenParams>(json!({"handleId": "h", "path": "file:///a", "mode": null}))
            .unwrap()
            .mode,
        OpenMode::Read
    );
    assert_eq!(
        decode::<OpenParams>(json!({"handleId": "h", "path": "file:///a", "mode": "append"}))
            .unwrap_err(),
        "unknown variant `append`, expected `read` or `replace`"
    );
    same::<ReadBlockAnswer>(json!({"chunk": "ODlhYmNkZWY=", "eof": true}));
    same::<WriteBlockParams>(json!({"handleId": "w1", "offset": 100, "chunk": "Z2Fw"}));
    assert_eq!(
        decode::<ReadBlockParams>(json!({"handleId": "h", "offset": u64::MAX, "len": 1}))
            .unwrap()
            .offset,
        u64::MAX
    );
}

#[test]
fn t30_t32_answers() {
    same::<ReadFileAnswer>(json!({"dataBase64": "aGVsbG8gd29ybGQ="}));
    same::<Metadata>(
        json!({"isDirectory": false, "isFile": true, "isSymlink": false, "size": 11, "createdAtMs": 0, "modifiedAtMs": -5}),
    );
    same::<ReadDirectoryAnswer>(
        json!({"entries": [{"fileName": "\u{FFFD}.txt", "isDirectory": false, "isFile": true}]}),
    );
    same::<WalkAnswer>(json!({
        "entries": [{"path": "file:///workspace/enc/~t", "kind": "file"}, {"path": "file:///workspace/d", "kind": "directory"}],
        "errors": [{"path": "file:///workspace/enc/%EF%BF%BD", "message": "No such file or directory (os error 2)"}],
        "truncated": false
    }));
}

#[test]
fn t01_t52_watch_params() {
    assert_eq!(
        decode::<WatchMissingParams>(json!({"watchId": "w", "paths": []})).unwrap_err(),
        "invalid type: string \"w\", expected u64"
    );
    assert_eq!(
        decode::<WatchMissingParams>(json!({})).unwrap_err(),
        "missing field `watchId`"
    );
    assert_eq!(
        decode::<WatchMissingParams>(json!({"watchId": 1})).unwrap_err(),
        "missing field `missing`"
    );
    assert!(
        decode::<WatchMissingParams>(json!({"watchId": -1, "missing": []}))
            .unwrap_err()
            .starts_with("invalid ")
    );
    same::<WatchMissingParams>(
        json!({"watchId": 10, "missing": ["file:///n3"], "present": "file:///exists"}),
    );
}

#[test]
fn t40_t41_http() {
    let least =
        decode::<HttpRequestParams>(json!({"method": "GET", "url": "nope", "requestId": "r"}))
            .unwrap();
    assert_eq!(
        (
            least.redirect_policy,
            least.stream_response,
            least.timeout_ms
        ),
        (RedirectPolicy::Follow, false, None)
    );
    let nulls = json!({"method": "GET", "url": "nope", "requestId": "r", "headers": null, "bodyBase64": null,
        "timeoutMs": null, "redirectPolicy": null, "streamResponse": null});
    assert_eq!(decode::<HttpRequestParams>(nulls).unwrap(), least);
    assert_eq!(
        decode::<HttpRequestParams>(
            json!({"method": "GET", "url": "u", "requestId": "r", "redirectPolicy": "bogus"})
        )
        .unwrap_err(),
        "unknown variant `bogus`, expected `follow` or `stop`"
    );
    assert_eq!(
        decode::<HttpRequestParams>(json!({"method": "GET", "url": "u"})).unwrap_err(),
        "missing field `requestId`"
    );
    same::<HttpRequestParams>(
        json!({"method": "POST", "url": "u", "headers": [{"name": "a", "value": "Bearer ", "valueEnvVar": "T"}],
        "bodyBase64": "Ym9keSE=", "timeoutMs": 0, "redirectPolicy": "stop", "requestId": "r", "streamResponse": true}),
    );
    same::<HttpAnswer>(
        json!({"status": 302, "headers": [{"name": "location", "value": "/plain"}], "bodyBase64": ""}),
    );
    same::<BodyDeltaParams>(
        json!({"requestId": "r20", "seq": 1, "deltaBase64": "aGVsbG8gaHR0cA==", "done": false, "error": null}),
    );
    same::<BodyDeltaParams>(
        json!({"requestId": "r", "seq": 2, "deltaBase64": "", "done": true, "error": "error decoding response body"}),
    );
}

#[test]
fn header_values_stay_out_of_debug() {
    let header = HttpRequestHeader {
        name: "authorization".into(),
        value: "s3cret".into(),
        value_env_var: None,
    };
    let received = HttpHeader {
        name: "set-cookie".into(),
        value: "s3cret".into(),
    };
    let text = format!("{header:?} {received:?}");
    assert!(
        text.contains("authorization") && !text.contains("s3cret"),
        "{text}"
    );
}

#[test]
fn t50_environment() {
    let info: EnvironmentInfo = same(
        json!({"shell": {"name": "bash", "path": "/bin/bash"}, "executorVersion": "0.171.0",
        "providerId": "sha256:d9", "cwd": "file:///workspace", "userHomeDir": "file:///home/user", "platformOs": "linux",
        "prependPathDirs": ["file:///opt/executor/codex-path"], "temporaryDirectories": [], "tempDir": "file:///tmp",
        "capabilities": {"networkProxyLaunch": true, "windowsMxc": false, "mainstayRetentionMs": 80000, "odd": {"x": 1}}}),
    );
    assert!(info.capabilities.has("networkProxyLaunch"));
    assert!(
        !info.capabilities.has("windowsMxc")
            && !info.capabilities.has("absent")
            && !info.capabilities.has("odd")
    );
    assert_eq!(
        info.capabilities.number("mainstayRetentionMs"),
        Some(80_000)
    );
    let old: EnvironmentInfo = decode(json!({"shell": {"name": "sh", "path": "/bin/sh"}})).unwrap();
    assert_eq!(old.executor_version, "0.0.0");
    same::<StatusAnswer>(json!({"status": "ready"}));
    assert_eq!(serde_json::to_value(NoParams {}).unwrap(), json!({}));
    assert_eq!(
        decode::<ConfigReadParams>(json!({"cwd": "file:///w"})).unwrap_err(),
        "missing field `configPaths`"
    );
    assert_eq!(
        decode::<ConfigReadParams>(json!({"cwd": "file:///w", "configPaths": []})).unwrap_err(),
        "missing field `requirementsPaths`"
    );
    same::<ConfigReadAnswer>(
        json!({"userHomeDir": "file:///home/user", "codexHomeDir": "file:///home/user/.codex", "hostname": "executor-host",
        "config": {"layers": [{"source": "user (/home/user/.codex/config.toml)", "baseDir": "file:///home/user/.codex", "toml": "model = \"m\"\n"}],
            "cloudInsertionIndex": 0},
        "requirements": {"layers": [], "cloudInsertionIndex": 0}}),
    );
}

#[test]
fn t51_capabilities() {
    assert_eq!(
        decode::<DiscoverParams>(json!({})).unwrap_err(),
        "missing field `cwd`"
    );
    assert_eq!(
        decode::<DiscoverRootsParams>(json!({})).unwrap_err(),
        "missing field `roots`"
    );
    assert_eq!(
        decode::<DiscoverRootsParams>(json!({"roots": [{}]})).unwrap_err(),
        "missing field `id`"
    );
    assert_eq!(
        decode::<DiscoverRootsParams>(json!({"roots": [{"id": "a"}]})).unwrap_err(),
        "missing field `path`"
    );
    same::<DiscoverAnswer>(
        json!({"plugins": [], "skills": [{"name": "hs", "description": "Home skill", "shortDescription": null,
        "path": "file:///home/user/.codex/skills/hs/SKILL.md", "discoveryRoot": {"id": "codex-home-skills", "path": "file:///home/user/.codex/skills"},
        "dependencies": null, "policy": null}], "warnings": []}),
    );
    same::<DiscoverRootsAnswer>(json!({"roots": [{"id": "a", "path": "file:///plug",
        "plugin": {"manifest": {"path": "file:///plug/.codex-plugin/plugin.json", "contents": "{}"}, "mcpConfig": null, "appsConfig": null},
        "skills": [{"instructions": {"path": "file:///plug/skills/s1/SKILL.md", "contents": "x"}, "metadata": null}],
        "namespaceManifests": [], "warnings": [], "error": null}]}));
}

#[test]
fn s9_3_sandbox_variants() {
    let rule = |path: Value, access: &str| json!({"path": path, "access": access});
    let special = |kind: &str| json!({"type": "special", "value": {"kind": kind}});
    let entries = json!([
        rule(special("root"), "read"),
        rule(special("minimal"), "write"),
        rule(special("current_working_directory"), "deny"),
        rule(special("project_roots"), "none"),
        rule(special("tmpdir"), "read"),
        rule(special("slash_tmp"), "read"),
        rule(special("unknown"), "read"),
        rule(json!({"type": "path", "path": "file:///srv"}), "read"),
        rule(json!({"type": "glob_pattern", "pattern": "src/**"}), "read"),
    ]);
    let managed = json!({"type": "managed", "network": "restricted",
        "file_system": {"type": "restricted", "entries": entries, "glob_scan_max_depth": 3}});
    let unrestricted =
        json!({"type": "managed", "network": "enabled", "file_system": {"type": "unrestricted"}});
    let external = json!({"type": "external", "network": "enabled"});
    for permissions in [managed, unrestricted, external, json!({"type": "disabled"})] {
        for level in ["disabled", "restricted-token", "elevated", "mxc"] {
            same::<Sandbox>(json!({"permissions": permissions, "windowsSandboxLevel": level}));
        }
    }
    same::<Sandbox>(
        json!({"permissions": {"type": "disabled"}, "windowsSandboxLevel": "disabled", "cwd": "file:///w",
        "workspaceRoots": ["file:///w"], "userHomeDir": "file:///h", "temporaryDirectories": [],
        "windowsSandboxProxySettingsMode": "preserve", "useLegacyLandlock": true}),
    );
    assert!(decode::<Sandbox>(json!({"permissions": {"type": "disabled", "x": 1}, "windowsSandboxLevel": "disabled", "x": 1})).is_ok());
    assert!(
        decode::<Sandbox>(
            json!({"permissions": {"type": "moon"}, "windowsSandboxLevel": "disabled"})
        )
        .is_err()
    );
}

#[test]
fn t60_policy() {
    same::<PolicyRequestParams>(
        json!({"processId": "p", "request": {"protocol": "https_connect", "host": "h", "port": 443}}),
    );
    for answer in [
        json!({"decision": {"type": "allow"}}),
        json!({"decision": {"type": "deny", "reason": "not today"}}),
        json!({"decision": {"type": "ask", "reason": "please ask"}}),
    ] {
        same::<PolicyAnswer>(answer);
    }
    assert!(decode::<PolicyAnswer>(json!({"decision": "allow"})).is_err());
    assert!(decode::<PolicyAnswer>(json!({"decision": {"type": "deny"}})).is_err());
    let proxy = json!({"proxy": {"enabled": true, "enableSocks5": true, "enableSocks5Udp": false, "allowUpstreamProxy": false,
        "dangerouslyAllowAllUnixSockets": false, "mode": "full", "domains": {"no.example.test": "deny"}, "unixSockets": null,
        "allowLocalBinding": false}, "policyDecisionTimeoutMs": 2000});
    let proxy: NetworkProxy = same(proxy);
    assert_eq!(
        proxy.proxy.domains.unwrap()["no.example.test"],
        DomainRule::Deny
    );
}

#[test]
fn s10_decisions_with_bad_reasons_become_not_allowed() {
    let deny = |reason: String| Decision::Deny { reason }.checked();
    assert_eq!(
        deny("r".repeat(1024)),
        Decision::Deny {
            reason: "r".repeat(1024)
        }
    );
    assert_eq!(deny("r".repeat(1025)), Decision::not_allowed());
    assert_eq!(deny("bad\u{1}reason".into()), Decision::not_allowed());
    assert_eq!(
        Decision::Ask {
            reason: "\n".into()
        }
        .checked(),
        Decision::not_allowed()
    );
    assert_eq!(Decision::Allow.checked(), Decision::Allow);
    let host = |host: &str| {
        PolicyTarget {
            protocol: PolicyProtocol::Http,
            host: host.into(),
            port: 1,
        }
        .host_is_valid()
    };
    assert!(host("h") && host(&"h".repeat(253)));
    assert!(!host("") && !host(&"h".repeat(254)) && !host("a b") && !host("a\u{7f}"));
}

#[test]
fn s10_9_audit_records_to_log() {
    let record = json!({"processId": "allow", "timestamp": "2026-11-30T22:10:18.527Z", "scope": "domain", "decision": "deny",
        "source": "baseline_policy", "reason": "not_allowed_local", "protocol": "http", "host": "policy.example.test", "port": 80,
        "method": "GET", "client": "127.0.0.1:44814", "policyOverride": false});
    assert!(same::<PolicyDecisionParams>(record.clone()).is_valid());
    let with = |member: &str, value: &str| {
        let mut record = record.clone();
        record[member] = json!(value);
        decode::<PolicyDecisionParams>(record).unwrap().is_valid()
    };
    assert!(
        with("method", &"M".repeat(32))
            && !with("method", &"M".repeat(33))
            && !with("method", "G T")
    );
    assert!(with("client", &"c".repeat(256)) && !with("client", &"c".repeat(257)));
    assert!(
        with("timestamp", &"t".repeat(64))
            && !with("timestamp", &"t".repeat(65))
            && !with("timestamp", "")
    );
    assert!(with("processId", &"p".repeat(256)) && !with("processId", &"p".repeat(257)));
    assert!(with("scope", "non_domain") && !with("scope", "moon"));
    assert!(with("decision", "ask") && !with("decision", "maybe"));
    assert!(
        with("source", "decider")
            && with("source", "mode_guard")
            && with("source", "proxy_state")
            && !with("source", "x")
    );
    assert!(
        !with("processId", "")
            && !with("host", "a b")
            && !with("reason", "\u{1}")
            && !with("reason", &"r".repeat(1025))
    );
}
