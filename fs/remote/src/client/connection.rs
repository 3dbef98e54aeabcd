//! Requests and answers on a stream.
//!
//! # Locks
//! Their order: the writer, the stream's frames, the state. The state is held for moments only.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use diskfs_vfs::{Error, ErrorKind, Result};

use super::area::BulkArea;
use crate::protocol::{
    Checked, Frame, FrameReader, Head, MAX_BULK, MAX_IN_FLIGHT, MIN_APART, Reply, Request,
    Violation, bulk_offset, decode, write_frame,
};

/// The violation "the answer has the wrong type for the request".
pub(super) const MISMATCH: Violation = Violation("unexpected answer to a request");

/// The reader of the stream's frames.
pub(super) type Frames = FrameReader<Box<dyn Read + Send>>;

type ExplainLoss = Box<dyn Fn() -> Option<String> + Send + Sync>;

thread_local! {
    /// The buffer in which a request is encoded.
    static FRAME: RefCell<Frame> = RefCell::default();
}

/// A request, its bulk data, and the buffer for the bulk of the answer.
#[derive(Debug)]
pub(super) struct Call<'c> {
    pub(super) request: Request<'c>,
    pub(super) data: &'c [u8],
    pub(super) into: &'c mut [u8],
}

impl<'c> Call<'c> {
    pub(super) fn new(request: Request<'c>) -> Self {
        Self {
            request,
            data: &[],
            into: &mut [],
        }
    }
}

/// An answer of the agent.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    pub(super) reply: Reply<'a>,
    /// The bulk of the answer.
    pub(super) bulk: &'a [u8],
}

/// Checks that the answer is [`Reply::Done`].
pub(super) fn done(Answer { reply, bulk }: Answer<'_>) -> Checked<()> {
    match reply {
        Reply::Done if bulk.is_empty() => Ok(()),
        _ => Err(MISMATCH),
    }
}

/// A connection over a stream.
pub(super) struct Connection {
    writer: Mutex<Box<dyn Write + Send>>,
    frames: Mutex<Frames>,
    state: Mutex<ConnectionState>,
    /// The condition variables of the slots: notified when the answer has arrived, or when it is
    /// the slot's turn to read from the stream.
    slot_ready: Box<[Condvar]>,
    slot_is_free: Condvar,
    explain: OnceLock<ExplainLoss>,
    /// The area for long bulk, if the agent sees it, too.
    area: Option<Arc<dyn BulkArea>>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct ConnectionState {
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// True while a thread reads from the stream.
    is_read: bool,
    /// The reason why the connection is lost, once it is.
    lost: Option<String>,
}

impl ConnectionState {
    fn sleeps(&mut self, ticket: Ticket, is_asleep: bool) {
        if let Some(slot) = self.slots.get_mut(ticket.index) {
            slot.is_asleep = is_asleep;
        }
    }
}

/// The slot of a request in flight.
#[derive(Debug, Default)]
struct Slot {
    /// The number of requests that have used this slot. It distinguishes a late answer to an
    /// earlier request from the current one.
    turn: u32,
    /// True while an answer may arrive.
    is_waiting: bool,
    /// True while the waiting thread is blocked.
    is_asleep: bool,
    /// True if the answer may take without limit.
    is_endless: bool,
    /// The maximum length of the answer's bulk.
    bulk_limit: usize,
    answer: Option<ReceivedAnswer>,
}

/// An answer that another thread has read from the stream.
#[derive(Debug)]
struct ReceivedAnswer {
    message: Vec<u8>,
    bulk: Bulk,
}

/// The bulk of an answer, by its place.
#[derive(Debug)]
enum Bulk {
    /// The number of bytes that were read directly into the caller's buffer.
    InPlace(usize),
    Here(Vec<u8>),
    /// The number of bytes in the area.
    Apart(usize),
}

impl Bulk {
    fn len(&self) -> usize {
        match self {
            Self::InPlace(len) | Self::Apart(len) => *len,
            Self::Here(bytes) => bytes.len(),
        }
    }
}

/// The result of waiting.
enum Waited {
    Answered(ReceivedAnswer),
    /// The answer has not arrived, and this thread must read from the stream.
    Read,
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connection {
    pub(super) fn new(
        frames: Frames,
        writer: Box<dyn Write + Send>,
        area: Option<Arc<dyn BulkArea>>,
    ) -> Self {
        let mut slots = Vec::new();
        slots.resize_with(MAX_IN_FLIGHT, Slot::default);
        Self {
            writer: Mutex::new(writer),
            frames: Mutex::new(frames),
            state: Mutex::new(ConnectionState {
                slots,
                free: (0..MAX_IN_FLIGHT).collect(),
                is_read: false,
                lost: None,
            }),
            slot_ready: (0..MAX_IN_FLIGHT).map(|_| Condvar::new()).collect(),
            slot_is_free: Condvar::new(),
            explain: OnceLock::new(),
            area,
        }
    }

    pub(super) fn on_lost(&self, explain: ExplainLoss) {
        // The first function stays.
        self.explain.set(explain).ok();
    }

    /// Sends a request, waits, and passes the answer to `take`.
    pub(super) fn call<T>(
        &self,
        call: Call<'_>,
        take: impl FnOnce(Answer<'_>) -> Checked<T>,
    ) -> Result<T> {
        let Call {
            request,
            data,
            into,
        } = call;
        let is_endless = request.waits_for_a_program();
        let ticket = self.begin(&request, data, into.len(), is_endless)?;
        self.finish(ticket, into, take)
    }

    /// Sends a request whose answer nobody waits for yet; [`finish_later`](Self::finish_later) must
    /// follow.
    pub(super) fn send_ahead(&self, request: &Request<'_>, bulk_limit: usize) -> Result<Ticket> {
        // The answer may stay in the stream until somebody needs it.
        self.begin(request, &[], bulk_limit, true)
    }

    /// Waits for the answer to a request that was sent ahead, and passes it to `take`.
    pub(super) fn finish_later<T>(
        &self,
        ticket: Ticket,
        into: &mut [u8],
        take: impl FnOnce(Answer<'_>) -> Checked<T>,
    ) -> Result<T> {
        if let Some(slot) = lock(&self.state).slots.get_mut(ticket.index) {
            slot.is_endless = false;
        }
        self.finish(ticket, into, take)
    }

    fn begin(
        &self,
        request: &Request<'_>,
        data: &[u8],
        bulk_limit: usize,
        is_endless: bool,
    ) -> Result<Ticket> {
        let ticket = self.take_slot(bulk_limit, is_endless)?;
        let sent = self.send(ticket, request, data);
        sent.inspect_err(|_| self.give_back(ticket))?;
        Ok(ticket)
    }

    fn finish<T>(
        &self,
        ticket: Ticket,
        into: &mut [u8],
        take: impl FnOnce(Answer<'_>) -> Checked<T>,
    ) -> Result<T> {
        let answered = self.receive(ticket, into);
        self.give_back(ticket);
        let (message, bulk_len) = answered?;
        let bulk = into.get(..bulk_len).unwrap_or_default();
        let taken = match decode(&message) {
            Ok(Reply::Failed(_)) if bulk_len > 0 => Err(MISMATCH),
            Ok(Reply::Failed(failure)) => return Err(failure.into()),
            Ok(reply) => take(Answer { reply, bulk }),
            Err(violation) => Err(violation),
        };
        taken.map_err(|violation| self.protocol_violation(&violation))
    }

    /// Returns the numbers of the requests in flight, without those that may take without limit.
    pub(super) fn waiting(&self) -> Vec<u64> {
        let state = lock(&self.state);
        let slots = state.slots.iter().enumerate();
        let waiting = slots.filter(|(_, slot)| slot.is_waiting && !slot.is_endless);
        let tickets = waiting.map(|(index, slot)| Ticket {
            index,
            turn: slot.turn,
        });
        tickets.map(Ticket::number).collect()
    }

    /// Ends the connection because the agent broke the protocol.
    pub(super) fn protocol_violation(&self, violation: &Violation) -> Error {
        self.disconnect(&io::Error::new(
            io::ErrorKind::InvalidData,
            violation.clone(),
        ))
    }

    fn take_slot(&self, bulk_limit: usize, is_endless: bool) -> Result<Ticket> {
        let mut state = lock(&self.state);
        loop {
            if let Some(reason) = &state.lost {
                return Err(Error::new(ErrorKind::Io, reason.clone()));
            }
            if let Some(index) = state.free.pop()
                && let Some(slot) = state.slots.get_mut(index)
            {
                slot.turn = slot.turn.wrapping_add(1);
                slot.is_waiting = true;
                slot.bulk_limit = bulk_limit;
                slot.is_endless = is_endless;
                return Ok(Ticket {
                    index,
                    turn: slot.turn,
                });
            }
            state = self
                .slot_is_free
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn give_back(&self, ticket: Ticket) {
        let mut state = lock(&self.state);
        if let Some(slot) = state.slots.get_mut(ticket.index) {
            slot.is_waiting = false;
            slot.answer = None;
            state.free.push(ticket.index);
        }
        drop(state);
        self.slot_is_free.notify_one();
    }

    fn send(&self, ticket: Ticket, request: &Request<'_>, data: &[u8]) -> Result<()> {
        let is_apart = self.put_apart(ticket, data)?;
        FRAME.with_borrow_mut(|frame| {
            let (number, len) = (ticket.number(), data.len());
            let (filled, data) = if is_apart {
                (frame.fill_apart(number, request, len), &[][..])
            } else {
                (frame.fill(number, request, len), data)
            };
            filled.map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))?;
            let mut writer = lock(&self.writer);
            let written = write_frame(&mut **writer, frame.bytes(), data);
            drop(writer);
            written.map_err(|error| self.disconnect(&error))
        })
    }

    /// Copies the bulk of a request into the area if it is long enough.
    fn put_apart(&self, ticket: Ticket, data: &[u8]) -> Result<bool> {
        let has_room = (MIN_APART..=MAX_BULK).contains(&data.len());
        let area = self.area.as_ref().filter(|_| has_room);
        let (Some(area), Some(offset)) = (area, bulk_offset(ticket.number())) else {
            return Ok(false);
        };
        area.write(offset, data).map(|()| true)
    }

    /// Copies the bulk of an answer out of the area.
    fn take_apart(&self, ticket: Ticket, into: &mut [u8]) -> Result<()> {
        let (Some(area), Some(offset)) = (&self.area, bulk_offset(ticket.number())) else {
            return Err(self.protocol_violation(&MISMATCH));
        };
        area.read(offset, into)
    }

    /// Waits for the answer. Returns its message and the length of its bulk.
    fn receive(&self, ticket: Ticket, into: &mut [u8]) -> Result<(Vec<u8>, usize)> {
        let ReceivedAnswer { message, bulk } = match self.wait(ticket)? {
            Waited::Answered(owned) => owned,
            Waited::Read => {
                let mut frames = lock(&self.frames);
                let read = self.read_until(&mut frames, ticket, into);
                drop(frames);
                self.hand_over_reading();
                read.map_err(|error| self.disconnect(&error))?
            }
        };
        let bulk_len = bulk.len();
        if let Some(into) = into.get_mut(..bulk_len) {
            match bulk {
                Bulk::InPlace(_) => {}
                Bulk::Here(bytes) => into.copy_from_slice(&bytes),
                Bulk::Apart(_) => self.take_apart(ticket, into)?,
            }
        }
        Ok((message, bulk_len))
    }

    /// Waits until the answer has arrived, or until it is this thread's turn to read.
    fn wait(&self, ticket: Ticket) -> Result<Waited> {
        let mut state = lock(&self.state);
        loop {
            let slot = state.slots.get_mut(ticket.index);
            if let Some(answer) = slot.and_then(|slot| slot.answer.take()) {
                return Ok(Waited::Answered(answer));
            }
            if let Some(reason) = &state.lost {
                return Err(Error::new(ErrorKind::Io, reason.clone()));
            }
            if !state.is_read {
                state.is_read = true;
                return Ok(Waited::Read);
            }
            let Some(ready) = self.slot_ready.get(ticket.index) else {
                return Err(ErrorKind::Io.into());
            };
            state.sleeps(ticket, true);
            state = ready.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleeps(ticket, false);
        }
    }

    /// Reads answers from the stream, for any thread, until the answer of `ticket` has arrived.
    fn read_until(
        &self,
        frames: &mut Frames,
        ticket: Ticket,
        into: &mut [u8],
    ) -> io::Result<ReceivedAnswer> {
        loop {
            let head = frames.head()?.ok_or_else(ended)?;
            let for_whom = Ticket::of(head.request)?;
            self.check(for_whom, &head)?;
            let mut message = Vec::new();
            frames.message(&head, &mut message)?;
            let is_own = for_whom == ticket;
            let bulk = if head.is_apart {
                Bulk::Apart(head.bulk_len)
            } else if is_own {
                let into = into.get_mut(..head.bulk_len).ok_or_else(ended)?;
                frames.take(into)?;
                Bulk::InPlace(head.bulk_len)
            } else {
                let mut bytes = vec![0; head.bulk_len];
                frames.take(&mut bytes)?;
                Bulk::Here(bytes)
            };
            let answer = ReceivedAnswer { message, bulk };
            if is_own {
                return Ok(answer);
            }
            self.deliver(for_whom, answer);
        }
    }

    /// Checks that the answer belongs to a request in flight and is not longer than allowed.
    fn check(&self, ticket: Ticket, head: &Head) -> io::Result<()> {
        if head.is_apart && self.area.is_none() {
            return Err(invalid("an answer in the area, which is not shared"));
        }
        let state = lock(&self.state);
        let slot = state.slots.get(ticket.index);
        let slot = slot
            .filter(|slot| slot.is_waiting && slot.turn == ticket.turn && slot.answer.is_none());
        match slot {
            Some(slot) if head.bulk_len <= slot.bulk_limit => Ok(()),
            Some(_) => Err(invalid("an answer is longer than requested")),
            None => Err(invalid("an answer without a request")),
        }
    }

    fn deliver(&self, ticket: Ticket, answer: ReceivedAnswer) {
        let mut state = lock(&self.state);
        if let Some(slot) = state.slots.get_mut(ticket.index) {
            slot.answer = Some(answer);
        }
        drop(state);
        self.notify_slot(ticket.index);
    }

    fn notify_slot(&self, index: usize) {
        if let Some(ready) = self.slot_ready.get(index) {
            ready.notify_one();
        }
    }

    /// Gives the turn to read to a blocked thread. A thread that is not blocked checks by itself.
    fn hand_over_reading(&self) {
        let mut state = lock(&self.state);
        state.is_read = false;
        let sleeps = |slot: &Slot| slot.is_asleep && slot.answer.is_none();
        let next = state.slots.iter().position(sleeps);
        drop(state);
        if let Some(index) = next {
            self.notify_slot(index);
        }
    }

    /// Ends the connection for all threads.
    fn disconnect(&self, error: &io::Error) -> Error {
        let mut state = lock(&self.state);
        let is_first = state.lost.is_none();
        let reason = state
            .lost
            .get_or_insert_with(|| format!("lost the connection to the microVM: {error}"))
            .clone();
        drop(state);
        if !is_first {
            return Error::new(ErrorKind::Io, reason);
        }
        // Outside the lock: the explanation may take its time. Requests that fail meanwhile get the
        // stream's own error.
        let explained = self.explain.get().and_then(|explain| explain());
        let reason = match explained {
            Some(why) => format!("{why}: {error}"),
            None => reason,
        };
        lock(&self.state).lost = Some(reason.clone());
        tracing::error!("{reason}");
        self.slot_ready.iter().for_each(Condvar::notify_all);
        self.slot_is_free.notify_all();
        Error::new(ErrorKind::Io, reason)
    }
}

fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the stream ended")
}

fn invalid(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// The slot and turn of a request, from which its number is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket {
    index: usize,
    turn: u32,
}

impl Ticket {
    fn number(self) -> u64 {
        let index = u32::try_from(self.index).unwrap_or(u32::MAX);
        (u64::from(self.turn) << 32) | u64::from(index)
    }

    fn of(number: u64) -> io::Result<Self> {
        let turn = u32::try_from(number >> 32).unwrap_or_default();
        let index = usize::try_from(number & 0xffff_ffff);
        let index = index.map_err(|_| invalid("an answer without a request"))?;
        Ok(Self { index, turn })
    }
}
