//! What a skill says about itself: the front matter of `SKILL.md`, and `agents/openai.yaml` beside it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Further facts, beside `SKILL.md`.
pub(super) const METADATA: &str = "agents/openai.yaml";

/// Characters of a name; a skill with a longer one is not told.
const NAME: usize = 64;

/// What the front matter says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FrontMatter {
    /// The directory's name stands in for it.
    pub(super) name: Option<String>,
    pub(super) description: String,
    pub(super) short_description: Option<String>,
}

impl FrontMatter {
    /// Reads it; `None` when there is none, it cannot be understood, or it has no description.
    pub(super) fn parse(skill: &str) -> Option<Self> {
        let text = between_lines(skill)?;
        let parsed = match yaml::<Value>(text) {
            Ok(parsed) => parsed,
            Err(_) => by_lines(text)?,
        };
        let metadata = match parsed.get("metadata") {
            None | Some(Value::Null) => None,
            Some(Value::Object(metadata)) => metadata.get("short-description").and_then(text_of),
            Some(_) => return None,
        };
        let name = parsed.get("name").and_then(text_of);
        if name
            .as_ref()
            .is_some_and(|name| name.chars().count() > NAME)
        {
            return None;
        }
        Some(Self {
            name,
            description: parsed.get("description").and_then(text_of)?,
            short_description: metadata,
        })
    }
}

/// Reads YAML. People write little of it here; what is longer, or grows when its aliases are expanded, is refused.
fn yaml<T: DeserializeOwned>(text: &str) -> Result<T, serde_saphyr::Error> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 20_000,
            max_nodes: 10_000,
            max_recorded_anchor_events: 10_000,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 1_000 },
        // `n` is a name.
        strict_booleans: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options)
}

/// The lines between the first two that are `---`; the first line must be one.
fn between_lines(skill: &str) -> Option<&str> {
    let (first, rest) = skill.split_once('\n')?;
    if first.trim_end() != "---" {
        return None;
    }
    let mut length = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return rest.get(..length);
        }
        length += line.len();
    }
    None
}

/// The `key: value` lines of something that is no YAML, as people write it: `description: Note: this is important`.
fn by_lines(text: &str) -> Option<Value> {
    let mut found = serde_json::Map::new();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        if !matches!(key, "name" | "description") {
            continue;
        }
        let value = value.trim();
        let quoted = [b'"', b'\''].iter().any(|quote| {
            value.len() >= 2
                && value.as_bytes().first() == Some(quote)
                && value.as_bytes().last() == Some(quote)
        });
        let value = if quoted {
            &value[1..value.len() - 1]
        } else {
            value
        };
        if found.insert(key.to_owned(), Value::from(value)).is_some() {
            return None;
        }
    }
    Some(Value::Object(found))
}

/// A scalar as one line of text; `None` when it is blank.
fn text_of(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    (!text.is_empty()).then_some(text)
}

/// What `agents/openai.yaml` adds; nothing when it cannot be understood.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Additions {
    pub(super) dependencies: Option<Dependencies>,
    pub(super) policy: Option<Policy>,
}

/// What a skill needs.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Dependencies {
    tools: Vec<Tool>,
}

/// A tool a skill needs, as the peer is told.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Tool {
    r#type: String,
    value: String,
    description: Option<String>,
    transport: Option<String>,
    command: Option<String>,
    url: Option<String>,
    oauth_callback_port: Option<u16>,
}

/// When a skill may be used, as the peer is told.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Policy {
    allow_implicit_invocation: Option<bool>,
    products: Vec<Product>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Product {
    #[serde(alias = "CHATGPT")]
    Chatgpt,
    #[serde(alias = "CODEX")]
    Codex,
    #[serde(alias = "ATLAS")]
    Atlas,
}

/// The file.
#[derive(Deserialize)]
struct MetadataFile {
    dependencies: Option<DependenciesInFile>,
    policy: Option<PolicyInFile>,
}

#[derive(Deserialize)]
struct DependenciesInFile {
    #[serde(default)]
    tools: Vec<Value>,
}

#[derive(Deserialize)]
struct PolicyInFile {
    allow_implicit_invocation: Option<bool>,
    #[serde(default)]
    products: Vec<Product>,
}

impl Additions {
    /// Reads it.
    pub(super) fn parse(metadata: &str) -> Self {
        let Ok(file) = yaml::<MetadataFile>(metadata) else {
            return Self::default();
        };
        let tools: Vec<_> = file
            .dependencies
            .iter()
            .flat_map(|found| &found.tools)
            .filter_map(tool)
            .collect();
        Self {
            dependencies: (!tools.is_empty()).then_some(Dependencies { tools }),
            policy: file.policy.map(|policy| Policy {
                allow_implicit_invocation: policy.allow_implicit_invocation,
                products: policy.products,
            }),
        }
    }
}

/// A tool; one without a type or a value is left out.
fn tool(value: &Value) -> Option<Tool> {
    let text = |member: &str| value.get(member).and_then(text_of);
    let port = value
        .get("oauth")
        .and_then(|oauth| oauth.get("callbackPort").or(oauth.get("callback_port")));
    Some(Tool {
        r#type: text("type")?,
        value: text("value")?,
        description: text("description"),
        transport: text("transport"),
        command: text("command"),
        url: text("url"),
        oauth_callback_port: port
            .and_then(Value::as_u64)
            .and_then(|port| u16::try_from(port).ok()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(text: &str) -> Option<(Option<String>, String, Option<String>)> {
        let found = FrontMatter::parse(text)?;
        Some((found.name, found.description, found.short_description))
    }

    fn short(name: &str, description: &str) -> Option<(Option<String>, String, Option<String>)> {
        Some((Some(name.to_owned()), description.to_owned(), None))
    }

    #[test]
    fn front_matter_as_the_reference_reads_it() {
        let front = |text: &str| parsed(&format!("---\n{text}\n---\nbody\n"));
        assert_eq!(front("name: n\ndescription: d"), short("n", "d"));
        assert_eq!(
            front("name: \"  tr  im \"\ndescription: >\n  a\n  b"),
            short("tr im", "a b")
        );
        assert_eq!(front("name: 5\ndescription: true"), short("5", "true"));
        assert_eq!(front("name: &a n\ndescription: *a"), short("n", "n"));
        assert_eq!(front("name: n\ndescription: a: b"), short("n", "a: b"));
        assert_eq!(front("name: n\ndescription: 'd'\nx: [1,2"), short("n", "d"));
        assert_eq!(front("description: d"), Some((None, "d".into(), None)));
        assert_eq!(
            front("name: ''\ndescription: d"),
            Some((None, "d".into(), None))
        );
        let with_short = "name: n\ndescription: d\nmetadata:\n  short-description: s s";
        assert_eq!(
            front(with_short),
            Some((Some("n".into()), "d".into(), Some("s s".into())))
        );
        assert_eq!(
            front(&format!("name: {}\ndescription: d", "é".repeat(64))),
            short(&"é".repeat(64), "d")
        );

        for nothing in [
            "name: n",
            "name: n\ndescription: ''",
            "name: n\nname: m\ndescription: d",
            "- a",
            "",
            "name: n\ndescription: d\nmetadata: x",
        ] {
            assert_eq!(front(nothing), None, "{nothing}");
        }
        assert_eq!(
            front(&format!("name: {}\ndescription: d", "x".repeat(65))),
            None
        );
    }

    #[test]
    fn front_matter_stands_between_two_lines() {
        assert_eq!(
            parsed("---\r\nname: n\r\ndescription: d\r\n---\r\n"),
            short("n", "d")
        );
        assert_eq!(
            parsed("---  \nname: n\ndescription: d\n---\t\nx"),
            short("n", "d")
        );
        assert_eq!(parsed("---\nname: n\ndescription: d\n---"), short("n", "d"));
        for none in [
            "hello",
            "",
            "---",
            "\n---\nname: n\ndescription: d\n---\n",
            "---\nname: n\ndescription: d\n",
            "----\nname: n\ndescription: d\n---\n",
            "\u{feff}---\nname: n\ndescription: d\n---\n",
        ] {
            assert_eq!(parsed(none), None, "{none:?}");
        }
    }

    #[test]
    fn an_expanding_document_is_refused() {
        let mut text = String::from("a: &a [x, x, x, x, x, x, x, x, x]\n");
        for level in b'b'..b'k' {
            let (this, before) = (char::from(level), char::from(level - 1));
            text += &format!(
                "{this}: &{this} [{}]\n",
                vec![format!("*{before}"); 9].join(", ")
            );
        }
        // By lines, there is no description.
        assert_eq!(parsed(&format!("---\n{text}\n---\n")), None);
        assert_eq!(Additions::parse(&text), Additions::default());
    }

    #[test]
    fn additions_as_the_reference_reads_them() {
        let told = |text: &str| {
            let Additions {
                dependencies,
                policy,
            } = Additions::parse(text);
            (
                serde_json::to_value(dependencies).unwrap(),
                serde_json::to_value(policy).unwrap(),
            )
        };
        let tool = |r#type: &str, value: &str, port: Value| {
            json!({ "type": r#type, "value": value, "description": null, "transport": null, "command": null,
                "url": null, "oauthCallbackPort": port })
        };
        let nothing = (Value::Null, Value::Null);
        let tools = "dependencies: {tools: [{type: b, value: ' v  w '}, {type: mcp}, {value: v}, {type: '', value: x}, \
                     {type: mcp, value: v, oauth: {callbackPort: 9}}, {type: mcp, value: v, oauth: {callback_port: 70000}}]}";
        let expected = json!({ "tools": [
            tool("b", "v w", Value::Null), tool("mcp", "v", json!(9)), tool("mcp", "v", Value::Null),
        ]});
        assert_eq!(told(tools), (expected, Value::Null));
        let empty = json!({ "allowImplicitInvocation": null, "products": [] });
        assert_eq!(told("policy: {}"), (Value::Null, empty));
        let policy =
            json!({ "allowImplicitInvocation": false, "products": ["codex", "chatgpt", "atlas"] });
        let text = "policy: {allow_implicit_invocation: false, products: [codex, CHATGPT, atlas]}\nother: 1";
        assert_eq!(told(text), (Value::Null, policy));
        for none in [
            "",
            "- a",
            "dependencies: [",
            "dependencies: {tools: []}",
            "policy: {products: [foo]}",
            "policy: {allow_implicit_invocation: 1}",
        ] {
            assert_eq!(told(none), nothing, "{none}");
        }
    }
}
