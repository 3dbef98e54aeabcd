//! A virtqueue: requests of the guest, and our answers.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use virtio_queue::{DescriptorChain, Error, Queue, QueueOwnedT, QueueT};
use vm_memory::GuestAddress;

use super::buffers::{Buffers, Cursor, Malformed};
use super::fault_log::FaultLog;
use super::memory::{Memory, SharedMemory};

/// The maximum ring size, QEMU's own limit; the guest chooses.
const LARGEST: u16 = 1024;

/// A ring of a device. It runs while the front end has it started and enabled.
#[derive(Debug)]
pub struct Ring {
    memory: Arc<SharedMemory>,
    faults: Arc<FaultLog>,
    state: Mutex<RingState>,
    /// Notified when no request is in flight.
    idle: Condvar,
}

#[derive(Debug)]
struct RingState {
    queue: Queue,
    kick: Option<OwnedFd>,
    call: Option<Arc<OwnedFd>>,
    is_enabled: bool,
    /// True after the guest has written invalid indices; the ring rests until the front end
    /// restarts it.
    is_broken: bool,
    in_flight: usize,
}

impl RingState {
    fn is_running(&self) -> bool {
        self.queue.ready() && self.is_enabled && !self.is_broken
    }

    /// Takes the next request. Returns it, and whether another one follows.
    fn take(&mut self, memory: &Memory) -> Result<Option<(DescriptorChain<Memory>, bool)>, Error> {
        let mut chain = self.queue.iter(Arc::clone(memory))?.next();
        if chain.is_none() {
            if !self.queue.enable_notification(memory.as_ref())? {
                return Ok(None);
            }
            chain = self.queue.iter(Arc::clone(memory))?.next();
        }
        // A request is available but can't be read.
        let chain = chain.ok_or(Error::FindMemoryRegion)?;
        // After taking the last request, ask to be notified of the next.
        let more = self.queue.enable_notification(memory.as_ref())?;
        Ok(Some((chain, more)))
    }

    /// Returns the descriptor to signal if the guest wants to be notified of completed requests.
    fn wanted_signal(&mut self, memory: &Memory) -> Result<Option<Arc<OwnedFd>>, Error> {
        let wanted = self.queue.needs_notification(memory.as_ref())?;
        Ok(self.call.clone().filter(|_| wanted))
    }
}

impl Ring {
    pub(super) fn new(memory: Arc<SharedMemory>, faults: Arc<FaultLog>) -> Result<Self, Error> {
        Ok(Self {
            memory,
            faults,
            state: Mutex::new(RingState {
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

    fn lock(&self) -> MutexGuard<'_, RingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the guest's next request and collects its memory in `buffers`. An invalid request is
    /// completed without an answer.
    pub fn take<'a>(&'a self, buffers: &'a mut Buffers) -> Option<TakenRequest<'a>> {
        loop {
            let memory = self.memory.current();
            let (chain, has_more) = self.take_chain(&memory)?;
            let head = chain.head_index();
            let filled = buffers.fill(chain);
            let Err(malformed) = filled else {
                return Some(TakenRequest {
                    ring: self,
                    memory,
                    buffers,
                    head,
                    written: 0,
                    notification: Notification::Now,
                    has_more,
                });
            };
            self.faults.log(malformed);
            self.give_back(&memory, head, 0, Notification::Now);
        }
    }

    /// Returns true if a request is available.
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
                self.faults.log(format_args!("invalid ring: {error}"));
                None
            }
        }
    }

    fn give_back(&self, memory: &Memory, head: u16, written: u32, notification: Notification) {
        let mut state = self.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
        if state.in_flight == 0 {
            self.idle.notify_all();
        }
        if state.is_broken {
            return;
        }
        let added = state.queue.add_used(memory.as_ref(), head, written);
        let call = added.and_then(|()| match notification {
            Notification::Now => state.wanted_signal(memory),
            Notification::Later => Ok(None),
        });
        self.signal(state, call);
    }

    /// Notifies the guest of requests that were completed with [`Notification::Later`].
    pub fn notify(&self) {
        let memory = self.memory.current();
        let mut state = self.lock();
        if state.is_running() {
            let call = state.wanted_signal(&memory);
            self.signal(state, call);
        }
    }

    fn signal(
        &self,
        mut state: MutexGuard<'_, RingState>,
        call: Result<Option<Arc<OwnedFd>>, Error>,
    ) {
        match call {
            Ok(call) => {
                drop(state);
                if let Some(call) = call {
                    signal(&call);
                }
            }
            Err(error) => {
                state.is_broken = true;
                let fault = format_args!("cannot complete a request: {error}");
                self.faults.log(fault);
            }
        }
    }

    // The following functions carry out messages of the front end.

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
        // The front end sets the next available index, but not the next used index.
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

    /// Starts the ring if its memory is mapped.
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

    /// Sets the descriptor that becomes readable when requests arrive. Returns the previous one.
    pub(super) fn set_kick(&self, kick: OwnedFd) -> Option<OwnedFd> {
        self.lock().kick.replace(kick)
    }

    /// Stops the ring; no request is in flight afterwards. Returns the next available index, and
    /// the kick.
    pub(super) fn stop(&self) -> (u16, Option<OwnedFd>) {
        let mut state = self.lock();
        state.queue.set_ready(false);
        let mut state = self.wait_until_idle(state);
        state.call = None;
        (state.queue.next_avail(), state.kick.take())
    }

    /// Enables or disables the ring; after disabling, no request is in flight.
    pub(super) fn set_enabled(&self, is_enabled: bool) {
        let mut state = self.lock();
        state.is_enabled = is_enabled;
        if !is_enabled {
            drop(self.wait_until_idle(state));
        }
    }

    fn wait_until_idle<'a>(&self, state: MutexGuard<'a, RingState>) -> MutexGuard<'a, RingState> {
        let waited = self.idle.wait_while(state, |state| state.in_flight > 0);
        waited.unwrap_or_else(PoisonError::into_inner)
    }
}

/// The guest addresses of a ring's parts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Addresses {
    pub(super) descriptors: u64,
    pub(super) available: u64,
    pub(super) used: u64,
}

/// A request in flight. Dropping it completes the request with the number of bytes written so far.
#[derive(Debug)]
pub struct TakenRequest<'a> {
    ring: &'a Ring,
    memory: Memory,
    buffers: &'a Buffers,
    head: u16,
    written: u32,
    notification: Notification,
    has_more: bool,
}

/// The time at which the guest is notified of a completed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notification {
    /// The guest is notified at once.
    Now,
    /// The guest is notified by [`Ring::notify`], because more requests follow: a notification
    /// costs the guest more than the request.
    Later,
}

impl TakenRequest<'_> {
    /// Returns true if another request followed when this one was taken.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// Returns the number of bytes that the guest has written.
    pub fn readable_bytes(&self) -> u64 {
        self.buffers.readable_bytes()
    }

    /// Returns the number of bytes for the answer.
    pub fn writable_bytes(&self) -> u64 {
        self.buffers.writable_bytes()
    }

    /// Returns a cursor at the beginning of the guest's data.
    pub fn reader(&self) -> Cursor<'_> {
        self.buffers.reader(&self.memory)
    }

    /// Returns a cursor at the beginning of the room for the answer.
    pub fn writer(&self) -> Cursor<'_> {
        self.buffers.writer(&self.memory)
    }

    /// Writes the last byte of the room for the answer.
    pub fn write_last(&self, byte: u8) -> Result<(), Malformed> {
        self.buffers.write_last(&self.memory, byte)
    }

    /// Logs why the request is invalid.
    pub fn log_fault(&self, fault: &dyn std::fmt::Display) {
        self.ring.faults.log(fault);
    }

    /// Sets the time of the guest's notification; the default is at once.
    pub fn set_notification(&mut self, notification: Notification) {
        self.notification = notification;
    }

    /// Sets the number of bytes that were written into the room for the answer.
    pub fn set_written(&mut self, bytes: u64) {
        self.written = u32::try_from(bytes).unwrap_or(u32::MAX);
    }
}

impl Drop for TakenRequest<'_> {
    fn drop(&mut self) {
        let ring = self.ring;
        ring.give_back(&self.memory, self.head, self.written, self.notification);
    }
}

/// Makes a descriptor non-blocking: a front end that does not read its events must not stop us.
pub(super) fn do_not_block(fd: impl AsFd) -> Result<(), Errno> {
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    rustix::fs::fcntl_setfl(&fd, flags | rustix::fs::OFlags::NONBLOCK)
}

/// Signals an event descriptor. A failure is ignored: the other side was signalled before, or has
/// ended.
fn signal(fd: &OwnedFd) {
    let fd: BorrowedFd<'_> = fd.as_fd();
    while let Err(Errno::INTR) = rustix::io::write(fd, &1_u64.to_ne_bytes()) {}
}
