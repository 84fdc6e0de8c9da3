//! How much one connection may have under way at once.
//!
//! Requests in flight are bounded by the desk, but one request of a few bytes can ask for an answer of many megabytes, or
//! for work that takes a thread for long. So work that blocks or gathers bytes first takes a place in its connection's
//! lane and keeps it until its answer is queued: no connection takes all threads, and what a peer does not read bounds
//! what is read for it. Large answers, above [`SMALL`], have few places.

use std::ops::Deref;
use std::sync::Arc;

use mainstay_wire::{RpcError, limits};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::files::error::FileError;

/// What an answer may hold without being a large one, in bytes.
pub const SMALL: usize = limits::MIB;

/// File operations of one connection that run at once, and those of them with a large answer.
pub(crate) const FILE_PLACES: (usize, usize) = (32, 1);

/// Response bodies that are gathered at once for one connection, and large ones of them. More than for files: servers
/// take their time.
pub(crate) const BODY_PLACES: (usize, usize) = (64, 4);

/// The places of one connection. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lane {
    places: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

/// A place in a lane; free again when dropped.
#[derive(Debug)]
pub struct Held {
    _place: OwnedSemaphorePermit,
    large: Option<OwnedSemaphorePermit>,
}

/// An answer, and the place it takes until it is queued.
#[derive(Debug)]
pub struct Answered<A> {
    /// What to answer.
    pub answer: A,
    /// To be dropped when the answer is queued.
    pub held: Held,
}

/// How much a piece of work may gather.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// [`SMALL`] bytes.
    Small,
    /// What an answer may hold.
    Large,
}

impl Lane {
    /// A lane with so many places, and so many for large answers among them.
    pub fn new((places, large): (usize, usize)) -> Self {
        Self {
            places: Arc::new(Semaphore::new(places)),
            large: Arc::new(Semaphore::new(large)),
        }
    }

    /// Waits for a place.
    pub(crate) async fn enter(&self) -> Result<Held, RpcError> {
        let place = self
            .places
            .clone()
            .acquire_owned()
            .await
            .map_err(RpcError::internal)?;
        Ok(Held {
            _place: place,
            large: None,
        })
    }

    /// Waits until a place may have a large answer.
    pub(crate) async fn grow(&self, held: &mut Held) -> Result<(), RpcError> {
        if held.large.is_none() {
            held.large = Some(
                self.large
                    .clone()
                    .acquire_owned()
                    .await
                    .map_err(RpcError::internal)?,
            );
        }
        Ok(())
    }

    /// Runs work that blocks and gathers at most [`SMALL`] bytes.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
    ) -> Result<Answered<T>, RpcError> {
        let (answer, held) = blocking(self.enter().await?, work).await?;
        Ok(Answered {
            answer: answer?,
            held,
        })
    }

    /// Runs work that blocks and may gather a large answer. It is first asked for a small one, and again, when it gives
    /// `None`, for a large one.
    pub(crate) async fn run_sized<T: Send + 'static>(
        &self,
        work: impl Fn(Size) -> Result<Option<T>, FileError> + Send + 'static,
    ) -> Result<Answered<T>, RpcError> {
        let held = self.enter().await?;
        let ((small, work), mut held) = blocking(held, move || (work(Size::Small), work)).await?;
        if let Some(answer) = small? {
            return Ok(Answered { answer, held });
        }
        self.grow(&mut held).await?;
        let (large, held) = blocking(held, move || work(Size::Large)).await?;
        match large? {
            Some(answer) => Ok(Answered { answer, held }),
            None => Err(RpcError::internal("the answer does not fit one message")),
        }
    }

    /// Runs work that blocks and always gathers a large answer.
    pub(crate) async fn run_large<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Answered<T>, RpcError> {
        let mut held = self.enter().await?;
        self.grow(&mut held).await?;
        let (answer, held) = blocking(held, work).await?;
        Ok(Answered { answer, held })
    }
}

/// A lane for files.
impl Default for Lane {
    fn default() -> Self {
        Self::new(FILE_PLACES)
    }
}

impl<A> Answered<A> {
    /// The same place for another answer.
    pub(crate) fn map<B>(self, change: impl FnOnce(A) -> B) -> Answered<B> {
        Answered {
            answer: change(self.answer),
            held: self.held,
        }
    }

    /// As [`Self::map`]; a failure frees the place.
    pub(crate) fn try_map<B, E>(
        self,
        change: impl FnOnce(A) -> Result<B, E>,
    ) -> Result<Answered<B>, E> {
        Ok(Answered {
            answer: change(self.answer)?,
            held: self.held,
        })
    }
}

impl<A> Deref for Answered<A> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.answer
    }
}

/// Runs work where it may block. The place stays taken until the work ends, even if nobody waits for it any more.
async fn blocking<T: Send + 'static>(
    held: Held,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<(T, Held), RpcError> {
    let done = tokio::task::spawn_blocking(move || (work(), held)).await;
    done.map_err(|error| RpcError::internal(format_args!("file operation failed: {error}")))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn work_waits_for_a_place_until_an_answer_is_queued() {
        let lane = Lane::new((2, 1));
        let first = lane.run(|| Ok(1)).await.unwrap();
        let _second = lane.run(|| Ok(2)).await.unwrap();
        let mut third = Box::pin(lane.run(|| Ok(3)));
        assert!((&mut third).now_or_never().is_none());
        assert_eq!(*first, 1);
        drop(first);
        assert_eq!(*third.await.unwrap(), 3);
    }

    #[tokio::test]
    async fn large_answers_go_one_at_a_time_and_small_ones_beside_them() {
        let lane = Lane::new((8, 1));
        let sized = |size: Size| Ok((size == Size::Large).then_some(size));
        let first = lane.run_sized(sized).await.unwrap();
        assert_eq!(*first, Size::Large);
        let mut second = Box::pin(lane.run_sized(sized));
        let mut third = Box::pin(lane.run_large(|| ()));
        // Their small try is over, or never was.
        let small = lane.run_sized(|size| Ok(Some(size))).await.unwrap();
        assert_eq!(*small, Size::Small);
        assert!((&mut second).now_or_never().is_none());
        assert!((&mut third).now_or_never().is_none());
        drop(first);
        // Together: whichever queued first holds the place until it is polled.
        tokio::join!(async { drop(second.await.unwrap()) }, async {
            drop(third.await.unwrap())
        },);
    }

    #[tokio::test]
    async fn work_that_nobody_waits_for_keeps_its_place_until_it_ends() {
        let lane = Lane::new((1, 1));
        let (end, ended) = mpsc::channel::<()>();
        let abandoned = tokio::spawn({
            let lane = lane.clone();
            async move { lane.run(move || Ok(ended.recv().is_ok())).await }
        });
        while lane.places.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        abandoned.abort();
        assert!(abandoned.await.unwrap_err().is_cancelled());
        let next = lane.run(|| Ok(()));
        let mut next = Box::pin(next);
        assert!((&mut next).now_or_never().is_none());
        end.send(()).unwrap();
        next.await.unwrap();
    }
}
