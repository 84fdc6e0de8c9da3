//! Every tunable of one environment.

use mainstay_noise::Suite;

/// What happens when a process's output is not read and the executor cannot be held back (it gives no credit).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum OnSlow {
    /// Nothing more is read from the link until there is room, and everything on it waits. Nothing is lost while the
    /// executor and the relay wait, too; if they give up, a recovery follows.
    #[default]
    Wait,
    /// What finds no room is dropped, and a gap stands in its place. Nobody else waits.
    Gap,
}

/// How an environment behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Times and limits of the session.
    pub session: mainstay_session::Config,
    /// The Noise suite that lookups ask for, and the only one that is accepted: nothing falls back.
    /// [`Suite::HybridIk`], the reference's; [`Suite::Ik`] is for executors and registries of ours that want plain Noise.
    pub suite: Suite,
    /// `clientName` of `initialize`: `mainstay`.
    pub client_name: String,
    /// Output bytes of one process that may wait for its consumer, towards a peer without credit, and, towards any, for an
    /// earlier event: 8 MiB. Each piece counts 64 bytes more than it has.
    pub process_buffer: usize,
    /// What happens when the consumer's are reached: [`OnSlow::Wait`].
    pub on_slow: OnSlow,
    /// Output bytes of one process that a peer with credit may have under way: 2 MiB, below the 4 MiB of the executor's
    /// log, and enough for 40 MB/s over 50 ms.
    pub credit_window: usize,
    /// Whether to refresh by itself when the registry announces a new executor: no.
    pub automatic_refresh: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            session: mainstay_session::Config::default(),
            suite: Suite::HybridIk,
            client_name: "mainstay".to_owned(),
            process_buffer: 8 << 20,
            on_slow: OnSlow::default(),
            credit_window: 2 << 20,
            automatic_refresh: false,
        }
    }
}
