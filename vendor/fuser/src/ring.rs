//! Requests over io_uring, where the kernel has it switched on: it writes a request into memory of
//! this process, and one system call answers a request and waits for the next one. Each processor
//! has a queue, whose threads run there: a request wakes a thread on its own processor.
//!
//! Most forgets, and interrupts, still come through `/dev/fuse`.

use std::fmt;
use std::fs;
use std::io;
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use io_uring::IoUring;
use io_uring::opcode::PollAdd;
use io_uring::opcode::UringCmd80;
use io_uring::register::Restriction;
use io_uring::squeue;
use io_uring::types::Fd;
use log::debug;
use nix::errno::Errno;
use nix::sched::CpuSet;
use nix::sched::sched_setaffinity;
use nix::sys::eventfd::EfdFlags;
use nix::sys::eventfd::EventFd;
use nix::unistd::Pid;
use parking_lot::Mutex;
use zerocopy::IntoBytes;

use crate::channel::Channel;
use crate::ll::fuse_abi as abi;

/// The switch of the kernel.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// The processors that the machine may have; the kernel wants a queue for each.
const POSSIBLE_PROCESSORS: &str = "/sys/devices/system/cpu/possible";

/// The most processors for which queues are made.
const QUEUES_MAX: usize = 32;

/// The most threads of all queues, as long as each queue has two.
const THREADS_MAX: usize = 64;

/// The rings for more threads, while all of a queue are busy for long.
const SPARE_RINGS: usize = 8;

/// The most submissions that a ring takes at once; more are submitted in parts.
const SUBMISSIONS: u32 = 8;

/// The number of the completion that tells of an answer by another thread. Those of entries count
/// from 0.
const ANSWERED: u64 = u64::MAX;

/// `FUSE_NOTIFY_RETRIEVE`.
const RETRIEVE: i32 = 5;

/// The length of that notification: a header and four numbers.
const RETRIEVE_BYTES: u32 = 16 + 32;

/// A bit of identifiers that the kernel does not give to its requests.
const OWN_UNIQUE: u64 = 1 << 63;

/// `FUSE_IO_URING_CMD_REGISTER`.
const REGISTER: u32 = 1;

/// `FUSE_IO_URING_CMD_COMMIT_AND_FETCH`.
const COMMIT_AND_FETCH: u32 = 2;

/// Rings for the threads of one session. They are made before a process gives up the right to make
/// any, and can do little else.
#[derive(Debug)]
pub struct Rings {
    queues: u16,
    threads_per_queue: usize,
    rings: Vec<Ring>,
}

impl Rings {
    /// Makes the rings. Returns `None` if the kernel has no requests over io_uring, if root has not
    /// switched them on, or if this machine may have too many processors.
    ///
    /// # Errors
    /// Those of io_uring_setup(2) and io_uring_register(2).
    pub fn new(threads_per_queue: usize) -> io::Result<Option<Self>> {
        let is_on = fs::read_to_string(SWITCH).is_ok_and(|value| value.trim() == "Y");
        let queues = fs::read_to_string(POSSIBLE_PROCESSORS);
        let queues = queues.ok().and_then(|list| count(list.trim()));
        let Some(queues) = queues.filter(|&queues| is_on && queues <= QUEUES_MAX) else {
            return Ok(None);
        };
        let threads_per_queue = threads_per_queue.min((THREADS_MAX / queues).max(2));
        let rings = (0..queues * threads_per_queue + SPARE_RINGS).map(|_| Ring::new());
        Ok(Some(Self {
            queues: queues as u16,
            threads_per_queue,
            rings: rings.collect::<io::Result<_>>()?,
        }))
    }

    /// Returns the queue of each thread to begin with.
    pub(crate) fn queues(&self) -> impl Iterator<Item = u16> + use<> {
        let threads = self.threads_per_queue;
        (0..self.queues).flat_map(move |queue| (0..threads).map(move |_| queue))
    }

    /// Takes a ring for a thread of this queue.
    ///
    /// # Errors
    /// Fails if no ring is left, and with the errors of eventfd(2).
    pub(crate) fn take(
        &mut self,
        queue: u16,
        channel: Channel,
        payload_bytes: usize,
    ) -> io::Result<Arc<RingWorker>> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let answered = EventFd::from_flags(flags)?;
        let none = || io::Error::other("no ring for another thread");
        Ok(Arc::new(RingWorker {
            queue,
            channel,
            payload_bytes,
            ring: Mutex::new(self.rings.pop().ok_or_else(none)?),
            answered,
            state: Mutex::new(State::default()),
        }))
    }
}

/// Returns the number of processors in a list like `0-3,8`.
fn count(list: &str) -> Option<usize> {
    list.split(',').try_fold(0, |sum: usize, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

struct Ring(IoUring<squeue::Entry128>);

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

impl Ring {
    /// Makes a ring that allows no operations but commands of drivers and polling, whoever submits
    /// them.
    fn new() -> io::Result<Self> {
        let ring = IoUring::builder()
            .dontfork()
            .setup_coop_taskrun()
            .setup_r_disabled()
            .build(SUBMISSIONS)?;
        let mut allowed = [UringCmd80::CODE, PollAdd::CODE].map(Restriction::sqe_op);
        ring.submitter().register_restrictions(&mut allowed)?;
        ring.submitter().register_enable_rings()?;
        Ok(Self(ring))
    }

    fn push(&mut self, entry: &squeue::Entry128) -> io::Result<()> {
        // SAFETY: The memory that a command names is not freed while the kernel has its entry, and
        // the descriptors are open as long as the ring.
        while unsafe { self.0.submission().push(entry) }.is_err() {
            self.0.submit()?;
        }
        Ok(())
    }

    /// Returns the number and the result of the next completion that is there already.
    fn completed(&mut self) -> Option<(u64, i32)> {
        let completion = self.0.completion().next()?;
        Some((completion.user_data(), completion.result()))
    }

    /// Submits what is in the ring, if anything is.
    fn submit(&mut self) -> io::Result<()> {
        if !self.0.submission().is_empty() {
            self.0.submit()?;
        }
        Ok(())
    }

    /// Submits what is in the ring. Returns true if a completion is there, or if the kernel can't be
    /// asked.
    fn has_completed(&mut self) -> bool {
        // The kernel writes a request into this process whenever the process enters it, also to
        // submit nothing.
        self.0.submit().is_err() || !self.0.completion().is_empty()
    }

    /// Submits what is in the ring, and waits for a completion.
    fn wait(&mut self) -> io::Result<(u64, i32)> {
        loop {
            if let Some(completed) = self.completed() {
                return Ok(completed);
            }
            match self.0.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
    }
}

/// `struct fuse_uring_req_header`.
#[repr(C)]
struct Headers {
    /// `struct fuse_in_header`, then `struct fuse_out_header`.
    in_out: [u8; 128],
    /// The fixed part of the request's arguments.
    operation: [u8; 128],
    flags: u64,
    commit_id: u64,
    payload_bytes: u32,
    padding: u32,
    reserved: u64,
}

/// The memory of an entry.
#[derive(Debug)]
struct Memory {
    headers: *mut Headers,
    payload: *mut [u8],
    segments: *mut [libc::iovec; 2],
}

// SAFETY: The pointers own their memory. It is only accessed with the lock of `RingWorker::state`,
// while the kernel has given the entry to this process.
unsafe impl Send for Memory {}

impl Memory {
    fn new(payload_bytes: usize) -> Self {
        // SAFETY: Zeroes are valid for a structure of numbers.
        let headers: Headers = unsafe { std::mem::zeroed() };
        let headers = Box::into_raw(Box::new(headers));
        let payload = Box::into_raw(vec![0; payload_bytes].into_boxed_slice());
        let segment = |base, len| libc::iovec {
            iov_base: base,
            iov_len: len,
        };
        let segments = Box::into_raw(Box::new([
            segment(headers.cast(), size_of::<Headers>()),
            segment(payload.cast(), payload_bytes),
        ]));
        Self {
            headers,
            payload,
            segments,
        }
    }
}

/// An entry of a queue. It has one request at a time.
#[derive(Debug)]
struct Entry {
    memory: Memory,
    holder: Holder,
}

/// Who may access the memory of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    /// The kernel, until it has a request.
    Kernel,
    /// This process: there is a request.
    Requested,
    /// This process: a thread has read the request.
    Taken(Request),
    /// This process: the answer is there.
    Answered(Request),
    /// This process, because the session has ended.
    Ended,
}

/// A request that was taken from an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Request {
    unique: u64,
    commit_id: u64,
    node: u64,
}

impl Entry {
    /// Returns the node of the request that was taken.
    fn node(&self) -> Option<u64> {
        match self.holder {
            Holder::Taken(request) => Some(request.node),
            _ => None,
        }
    }

    /// Copies the request in one piece, as reading `/dev/fuse` returns it, and returns its length.
    /// The entry can be given back while a thread still works on its copy.
    fn take(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: The kernel has completed the command, so it does not access the memory until the
        // answer is committed.
        let (headers, payload) = unsafe { (&*self.memory.headers, &*self.memory.payload) };
        let len = headers.in_out.first_chunk().copied();
        let len = len.map_or(0, u32::from_ne_bytes) as usize;
        let number = |at: usize| headers.in_out[at..].first_chunk().copied();
        let number = |at: usize| number(at).map_or(0, u64::from_ne_bytes);
        let (header, payload_bytes) = (size_of::<abi::fuse_in_header>(), headers.payload_bytes);
        let copied = payload.get(..payload_bytes as usize).and_then(|payload| {
            let operation = len.checked_sub(header)?.checked_sub(payload.len())?;
            let target = buffer.get_mut(..len)?;
            let (target, rest) = target.split_at_mut(header);
            target.copy_from_slice(&headers.in_out[..header]);
            let (target, rest) = rest.split_at_mut(operation);
            target.copy_from_slice(headers.operation.get(..operation)?);
            rest.copy_from_slice(payload);
            Some(len)
        });
        self.holder = Holder::Taken(Request {
            unique: number(8),
            node: number(16),
            commit_id: headers.commit_id,
        });
        copied.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "Invalid request"))
    }

    /// Writes an answer. Returns false if the entry has no request, or another one.
    fn answer(&mut self, parts: &[IoSlice<'_>]) -> io::Result<bool> {
        let (Some((header, parts)), Holder::Taken(request)) = (parts.split_first(), self.holder)
        else {
            return Ok(false);
        };
        if header.get(8..16) != Some(&request.unique.to_ne_bytes()) {
            return Ok(false);
        }
        // SAFETY: There is a request, so the kernel does not access the memory.
        let (headers, payload) = unsafe { (&mut *self.memory.headers, &mut *self.memory.payload) };
        let mut rest = payload;
        let mut payload_bytes = 0;
        for part in parts {
            let target;
            let too_long = || io::Error::new(io::ErrorKind::InvalidInput, "Too much data");
            (target, rest) = rest.split_at_mut_checked(part.len()).ok_or_else(too_long)?;
            target.copy_from_slice(part);
            payload_bytes += part.len();
        }
        headers.in_out[..header.len()].copy_from_slice(header);
        headers.payload_bytes = payload_bytes as u32;
        self.holder = Holder::Answered(request);
        Ok(true)
    }

    /// Notes the result of a command. Returns the error, unless it tells the session's end.
    fn complete(&mut self, result: i32) -> io::Result<()> {
        self.holder = match result {
            0.. => Holder::Requested,
            _ => Holder::Ended,
        };
        match Errno::from_raw(-result) {
            _ if result >= 0 => Ok(()),
            Errno::ENOTCONN | Errno::ECONNABORTED | Errno::ENODEV | Errno::ECANCELED => Ok(()),
            error => Err(error.into()),
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // What the kernel has, it may write to even after the ring is closed.
        if self.holder != Holder::Kernel {
            // SAFETY: The pointers come from boxes, and nobody else has them.
            unsafe {
                drop(Box::from_raw(self.memory.headers));
                drop(Box::from_raw(self.memory.payload));
                drop(Box::from_raw(self.memory.segments));
            }
        }
    }
}

/// The ring of a thread, and its entries of a queue. It begins with one entry, so that requests go
/// to idle threads. A request that another thread answers later keeps its entry, and the ring gets
/// one more.
#[derive(Debug)]
pub(crate) struct RingWorker {
    queue: u16,
    channel: Channel,
    payload_bytes: usize,
    /// Locked while a thread waits for a request.
    ring: Mutex<Ring>,
    /// Written when another thread has answered a request.
    answered: EventFd,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: Vec<Entry>,
    /// The entry that the thread works on.
    current: Option<usize>,
    /// True while the ring polls `answered`.
    polls: bool,
    /// The number of threads that this one has replaced.
    generation: u64,
}

/// The next step of a thread of a queue.
#[derive(Debug)]
pub(crate) enum Next {
    /// It answers the request in the buffer.
    Answer { entry: usize, len: usize },
    /// It ends with the session.
    End,
    /// It ends because another thread has replaced it.
    Replaced,
}

impl RingWorker {
    pub(crate) fn queue(&self) -> u16 {
        self.queue
    }

    pub(crate) fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Binds this thread to the processor of the queue. Where that is not allowed, the thread runs
    /// on any.
    pub(crate) fn pin(&self) {
        let mut set = CpuSet::new();
        if set.set(usize::from(self.queue)).is_ok() {
            let _ = sched_setaffinity(Pid::from_raw(0), &set);
        }
    }

    /// Gives the first entry to the kernel, and does not wait for a request.
    ///
    /// # Errors
    /// Those of the kernel. The end of the session is none: [`next`](Self::next) tells it.
    pub(crate) fn register(&self) -> io::Result<()> {
        let mut ring = self.ring.lock();
        let mut state = self.state.lock();
        self.prepare(&mut ring, &mut state)?;
        ring.submit()?;
        // A refusal is there at once; a request may be.
        match ring.completed() {
            Some((number, result)) => self.complete(&mut state, number, result),
            None => Ok(()),
        }
    }

    /// Makes the kernel look at the requests that wait in the queue. It does so whenever an answer
    /// is committed, but not for a new entry. So it is made to send a request of its own: no bytes
    /// of a regular file that it knows, with an identifier that only this request has. This thread
    /// must be on the processor of the queue.
    pub(crate) fn kick(&self, node: u64) {
        static KICKS: AtomicU64 = AtomicU64::new(0);
        let unique = OWN_UNIQUE | KICKS.fetch_add(2, Ordering::Relaxed);
        let header = abi::fuse_out_header {
            len: RETRIEVE_BYTES,
            error: RETRIEVE,
            unique: 0,
        };
        // `struct fuse_notify_retrieve_out`: the identifier, the node, the offset, and the size.
        let retrieve = [unique, node, 0, 0];
        let parts = [header.as_bytes(), retrieve.as_bytes()].map(IoSlice::new);
        if let Err(error) = self.channel.sender().send(&parts) {
            debug!("cannot make the kernel look at its queue: {error}");
        }
    }

    /// Commits all answers, waits for a request, and copies it into the buffer. `generation` is
    /// that of the thread. `poll` is called before the thread blocks, with a function that returns
    /// true if blocking would end at once.
    pub(crate) fn next(
        &self,
        generation: u64,
        buffer: &mut [u8],
        poll: impl Fn(&mut dyn FnMut() -> bool),
    ) -> io::Result<Next> {
        let mut ring = self.ring.lock();
        loop {
            let mut state = self.state.lock();
            if state.generation != generation {
                return Ok(Next::Replaced);
            }
            state.current = None;
            let added = self.prepare(&mut ring, &mut state)?;
            if added && state.entries.len() > 1 {
                ring.submit()?;
                let node = state.entries.iter().find_map(Entry::node);
                self.kick(node.unwrap_or_default());
            }
            let requested = |entry: &Entry| entry.holder == Holder::Requested;
            if let Some(entry) = state.entries.iter().position(requested) {
                // No answer waits until this thread waits.
                ring.submit()?;
                state.current = Some(entry);
                let len = state.entries[entry].take(buffer)?;
                return Ok(Next::Answer { entry, len });
            }
            let is_with_kernel = |entry: &Entry| entry.holder == Holder::Kernel;
            if !state.entries.iter().any(is_with_kernel) {
                return Ok(Next::End);
            }
            drop(state);
            poll(&mut || ring.has_completed());
            let (number, result) = ring.wait()?;
            self.complete(&mut self.state.lock(), number, result)?;
        }
    }

    /// Puts into the ring: the answers, one more entry if the kernel has none, and a look at the
    /// answers of other threads. Returns true if an entry was added.
    fn prepare(&self, ring: &mut Ring, state: &mut State) -> io::Result<bool> {
        for (index, entry) in state.entries.iter_mut().enumerate() {
            if let Holder::Answered(request) = entry.holder {
                entry.holder = Holder::Kernel;
                ring.push(&self.command(COMMIT_AND_FETCH, request.commit_id, index))?;
            }
        }
        let is_taken = |entry: &Entry| matches!(entry.holder, Holder::Taken(_));
        let needs_entry = state.entries.iter().all(is_taken);
        if needs_entry {
            let memory = Memory::new(self.payload_bytes);
            let mut command = self.command(REGISTER, 0, state.entries.len());
            set_segments(&mut command, memory.segments);
            state.entries.push(Entry {
                memory,
                holder: Holder::Kernel,
            });
            ring.push(&command)?;
        }
        if !state.polls && state.entries.iter().any(is_taken) {
            state.polls = true;
            let answered = Fd(self.answered.as_fd().as_raw_fd());
            let poll = PollAdd::new(answered, libc::POLLIN as u32).build();
            ring.push(&poll.user_data(ANSWERED).into())?;
        }
        Ok(needs_entry)
    }

    fn command(&self, command: u32, commit_id: u64, index: usize) -> squeue::Entry128 {
        // `struct fuse_uring_cmd_req`.
        let mut argument = [0; 80];
        argument[8..16].copy_from_slice(&commit_id.to_ne_bytes());
        argument[16..18].copy_from_slice(&self.queue.to_ne_bytes());
        let device = Fd(self.channel.as_fd().as_raw_fd());
        let entry = UringCmd80::new(device, command).cmd(argument).build();
        entry.user_data(index as u64)
    }

    fn complete(&self, state: &mut State, number: u64, result: i32) -> io::Result<()> {
        if number == ANSWERED {
            state.polls = false;
            let _ = self.answered.read();
            return Ok(());
        }
        let entry = state.entries.get_mut(number as usize);
        entry.map_or(Ok(()), |entry| entry.complete(result))
    }

    /// Writes the answer to the request of an entry. A second one is dropped.
    pub(crate) fn send(&self, entry: usize, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let mut state = self.state.lock();
        let is_current = state.current == Some(entry);
        let found = state.entries.get_mut(entry);
        let is_answered = found.map_or(Ok(false), |entry| entry.answer(parts))?;
        drop(state);
        if is_answered && !is_current {
            self.answered.write(1)?;
        }
        Ok(())
    }

    /// Replaces a thread that still works on a request that was answered. Returns the generation of
    /// the next thread, or `None` if the thread has finished meanwhile.
    pub(crate) fn take_over(&self, unique: u64) -> Option<u64> {
        let mut state = self.state.lock();
        match state.entries.get(state.current?)?.holder {
            Holder::Answered(request) if request.unique == unique => {
                state.generation += 1;
                state.current = None;
                Some(state.generation)
            }
            _ => None,
        }
    }
}

/// Sets the fields `addr` and `len`, for which the builder of commands has no method.
fn set_segments(entry: &mut squeue::Entry128, segments: *mut [libc::iovec; 2]) {
    const ADDR: usize = 16;
    const LEN: usize = 24;
    let start = ptr::from_mut(entry).cast::<u8>();
    // SAFETY: An entry is `struct io_uring_sqe` of 128 bytes, in which these fields are aligned.
    unsafe {
        start.add(ADDR).cast::<u64>().write(segments as u64);
        start.add(LEN).cast::<u32>().write(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted() {
        assert_eq!(count("0-3,8"), Some(5));
        assert_eq!(count("0"), Some(1));
        assert_eq!(count("3-0"), None);
        assert_eq!(count(""), None);
    }
}
