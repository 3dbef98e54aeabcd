//! The rings of a device, and the waiting of its threads for requests.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::fault_log::FaultLog;
use super::memory::SharedMemory;
use super::ring::{Ring, do_not_block};

/// The result of waiting for requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitResult {
    /// Requests are available in this ring.
    At(u16),
    /// Requests may be available in any ring.
    Anywhere,
    /// The front end has disconnected, or serving was stopped.
    Ended,
}

/// The event data for events that don't belong to a ring.
const ANYWHERE: u64 = u64::MAX;
const END: u64 = u64::MAX - 1;

/// The index of a wait point, at which threads wait for the rings assigned to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitPoint(pub usize);

/// The longest busy-poll before blocking: most answers of a microVM, such as to the creation of a
/// file, take less. Blocking costs the guest an interrupt and this side a wake-up on another
/// processor of a virtual machine, which together take as long as a short answer.
const BUSY_POLL_MAX: Duration = Duration::from_micros(150);

/// A single poll takes a microsecond; when it took this long, another process had the processor.
const INTERRUPTION_MIN: Duration = Duration::from_micros(200);

/// The pause of busy-polling after an interruption: other processes may need more of the processor.
const INTERRUPTION_PAUSE: Duration = Duration::from_millis(10);

/// The rings of a device with their wait points.
#[derive(Debug)]
pub struct Rings {
    all: Vec<(Ring, WaitPoint)>,
    queues: Vec<WaitQueue>,
    pub(super) memory: Arc<SharedMemory>,
    has_ended: AtomicBool,
    created: Instant,
    /// The time until which nobody busy-polls, in microseconds since `created`.
    paused_until_micros: AtomicU64,
}

/// A wait point (an epoll). Each event wakes one thread: all events but the end are edge-triggered,
/// and nobody reads them.
#[derive(Debug)]
struct WaitQueue {
    epoll: OwnedFd,
    anywhere: OwnedFd,
    end: OwnedFd,
    waiting: AtomicUsize,
}

impl WaitQueue {
    fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let (anywhere, end) = (eventfd(0, flags)?, eventfd(0, flags)?);
        let edge = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &anywhere, EventData::new_u64(ANYWHERE), edge)?;
        epoll::add(&epoll, &end, EventData::new_u64(END), EventFlags::IN)?;
        Ok(Self {
            epoll,
            anywhere,
            end,
            waiting: AtomicUsize::new(0),
        })
    }

    /// Waits for an event, unless there is work already. Returns the event's data.
    fn wait_unless(&self, has_work: impl FnOnce() -> bool) -> u64 {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let event = if has_work() { ANYWHERE } else { self.event() };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        event
    }

    fn event(&self) -> u64 {
        let mut events = [Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(END),
        }];
        loop {
            match epoll::wait(&self.epoll, &mut events[..], None) {
                Err(Errno::INTR) => {}
                Err(error) => {
                    tracing::error!("cannot wait for requests of the guest: {error}");
                    return END;
                }
                Ok(_) => return events.first().map_or(END, |event| event.data.u64()),
            }
        }
    }
}

impl Rings {
    pub(super) fn new(device: &'static str, points: &[WaitPoint]) -> io::Result<Self> {
        let memory = Arc::new(SharedMemory::default());
        let faults = Arc::new(FaultLog::new(device));
        let ring = |point: &WaitPoint| {
            let ring = Ring::new(Arc::clone(&memory), Arc::clone(&faults));
            ring.map(|ring| (ring, *point))
        };
        let all: Result<Vec<_>, _> = points.iter().map(ring).collect();
        let last = points.iter().map(|point| point.0).max().unwrap_or_default();
        let queues: io::Result<Vec<WaitQueue>> = (0..=last).map(|_| WaitQueue::new()).collect();
        Ok(Self {
            all: all.map_err(io::Error::other)?,
            queues: queues?,
            memory,
            has_ended: AtomicBool::new(false),
            created: Instant::now(),
            paused_until_micros: AtomicU64::new(0),
        })
    }

    /// Returns the ring with this index.
    pub fn ring(&self, index: u16) -> Option<&Ring> {
        self.all.get(usize::from(index)).map(|(ring, _)| ring)
    }

    /// Returns all rings.
    pub fn iter(&self) -> impl Iterator<Item = &Ring> {
        self.all.iter().map(|(ring, _)| ring)
    }

    /// Returns true if no more requests come.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    fn queue(&self, point: WaitPoint) -> Option<&WaitQueue> {
        self.queues.get(point.0)
    }

    /// Returns the wait point of a ring.
    fn queue_of(&self, index: u16) -> Option<&WaitQueue> {
        let (_, point) = self.all.get(usize::from(index))?;
        self.queue(*point)
    }

    /// Waits as [`wait`](Self::wait) does, but busy-polls `ring` for a while before it blocks: for
    /// a thread that expects the answer to what it has just sent. It does not if another process
    /// has wanted the processor lately.
    pub fn poll_and_wait(&self, at: WaitPoint, ring: &Ring) -> WaitResult {
        if self.poll(ring) {
            return WaitResult::Anywhere;
        }
        self.wait(at)
    }

    /// Busy-polls a ring. Returns true if it has requests.
    fn poll(&self, ring: &Ring) -> bool {
        let began = Instant::now();
        let mut now = began;
        if self.micros(now) < self.paused_until_micros.load(Ordering::Relaxed) {
            return ring.has_more();
        }
        while now.duration_since(began) < BUSY_POLL_MAX && !self.has_ended() {
            if ring.has_more() {
                return true;
            }
            // Yield to every other thread that wants the processor.
            rustix::thread::sched_yield();
            let then = std::mem::replace(&mut now, Instant::now());
            if now.duration_since(then) >= INTERRUPTION_MIN {
                let until = self.micros(now.checked_add(INTERRUPTION_PAUSE).unwrap_or(now));
                self.paused_until_micros.store(until, Ordering::Relaxed);
                break;
            }
        }
        false
    }

    /// Returns a time in microseconds since this was created.
    fn micros(&self, time: Instant) -> u64 {
        let elapsed = time.saturating_duration_since(self.created);
        u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
    }

    /// Waits for requests at a wait point that only one thread uses.
    pub fn wait(&self, at: WaitPoint) -> WaitResult {
        self.wait_unless(at, |_| false)
    }

    /// Waits for requests at a wait point that several threads share; one of them gets each event.
    /// Returns at once if requests are available: a thread with more requests than it can handle
    /// may have called [`wake_one`](Self::wake_one) before this thread waited.
    pub fn wait_with_others(&self, at: WaitPoint) -> WaitResult {
        self.wait_unless(at, Ring::has_more)
    }

    fn wait_unless(&self, at: WaitPoint, has_work: impl Fn(&Ring) -> bool) -> WaitResult {
        let Some(queue) = self.queue(at) else {
            return WaitResult::Ended;
        };
        let mut here = self.all.iter().filter(|(_, point)| *point == at);
        let event = queue.wait_unless(|| here.any(|(ring, _)| has_work(ring)));
        if self.has_ended() {
            return WaitResult::Ended;
        }
        match event {
            END => WaitResult::Ended,
            ANYWHERE => WaitResult::Anywhere,
            index => u16::try_from(index).map_or(WaitResult::Anywhere, WaitResult::At),
        }
    }

    /// Makes one of the threads that wait at a wait point, if any, check all rings.
    pub fn wake_one(&self, at: WaitPoint) {
        let queue = self.queue(at);
        if let Some(queue) = queue.filter(|queue| queue.waiting.load(Ordering::SeqCst) > 0) {
            signal(&queue.anywhere);
        }
    }

    /// Returns true if a thread is blocked at the wait point.
    #[cfg(any(test, feature = "testing"))]
    pub fn is_somebody_waiting(&self, at: WaitPoint) -> bool {
        self.queue(at)
            .is_some_and(|queue| queue.waiting.load(Ordering::SeqCst) > 0)
    }

    /// Ends the waiting of all threads.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        for queue in &self.queues {
            signal(&queue.end);
        }
    }

    /// Registers `kick`, which signals requests in this ring.
    pub(super) fn watch(&self, index: u16, kick: &OwnedFd) -> Result<(), Errno> {
        do_not_block(kick)?;
        let data = EventData::new_u64(index.into());
        let queue = self.queue_of(index).ok_or(Errno::INVAL)?;
        epoll::add(&queue.epoll, kick, data, EventFlags::IN | EventFlags::ET)
    }

    /// Unregisters `kick`. Closing it would not be enough, because the front end has it open, too.
    pub(super) fn unwatch(&self, index: u16, kick: &OwnedFd) {
        if let Some(queue) = self.queue_of(index) {
            let _ = epoll::delete(&queue.epoll, kick);
        }
    }

    /// Makes one thread at each wait point check all rings, now or when it waits next.
    pub fn wake_each(&self) {
        for queue in &self.queues {
            signal(&queue.anywhere);
        }
    }
}

/// Signals an event counter. If it is full, the event is pending already.
fn signal(event: impl AsFd) {
    let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
}
