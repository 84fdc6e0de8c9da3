//! What a sandbox object asks for, and what of it can be granted without a sandbox.
//!
//! This executor confines nothing: it has no sandbox yet. A policy that allows everything an operation could do needs
//! none, and one that allows no writing at all can be kept for writing file methods by refusing them. Anything else is
//! answered with [`unavailable`], never silently granted.

use mainstay_wire::RpcError;
use mainstay_wire::sandbox::{
    FileAccess, FileSystemAccess, FileSystemEntry, FileSystemPath, NetworkAccess, Permissions,
    Sandbox, SpecialPath,
};
use rustix::io::Errno;

use crate::files::error::FileError;

/// What an operation does to files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// Looks only.
    Read,
    /// Changes something.
    Write,
}

/// Whether a file method may go on.
pub(crate) fn permit_files(sandbox: Option<&Sandbox>, touch: Touch) -> Result<(), RpcError> {
    let Some(sandbox) = sandbox else {
        return Ok(());
    };
    match &sandbox.permissions {
        // The peer confines nothing, or confines by other means.
        Permissions::Disabled | Permissions::External { .. } => Ok(()),
        Permissions::Managed {
            file_system: FileSystemAccess::Unrestricted,
            ..
        } => Ok(()),
        Permissions::Managed {
            file_system: FileSystemAccess::Restricted { entries, .. },
            ..
        } => {
            check(sandbox, entries)?;
            match (touch, root_access(entries)) {
                (Touch::Read, Some(Touch::Read | Touch::Write))
                | (Touch::Write, Some(Touch::Write)) => Ok(()),
                (Touch::Write, _)
                    if !entries
                        .iter()
                        .any(|entry| entry.access == FileAccess::Write) =>
                {
                    Err(FileError::from(Errno::ROFS).into())
                }
                (Touch::Read | Touch::Write, _) => Err(unavailable()),
            }
        }
    }
}

/// Whether a program may be started without a sandbox.
pub fn permit_process(sandbox: Option<&Sandbox>) -> Result<(), RpcError> {
    let Some(sandbox) = sandbox else {
        return Ok(());
    };
    match &sandbox.permissions {
        Permissions::Disabled | Permissions::External { .. } => Ok(()),
        Permissions::Managed {
            file_system: FileSystemAccess::Unrestricted,
            network: NetworkAccess::Enabled,
        } => Ok(()),
        Permissions::Managed {
            file_system: FileSystemAccess::Unrestricted,
            network: NetworkAccess::Restricted,
        } => Err(unavailable()),
        Permissions::Managed {
            file_system: FileSystemAccess::Restricted { entries, .. },
            network,
        } => {
            check(sandbox, entries)?;
            match (root_access(entries), network) {
                (Some(Touch::Write), NetworkAccess::Enabled) => Ok(()),
                _ => Err(unavailable()),
            }
        }
    }
}

/// The policy needs a sandbox, which this executor does not have.
pub fn unavailable() -> RpcError {
    RpcError::internal("this executor has no sandbox for these permissions")
        .with_data(serde_json::json!({ "kind": "sandboxUnavailable" }))
}

/// What a policy allows everywhere: only a rule for the root allows that, and only if no other rule takes from it.
fn root_access(entries: &[FileSystemEntry]) -> Option<Touch> {
    let mut everywhere = None;
    for entry in entries {
        let is_root = matches!(
            entry.path,
            FileSystemPath::Special {
                value: SpecialPath::Root
            }
        );
        match entry.access {
            FileAccess::Deny | FileAccess::None => return None,
            FileAccess::Write if is_root => everywhere = Some(Touch::Write),
            FileAccess::Read if is_root => everywhere = everywhere.or(Some(Touch::Read)),
            FileAccess::Write => {}
            // A more exact rule: there, only reading.
            FileAccess::Read => {}
        }
    }
    let narrowed = entries.iter().any(|entry| {
        entry.access == FileAccess::Read
            && !matches!(
                entry.path,
                FileSystemPath::Special {
                    value: SpecialPath::Root
                }
            )
    });
    match everywhere {
        Some(Touch::Write) if narrowed => Some(Touch::Read),
        other => other,
    }
}

/// The faults that the reference finds in a policy before it is used (protocol.md 9.3).
fn check(sandbox: &Sandbox, entries: &[FileSystemEntry]) -> Result<(), RpcError> {
    for entry in entries {
        match &entry.path {
            FileSystemPath::Path { path } => {
                if let Err(error) = path.to_native_bytes() {
                    return Err(RpcError::invalid_request(format_args!(
                        "invalid sandbox permission path URI: {error}"
                    )));
                }
            }
            FileSystemPath::GlobPattern { .. } | FileSystemPath::Special { .. } => {}
        }
    }
    if sandbox.cwd.is_none() && entries.iter().any(|entry| is_dynamic(&entry.path)) {
        return Err(RpcError::invalid_params(
            "file system sandbox context with dynamic permissions requires cwd",
        ));
    }
    Ok(())
}

/// Whether a rule means something else in another working directory.
fn is_dynamic(path: &FileSystemPath) -> bool {
    match path {
        FileSystemPath::Path { .. } => false,
        FileSystemPath::GlobPattern { pattern } => !pattern.starts_with('/'),
        FileSystemPath::Special { value } => match value {
            SpecialPath::CurrentWorkingDirectory | SpecialPath::ProjectRoots => true,
            SpecialPath::Root
            | SpecialPath::Minimal
            | SpecialPath::Tmpdir
            | SpecialPath::SlashTmp
            | SpecialPath::Unknown => false,
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sandbox(permissions: serde_json::Value) -> Sandbox {
        serde_json::from_value(
            json!({ "permissions": permissions, "windowsSandboxLevel": "disabled" }),
        )
        .unwrap()
    }

    fn restricted(entries: serde_json::Value, network: &str) -> Sandbox {
        sandbox(json!({
            "type": "managed",
            "file_system": { "type": "restricted", "entries": entries },
            "network": network,
        }))
    }

    fn special(kind: &str, access: &str) -> serde_json::Value {
        json!({ "path": { "type": "special", "value": { "kind": kind } }, "access": access })
    }

    fn path(path: &str, access: &str) -> serde_json::Value {
        json!({ "path": { "type": "path", "path": path }, "access": access })
    }

    #[test]
    fn policies_that_restrict_nothing_need_no_sandbox() {
        for open in [
            sandbox(json!({ "type": "disabled" })),
            sandbox(json!({ "type": "external", "network": "restricted" })),
            sandbox(
                json!({ "type": "managed", "file_system": { "type": "unrestricted" }, "network": "enabled" }),
            ),
            restricted(json!([special("root", "write")]), "enabled"),
            restricted(
                json!([
                    special("root", "read"),
                    special("root", "write"),
                    path("file:///a", "write")
                ]),
                "enabled",
            ),
        ] {
            assert_eq!(permit_files(Some(&open), Touch::Read), Ok(()));
            assert_eq!(permit_files(Some(&open), Touch::Write), Ok(()));
            assert_eq!(permit_process(Some(&open)), Ok(()));
        }
        assert_eq!(permit_process(None), Ok(()));
        assert_eq!(permit_files(None, Touch::Write), Ok(()));
    }

    #[test]
    fn a_restricted_network_needs_one_for_programs_only() {
        let no_network = sandbox(
            json!({ "type": "managed", "file_system": { "type": "unrestricted" }, "network": "restricted" }),
        );
        assert_eq!(permit_files(Some(&no_network), Touch::Write), Ok(()));
        assert_eq!(permit_process(Some(&no_network)), Err(unavailable()));
        let no_network = restricted(json!([special("root", "write")]), "restricted");
        assert_eq!(permit_process(Some(&no_network)), Err(unavailable()));
    }

    #[test]
    fn t62_a_policy_without_writing_refuses_writing_file_methods() {
        let read_only = restricted(json!([special("root", "read")]), "restricted");
        assert_eq!(permit_files(Some(&read_only), Touch::Read), Ok(()));
        let error = permit_files(Some(&read_only), Touch::Write).unwrap_err();
        assert_eq!(
            (error.code, error.message.as_str()),
            (-32603, "Read-only file system (os error 30)")
        );
        assert_eq!(permit_process(Some(&read_only)), Err(unavailable()));
    }

    #[test]
    fn a_policy_with_parts_is_not_granted() {
        for partial in [
            json!([]),
            json!([path("file:///a", "read")]),
            json!([special("root", "write"), path("file:///a", "deny")]),
            json!([special("root", "write"), path("file:///a", "none")]),
            json!([special("minimal", "read")]),
        ] {
            let partial = restricted(partial, "enabled");
            assert_eq!(
                permit_files(Some(&partial), Touch::Read),
                Err(unavailable())
            );
            assert_eq!(permit_process(Some(&partial)), Err(unavailable()));
        }
        let narrowed = restricted(
            json!([special("root", "write"), path("file:///a", "read")]),
            "enabled",
        );
        assert_eq!(permit_files(Some(&narrowed), Touch::Read), Ok(()));
        assert_eq!(
            permit_files(Some(&narrowed), Touch::Write),
            Err(unavailable())
        );
        assert_eq!(permit_process(Some(&narrowed)), Err(unavailable()));
        let some = restricted(
            json!([special("root", "read"), path("file:///a", "write")]),
            "enabled",
        );
        assert_eq!(permit_files(Some(&some), Touch::Write), Err(unavailable()));
    }

    #[test]
    fn t62_relative_rules_need_a_working_directory() {
        let glob =
            json!({ "path": { "type": "glob_pattern", "pattern": "src/**" }, "access": "read" });
        let mut relative = restricted(json!([glob]), "restricted");
        let error = permit_files(Some(&relative), Touch::Read).unwrap_err();
        assert_eq!(error.code, -32602);
        assert_eq!(
            error.message,
            "file system sandbox context with dynamic permissions requires cwd"
        );
        relative.cwd = Some("file:///".parse().unwrap());
        assert_eq!(
            permit_files(Some(&relative), Touch::Read),
            Err(unavailable())
        );

        let foreign = restricted(json!([path("file://host/x", "read")]), "restricted");
        let error = permit_files(Some(&foreign), Touch::Read).unwrap_err();
        assert_eq!(error.code, -32600);
        assert_eq!(
            error.message,
            "invalid sandbox permission path URI: 'file://host/x' is invalid on 'linux'"
        );
    }
}
