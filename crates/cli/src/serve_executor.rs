//! `mainstay executor`.

use std::process::ExitCode;

use anyhow::Result;

use crate::args::ExecutorArgs;

pub(crate) fn main(_args: ExecutorArgs) -> Result<ExitCode> {
    anyhow::bail!("not finished")
}
