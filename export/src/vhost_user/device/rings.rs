//! All rings of a device, and the threads that wait at them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::complaints::Complaints;
use super::memory::SharedMemory;
use super::ring::{Ring, do_not_block};

/// What one of the threads is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// Requests wait in this ring.
    At(u16),
    /// Requests may wait in any of them.
    Anywhere,
    /// The front end has gone, or was sent away.
    Ended,
}

/// The events that no ring has.
const ANYWHERE: u64 = u64::MAX;
const END: u64 = u64::MAX - 1;

/// A place where threads wait, each for the rings that belong to it. They are numbered from nought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting(pub usize);

/// How long one looks for what will come soon: waking a thread on another processor of a virtual machine
/// takes about as long.
const LONGEST_LOOK: Duration = Duration::from_micros(50);

/// The rings of a device.
#[derive(Debug)]
pub struct Rings {
    all: Vec<(Ring, Waiting)>,
    places: Vec<Place>,
    pub(super) memory: Arc<SharedMemory>,
    has_ended: AtomicBool,
}

/// Where threads wait. Each event wakes one of them: all but the end are edge-triggered, and read by
/// nobody.
#[derive(Debug)]
struct Place {
    epoll: OwnedFd,
    anywhere: OwnedFd,
    end: OwnedFd,
    waiting: AtomicUsize,
}

impl Place {
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

    /// Waits for an event, unless there is work. Returns whose it was.
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
                    tracing::error!("no waiting for a guest: {error}");
                    return END;
                }
                Ok(_) => return events.first().map_or(END, |event| event.data.u64()),
            }
        }
    }
}

impl Rings {
    pub(super) fn new(device: &'static str, places: &[Waiting]) -> io::Result<Self> {
        let memory = Arc::new(SharedMemory::default());
        let complaints = Arc::new(Complaints::new(device));
        let ring = |place: &Waiting| {
            let ring = Ring::new(Arc::clone(&memory), Arc::clone(&complaints));
            ring.map(|ring| (ring, *place))
        };
        let all: Result<Vec<_>, _> = places.iter().map(ring).collect();
        let last = places.iter().map(|place| place.0).max().unwrap_or_default();
        let places: io::Result<Vec<Place>> = (0..=last).map(|_| Place::new()).collect();
        Ok(Self {
            all: all.map_err(io::Error::other)?,
            places: places?,
            memory,
            has_ended: AtomicBool::new(false),
        })
    }

    /// One of them.
    pub fn ring(&self, index: u16) -> Option<&Ring> {
        self.all.get(usize::from(index)).map(|(ring, _)| ring)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Ring> {
        self.all.iter().map(|(ring, _)| ring)
    }

    /// Whether nothing comes any more.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    fn place(&self, place: Waiting) -> Option<&Place> {
        self.places.get(place.0)
    }

    /// The place where those wait who look after a ring.
    fn place_of(&self, index: u16) -> Option<&Place> {
        let (_, place) = self.all.get(usize::from(index))?;
        self.place(*place)
    }

    /// As [`wait`](Self::wait), but looks for requests in `ring` for a while before it sleeps: for who gets
    /// the answer to what he has just sent.
    pub fn look_and_wait(&self, at: Waiting, ring: &Ring) -> Woken {
        let began = Instant::now();
        while began.elapsed() < LONGEST_LOOK && !self.has_ended() {
            if ring.has_more() {
                return Woken::Anywhere;
            }
            // Whoever else needs the processor gets it.
            rustix::thread::sched_yield();
        }
        self.wait(at)
    }

    /// Waits for requests, at a place where one thread does.
    pub fn wait(&self, at: Waiting) -> Woken {
        self.wait_unless(at, |_| false)
    }

    /// Waits for requests, at a place where several threads do; one of them gets each event. Requests
    /// that are there already are not waited for: who had more than he could do at once may not have
    /// seen us waiting when he wanted to wake somebody.
    pub fn wait_with_others(&self, at: Waiting) -> Woken {
        self.wait_unless(at, Ring::has_more)
    }

    fn wait_unless(&self, at: Waiting, has_work: impl Fn(&Ring) -> bool) -> Woken {
        let Some(place) = self.place(at) else {
            return Woken::Ended;
        };
        let mut here = self.all.iter().filter(|(_, place)| *place == at);
        let event = place.wait_unless(|| here.any(|(ring, _)| has_work(ring)));
        if self.has_ended() {
            return Woken::Ended;
        }
        match event {
            END => Woken::Ended,
            ANYWHERE => Woken::Anywhere,
            index => u16::try_from(index).map_or(Woken::Anywhere, Woken::At),
        }
    }

    /// Has one of the threads that wait there, if any does, look at all rings.
    pub fn wake_one(&self, at: Waiting) {
        let place = self.place(at);
        if let Some(place) = place.filter(|place| place.waiting.load(Ordering::SeqCst) > 0) {
            add_one(&place.anywhere);
        }
    }

    /// Returns whether a thread sleeps there.
    #[cfg(any(test, feature = "testing"))]
    pub fn is_somebody_waiting(&self, at: Waiting) -> bool {
        self.place(at)
            .is_some_and(|place| place.waiting.load(Ordering::SeqCst) > 0)
    }

    /// Sends all threads away.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        for place in &self.places {
            add_one(&place.end);
        }
    }

    /// From now on, `kick` tells of requests in this ring.
    pub(super) fn watch(&self, index: u16, kick: &OwnedFd) -> Result<(), Errno> {
        do_not_block(kick)?;
        let data = EventData::new_u64(index.into());
        let place = self.place_of(index).ok_or(Errno::INVAL)?;
        epoll::add(&place.epoll, kick, data, EventFlags::IN | EventFlags::ET)
    }

    /// It no longer does. The front end has it open, too, so that closing it would not be enough.
    pub(super) fn unwatch(&self, index: u16, kick: &OwnedFd) {
        if let Some(place) = self.place_of(index) {
            let _ = epoll::delete(&place.epoll, kick);
        }
    }

    /// Has somebody at each place look at all rings, now or as soon as he waits.
    pub fn look(&self) {
        for place in &self.places {
            add_one(&place.anywhere);
        }
    }
}

/// Wakes who waits at an event. It is full only when nobody has looked yet.
fn add_one(event: impl AsFd) {
    let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
}
