//! One ring: requests of the guest, and our answers.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use virtio_queue::{DescriptorChain, Error, Queue, QueueOwnedT, QueueT};
use vm_memory::GuestAddress;

use super::buffers::{Buffers, Cursor, Malformed};
use super::complaints::Complaints;
use super::memory::{Memory, SharedMemory};

/// As large as QEMU lets a ring be; a guest chooses.
const LARGEST: u16 = 1024;

/// One ring of a device. It runs while the front end has it started and enabled.
#[derive(Debug)]
pub struct Ring {
    memory: Arc<SharedMemory>,
    complaints: Arc<Complaints>,
    state: Mutex<State>,
    /// Nothing is in flight.
    idle: Condvar,
}

#[derive(Debug)]
struct State {
    queue: Queue,
    kick: Option<OwnedFd>,
    call: Option<Arc<OwnedFd>>,
    is_enabled: bool,
    /// The guest has written nonsense into it; it rests until the front end starts it anew.
    is_broken: bool,
    in_flight: usize,
}

impl State {
    fn is_running(&self) -> bool {
        self.queue.ready() && self.is_enabled && !self.is_broken
    }

    /// The next request, and whether there is another one behind it.
    fn take(&mut self, memory: &Memory) -> Result<Option<(DescriptorChain<Memory>, bool)>, Error> {
        let mut chain = self.queue.iter(Arc::clone(memory))?.next();
        if chain.is_none() {
            if !self.queue.enable_notification(memory.as_ref())? {
                return Ok(None);
            }
            chain = self.queue.iter(Arc::clone(memory))?.next();
        }
        // There is one, but it can't be read.
        let chain = chain.ok_or(Error::FindMemoryRegion)?;
        // Who takes the last one has to be told of the next.
        let more = self.queue.enable_notification(memory.as_ref())?;
        Ok(Some((chain, more)))
    }

    /// What to signal, if the guest wants to hear of what was given back.
    fn wanted_signal(&mut self, memory: &Memory) -> Result<Option<Arc<OwnedFd>>, Error> {
        let wanted = self.queue.needs_notification(memory.as_ref())?;
        Ok(self.call.clone().filter(|_| wanted))
    }
}

impl Ring {
    pub(super) fn new(
        memory: Arc<SharedMemory>,
        complaints: Arc<Complaints>,
    ) -> Result<Self, Error> {
        Ok(Self {
            memory,
            complaints,
            state: Mutex::new(State {
                queue: Queue::new(LARGEST)?,
                kick: None,
                call: None,
                is_enabled: false,
                is_broken: false,
                in_flight: 0,
            }),
            idle: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The guest's next request, whose memory `buffers` is filled with. What makes no sense is given
    /// back without an answer.
    pub fn take<'a>(&'a self, buffers: &'a mut Buffers) -> Option<Taken<'a>> {
        loop {
            let memory = self.memory.current();
            let (chain, has_more) = self.take_chain(&memory)?;
            let head = chain.head_index();
            let filled = buffers.fill(chain);
            let Err(malformed) = filled else {
                return Some(Taken {
                    ring: self,
                    memory,
                    buffers,
                    head,
                    written: 0,
                    telling: Telling::Now,
                    has_more,
                });
            };
            self.complaints.about(malformed);
            self.give_back(&memory, head, 0, Telling::Now);
        }
    }

    /// Whether a request waits.
    pub(super) fn has_more(&self) -> bool {
        let memory = self.memory.current();
        let state = self.lock();
        let available = || state.queue.avail_idx(memory.as_ref(), Ordering::Acquire);
        state.is_running() && available().is_ok_and(|index| index.0 != state.queue.next_avail())
    }

    fn take_chain(&self, memory: &Memory) -> Option<(DescriptorChain<Memory>, bool)> {
        let mut state = self.lock();
        if !state.is_running() {
            return None;
        }
        match state.take(memory) {
            Ok(taken) => {
                let more = usize::from(taken.is_some());
                state.in_flight = state.in_flight.saturating_add(more);
                taken
            }
            Err(error) => {
                state.is_broken = true;
                self.complaints
                    .about(format_args!("a ring makes no sense: {error}"));
                None
            }
        }
    }

    fn give_back(&self, memory: &Memory, head: u16, written: u32, telling: Telling) {
        let mut state = self.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
        if state.in_flight == 0 {
            self.idle.notify_all();
        }
        if state.is_broken {
            return;
        }
        let added = state.queue.add_used(memory.as_ref(), head, written);
        let call = added.and_then(|()| match telling {
            Telling::Now => state.wanted_signal(memory),
            Telling::Later => Ok(None),
        });
        self.signal(state, call);
    }

    /// Tells the guest of what was given back [`Telling::Later`].
    pub fn tell(&self) {
        let memory = self.memory.current();
        let mut state = self.lock();
        if state.is_running() {
            let call = state.wanted_signal(&memory);
            self.signal(state, call);
        }
    }

    fn signal(&self, mut state: MutexGuard<'_, State>, call: Result<Option<Arc<OwnedFd>>, Error>) {
        match call {
            Ok(call) => {
                drop(state);
                if let Some(call) = call {
                    signal(&call);
                }
            }
            Err(error) => {
                state.is_broken = true;
                let complaint = format_args!("a ring takes no answer: {error}");
                self.complaints.about(complaint);
            }
        }
    }

    // What the front end tells.

    pub(super) fn set_size(&self, size: u32) -> Result<(), Error> {
        let size = u16::try_from(size).map_err(|_| Error::InvalidSize)?;
        self.lock().queue.try_set_size(size)
    }

    pub(super) fn set_addresses(&self, addresses: &Addresses) -> Result<(), Error> {
        let memory = self.memory.current();
        let mut state = self.lock();
        let queue = &mut state.queue;
        queue.try_set_desc_table_address(GuestAddress(addresses.descriptors))?;
        queue.try_set_avail_ring_address(GuestAddress(addresses.available))?;
        queue.try_set_used_ring_address(GuestAddress(addresses.used))?;
        // The front end tells where we go on reading, but not where we go on answering.
        let used = queue.used_idx(memory.as_ref(), Ordering::Relaxed)?;
        queue.set_next_used(used.0);
        Ok(())
    }

    pub(super) fn set_next_available(&self, index: u32) -> Result<(), Error> {
        let index = u16::try_from(index).map_err(|_| Error::InvalidAvailRingIndex)?;
        self.lock().queue.set_next_avail(index);
        Ok(())
    }

    pub(super) fn set_event_index(&self, is_used: bool) {
        self.lock().queue.set_event_idx(is_used);
    }

    pub(super) fn set_call(&self, call: Option<OwnedFd>) -> Result<(), Errno> {
        call.as_ref().map_or(Ok(()), do_not_block)?;
        self.lock().call = call.map(Arc::new);
        Ok(())
    }

    /// Starts it, if its memory is there.
    pub(super) fn start(&self) -> Result<(), Error> {
        let memory = self.memory.current();
        let mut state = self.lock();
        state.queue.set_ready(true);
        if !state.queue.is_valid(memory.as_ref()) {
            state.queue.set_ready(false);
            return Err(Error::FindMemoryRegion);
        }
        state.is_broken = false;
        Ok(())
    }

    /// Keeps what becomes readable when there are requests. Returns the one before it.
    pub(super) fn set_kick(&self, kick: OwnedFd) -> Option<OwnedFd> {
        self.lock().kick.replace(kick)
    }

    /// Stops it; nothing is in flight then. Returns where the guest goes on, and the kick.
    pub(super) fn stop(&self) -> (u16, Option<OwnedFd>) {
        let mut state = self.lock();
        state.queue.set_ready(false);
        let mut state = self.wait_until_idle(state);
        state.call = None;
        (state.queue.next_avail(), state.kick.take())
    }

    /// Lets requests through or not; when not, nothing is in flight afterwards.
    pub(super) fn set_enabled(&self, is_enabled: bool) {
        let mut state = self.lock();
        state.is_enabled = is_enabled;
        if !is_enabled {
            drop(self.wait_until_idle(state));
        }
    }

    fn wait_until_idle<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let waited = self.idle.wait_while(state, |state| state.in_flight > 0);
        waited.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the guest has a ring, as it counts addresses itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Addresses {
    pub(super) descriptors: u64,
    pub(super) available: u64,
    pub(super) used: u64,
}

/// A request in flight. It is given back when this is dropped, with what was written to it.
#[derive(Debug)]
pub struct Taken<'a> {
    ring: &'a Ring,
    memory: Memory,
    buffers: &'a Buffers,
    head: u16,
    written: u32,
    telling: Telling,
    has_more: bool,
}

/// When the guest is told that it has a request back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Telling {
    /// At once.
    Now,
    /// With [`Ring::tell`], since there are others: being told costs the guest more than the request.
    Later,
}

impl Taken<'_> {
    /// Whether another request was waiting behind it.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// How many bytes the guest has written.
    pub fn readable_bytes(&self) -> u64 {
        self.buffers.readable_bytes()
    }

    /// How much room there is for the answer.
    pub fn writable_bytes(&self) -> u64 {
        self.buffers.writable_bytes()
    }

    /// What the guest has written, from its beginning.
    pub fn reader(&self) -> Cursor<'_> {
        self.buffers.reader(&self.memory)
    }

    /// The room for the answer, from its beginning.
    pub fn writer(&self) -> Cursor<'_> {
        self.buffers.writer(&self.memory)
    }

    /// Writes the last byte of the room for the answer.
    pub fn write_last(&self, byte: u8) -> Result<(), Malformed> {
        self.buffers.write_last(&self.memory, byte)
    }

    /// Logs what is wrong with it.
    pub fn complain(&self, what: &dyn std::fmt::Display) {
        self.ring.complaints.about(what);
    }

    /// Says when the guest is told that it has it back: now, unless said otherwise.
    pub fn set_telling(&mut self, telling: Telling) {
        self.telling = telling;
    }

    /// Says how many bytes of the room for the answer were written.
    pub fn set_written(&mut self, bytes: u64) {
        self.written = u32::try_from(bytes).unwrap_or(u32::MAX);
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let ring = self.ring;
        ring.give_back(&self.memory, self.head, self.written, self.telling);
    }
}

/// A front end that does not read its events must not stop us, so no descriptor of its blocks.
pub(super) fn do_not_block(fd: impl AsFd) -> Result<(), Errno> {
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    rustix::fs::fcntl_setfl(&fd, flags | rustix::fs::OFlags::NONBLOCK)
}

/// Tells the other side that there is something. When it can't be told, it has been told before, or is
/// gone.
fn signal(fd: &OwnedFd) {
    let fd: BorrowedFd<'_> = fd.as_fd();
    while let Err(Errno::INTR) = rustix::io::write(fd, &1_u64.to_ne_bytes()) {}
}
