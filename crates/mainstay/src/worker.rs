//! Worker: a child whose life is one future.
//!
//! Most children are actors for supervision only: their crash is the supervisor's business, and `kill` ends them at
//! any await. While a handler awaits, an actor handles no other message and `stop` does nothing, so such a child has
//! one message, its work is one cancellable future, and whatever else it must hear reaches it over queues of its own.
//!
//! | message | from | meaning |
//! |---|---|---|
//! | `Run` | whoever spawned it | do the work, then end |

use std::marker::PhantomData;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SpawnErr};
use tracing::{Instrument, Span};

/// What a child is for. Reports go to their receivers before the future ends; what must be released however it ends
/// is released by `Drop`.
pub(crate) trait Work: Send + Sized + 'static {
    /// All of it.
    fn run(self) -> impl Future<Output = ()> + Send;
}

/// One message: the work.
#[derive(Debug)]
struct Run;

/// See the module. Its state is the work, until `Run` takes it.
struct Worker<W> {
    span: Span,
    work: PhantomData<fn() -> W>,
}

impl<W: Work> Actor for Worker<W> {
    type Msg = Run;
    type State = Option<W>;
    type Arguments = W;

    async fn pre_start(&self, _: ActorRef<Run>, work: W) -> Result<Option<W>, ActorProcessingErr> {
        Ok(Some(work))
    }

    async fn handle(
        &self,
        myself: ActorRef<Run>,
        Run: Run,
        work: &mut Option<W>,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(work) = work.take() {
            work.run().instrument(self.span.clone()).await;
        }
        crate::lifecycle::done(&myself);
        Ok(())
    }
}

/// Spawns a child, linked to the supervisor, and sets it to work in this span. Waits for nothing but the spawning
/// itself.
///
/// # Errors
/// The supervisor is ending.
pub(crate) async fn spawn<W: Work>(
    work: W,
    span: Span,
    supervisor: ActorCell,
) -> Result<ActorCell, SpawnErr> {
    let worker = Worker {
        span,
        work: PhantomData,
    };
    let (worker, _) = Worker::spawn_linked(None, worker, work, supervisor).await?;
    let _ = worker.send_message(Run);
    Ok(worker.get_cell())
}
