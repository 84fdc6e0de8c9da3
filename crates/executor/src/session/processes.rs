//! The processes of a session: how they start, who answers for them, and what stays when they have ended.

use mainstay_wire::RpcError;
use mainstay_wire::extension::ProcessesAnswer;
use mainstay_wire::process::StartParams;
use ractor::{Actor, ActorId, ActorRef};
use rustix::process::Pid;
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

use super::answers::{answer_ended, answer_unknown};
use super::running::Running;
use super::{Message, State};
use crate::outbox::Reply;
use crate::process::record::Record;
use crate::process::spawn::Plan;
use crate::process::{self, Call, Letter, Process, StartError};

impl State {
    pub(super) async fn on_start(
        &mut self,
        myself: &ActorRef<Message>,
        params: StartParams,
        reply: Reply,
    ) {
        let id = params.process_id.clone();
        if self.ended {
            reply.err(RpcError::internal("the session has ended"));
            return;
        }
        if self.live.contains_key(&id) || self.archive.get(&id).is_some() {
            reply.err(RpcError::invalid_request(format_args!(
                "process {id} already exists"
            )));
            return;
        }
        let plan = match Plan::new(params) {
            Ok(plan) => plan,
            Err(error) => {
                reply.err(error);
                return;
            }
        };
        let (sender, letters) = mpsc::unbounded_channel();
        let arguments = process::Arguments {
            id: id.clone(),
            plan,
            reply,
            attachment: self.holder.as_ref().map(|holder| holder.attachment.clone()),
            letters,
            again: sender.downgrade(),
            session: myself.clone(),
            shared: self.shared.clone(),
        };
        // The dropped reply tells of a failure.
        let Ok((actor, _)) =
            Process::spawn_linked(None, Process, Box::new(arguments), myself.get_cell()).await
        else {
            return;
        };
        self.started += 1;
        self.live.insert(
            id,
            Running {
                actor: actor.get_id(),
                letters: Some(sender),
                number: self.started,
                late: Vec::new(),
            },
        );
        let _ = actor.cast(process::Message::Run);
    }

    pub(super) fn on_call(&mut self, id: String, call: Call) {
        if let Some(running) = self.live.get_mut(&id) {
            if let Some(Letter::Call(call)) = running.send(Letter::Call(call)) {
                running.late.push(call);
            }
            return;
        }
        let first_seq = self
            .holder
            .as_ref()
            .is_some_and(|holder| holder.attachment.first_seq);
        match self.archive.get(&id) {
            Some(record) => answer_ended(record, call, first_seq),
            None => answer_unknown(&id, call),
        }
    }

    pub(super) fn on_credit(&mut self, id: &str, ack: u64, window: u64) {
        match self.live.get(id) {
            // A loop that has just ended has sent everything.
            Some(running) => drop(running.send(Letter::Credit { ack, window })),
            None => self.archive.release(id, ack),
        }
    }

    pub(super) fn on_list(&self, reply: Reply) {
        let mut listed = self.archive.entries();
        let asked: Vec<_> = self
            .live
            .values()
            .map(|running| {
                let (ask, answer) = oneshot::channel();
                let _ = running.send(Letter::Describe(ask));
                (running.number, answer)
            })
            .collect();
        tokio::spawn(async move {
            for (number, answer) in asked {
                // One that ends right now, or never started, is left out.
                if let Ok(entry) = answer.await {
                    listed.push((number, entry));
                }
            }
            listed.sort_by_key(|(number, _)| *number);
            let processes = listed.into_iter().map(|(_, entry)| entry).collect();
            reply.ok(ProcessesAnswer { processes });
        });
    }

    pub(super) fn on_not_started(
        &mut self,
        id: &str,
        reply: Reply,
        error: StartError,
        rest: Vec<Call>,
    ) {
        let late = self
            .live
            .remove(id)
            .map(|running| running.late)
            .unwrap_or_default();
        reply.err(error.into_rpc(id));
        for call in rest.into_iter().chain(late) {
            self.on_call(id.to_owned(), call);
        }
        self.report_if_over();
    }

    pub(super) fn on_finished(
        &mut self,
        myself: &ActorRef<Message>,
        record: Record,
        stragglers: Option<Pid>,
        rest: Vec<Call>,
    ) {
        let id = record.id.clone();
        let Some(running) = self.live.remove(&id) else {
            return;
        };
        let retention = self.shared.config.process_retention;
        if self
            .archive
            .add(running.number, record, stragglers, retention)
        {
            let timer = myself.send_after(retention, || Message::Sweep);
            self.sweep = Some(AbortOnDropHandle::new(timer));
        }
        for call in rest.into_iter().chain(running.late) {
            self.on_call(id.clone(), call);
        }
        if self.ended {
            self.archive.kill_stragglers();
        }
        self.report_if_over();
    }

    pub(super) fn on_child_gone(&mut self, actor: ActorId) {
        // One that said what became of it is no longer here; any other failed, and its child was killed with it.
        self.live.retain(|_, running| running.actor != actor);
        self.report_if_over();
    }
}
