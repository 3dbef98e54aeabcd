//! Requests and their answers on one stream.
//!
//! # Locks
//! In this order: the writer, the stream's frames, the state. The state is held for moments only.

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

/// The answer is not one to what was asked.
pub(super) const MISMATCH: Violation = Violation("an answer does not belong to its request");

/// The stream's frames.
pub(super) type Frames = FrameReader<Box<dyn Read + Send>>;

type Explain = Box<dyn Fn() -> Option<String> + Send + Sync>;

thread_local! {
    /// Where a request is put together.
    static FRAME: RefCell<Frame> = RefCell::default();
}

/// A request, what goes behind it, and where what comes behind its answer belongs.
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

/// What the agent answered.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    pub(super) reply: Reply<'a>,
    /// What came behind it.
    pub(super) bulk: &'a [u8],
}

/// That it is done, when there is nothing else to tell.
pub(super) fn done(Answer { reply, bulk }: Answer<'_>) -> Checked<()> {
    match reply {
        Reply::Done if bulk.is_empty() => Ok(()),
        _ => Err(MISMATCH),
    }
}

/// The stream.
pub(super) struct Connection {
    writer: Mutex<Box<dyn Write + Send>>,
    frames: Mutex<Frames>,
    state: Mutex<State>,
    /// One for each slot: its answer is there, or it is its turn to take from the stream.
    wake: Box<[Condvar]>,
    slot_is_free: Condvar,
    explain: OnceLock<Explain>,
    /// Where long bulk goes past the stream, if the agent sees it, too.
    area: Option<Arc<dyn BulkArea>>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct State {
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Whether somebody takes from the stream.
    is_read: bool,
    /// Why nothing more comes.
    lost: Option<String>,
}

impl State {
    fn sleeps(&mut self, ticket: Ticket, is_asleep: bool) {
        if let Some(slot) = self.slots.get_mut(ticket.index) {
            slot.is_asleep = is_asleep;
        }
    }
}

/// One request that waits.
#[derive(Debug, Default)]
struct Slot {
    /// Counts the requests that had this slot, so that the answer to an earlier one is not taken
    /// for that of a later one.
    turn: u32,
    /// Whether its answer may come.
    is_waiting: bool,
    /// Whether its thread sleeps until it is woken.
    is_asleep: bool,
    /// Whether its answer may take for ever.
    is_endless: bool,
    /// How much may come behind the answer.
    bulk_limit: usize,
    answer: Option<Owned>,
}

/// An answer that somebody else took from the stream.
#[derive(Debug)]
struct Owned {
    message: Vec<u8>,
    bulk: Bulk,
}

/// What came behind an answer, and where it is.
#[derive(Debug)]
enum Bulk {
    /// So many bytes are where they belong.
    InPlace(usize),
    Here(Vec<u8>),
    /// So many bytes are in the area.
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

/// What waiting led to.
enum Waited {
    Answered(Owned),
    /// It is for the caller to take from the stream.
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
            state: Mutex::new(State {
                slots,
                free: (0..MAX_IN_FLIGHT).collect(),
                is_read: false,
                lost: None,
            }),
            wake: (0..MAX_IN_FLIGHT).map(|_| Condvar::new()).collect(),
            slot_is_free: Condvar::new(),
            explain: OnceLock::new(),
            area,
        }
    }

    pub(super) fn on_lost(&self, explain: Explain) {
        // Who came first stays.
        self.explain.set(explain).ok();
    }

    /// Asks, waits, and hands the answer to `take`.
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
        let ticket = self.take_slot(into.len(), request.waits_for_a_program())?;
        let answered = self
            .send(ticket, &request, data)
            .and_then(|()| self.receive(ticket, into));
        self.give_back(ticket);
        let (message, bulk_len) = answered?;
        let bulk = into.get(..bulk_len).unwrap_or_default();
        let taken = match decode(&message) {
            Ok(Reply::Failed(_)) if bulk_len > 0 => Err(MISMATCH),
            Ok(Reply::Failed(failure)) => return Err(failure.into()),
            Ok(reply) => take(Answer { reply, bulk }),
            Err(violation) => Err(violation),
        };
        taken.map_err(|violation| self.broken(&violation))
    }

    /// The numbers of the requests that wait, without those that may for ever.
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

    /// Gives the connection up: the agent does what it must not.
    pub(super) fn broken(&self, violation: &Violation) -> Error {
        self.lose(&io::Error::new(
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
            written.map_err(|error| self.lose(&error))
        })
    }

    /// Puts what goes behind a request into the area, when it is worth it.
    fn put_apart(&self, ticket: Ticket, data: &[u8]) -> Result<bool> {
        let has_room = (MIN_APART..=MAX_BULK).contains(&data.len());
        let area = self.area.as_ref().filter(|_| has_room);
        let (Some(area), Some(offset)) = (area, bulk_offset(ticket.number())) else {
            return Ok(false);
        };
        area.write(offset, data).map(|()| true)
    }

    /// Takes what came behind an answer out of the area.
    fn take_apart(&self, ticket: Ticket, into: &mut [u8]) -> Result<()> {
        let (Some(area), Some(offset)) = (&self.area, bulk_offset(ticket.number())) else {
            return Err(self.broken(&MISMATCH));
        };
        area.read(offset, into)
    }

    /// Waits for the answer: its message, and how much came behind it.
    fn receive(&self, ticket: Ticket, into: &mut [u8]) -> Result<(Vec<u8>, usize)> {
        let Owned { message, bulk } = match self.wait(ticket)? {
            Waited::Answered(owned) => owned,
            Waited::Read => {
                let mut frames = lock(&self.frames);
                let read = self.read_until(&mut frames, ticket, into);
                drop(frames);
                self.pass_on();
                read.map_err(|error| self.lose(&error))?
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

    /// Waits until the answer is there, or it is for this thread to read.
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
            let Some(wake) = self.wake.get(ticket.index) else {
                return Err(ErrorKind::Io.into());
            };
            state.sleeps(ticket, true);
            state = wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleeps(ticket, false);
        }
    }

    /// Takes answers from the stream, for whomever, until that of `ticket` came.
    fn read_until(
        &self,
        frames: &mut Frames,
        ticket: Ticket,
        into: &mut [u8],
    ) -> io::Result<Owned> {
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
            let answer = Owned { message, bulk };
            if is_own {
                return Ok(answer);
            }
            self.hand_over(for_whom, answer);
        }
    }

    /// Whether somebody waits for this answer, and not for a smaller one.
    fn check(&self, ticket: Ticket, head: &Head) -> io::Result<()> {
        if head.is_apart && self.area.is_none() {
            return Err(invalid("an answer is where nobody looks"));
        }
        let state = lock(&self.state);
        let slot = state.slots.get(ticket.index);
        let slot = slot
            .filter(|slot| slot.is_waiting && slot.turn == ticket.turn && slot.answer.is_none());
        match slot {
            Some(slot) if head.bulk_len <= slot.bulk_limit => Ok(()),
            Some(_) => Err(invalid("an answer is longer than what was asked for")),
            None => Err(invalid("an answer to what was not asked")),
        }
    }

    fn hand_over(&self, ticket: Ticket, answer: Owned) {
        let mut state = lock(&self.state);
        if let Some(slot) = state.slots.get_mut(ticket.index) {
            slot.answer = Some(answer);
        }
        drop(state);
        self.wake(ticket.index);
    }

    fn wake(&self, index: usize) {
        if let Some(wake) = self.wake.get(index) {
            wake.notify_one();
        }
    }

    /// Lets somebody else take from the stream, if anybody sleeps. Who doesn't will look by itself.
    fn pass_on(&self) {
        let mut state = lock(&self.state);
        state.is_read = false;
        let sleeps = |slot: &Slot| slot.is_asleep && slot.answer.is_none();
        let next = state.slots.iter().position(sleeps);
        drop(state);
        if let Some(index) = next {
            self.wake(index);
        }
    }

    /// Ends the connection, for everybody.
    fn lose(&self, error: &io::Error) -> Error {
        let mut state = lock(&self.state);
        let is_first = state.lost.is_none();
        let reason = state
            .lost
            .get_or_insert_with(|| format!("the connection with the microVM is lost: {error}"))
            .clone();
        drop(state);
        if !is_first {
            return Error::new(ErrorKind::Io, reason);
        }
        // Without the lock: whoever explains may take its time. Those who ask meanwhile hear the
        // stream's own reason.
        let explained = self.explain.get().and_then(|explain| explain());
        let reason = match explained {
            Some(why) => format!("{why}: {error}"),
            None => reason,
        };
        lock(&self.state).lost = Some(reason.clone());
        tracing::error!("{reason}");
        self.wake.iter().for_each(Condvar::notify_all);
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

/// Whose answer it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticket {
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
        let index = index.map_err(|_| invalid("an answer to what was not asked"))?;
        Ok(Self { index, turn })
    }
}
