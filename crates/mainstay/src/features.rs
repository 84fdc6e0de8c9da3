//! What an executor offers beyond the reference, as it announced it.

use std::time::Duration;

use mainstay_wire::environment::EnvironmentInfo;
use mainstay_wire::extension::{ClientExtension, capability};

/// Everything the client looks for in `environmentInfo`; all off for an executor that says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Features {
    pub(crate) stdin_close: bool,
    pub(crate) credit: bool,
    pub(crate) ordered_writes: bool,
    pub(crate) resize: bool,
    pub(crate) signals: bool,
    pub(crate) terminate_grace: bool,
    pub(crate) take_over: bool,
    pub(crate) http_cancel: bool,
    pub(crate) end_session: bool,
    pub(crate) process_list: bool,
    pub(crate) write_streaming: bool,
    pub(crate) discovery_sandbox: bool,
    pub(crate) watch_missing: bool,
    /// How long it says it keeps a detached session.
    pub(crate) retention: Option<Duration>,
    /// Its version; the reference's tells how long it keeps a detached session.
    pub(crate) version: Option<String>,
}

impl Features {
    pub(crate) fn of(info: Option<&EnvironmentInfo>) -> Self {
        let Some(info) = info else {
            return Self::default();
        };
        let has = |name| info.capabilities.has(name);
        Self {
            stdin_close: has(capability::STDIN_CLOSE),
            credit: has(capability::CREDIT),
            ordered_writes: has(capability::ORDERED_WRITES),
            resize: has(capability::RESIZE),
            signals: has(capability::SIGNALS),
            terminate_grace: has(capability::TERMINATE_GRACE),
            take_over: has(capability::TAKE_OVER),
            http_cancel: has(capability::HTTP_CANCEL),
            end_session: has(capability::END_SESSION),
            process_list: has(capability::PROCESS_LIST),
            write_streaming: has("fileWriteStreaming"),
            discovery_sandbox: has("capabilityDiscoverySandbox"),
            watch_missing: has("fsWatchMissing"),
            retention: info
                .capabilities
                .number(capability::RETENTION_MS)
                .map(Duration::from_millis),
            version: Some(info.executor_version.clone()),
        }
    }
}

/// What we announce ourselves.
pub(crate) fn announce(take_over: bool) -> ClientExtension {
    ClientExtension {
        capabilities: vec![capability::CREDIT.to_owned()],
        take_over,
    }
}
