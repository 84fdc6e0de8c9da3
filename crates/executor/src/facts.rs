//! What every client is told about this host.

use mainstay_wire::PathUri;
use mainstay_wire::environment::{Capabilities, EnvironmentInfo, Shell};
use mainstay_wire::extension::capability;

use crate::config::Config;

/// The answer to `environment/info`.
pub(crate) fn environment(config: &Config) -> EnvironmentInfo {
    let uri =
        |path: Option<std::path::PathBuf>| path.and_then(|path| PathUri::from_native(&path).ok());
    let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned());
    EnvironmentInfo {
        shell: Shell {
            name: shell.rsplit('/').next().unwrap_or_default().to_owned(),
            path: shell,
        },
        executor_version: env!("CARGO_PKG_VERSION").to_owned(),
        provider_id: None,
        cwd: uri(std::env::current_dir().ok()),
        user_home_dir: uri(std::env::home_dir()),
        platform_os: Some(std::env::consts::OS.to_owned()),
        prepend_path_dirs: None,
        temporary_directories: None,
        temp_dir: uri(Some(std::env::temp_dir())),
        capabilities: capabilities(config),
    }
}

/// The bits of what works.
fn capabilities(config: &Config) -> Capabilities {
    let mut capabilities = Capabilities::default();
    for bit in [
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
    ] {
        capabilities.set(bit, true);
    }
    let retention = u64::try_from(config.session_retention.as_millis()).unwrap_or(u64::MAX);
    capabilities.set(capability::RETENTION_MS, retention);
    capabilities
}
