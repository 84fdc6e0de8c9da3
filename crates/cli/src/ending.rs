//! How the program ends: exit codes, and the one line on standard error that explains them.

use std::process::ExitCode;

use crate::logging::StandardError;

/// Mainstay itself failed, or the outcome of the command is not known (`run` only).
pub(crate) const OWN_FAILURE: u8 = 125;
/// The program exists and cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// There is no such program.
pub(crate) const NOT_FOUND: u8 = 127;
/// 128 + n: ended by signal n.
pub(crate) const SIGNAL: u8 = 128;

/// How `run` ended.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The command's own exit code.
    Code(u8),
    /// Something to say, then this code.
    Failed {
        /// Exit code.
        code: u8,
        /// What happened, without the program's name in front.
        why: String,
    },
}

impl Ending {
    /// Mainstay's own failure.
    pub(crate) fn own(why: impl ToString) -> Self {
        Self::Failed {
            code: OWN_FAILURE,
            why: why.to_string(),
        }
    }

    /// The end by a signal that was meant for `run`.
    pub(crate) fn signal(number: i32) -> Self {
        Self::Code(SIGNAL | u8::try_from(number).unwrap_or(0))
    }

    /// Says what there is to say and gives the exit code.
    pub(crate) fn finish(self) -> ExitCode {
        match self {
            Self::Code(code) => ExitCode::from(code),
            Self::Failed { code, why } => {
                say(&why);
                ExitCode::from(code)
            }
        }
    }
}

/// One line on standard error with the program's name in front. A standard error that cannot be written is no reason to fail.
pub(crate) fn say(text: &str) {
    use std::io::Write;
    // One write, so that the line stays whole among the command's own output.
    let _ = StandardError.write_all(format!("mainstay: {text}\n").as_bytes());
}
