//! All rings of a device, and the threads that wait at them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::complaints::Complaints;
use super::memory::SharedMemory;
use super::ring::{Ring, do_not_block};

/// What one of the threads is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
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

/// The rings of a device.
#[derive(Debug)]
pub(crate) struct Rings {
    all: Vec<Ring>,
    pub(super) memory: Arc<SharedMemory>,
    /// Each event wakes one of the threads that wait: all but the end are edge-triggered, and read by
    /// nobody.
    epoll: OwnedFd,
    anywhere: OwnedFd,
    end: OwnedFd,
    has_ended: AtomicBool,
    waiting: AtomicUsize,
}

impl Rings {
    pub(super) fn new(device: &'static str, count: u16) -> io::Result<Self> {
        let memory = Arc::new(SharedMemory::default());
        let complaints = Arc::new(Complaints::new(device));
        let ring = |_| Ring::new(Arc::clone(&memory), Arc::clone(&complaints));
        let all: Result<Vec<Ring>, _> = (0..count).map(ring).collect();
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let (anywhere, end) = (eventfd(0, flags)?, eventfd(0, flags)?);
        let edge = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &anywhere, EventData::new_u64(ANYWHERE), edge)?;
        epoll::add(&epoll, &end, EventData::new_u64(END), EventFlags::IN)?;
        Ok(Self {
            all: all.map_err(io::Error::other)?,
            memory,
            epoll,
            anywhere,
            end,
            has_ended: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
        })
    }

    /// One of them.
    pub(crate) fn ring(&self, index: u16) -> Option<&Ring> {
        self.all.get(usize::from(index))
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Ring> {
        self.all.iter()
    }

    /// Whether nothing comes any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Waits for requests. Of several threads that wait, one gets each event.
    pub(crate) fn wait(&self) -> Woken {
        let mut events: [Event; 1] = [Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(END),
        }];
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let waited = loop {
            // Who had more than he could do at once may not have seen us waiting yet.
            if self.all.iter().any(Ring::has_more) {
                self.waiting.fetch_sub(1, Ordering::SeqCst);
                return Woken::Anywhere;
            }
            match epoll::wait(&self.epoll, &mut events[..], None) {
                Err(Errno::INTR) => {}
                other => break other,
            }
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        if waited.is_err() || self.has_ended() {
            return Woken::Ended;
        }
        let [event] = events;
        match event.data.u64() {
            END => Woken::Ended,
            ANYWHERE => Woken::Anywhere,
            index => u16::try_from(index).map_or(Woken::Anywhere, Woken::At),
        }
    }

    /// Has one of the threads that wait, if any does, look at all rings.
    pub(crate) fn wake_one(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            add_one(&self.anywhere);
        }
    }

    /// Sends all threads away.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        add_one(&self.end);
    }

    /// From now on, `kick` tells of requests in this ring.
    pub(super) fn watch(&self, index: u16, kick: &OwnedFd) -> Result<(), Errno> {
        do_not_block(kick)?;
        let data = EventData::new_u64(index.into());
        epoll::add(&self.epoll, kick, data, EventFlags::IN | EventFlags::ET)
    }

    /// It no longer does. The front end has it open, too, so that closing it would not be enough.
    pub(super) fn unwatch(&self, kick: &OwnedFd) {
        let _ = epoll::delete(&self.epoll, kick);
    }

    /// Has somebody look at all rings, now or as soon as he waits.
    pub(super) fn look(&self) {
        add_one(&self.anywhere);
    }
}

/// Wakes who waits at an event. It is full only when nobody has looked yet.
fn add_one(event: impl AsFd) {
    let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
}
