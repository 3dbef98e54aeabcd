//! The threads of a queue, and how they share entries.

use std::io;
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use log::debug;
use nix::sched::CpuSet;
use nix::sched::sched_setaffinity;
use nix::sys::eventfd::EfdFlags;
use nix::sys::eventfd::EventFd;
use nix::unistd::Pid;
use parking_lot::Mutex;
use zerocopy::IntoBytes;

use crate::channel::Channel;
use crate::ll::fuse_abi as abi;
use crate::ring::entry::Entry;
use crate::ring::entry::Holder;
use crate::ring::submission::Completion;
use crate::ring::submission::EntryCommand;
use crate::ring::submission::Ring;

/// `FUSE_NOTIFY_RETRIEVE`.
const RETRIEVE: i32 = 5;

/// The length of that notification: a header and four numbers.
const RETRIEVE_BYTES: u32 = 16 + 32;

/// A bit of identifiers that the kernel does not give to its requests.
const OWN_UNIQUE: u64 = 1 << 63;

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
    /// Makes a worker without entries.
    ///
    /// # Errors
    /// Those of eventfd(2).
    pub(super) fn new(
        ring: Ring,
        queue: u16,
        channel: Channel,
        payload_bytes: usize,
    ) -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Self {
            queue,
            channel,
            payload_bytes,
            ring: Mutex::new(ring),
            answered: EventFd::from_flags(flags)?,
            state: Mutex::new(State::default()),
        })
    }

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
            Some(completion) => self.complete(&mut state, completion),
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
            let completion = ring.wait()?;
            self.complete(&mut self.state.lock(), completion)?;
        }
    }

    /// Puts into the ring: the answers, one more entry if the kernel has none, and a look at the
    /// answers of other threads. Returns true if an entry was added.
    fn prepare(&self, ring: &mut Ring, state: &mut State) -> io::Result<bool> {
        for (index, entry) in state.entries.iter_mut().enumerate() {
            if let Holder::Answered(request) = entry.holder {
                entry.holder = Holder::Kernel;
                ring.commit_and_fetch(self.command(index), request.commit_id)?;
            }
        }
        let is_taken = |entry: &Entry| matches!(entry.holder, Holder::Taken(_));
        let needs_entry = state.entries.iter().all(is_taken);
        if needs_entry {
            let entry = Entry::new(self.payload_bytes);
            let segments = entry.segments();
            state.entries.push(entry);
            ring.register(self.command(state.entries.len() - 1), segments)?;
        }
        if !state.polls && state.entries.iter().any(is_taken) {
            state.polls = true;
            ring.poll(self.answered.as_fd())?;
        }
        Ok(needs_entry)
    }

    fn command(&self, entry: usize) -> EntryCommand<'_> {
        EntryCommand {
            device: self.channel.as_fd(),
            queue: self.queue,
            entry,
        }
    }

    fn complete(&self, state: &mut State, completion: Completion) -> io::Result<()> {
        match completion {
            Completion::Polled => {
                state.polls = false;
                let _ = self.answered.read();
                Ok(())
            }
            Completion::Entry(entry, result) => match state.entries.get_mut(entry) {
                Some(entry) => entry.complete(result),
                None => Ok(()),
            },
        }
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
