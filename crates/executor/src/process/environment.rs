//! The environment of a program: `env` alone, or the executor's own filtered by `envPolicy` (protocol.md 6).

use std::collections::BTreeMap;
use std::ffi::OsString;

use mainstay_wire::process::{EnvPolicy, Inherit};

use crate::guard;

/// What `inherit: core` keeps, as observed with 0.171.0.
const CORE: [&str; 11] = [
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TEMP", "TMP", "TMPDIR",
    "USER",
];

/// What is left out of the inherited part unless the policy says otherwise.
const DEFAULT_EXCLUDES: [&str; 3] = ["*KEY*", "*SECRET*", "*TOKEN*"];

/// The program's whole environment. `own` is the executor's. The order is that of 0.171.0: inherit, default
/// excludes, `exclude`, `set`, `includeOnly`, and last `env`, which nothing filters.
pub(crate) fn build(
    own: impl IntoIterator<Item = (OsString, OsString)>,
    policy: Option<&EnvPolicy>,
    env: &BTreeMap<String, String>,
) -> BTreeMap<OsString, OsString> {
    let mut built = BTreeMap::new();
    if let Some(policy) = policy {
        built.extend(own.into_iter().filter(|(name, _)| inherits(policy, name)));
        built.extend(native(&policy.set));
        if !policy.include_only.is_empty() {
            built.retain(|name, _| any_matches(&policy.include_only, name));
        }
    }
    built.extend(native(env));
    built
}

fn inherits(policy: &EnvPolicy, name: &OsString) -> bool {
    let inherited = match policy.inherit {
        Inherit::All => !guard::is_private(name),
        Inherit::Core => CORE.iter().any(|core| *name == **core),
        Inherit::None => false,
    };
    inherited
        && (policy.ignore_default_excludes || !any_matches(&DEFAULT_EXCLUDES, name))
        && !any_matches(&policy.exclude, name)
}

fn native(env: &BTreeMap<String, String>) -> impl Iterator<Item = (OsString, OsString)> {
    env.iter().map(|(name, value)| (name.into(), value.into()))
}

fn any_matches<P: AsRef<str>>(patterns: &[P], name: &OsString) -> bool {
    let name: Vec<char> = name.to_string_lossy().chars().collect();
    patterns.iter().any(|pattern| {
        let pattern: Vec<char> = pattern.as_ref().chars().collect();
        matches(&pattern, &name)
    })
}

/// Case-insensitive glob with `*` and `?` and nothing else. Takes at most pattern × name steps.
fn matches(pattern: &[char], name: &[char]) -> bool {
    let same = |a: char, b: char| a == b || a.to_lowercase().eq(b.to_lowercase());
    let (mut p, mut n, mut retry) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                retry = Some((p, n));
                p += 1;
            }
            Some(&c) if c == '?' || same(c, name[n]) => {
                p += 1;
                n += 1;
            }
            Some(_) | None => match retry {
                Some((star, from)) => {
                    retry = Some((star, from + 1));
                    p = star + 1;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Vec<(OsString, OsString)> {
        [
            "HOME", "PATH", "LC_CTYPE", "USERNAME", "MY_KEY", "my_key2", "FOO", "BAR", "PWD",
            "TERM",
        ]
        .map(|name| (name.into(), "own".into()))
        .to_vec()
    }

    fn policy(inherit: Inherit) -> EnvPolicy {
        EnvPolicy {
            inherit,
            ignore_default_excludes: false,
            exclude: vec![],
            set: BTreeMap::new(),
            include_only: vec![],
        }
    }

    fn names(policy: Option<&EnvPolicy>, env: &[(&str, &str)]) -> Vec<String> {
        let env = env
            .iter()
            .map(|&(k, v)| (k.to_owned(), v.to_owned()))
            .collect();
        let line = |(k, v): (OsString, OsString)| format!("{}={}", k.display(), v.display());
        build(own(), policy, &env).into_iter().map(line).collect()
    }

    fn set(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|&(k, v)| (k.to_owned(), v.to_owned()))
            .collect()
    }

    // The three policies below were run against 0.171.0 with this result.

    #[test]
    fn without_a_policy_it_is_env_alone() {
        assert_eq!(names(None, &[("A", "1")]), ["A=1"]);
        assert_eq!(names(None, &[]), [""; 0]);
    }

    #[test]
    fn core_keeps_a_fixed_list() {
        let core = EnvPolicy {
            set: set(&[("B", "2")]),
            ..policy(Inherit::Core)
        };
        assert_eq!(
            names(Some(&core), &[("A", "1")]),
            ["A=1", "B=2", "HOME=own", "LC_CTYPE=own", "PATH=own"]
        );
    }

    #[test]
    fn default_excludes_do_not_reach_set() {
        let all = EnvPolicy {
            exclude: vec!["f*".into(), "te?m".into(), "P?D".into()],
            set: set(&[("BAR_KEY", "2"), ("FOO", "set")]),
            ..policy(Inherit::All)
        };
        assert_eq!(
            names(Some(&all), &[]),
            [
                "BAR=own",
                "BAR_KEY=2",
                "FOO=set",
                "HOME=own",
                "LC_CTYPE=own",
                "PATH=own",
                "USERNAME=own"
            ]
        );
    }

    #[test]
    fn include_only_filters_set_but_not_env_and_brackets_are_plain() {
        let only = EnvPolicy {
            ignore_default_excludes: true,
            exclude: vec!["[fb]*".into()],
            set: set(&[("BAR_KEY", "2"), ("ZED", "1")]),
            include_only: vec!["bar*".into(), "M?_K*".into(), "F*".into()],
            ..policy(Inherit::All)
        };
        assert_eq!(
            names(Some(&only), &[("A", "1")]),
            [
                "A=1",
                "BAR=own",
                "BAR_KEY=2",
                "FOO=own",
                "MY_KEY=own",
                "my_key2=own"
            ]
        );
    }

    #[test]
    fn globs() {
        let check = |pattern: &str, name: &str| {
            matches(
                &pattern.chars().collect::<Vec<_>>(),
                &name.chars().collect::<Vec<_>>(),
            )
        };
        for (pattern, name) in [
            ("*", ""),
            ("a*b*c", "aXbYbZc"),
            ("?", "x"),
            ("*KEY*", "monkey"),
            ("É", "é"),
        ] {
            assert!(check(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("", "a"),
            ("?", ""),
            ("a*b", "ac"),
            ("a", "ab"),
            ("[ab]", "a"),
        ] {
            assert!(!check(pattern, name), "{pattern} {name}");
        }
    }
}
