//! Calls around the real machine: what `session.md` 15.6 prescribes for callers, Reader and Writer, in steps as small as their atomic
//! operations; so this file is also the shortest description of how a call is made.

use mainstay_session::ids::*;
use mainstay_session::*;

use crate::actions::TOLD;
use crate::bounds::Bounds;
use crate::world::World;

/// Waiters from here on are calls that wait for a link.
const CALLERS: u64 = 50;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Callers {
    pub(crate) world: World,
    /// The session that callers hold.
    held: Option<Gen>,
    calls: Vec<Call>,
    wires: Vec<Wire>,
    /// Process table: starts on this or an earlier link are refused.
    drained: Epoch,
}

/// One link's two marks and its Reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Wire {
    epoch: Epoch,
    /// The Reader will close it: told by the supervisor, or the socket ended.
    closing: bool,
    closed: bool,
    /// Pending calls were drained; `LinkDown` may be handled any time now.
    reported: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Fails fast, never repeated.
    Plain,
    /// Waits; repeated with the same id when the transport closes.
    Write,
    /// Waits; bound to one link.
    Start,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Call {
    kind: Kind,
    at: At,
    /// Links it was written to, as bits.
    written: u32,
}

/// Where a call is. What is read by others, and when, is one step each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Idle,
    /// 1, 2: test the gate, read the slot.
    Look(Gen),
    /// `AwaitLink` was sent.
    Waits(Gen),
    /// 4: register with the Reader of this link.
    Register(Gen, Epoch),
    /// Registered; the gate again, then the Writer's queue.
    Queue(Gen, Epoch),
    /// In the Writer's queue; the mark says whether the Writer has taken it.
    Queued(Gen, Epoch, bool),
    /// In the socket.
    Written(Gen, Epoch),
    /// 5: a reply is in the channel.
    Replied(Gen, Epoch, Reply),
    /// 6: the reply is taken, the gate not tested yet.
    Taken(Gen, Reply),
    Done(Outcome),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Reply {
    Answer,
    /// Drained; with the written mark.
    Closed(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Outcome {
    Answered,
    NotSent,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Act {
    /// The supervisor takes an event.
    Supervisor(Event),
    /// A call's next step.
    Call(usize),
    /// The caller finds the gate set while it waits for the reply.
    Gated(usize),
    /// The Writer marks a queued call, then tests and writes it.
    Mark(usize),
    Write(usize),
    /// The executor's answer reaches the Reader.
    Answer(usize),
    /// A socket ends; the Reader closes, drains and reports.
    End(Epoch),
    Close(Epoch),
    Drain(Epoch),
}

impl Callers {
    fn gate(&self, generation: Gen) -> bool {
        self.world.gates & (1 << generation.0) != 0
    }

    fn wire(&self, epoch: Epoch) -> Wire {
        let gone = Wire {
            epoch,
            closing: true,
            closed: true,
            reported: true,
        };
        self.wires
            .iter()
            .find(|wire| wire.epoch == epoch)
            .copied()
            .unwrap_or(gone)
    }

    fn wire_mut(&mut self, epoch: Epoch) -> Option<&mut Wire> {
        self.wires.iter_mut().find(|wire| wire.epoch == epoch)
    }

    fn starting(&self) -> bool {
        let idle = |at: At| matches!(at, At::Idle | At::Look(_) | At::Waits(_) | At::Done(_));
        self.calls
            .iter()
            .any(|call| call.kind == Kind::Start && !idle(call.at))
    }

    /// Nobody has a session yet.
    pub(crate) fn new(bounds: &Bounds, calls: &[Kind]) -> Self {
        let call = |kind: &Kind| Call {
            kind: *kind,
            at: At::Idle,
            written: 0,
        };
        Self {
            world: World::new(bounds),
            held: None,
            calls: calls.iter().map(call).collect(),
            wires: Vec::new(),
            drained: Epoch::default(),
        }
    }

    pub(crate) fn acts(&self, bounds: &Bounds, out: &mut Vec<Act>) {
        if self.world.broken.is_some() {
            return;
        }
        let mut events = Vec::new();
        self.world.possible(bounds, &mut events);
        let usable = |event: &Event| match *event {
            // The Readers are in this model.
            Event::LinkDown { .. } | Event::LinkFault { .. } => false,
            Event::ChildGone {
                child: Child::Reader(_) | Child::Writer(_),
                ..
            } => false,
            Event::StartsDrained(_) => !self.starting(),
            _ => true,
        };
        out.extend(events.into_iter().filter(usable).map(Act::Supervisor));
        for (index, call) in self.calls.iter().enumerate() {
            match call.at {
                At::Idle if self.held.is_none() => {}
                At::Idle
                | At::Look(_)
                | At::Register(..)
                | At::Queue(..)
                | At::Replied(..)
                | At::Taken(..) => {
                    out.push(Act::Call(index));
                }
                At::Queued(_, _, false) => out.push(Act::Mark(index)),
                At::Queued(_, _, true) => out.push(Act::Write(index)),
                At::Written(_, epoch) if !self.wire(epoch).closed => out.push(Act::Answer(index)),
                At::Written(..) | At::Waits(_) | At::Done(_) => {}
            }
            if let At::Queued(generation, ..)
            | At::Written(generation, _)
            | At::Replied(generation, ..) = call.at
                && self.gate(generation)
            {
                out.push(Act::Gated(index));
            }
        }
        for wire in &self.wires {
            if !wire.closing {
                out.push(Act::End(wire.epoch));
            } else if !wire.closed {
                out.push(Act::Close(wire.epoch));
            } else if !wire.reported {
                out.push(Act::Drain(wire.epoch));
            } else {
                let (epoch, cause) = (wire.epoch, TOLD);
                out.push(Act::Supervisor(Event::LinkDown {
                    epoch,
                    cause,
                    restart: false,
                }));
            }
        }
    }

    pub(crate) fn act(&self, act: Act, bounds: &Bounds) -> Callers {
        let mut next = self.clone();
        match act {
            Act::Supervisor(event) => next.supervisor(event, bounds),
            Act::Call(index) => next.call(index, bounds),
            Act::Gated(index) => {
                let sent = match next.calls[index].at {
                    At::Queued(_, _, mark) => mark,
                    _ => true,
                };
                next.calls[index].at = At::Done(if sent {
                    Outcome::Unknown
                } else {
                    Outcome::NotSent
                });
            }
            Act::Mark(index) => {
                if let At::Queued(_, _, mark) = &mut next.calls[index].at {
                    *mark = true;
                }
            }
            Act::Write(index) => next.write(index),
            Act::Answer(index) => {
                if let At::Written(generation, epoch) = next.calls[index].at {
                    next.calls[index].at = At::Replied(generation, epoch, Reply::Answer);
                }
            }
            Act::End(epoch) => {
                if let Some(wire) = next.wire_mut(epoch) {
                    wire.closing = true;
                }
            }
            Act::Close(epoch) => {
                if let Some(wire) = next.wire_mut(epoch) {
                    wire.closed = true;
                }
            }
            Act::Drain(epoch) => next.drain(epoch),
        }
        next.check();
        next
    }

    /// One step of the machine, and what its effects mean for links and calls.
    fn supervisor(&mut self, event: Event, bounds: &Bounds) {
        if let Event::LinkDown { epoch, .. } = event {
            self.wires.retain(|wire| wire.epoch != epoch);
        }
        let effects = self.world.machine.clone().step(event);
        self.world = self.world.next(event, bounds);
        if let Event::LinkReady { epoch, .. } = event {
            self.wires.push(Wire {
                epoch,
                closing: false,
                closed: false,
                reported: false,
            });
            self.wires.sort_unstable();
        }
        for effect in effects {
            match effect {
                Effect::CloseLink(epoch) => {
                    if let Some(wire) = self.wire_mut(epoch) {
                        wire.closing = true;
                    }
                }
                Effect::DrainStarts { epoch, .. } => self.drained = epoch,
                Effect::Reply(waiter, answer) => {
                    let call = waiter.0.checked_sub(CALLERS);
                    match (call, answer) {
                        (Some(index), answer) => self.answered(index as usize, answer),
                        (None, Answer::Session(generation)) => self.held = Some(generation),
                        (None, _) => {}
                    }
                }
                _ => {}
            }
        }
    }

    fn answered(&mut self, index: usize, answer: Answer) {
        if let (At::Waits(generation), Some(call)) =
            (self.calls[index].at, self.calls.get_mut(index))
        {
            call.at = match answer {
                Answer::Link(..) => At::Look(generation),
                _ => At::Done(Outcome::NotSent),
            };
        }
    }

    fn call(&mut self, index: usize, bounds: &Bounds) {
        let Call { kind, at, .. } = self.calls[index];
        self.calls[index].at = match at {
            At::Idle => self.held.map_or(At::Idle, At::Look),
            At::Look(generation) if self.gate(generation) => At::Done(Outcome::NotSent),
            At::Look(generation) => match self.world.slot(generation) {
                Some(LinkSlot::Up(epoch)) if !self.wire(epoch).closed => {
                    At::Register(generation, epoch)
                }
                Some(LinkSlot::Failed(_) | LinkSlot::Retired) | None => At::Done(Outcome::NotSent),
                Some(_) if kind == Kind::Plain => At::Done(Outcome::NotSent),
                Some(slot) => {
                    let dead = match slot {
                        LinkSlot::Up(epoch) => Some(epoch),
                        _ => None,
                    };
                    self.calls[index].at = At::Waits(generation);
                    let waiter = WaiterId(CALLERS + index as u64);
                    return self.supervisor(
                        Event::AwaitLink {
                            generation,
                            dead,
                            waiter,
                        },
                        bounds,
                    );
                }
            },
            // The process table refuses a start on a link whose starts are being drained.
            At::Register(generation, epoch) if kind == Kind::Start && self.drained >= epoch => {
                At::Look(generation)
            }
            // Registering and testing the closed flag is one step of the Reader's loop.
            At::Register(_, epoch) if self.wire(epoch).closed => At::Done(Outcome::NotSent),
            At::Register(generation, epoch) => At::Queue(generation, epoch),
            At::Queue(generation, _) if self.gate(generation) => At::Done(Outcome::NotSent),
            At::Queue(generation, epoch) => At::Queued(generation, epoch, false),
            At::Replied(generation, _, reply) => At::Taken(generation, reply),
            At::Taken(generation, reply) => match (reply, self.gate(generation)) {
                (Reply::Answer, false) => At::Done(Outcome::Answered),
                (Reply::Closed(_), false) if kind == Kind::Write => At::Look(generation),
                (Reply::Closed(false), _) => At::Done(Outcome::NotSent),
                (Reply::Answer | Reply::Closed(true), _) => At::Done(Outcome::Unknown),
            },
            At::Waits(_) | At::Queued(..) | At::Written(..) | At::Done(_) => at,
        };
        if let (At::Done(Outcome::Answered), At::Taken(generation, _)) = (self.calls[index].at, at)
            && self.world.slot(generation) == Some(LinkSlot::Retired)
        {
            self.world
                .breaks(7, "a call of a retired session succeeded");
        }
    }

    /// The Writer has set the mark; now it tests both flags, and only then writes.
    fn write(&mut self, index: usize) {
        let At::Queued(generation, epoch, true) = self.calls[index].at else {
            return;
        };
        if self.wire(epoch).closed || self.gate(generation) {
            // Skipped: the Reader's drain or the gate ends it.
            self.calls[index].at = At::Written(generation, epoch);
            return;
        }
        let call = &mut self.calls[index];
        let again =
            call.written & (1 << epoch.0) != 0 || (call.written != 0 && call.kind != Kind::Write);
        call.written |= 1 << epoch.0;
        call.at = At::Written(generation, epoch);
        if again {
            self.world.breaks(8, "a call was written twice");
        }
        if self.world.slot(generation) == Some(LinkSlot::Retired) {
            self.world
                .breaks(9, "a call of a retired session was written");
        }
    }

    /// The Reader reads the marks of what is pending on this link, after it has set the closed flag.
    fn drain(&mut self, epoch: Epoch) {
        for call in &mut self.calls {
            match call.at {
                At::Queue(generation, on) if on == epoch => {
                    call.at = At::Replied(generation, on, Reply::Closed(false));
                }
                At::Queued(generation, on, mark) if on == epoch => {
                    call.at = At::Replied(generation, on, Reply::Closed(mark));
                }
                At::Written(generation, on) if on == epoch => {
                    call.at = At::Replied(generation, on, Reply::Closed(true));
                }
                _ => {}
            }
        }
        if let Some(wire) = self.wire_mut(epoch) {
            wire.reported = true;
        }
    }

    fn check(&mut self) {
        let lied = |call: &Call| {
            call.at == At::Done(Outcome::NotSent) && call.written != 0 && call.kind != Kind::Write
        };
        if self.calls.iter().any(lied) {
            self.world
                .breaks(28, "a call that was written was reported not sent");
        }
        for call in &self.calls {
            if let (Kind::Start, At::Register(_, epoch)) = (call.kind, call.at) {
                let replaying = self
                    .world
                    .link(epoch)
                    .is_some_and(|link| link.resume && !link.replayed);
                if replaying {
                    return self
                        .world
                        .breaks(27, "a start on a link that is not usable yet");
                }
            }
        }
    }

    /// Nothing left to do, and no call left in between.
    pub(crate) fn rests(&self) -> bool {
        let over = |call: &Call| matches!(call.at, At::Done(_) | At::Idle);
        self.calls.iter().all(over)
    }

    pub(crate) fn fair(&self, bounds: &Bounds) -> Option<Act> {
        let mut acts = Vec::new();
        self.acts(bounds, &mut acts);
        let own = |act: &&Act| !matches!(act, Act::Supervisor(_) | Act::End(_));
        if let Some(act) = acts.iter().find(own) {
            return Some(*act);
        }
        let down = |act: &&Act| matches!(act, Act::Supervisor(Event::LinkDown { .. }));
        if let Some(act) = acts.iter().find(down) {
            return Some(*act);
        }
        self.world.fair().map(Act::Supervisor)
    }
}
