//! What to run: shaped like `tokio::process::Command`.

use std::collections::BTreeMap;

pub use mainstay_wire::sandbox::Sandbox;

use crate::network::Network;

/// Terminal size in character cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtySize {
    /// Lines.
    pub rows: u16,
    /// Columns.
    pub cols: u16,
}

/// How much of the executor's own environment a process starts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EnvInherit {
    /// Everything (the default).
    #[default]
    All,
    /// `HOME`, `PATH`, `SHELL`, `LANG` and the like.
    Core,
    /// Nothing: exactly what [`Command::env`] sets.
    None,
}

/// A process to start. Values are sent as they are; nothing passes through a shell.
#[derive(Clone, Debug)]
pub struct Command {
    pub(crate) argv: Vec<String>,
    pub(crate) arg0: Option<String>,
    pub(crate) cwd: Option<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) inherit: EnvInherit,
    pub(crate) tty: Option<TtySize>,
    pub(crate) pipe_stdin: bool,
    pub(crate) process_id: Option<String>,
    pub(crate) network: Network,
    pub(crate) sandbox: Option<Sandbox>,
}

impl Command {
    /// A command that runs `program`, looked up on the remote `PATH`, with standard input closed.
    pub fn new(program: impl Into<String>) -> Self {
        Self {
            argv: vec![program.into()],
            arg0: None,
            cwd: None,
            env: BTreeMap::new(),
            inherit: EnvInherit::default(),
            tty: None,
            pipe_stdin: false,
            process_id: None,
            network: Network::default(),
            sandbox: None,
        }
    }

    /// Appends one argument.
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.argv.push(arg.into());
        self
    }

    /// Appends arguments.
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.argv.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets what the program sees as `argv[0]`.
    pub fn arg0(mut self, arg0: impl Into<String>) -> Self {
        self.arg0 = Some(arg0.into());
        self
    }

    /// Working directory: an absolute path of the executor's machine, a `file:` URI, or a path relative to the
    /// executor's own directory, which is also the default.
    pub fn cwd(mut self, cwd: impl Into<String>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Sets one variable, over whatever is inherited.
    pub fn env(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(key.into(), value.into());
        self
    }

    /// Sets variables, over whatever is inherited.
    pub fn envs(
        mut self,
        vars: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>,
    ) -> Self {
        self.env.extend(
            vars.into_iter()
                .map(|(key, value)| (key.into(), value.into())),
        );
        self
    }

    /// How much of the executor's environment the process starts from.
    pub fn env_inherit(mut self, inherit: EnvInherit) -> Self {
        self.inherit = inherit;
        self
    }

    /// Runs the process in a terminal of this size. Its output is then one stream, read as standard output.
    pub fn tty(mut self, size: TtySize) -> Self {
        self.tty = Some(size);
        self
    }

    /// Keeps standard input open for [`Process::stdin`](crate::Process::stdin). A terminal always has one.
    pub fn pipe_stdin(mut self) -> Self {
        self.pipe_stdin = true;
        self
    }

    /// Chooses the process id (default: a random UUID). It must be unique within the session.
    pub fn process_id(mut self, id: impl Into<String>) -> Self {
        self.process_id = Some(id.into());
        self
    }

    /// What the process may reach over the network.
    pub fn network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// What the process may touch, in the executor's terms.
    pub fn sandbox(mut self, sandbox: Sandbox) -> Self {
        self.sandbox = Some(sandbox);
        self
    }
}
