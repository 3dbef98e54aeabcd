//! Requests in flight: an interrupted one is answered with EINTR if its caller is being killed, and
//! more threads are started while all are busy for long, so that somebody reads the interrupts.

use std::fmt;
use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use parking_lot::Condvar;
use parking_lot::Mutex;

use crate::ll::Errno;
use crate::ll::INodeNo;
use crate::ll::RequestId;
use crate::ll::ResponseErrno;
use crate::reply::Reply;
use crate::reply::ReplyRaw;
use crate::reply::ReplySender;
use crate::ring::RingWorker;

/// The pause between two looks at an interrupted request, and at threads that are busy.
const PAUSE: Duration = Duration::from_millis(250);

/// The time after which a request is answered whose caller can't be looked at.
const UNKNOWN_CALLER_MAX: Duration = Duration::from_secs(10);

/// The time for which an interrupted request is watched.
const WATCH_MAX: Duration = Duration::from_secs(3600);

/// The most threads that are started while others are busy.
pub(crate) const MORE_THREADS_MAX: usize = 64;

/// A request that a thread works on.
#[derive(Debug)]
struct InFlight {
    unique: RequestId,
    caller: u32,
    node: INodeNo,
    sender: ReplySender,
    /// True if it was answered with EINTR; the thread's own answer is then dropped.
    is_interrupted: bool,
}

impl InFlight {
    /// Returns the index of its queue in [`State::threads`].
    fn queue(&self) -> usize {
        match &self.sender {
            ReplySender::Ring(worker, _) => 1 + usize::from(worker.queue()),
            _ => 0,
        }
    }
}

/// A thread that is needed.
#[derive(Debug)]
pub(crate) enum Need {
    /// One more for `/dev/fuse`, of which all are busy for long.
    Device,
    /// One more for a queue, of which all are busy for long, and the node of a request of theirs.
    Queue(u16, u64),
    /// One in place of another one that works on a request, which was answered.
    Successor(Arc<RingWorker>, RequestId),
}

/// Finds out whether a thread is being killed, for a process that can't look at others itself.
/// `None` if that can't be found out.
#[derive(Clone)]
pub struct IsBeingKilled(pub Arc<dyn Fn(u32) -> Option<bool> + Send + Sync>);

impl Default for IsBeingKilled {
    fn default() -> Self {
        Self(Arc::new(is_being_killed))
    }
}

impl PartialEq for IsBeingKilled {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for IsBeingKilled {}

impl fmt::Debug for IsBeingKilled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IsBeingKilled").finish_non_exhaustive()
    }
}

/// The requests in flight of a session.
#[derive(Debug)]
pub(crate) struct Interrupts {
    is_being_killed: IsBeingKilled,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    in_flight: Vec<InFlight>,
    /// The threads of `/dev/fuse`, then those of each queue.
    threads: Vec<usize>,
    /// The threads that were started while others are busy.
    more: usize,
    without_successor: Vec<(Arc<RingWorker>, RequestId)>,
    /// True while the watching thread waits until all threads are busy.
    is_watch_idle: bool,
    has_ended: bool,
}

impl Interrupts {
    /// `threads` are those of `/dev/fuse`, and then those of each queue.
    pub(crate) fn new(threads: Vec<usize>, is_being_killed: IsBeingKilled) -> Arc<Self> {
        Arc::new(Self {
            is_being_killed,
            state: Mutex::new(State {
                in_flight: Vec::with_capacity(threads.iter().sum()),
                threads,
                more: 0,
                without_successor: Vec::new(),
                is_watch_idle: false,
                has_ended: false,
            }),
            changed: Condvar::new(),
        })
    }

    /// Notes a request that a thread begins.
    pub(crate) fn begin(&self, unique: RequestId, caller: u32, node: INodeNo, sender: ReplySender) {
        let mut state = self.state.lock();
        let request = InFlight {
            unique,
            caller,
            node,
            sender,
            is_interrupted: false,
        };
        let queue = request.queue();
        state.in_flight.push(request);
        if state.is_watch_idle && state.is_full(queue) {
            state.is_watch_idle = false;
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Notes that the thread is done with it.
    pub(crate) fn end(&self, unique: RequestId) {
        let mut state = self.state.lock();
        if let Some(index) = state.in_flight.iter().position(|it| it.unique == unique) {
            state.in_flight.swap_remove(index);
        }
    }

    /// Watches an interrupted request on a thread of its own.
    pub(crate) fn interrupt(self: &Arc<Self>, unique: RequestId) {
        let interrupts = Arc::clone(self);
        let watch = move || {
            let began = Instant::now();
            while began.elapsed() < WATCH_MAX && !interrupts.answer(unique, began) {
                thread::sleep(PAUSE);
            }
        };
        let name = "fuser-interrupt".to_owned();
        // Without the thread, the caller waits for the answer, as it did before.
        let _ = thread::Builder::new().name(name).spawn(watch);
    }

    /// Answers an interrupted request if its caller is being killed. Returns true if it is no longer
    /// to be watched.
    fn answer(&self, unique: RequestId, began: Instant) -> bool {
        let state = self.state.lock();
        let found = state.in_flight.iter().find(|it| it.unique == unique);
        let Some(caller) = found.filter(|it| !it.is_interrupted).map(|it| it.caller) else {
            return true;
        };
        drop(state);
        let is_over = match (self.is_being_killed.0)(caller) {
            Some(is_being_killed) => is_being_killed,
            None => began.elapsed() >= UNKNOWN_CALLER_MAX,
        };
        if !is_over {
            return false;
        }
        let mut state = self.state.lock();
        if let Some(it) = state.in_flight.iter_mut().find(|it| it.unique == unique) {
            it.is_interrupted = true;
            let sender = it.sender.clone();
            if let ReplySender::Ring(worker, _) = &sender {
                state.without_successor.push((worker.clone(), unique));
                self.changed.notify_all();
            }
            <ReplyRaw as Reply>::new(unique, sender).send_ll(&ResponseErrno(Errno::EINTR));
        }
        true
    }

    /// Waits until a thread is needed: for a request that was answered, or because the same requests
    /// have kept all threads of a queue busy for a while. Counts that thread. Returns `None` at the
    /// end of the session.
    pub(crate) fn wait_for_need(&self) -> Option<Need> {
        let mut state = self.state.lock();
        let mut before = Vec::new();
        loop {
            if state.has_ended {
                return None;
            }
            if state.more < MORE_THREADS_MAX {
                if let Some((worker, unique)) = state.without_successor.pop() {
                    state.more += 1;
                    return Some(Need::Successor(worker, unique));
                }
            }
            let now = state.full_queues();
            if now.is_empty() || state.more >= MORE_THREADS_MAX {
                before.clear();
                state.is_watch_idle = true;
                self.changed.wait(&mut state);
                state.is_watch_idle = false;
                continue;
            }
            let stuck = now.iter().find(|queue| before.contains(*queue));
            if let Some(&(queue, _)) = stuck {
                state.more += 1;
                state.threads[queue] += 1;
                let busy = state.in_flight.iter().find(|it| it.queue() == queue);
                let node = busy.map_or(0, |it| it.node.0);
                let queue = queue.checked_sub(1);
                return Some(queue.map_or(Need::Device, |queue| Need::Queue(queue as u16, node)));
            }
            before = now;
            self.changed.wait_for(&mut state, PAUSE);
        }
    }

    /// Notes that the thread could not be started.
    pub(crate) fn give_up(&self, need: &Need) {
        let mut state = self.state.lock();
        state.more -= 1;
        match need {
            Need::Device => state.threads[0] = usize::MAX,
            Need::Queue(queue, _) => state.threads[1 + usize::from(*queue)] = usize::MAX,
            Need::Successor(..) => {}
        }
    }

    /// Notes that a thread has ended because it has a successor, or is not needed any more.
    pub(crate) fn remove_thread(&self) {
        self.state.lock().more -= 1;
        self.changed.notify_all();
    }

    /// Ends [`wait_for_need`](Self::wait_for_need).
    pub(crate) fn finish(&self) {
        self.state.lock().has_ended = true;
        self.changed.notify_all();
    }
}

impl State {
    fn is_full(&self, queue: usize) -> bool {
        let threads = self.threads.get(queue);
        let busy = self.in_flight.iter().filter(|it| it.queue() == queue);
        threads.is_some_and(|&threads| busy.count() >= threads)
    }

    /// Returns the queues whose threads are all busy, each with its requests.
    fn full_queues(&self) -> Vec<(usize, Vec<RequestId>)> {
        let full = (0..self.threads.len()).filter(|&queue| self.is_full(queue));
        let requests = |queue| {
            let its = self.in_flight.iter().filter(move |it| it.queue() == queue);
            its.map(|it| it.unique).collect()
        };
        full.map(|queue| (queue, requests(queue))).collect()
    }
}

/// Returns true if the thread has a pending SIGKILL: the kernel sends it to all threads of a process
/// that a signal ends. So the result of the request is seen by nobody. Returns `None` if that can't
/// be found out.
pub fn is_being_killed(thread: u32) -> Option<bool> {
    if thread == 0 {
        return None; // A process of another PID namespace.
    }
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    Some(has_sigkill(&status))
}

fn has_sigkill(status: &str) -> bool {
    const SIGKILL: u64 = 1 << 8;
    let mut lines = status.lines();
    let pending = lines.find_map(|line| line.strip_prefix("SigPnd:"));
    let pending = pending.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    pending.is_some_and(|pending| pending & SIGKILL != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pending_sigkill_is_seen() {
        assert!(has_sigkill("Name:\tcat\nSigPnd:\t0000000000000100\n"));
        assert!(!has_sigkill("Name:\tcat\nSigPnd:\t0000000000004000\n"));
        assert_eq!(is_being_killed(std::process::id()), Some(false));
        assert_eq!(is_being_killed(0), None);
    }
}
