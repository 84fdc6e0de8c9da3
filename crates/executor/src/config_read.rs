//! Selected parts of this host's configuration files: `environmentConfig/read` (protocol.md 12).
//!
//! The files are the reference's, as peers ask for its settings. From the lowest precedence to the highest:
//!
//! | configuration | requirements |
//! |---|---|
//! | `/etc/codex/config.toml` | `/etc/codex/requirements.toml` |
//! | a cloud layer, which the peer inserts | a cloud layer, which the peer inserts |
//! | `config.toml` in the Codex home | – |
//! | `/etc/codex/managed_config.toml` | the same, its policies as requirements |
//!
//! A layer of which nothing was asked for is left out.

use std::path::{Path, PathBuf};

use mainstay_wire::environment::{ConfigLayer, ConfigReadAnswer, ConfigReadParams, ConfigStack};
use mainstay_wire::{PathUri, RpcError, limits};
use toml::{Table, Value};

use crate::environment::home;
use crate::files::error::FileError;
use crate::files::read_text;
use crate::lane::{Answered, Lane};

/// Where the files are.
#[derive(Clone, Debug)]
pub struct ConfigFiles {
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// The directory of the user's configuration.
    pub codex_home: PathBuf,
    /// The directory of the machine's configuration.
    pub system: PathBuf,
}

impl ConfigFiles {
    /// Where the environment of this program says: `CODEX_HOME` or `.codex` in the home directory, and `/etc/codex`.
    ///
    /// # Errors
    /// When neither names a directory; the text is for the peer.
    pub fn from_environment() -> Result<Self, RpcError> {
        let home = home();
        let failed =
            |text: String| RpcError::internal(format_args!("failed to find Codex home: {text}"));
        let codex_home = match std::env::var_os("CODEX_HOME")
            .filter(|path| !path.is_empty())
            .map(PathBuf::from)
        {
            Some(named) if named.is_dir() => named,
            Some(named) => {
                return Err(failed(format!(
                    "CODEX_HOME points to {named:?}, but that path does not exist"
                )));
            }
            None => {
                let home = home
                    .as_ref()
                    .ok_or_else(|| failed("there is no home directory".to_owned()))?;
                home.join(".codex")
            }
        };
        Ok(Self {
            home,
            codex_home,
            system: PathBuf::from("/etc/codex"),
        })
    }

    /// `environmentConfig/read`.
    pub async fn read(
        self,
        lane: Lane,
        params: ConfigReadParams,
    ) -> Result<Answered<ConfigReadAnswer>, RpcError> {
        if params.config_paths.is_empty() && params.requirements_paths.is_empty() {
            return Err(RpcError::invalid_params(
                "at least one config or requirements path is required",
            ));
        }
        if params
            .config_paths
            .iter()
            .chain(&params.requirements_paths)
            .any(Vec::is_empty)
        {
            return Err(RpcError::invalid_params(
                "TOML paths must contain at least one key segment",
            ));
        }
        params
            .cwd
            .to_native_bytes()
            .map_err(RpcError::invalid_params)?;
        lane.run_large(move || self.answer(&params))
            .await?
            .try_map(|answer| answer)
    }

    fn answer(&self, params: &ConfigReadParams) -> Result<ConfigReadAnswer, RpcError> {
        let failed = |text: String| {
            RpcError::internal(format_args!("failed to load executor-local config: {text}"))
        };
        Ok(ConfigReadAnswer {
            user_home_dir: self
                .home
                .as_deref()
                .and_then(|home| PathUri::from_native(home).ok()),
            codex_home_dir: uri(&self.codex_home).map_err(failed)?,
            hostname: hostname(),
            config: self.config(&params.config_paths).map_err(failed)?,
            requirements: self
                .requirements(&params.requirements_paths)
                .map_err(failed)?,
        })
    }

    fn config(&self, paths: &[Vec<String>]) -> Result<ConfigStack, String> {
        let mut stack = Stack::default();
        let system = self.system.join("config.toml");
        if let Some(table) = load_config(&system)? {
            stack.push(
                format!("system ({})", system.display()),
                &self.system,
                &table,
                paths,
            )?;
        }
        stack.cloud_goes_here();
        let user = self.codex_home.join("config.toml");
        if let Some(table) = load_config(&user)? {
            stack.push(
                format!("user ({})", user.display()),
                &self.codex_home,
                &table,
                paths,
            )?;
        }
        let managed = self.system.join("managed_config.toml");
        if let Some(table) = load_config(&managed)? {
            let source = format!("legacy managed_config.toml ({})", managed.display());
            stack.push(source, &self.system, &table, paths)?;
        }
        Ok(stack.0)
    }

    fn requirements(&self, paths: &[Vec<String>]) -> Result<ConfigStack, String> {
        let mut stack = Stack::default();
        let path = self.system.join("requirements.toml");
        if let Some(text) = read(&path)? {
            let table = text.parse::<Table>().map_err(|error| {
                format!(
                    "failed to parse requirements layer {}: {error}",
                    path.display()
                )
            })?;
            stack.push(path.display().to_string(), &self.system, &table, paths)?;
        }
        stack.cloud_goes_here();
        let managed = self.system.join("managed_config.toml");
        if let Some(table) = load_config(&managed)? {
            stack.push(
                managed.display().to_string(),
                &self.system,
                &managed_requirements(&table)?,
                paths,
            )?;
        }
        Ok(stack.0)
    }
}

/// Layers being gathered.
#[derive(Default)]
struct Stack(ConfigStack);

impl Stack {
    /// Adds what `paths` select of a layer, if anything.
    fn push(
        &mut self,
        source: String,
        base: &Path,
        table: &Table,
        paths: &[Vec<String>],
    ) -> Result<(), String> {
        let paths: Vec<&[String]> = paths.iter().map(Vec::as_slice).collect();
        let selected = select(table, &paths);
        if !selected.is_empty() {
            let toml = toml::to_string(&selected).map_err(|error| error.to_string())?;
            self.0.layers.push(ConfigLayer {
                source,
                base_dir: uri(base)?,
                toml,
            });
        }
        Ok(())
    }

    fn cloud_goes_here(&mut self) {
        self.0.cloud_insertion_index = self.0.layers.len() as u64;
    }
}

/// The parts of a table that key paths lead to, in the table's order. What is no table is taken whole.
fn select(table: &Table, paths: &[&[String]]) -> Table {
    let mut selected = Table::new();
    for (key, value) in table {
        let below: Vec<&[String]> = paths
            .iter()
            .filter_map(|path| {
                path.split_first()
                    .filter(|(first, _)| *first == key)
                    .map(|(_, rest)| rest)
            })
            .collect();
        if below.is_empty() {
            continue;
        }
        match value {
            Value::Table(inner) if below.iter().all(|rest| !rest.is_empty()) => {
                let inner = select(inner, &below);
                if !inner.is_empty() {
                    selected.insert(key.clone(), Value::Table(inner));
                }
            }
            whole => {
                selected.insert(key.clone(), whole.clone());
            }
        }
    }
    selected
}

/// What a managed configuration demands: its policies as the only ones allowed. The strictest sandbox always is, too.
fn managed_requirements(table: &Table) -> Result<Table, String> {
    let text = |key: &str| match table.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(other) => Err(format!(
            "Failed to parse config requirements as TOML: invalid type: {}, expected a string\nin `{key}`\n",
            other.type_str()
        )),
    };
    let list = |names: &[&str]| Value::Array(names.iter().map(|name| Value::from(*name)).collect());
    let mut requirements = Table::new();
    if let Some(policy) = text("approval_policy")? {
        requirements.insert("allowed_approval_policies".to_owned(), list(&[policy]));
    }
    if let Some(mode) = text("sandbox_mode")? {
        let strictest = "read-only";
        let modes = if mode == strictest {
            &[strictest][..]
        } else {
            &[strictest, mode]
        };
        requirements.insert("allowed_sandbox_modes".to_owned(), list(modes));
    }
    Ok(requirements)
}

fn load_config(path: &Path) -> Result<Option<Table>, String> {
    let Some(text) = read(path)? else {
        return Ok(None);
    };
    let parsed = text.parse::<Table>().map_err(|error| {
        let before = error
            .span()
            .and_then(|span| text.get(..span.start))
            .unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before
            .rsplit('\n')
            .next()
            .unwrap_or_default()
            .chars()
            .count()
            + 1;
        format!("{}:{line}:{column}: {}", path.display(), error.message())
    })?;
    Ok(Some(parsed))
}

/// The text of a file; `None` when there is none.
fn read(path: &Path) -> Result<Option<String>, String> {
    match read_text(path, limits::CONFIG_FILE) {
        Ok(text) => Ok(Some(text)),
        Err(FileError::Os(error)) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!(
            "Failed to read config file {}: {error}",
            path.display()
        )),
    }
}

fn uri(path: &Path) -> Result<PathUri, String> {
    PathUri::from_native(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn hostname() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}
