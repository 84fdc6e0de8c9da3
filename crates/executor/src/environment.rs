//! What every client is told about this host: `environment/info` and `environment/status` (protocol.md 12).

use std::path::{Path, PathBuf};

use mainstay_wire::PathUri;
use mainstay_wire::environment::{Capabilities, EnvironmentInfo, Shell};
use mainstay_wire::extension::capability;
use sha2::{Digest, Sha256};

use crate::config::Config;

/// The release of the reference that this executor stands in for, and whose stand-in it is: clients ask an executor for
/// what its version has (the reference's for `capabilities/discoverV2` from 0.164.0 on), and build metadata does not
/// take part in that.
const VERSION: &str = concat!("0.171.0+mainstay.", env!("CARGO_PKG_VERSION"));

/// The answer to `environment/info`, for the life of the executor.
pub(crate) fn info(config: &Config) -> EnvironmentInfo {
    let shell = std::env::var("SHELL")
        .ok()
        .filter(|shell| !shell.is_empty());
    let shell = shell.unwrap_or_else(|| "/bin/sh".to_owned());
    EnvironmentInfo {
        shell: Shell {
            name: shell.rsplit('/').next().unwrap_or_default().to_owned(),
            path: shell,
        },
        executor_version: VERSION.to_owned(),
        provider_id: Some(provider_id()),
        cwd: uri(std::env::current_dir().ok()),
        user_home_dir: uri(home()),
        platform_os: Some(std::env::consts::OS.to_owned()),
        prepend_path_dirs: Some(Vec::new()),
        temporary_directories: Some(uri(named_temporary_directory()).into_iter().collect()),
        temp_dir: uri(Some(std::env::temp_dir())),
        capabilities: capabilities(config),
    }
}

/// The home directory of the executor's user.
pub(crate) fn home() -> Option<PathBuf> {
    std::env::home_dir().filter(|home| !home.as_os_str().is_empty())
}

fn named_temporary_directory() -> Option<PathBuf> {
    std::env::var_os("TMPDIR")
        .filter(|directory| !directory.is_empty())
        .map(PathBuf::from)
}

/// Paths that are relative, or that a URI cannot tell, are left out.
fn uri(path: Option<PathBuf>) -> Option<PathUri> {
    path.and_then(|path| PathUri::from_native(&path).ok())
}

/// An opaque name for this user on this machine, the same over restarts.
fn provider_id() -> String {
    let mut digest = Sha256::new();
    digest.update("mainstay provider\n");
    digest.update(std::fs::read(Path::new("/etc/machine-id")).unwrap_or_default());
    digest.update(rustix::process::getuid().as_raw().to_be_bytes());
    format!("sha256:{}", hex::encode(digest.finalize()))
}

/// The bits of what works. Those of the reference are all there, so that what does not work is told, too.
fn capabilities(config: &Config) -> Capabilities {
    let mut capabilities = Capabilities::default();
    for (bit, works) in REFERENCE_BITS {
        capabilities.set(bit, works);
    }
    for bit in OWN_BITS {
        capabilities.set(bit, true);
    }
    let retention = u64::try_from(config.session_retention.as_millis()).unwrap_or(u64::MAX);
    capabilities.set(capability::RETENTION_MS, retention);
    capabilities
}

/// The bits of 0.171.0. There is no sandbox and no process network proxy yet, and a shell snapshot is accepted but not
/// used. Discovery keeps to its sandbox object nevertheless: it only reads, and fails where it may not. Without that bit
/// the reference's client looks for no skills in a read-only thread.
const REFERENCE_BITS: [(&str, bool); 16] = [
    ("networkProxyLaunch", false),
    ("networkProxyReviewDomains", false),
    ("networkProxyTransparentTcp", false),
    ("credentialMasking", false),
    ("credentialMaskingCustomProviders", false),
    ("capabilityDiscoverySandbox", true),
    ("fsWatchMissing", true),
    ("capabilityDiscoveryV2", true),
    ("environmentConfigRead", true),
    ("httpHeaderEnvVars", true),
    ("sandboxedFileStreaming", false),
    ("fileWriteStreaming", true),
    ("shellSnapshotV2", false),
    ("windowsMxc", false),
    ("linuxRootWritePreservesDevices", false),
    ("linuxApprovedRootWritePreservesRestrictions", false),
];

/// What Mainstay adds (docs/protocol-extensions.md).
const OWN_BITS: [&str; 11] = [
    capability::STDIN_CLOSE,
    capability::CREDIT,
    capability::ORDERED_WRITES,
    capability::TAKE_OVER,
    capability::FIRST_SEQ,
    capability::RESIZE,
    capability::SIGNALS,
    capability::TERMINATE_GRACE,
    capability::PROCESS_LIST,
    capability::END_SESSION,
    capability::HTTP_CANCEL,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t50_environment_info() {
        let info = serde_json::to_value(info(&Config::default())).unwrap();
        let members: Vec<_> = info
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let mut expected = [
            "shell",
            "executorVersion",
            "providerId",
            "cwd",
            "userHomeDir",
            "platformOs",
            "prependPathDirs",
            "temporaryDirectories",
            "tempDir",
            "capabilities",
        ];
        expected.sort_unstable();
        let mut members = members;
        members.sort_unstable();
        assert_eq!(members, expected);
        assert_eq!(info["platformOs"], std::env::consts::OS);
        assert!(info["providerId"].as_str().unwrap().starts_with("sha256:"));
        assert!(info["tempDir"].as_str().unwrap().starts_with("file:///"));
        assert_eq!(info["capabilities"]["fsWatchMissing"], true);
        assert_eq!(info["capabilities"]["capabilityDiscoverySandbox"], true);
        assert_eq!(info["capabilities"]["networkProxyLaunch"], false);
        assert_eq!(info["capabilities"]["mainstayRetentionMs"], 80_000);
        assert_eq!(info["capabilities"].as_object().unwrap().len(), 16 + 11 + 1);
    }

    #[test]
    fn a_provider_is_the_same_over_restarts() {
        assert_eq!(provider_id(), provider_id());
    }
}
