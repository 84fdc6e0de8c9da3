//! Telling a peer that something it found missing may exist now: `fs/watchMissing` (protocol.md 9.4).
//!
//! A connection has one live watch. It fires once: when a listed path or its first missing ancestor appears, when
//! `present` is changed or removed, and, to be safe, when a directory on the way to any of them goes away.

mod inotify;
mod polling;
mod survey;

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};

use mainstay_wire::fs::{
    MissingChanged, MissingChangedParams, WatchMissingAnswer, WatchMissingParams,
};
use mainstay_wire::{Notice, PathUri, RpcError, envelope, limits};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::lane::Lane;
use crate::notice_sink::NoticeSink;
use inotify::Inotify;
use polling::Polling;
use survey::Survey;

/// The watch of one connection; it ends when this is dropped.
#[derive(Debug, Default)]
pub struct MissingWatch {
    /// The highest id the peer has used.
    highest: Option<u64>,
    /// Cancels the live watch.
    live: Option<DropGuard>,
}

/// A watch that stands. Nothing is lost between its making and its running.
#[derive(Debug)]
#[must_use = "it says nothing unless it runs"]
pub struct Watch {
    id: u64,
    replaced: CancellationToken,
    source: Source,
}

/// How a watch learns of changes.
#[derive(Debug)]
enum Source {
    Inotify(Inotify),
    /// The system has no more watches to give.
    Polling(Polling),
}

impl MissingWatch {
    /// `fs/watchMissing`. A watch that stands is to be run once the answer is queued.
    ///
    /// An id that is not higher than all before changes nothing; any other one ends the watch before it, even if no
    /// new one comes of it.
    pub fn watch(
        &mut self,
        lane: Lane,
        params: WatchMissingParams,
    ) -> impl Future<Output = Result<(WatchMissingAnswer, Option<Watch>), RpcError>> + Send + use<>
    {
        let id = params.watch_id;
        let fresh = self.highest.is_none_or(|highest| id > highest);
        let replaced = CancellationToken::new();
        if fresh {
            self.highest = Some(id);
            self.live = Some(replaced.clone().drop_guard());
        }
        async move {
            let targets = if fresh { targets(&params) } else { None };
            let source = match targets {
                Some((missing, present)) => {
                    lane.run(move || Ok(source(missing, present)?))
                        .await?
                        .answer
                }
                None => None,
            };
            let watch = source.map(|source| Watch {
                id,
                replaced,
                source,
            });
            Ok((
                WatchMissingAnswer {
                    watching: watch.is_some(),
                },
                watch,
            ))
        }
    }
}

impl Watch {
    /// Waits for the change and tells the peer, unless the watch is replaced before.
    pub async fn run(self, sink: impl NoticeSink) {
        let changed = async {
            match self.source {
                Source::Inotify(inotify) => inotify.changed().await,
                Source::Polling(polling) => polling.changed().await,
            }
        };
        let fired = async {
            changed.await;
            let params = MissingChangedParams { watch_id: self.id };
            sink.send_notice(envelope::notification(MissingChanged::METHOD, &params))
                .await;
        };
        tokio::select! {
            biased;
            () = self.replaced.cancelled() => {}
            () = fired => {}
        }
    }
}

/// The native paths to watch; `None` when there is nothing to watch or one of them is no path of this host.
fn targets(params: &WatchMissingParams) -> Option<(Vec<PathBuf>, Option<PathBuf>)> {
    if params.missing.is_empty() || params.missing.len() > limits::WATCH_PATHS {
        return None;
    }
    let missing = params
        .missing
        .iter()
        .map(PathUri::to_native)
        .collect::<Result<_, _>>()
        .ok()?;
    let present = params
        .present
        .as_ref()
        .map(PathUri::to_native)
        .transpose()
        .ok()?;
    Some((missing, present))
}

/// A watch on those paths; `None` when one that should be missing exists, the present one does not, or one of them
/// cannot be watched for certain: it leads through a link or a file.
fn source(missing: Vec<PathBuf>, present: Option<PathBuf>) -> io::Result<Option<Source>> {
    let Some(survey) = Survey::take(&missing, present.as_deref())? else {
        return Ok(None);
    };
    match Inotify::on(&survey) {
        Ok(inotify) => confirm(inotify, &survey, &missing, present.as_deref()),
        Err(error) => {
            tracing::debug!(%error, "no inotify watch, polling instead");
            Ok(Some(Source::Polling(Polling::new(
                missing, present, survey,
            ))))
        }
    }
}

/// Looks once more now that the kernel's watches stand: whatever differs from the first look changed in between, and
/// later changes are heard.
fn confirm(
    inotify: Inotify,
    first: &Survey,
    missing: &[PathBuf],
    present: Option<&Path>,
) -> io::Result<Option<Source>> {
    Ok(Survey::take(missing, present)?.map(|again| {
        Source::Inotify(if again == *first {
            inotify
        } else {
            inotify.already_changed()
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_changes_before_the_watch_stands_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let missing = [folder.join("a/b")];
        let first = Survey::take(&missing, None).unwrap().unwrap();
        std::fs::create_dir(folder.join("a")).unwrap();
        let inotify = Inotify::on(&first).unwrap();
        let Some(Source::Inotify(inotify)) = confirm(inotify, &first, &missing, None).unwrap()
        else {
            panic!()
        };
        tokio::time::timeout(std::time::Duration::from_secs(20), inotify.changed())
            .await
            .unwrap();

        // What should be missing is there: there is nothing to watch.
        let first = Survey::take(&missing, None).unwrap().unwrap();
        std::fs::create_dir(folder.join("a/b")).unwrap();
        let inotify = Inotify::on(&first).unwrap();
        assert!(confirm(inotify, &first, &missing, None).unwrap().is_none());
    }
}
