//! The local terminal: raw while a remote one is shown in it, restored on every way out.

use std::{
    io,
    sync::{Mutex, PoisonError},
};

use mainstay::TtySize;
use rustix::{
    fs::{FileType, fstat, stat},
    stdio::{stderr, stdin, stdout},
    termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr},
};

/// What the reference gives a terminal whose size nobody knows.
const DEFAULT_SIZE: TtySize = TtySize { rows: 24, cols: 80 };

/// The terminal's own settings while it is raw.
static SAVED: Mutex<Option<Termios>> = Mutex::new(None);

/// Whether standard input is the null device, as `-n` would have it. (A closed one is opened on it before `main`.)
pub(crate) fn is_null_stdin() -> bool {
    match (fstat(stdin()), stat("/dev/null")) {
        (Ok(own), Ok(null)) => {
            FileType::from_raw_mode(own.st_mode) == FileType::CharacterDevice
                && own.st_rdev == null.st_rdev
        }
        _ => false,
    }
}

/// Makes the terminal on standard input raw. Without a terminal there, does nothing.
///
/// # Errors
/// When the terminal refuses.
pub(crate) fn make_raw() -> io::Result<()> {
    if !isatty(stdin()) {
        return Ok(());
    }
    let own = tcgetattr(stdin())?;
    let mut raw = own.clone();
    raw.make_raw();
    let mut saved = SAVED.lock().unwrap_or_else(PoisonError::into_inner);
    saved.get_or_insert(own);
    // Not `Flush`: what was typed ahead is the command's.
    tcsetattr(stdin(), OptionalActions::Now, &raw)?;
    Ok(())
}

/// Gives the terminal its own settings back. Does nothing unless it is raw.
pub(crate) fn restore() {
    let mut saved = SAVED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(own) = saved.take() {
        // Not `Drain`: a terminal that nobody reads from must not keep the program from ending.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &own);
    }
}

/// Whether the terminal is raw now.
pub(crate) fn is_raw() -> bool {
    SAVED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .is_some()
}

/// Restores the terminal before a panic prints anything, whatever thread it is in.
pub(crate) fn restore_on_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        restore();
        print(panic);
    }));
}

/// Size of the local terminal, wherever there is one.
pub(crate) fn size() -> TtySize {
    [stdin(), stdout(), stderr()]
        .into_iter()
        .filter_map(|fd| tcgetwinsize(fd).ok())
        .find(|size| size.ws_row > 0 && size.ws_col > 0)
        .map_or(DEFAULT_SIZE, |size| TtySize {
            rows: size.ws_row,
            cols: size.ws_col,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::termios::LocalModes;
    use tokio::io::AsyncReadExt;

    /// Set for the child process that panics in a terminal.
    const CHILD: &str = "MAINSTAY_TEST_PANIC_IN_TERMINAL";

    /// Plays two parts: the test, and, in a terminal, the program that panics with that terminal raw.
    #[tokio::test]
    async fn a_panic_restores_the_terminal_before_it_prints() {
        if std::env::var_os(CHILD).is_some() {
            restore_on_panic();
            make_raw().unwrap();
            assert!(is_raw());
            std::thread::spawn(|| panic!("in some thread"))
                .join()
                .unwrap_err();
            println!("raw afterwards: {}", is_raw());
            return;
        }
        let (mut pty, pts) = pty_process::open().unwrap();
        let child = pty_process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "--nocapture",
                "run::terminal::tests::a_panic_restores_the_terminal_before_it_prints",
            ])
            .env(CHILD, "1");
        let mut child = child.spawn(pts).unwrap();
        let mut shown = Vec::new();
        // A terminal that nobody holds any more ends with EIO.
        let _ = pty.read_to_end(&mut shown).await;
        let shown = String::from_utf8_lossy(&shown);
        assert!(child.wait().await.unwrap().success(), "{shown}");
        assert!(
            shown.contains("in some thread") && shown.contains("raw afterwards: false"),
            "{shown}"
        );
        assert!(
            tcgetattr(&pty)
                .unwrap()
                .local_modes
                .contains(LocalModes::ICANON)
        );
    }
}
