//! `mainstay registry` and `mainstay registry token`.

use std::process::ExitCode;

use anyhow::Result;

use crate::args::RegistryArgs;

pub(crate) fn main(_args: RegistryArgs) -> Result<ExitCode> {
    anyhow::bail!("not finished")
}
