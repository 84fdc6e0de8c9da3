//! A watch that looks again and again, for systems that have no kernel watches left.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::survey::Survey;

/// Between two looks: late enough to cost nothing, early enough for a person who waits.
const PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Polling {
    missing: Vec<PathBuf>,
    present: Option<PathBuf>,
    first: Survey,
}

impl Polling {
    pub(super) fn new(missing: Vec<PathBuf>, present: Option<PathBuf>, first: Survey) -> Self {
        Self {
            missing,
            present,
            first,
        }
    }

    /// Waits until a look differs from the first one.
    pub(super) async fn changed(self) {
        let mut looks = interval(PAUSE);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut state = self;
        loop {
            looks.tick().await;
            let look = tokio::task::spawn_blocking(move || {
                let now = Survey::take(&state.missing, state.present.as_deref());
                let same = matches!(&now, Ok(Some(now)) if *now == state.first);
                (state, same)
            });
            match look.await {
                Ok((same, true)) => state = same,
                Ok((_, false)) | Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polling(missing: PathBuf, present: Option<PathBuf>) -> Polling {
        let first = Survey::take(std::slice::from_ref(&missing), present.as_deref())
            .unwrap()
            .unwrap();
        Polling::new(vec![missing], present, first)
    }

    #[tokio::test(start_paused = true)]
    async fn polling_notices_what_a_kernel_watch_would() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let present = folder.join("present");
        std::fs::write(&present, "x").unwrap();

        let appears = tokio::spawn(polling(folder.join("a/b"), None).changed());
        let written = tokio::spawn(polling(folder.join("none"), Some(present.clone())).changed());
        let untouched = tokio::spawn(polling(folder.join("none"), Some(folder.clone())).changed());
        std::fs::create_dir(folder.join("a")).unwrap();
        appears.await.unwrap();
        std::fs::write(&present, "longer").unwrap();
        written.await.unwrap();
        // Something was made in it, which is no change of the directory itself.
        tokio::time::sleep(2 * PAUSE).await;
        assert!(!untouched.is_finished());
        std::fs::remove_dir_all(&folder).unwrap();
        untouched.await.unwrap();
    }
}
