//! The connections to a server: one, or several if the server allows it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use diskfs_block::{Error, ErrorKind, Result};

use super::driver::Driver;
use super::durability::Durability;
use super::handshake::{self, Refusal};
use super::link::Link;
use super::options::Options;
use super::peer::Peer;
use super::shape::Shape;
use crate::failure::Failure;
use crate::protocol::TransmissionFlags;
use crate::stream::Buffers;

/// The number of requests in flight from which another connection is opened.
const BUSY: usize = 4;

/// The time between attempts to connect: doubled after each, up to the second one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// The time without attempts to open more connections after one failed.
const GROWTH_PAUSE: Duration = Duration::from_secs(5);

/// The time that all connections have to send what is left when the device is closed.
const CLOSE_TIME: Duration = Duration::from_millis(500);

/// The server of an export, and what is needed to connect to it.
#[derive(Debug)]
struct Target {
    peer: Peer,
    options: Options,
    durability: Arc<Durability>,
}

/// The attempts to connect.
#[derive(Debug)]
struct Attempts {
    next: Instant,
    pause: Duration,
    next_growth: Instant,
    /// True if the last request ended without a connection: until there is one again, further
    /// requests make one attempt each.
    is_outage: bool,
}

/// The connections to a server.
#[derive(Debug)]
pub(super) struct Links {
    target: Arc<Target>,
    pub(super) driver: Driver,
    pub(super) buffers: Arc<Buffers>,
    pub(super) shape: Shape,
    pub(super) durability: Arc<Durability>,
    open: Mutex<Vec<Arc<Link>>>,
    attempts: Mutex<Attempts>,
}

/// A failed attempt to connect.
struct Failed {
    error: Error,
    /// True if another attempt would fail in the same way.
    is_final: bool,
}

impl Links {
    /// Opens the first connection.
    pub(super) fn open(peer: Peer, options: Options) -> Result<Self> {
        let driver = Driver::new()?;
        let durability = Arc::new(Durability::default());
        let target = Arc::new(Target {
            peer,
            options,
            durability: Arc::clone(&durability),
        });
        let timeout = target.options.connect_timeout;
        let link = connect(&target, &driver, timeout).map_err(|failed| failed.error)?;
        let now = Instant::now();
        Ok(Self {
            shape: link.opened.shape,
            open: Mutex::new(vec![Arc::new(link)]),
            attempts: Mutex::new(Attempts {
                next: now,
                pause: FIRST_PAUSE,
                next_growth: now,
                is_outage: false,
            }),
            target,
            driver,
            buffers: Arc::default(),
            durability,
        })
    }

    /// Returns the deadline of a request that begins now.
    pub(super) fn deadline(&self) -> Instant {
        let now = Instant::now();
        let timeout = self.target.options.request_timeout;
        now.checked_add(timeout).unwrap_or(now)
    }

    /// Returns true if few requests are in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.least_loaded().is_some_and(|(_, load)| load < BUSY)
    }

    pub(super) fn name(&self) -> &str {
        &self.target.peer.name
    }

    /// Returns the connection with the fewest requests. Connects again if there is none, until the
    /// deadline.
    pub(super) fn link(&self, deadline: Instant) -> Result<Arc<Link>> {
        match self.least_loaded() {
            Some((link, load)) if load < BUSY => Ok(link),
            Some((link, _)) => Ok(self.grow().unwrap_or(link)),
            None => self.reconnect(deadline),
        }
    }

    /// Returns the connection with the fewest requests, and their number.
    fn least_loaded(&self) -> Option<(Arc<Link>, usize)> {
        let mut open = self.open_links();
        open.retain(|link| link.load().is_some());
        let loads = open.iter().filter_map(|link| Some((link, link.load()?)));
        let (link, load) = loads.min_by_key(|(_, load)| *load)?;
        Some((Arc::clone(link), load))
    }

    /// Opens one more connection, if the server allows several and no other thread does so.
    fn grow(&self) -> Option<Arc<Link>> {
        let most = if self.shape.has(TransmissionFlags::CAN_MULTI_CONN) {
            self.target.options.max_connections
        } else {
            1
        };
        if self.open_links().len() >= most {
            return None;
        }
        let mut attempts = self.attempts.try_lock().ok()?;
        if Instant::now() < attempts.next_growth {
            return None;
        }
        let timeout = self.target.options.connect_timeout.min(GROWTH_PAUSE);
        match self.connect_alike(timeout) {
            Ok(link) => Some(link),
            Err(failed) => {
                tracing::debug!("cannot open another NBD connection: {}", failed.error);
                let now = Instant::now();
                attempts.next_growth = now.checked_add(GROWTH_PAUSE).unwrap_or(now);
                None
            }
        }
    }

    /// Connects again, with pauses between attempts.
    fn reconnect(&self, deadline: Instant) -> Result<Arc<Link>> {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            // Another thread may have connected meanwhile.
            if let Some((link, _)) = self.least_loaded() {
                return Ok(link);
            }
            if !attempts.is_outage {
                let until = attempts.next.min(deadline);
                std::thread::sleep(until.saturating_duration_since(Instant::now()));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = left.min(self.target.options.connect_timeout);
            let failed = match self.connect_alike(timeout) {
                Ok(link) => {
                    attempts.pause = FIRST_PAUSE;
                    attempts.is_outage = false;
                    return Ok(link);
                }
                Err(failed) => failed,
            };
            let now = Instant::now();
            attempts.next = now.checked_add(attempts.pause).unwrap_or(now);
            attempts.pause = attempts.pause.saturating_mul(2).min(LAST_PAUSE);
            if failed.is_final || attempts.is_outage || attempts.next >= deadline {
                attempts.is_outage = true;
                return Err(failed.error);
            }
        }
    }

    /// Opens a connection, whose export must have the same properties as before.
    fn connect_alike(&self, timeout: Duration) -> std::result::Result<Arc<Link>, Failed> {
        let link = connect(&self.target, &self.driver, timeout)?;
        if link.opened.shape != self.shape {
            link.kill("the export changed");
            let (before, now) = (self.shape.size_bytes, link.opened.shape.size_bytes);
            let reason = if before == now {
                "the server changed the properties of the export".to_owned()
            } else {
                format!("the server changed the size of the export from {before} to {now} bytes")
            };
            return Err(Failed {
                error: Error::new(ErrorKind::Io, reason).in_file(self.name()),
                is_final: true,
            });
        }
        let link = Arc::new(link);
        self.open_links().push(Arc::clone(&link));
        Ok(link)
    }

    /// Ends all connections.
    pub(super) fn close(&self) {
        let open = std::mem::take(&mut *self.open_links());
        for link in &open {
            link.disconnect();
        }
        let now = Instant::now();
        let deadline = now.checked_add(CLOSE_TIME).unwrap_or(now);
        for link in &open {
            self.driver.wait_until(deadline, link.end_of_connection());
        }
    }

    fn open_links(&self) -> MutexGuard<'_, Vec<Arc<Link>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a connection.
fn connect(
    target: &Arc<Target>,
    driver: &Driver,
    timeout: Duration,
) -> std::result::Result<Link, Failed> {
    let now = Instant::now();
    let deadline = now.checked_add(timeout).unwrap_or(now);
    let opened = driver.wait_until(deadline, establish(target));
    let failed = |error: Error, is_final| Failed {
        error: error.in_file(&target.peer.name),
        is_final,
    };
    match opened {
        Some(Ok(link)) => Ok(link),
        Some(Err(Refusal::Final(error))) => {
            let is_final = error.kind() != ErrorKind::Io || target.peer.has_ended();
            Err(failed(error, is_final))
        }
        Some(Err(Refusal::Failure(Failure::Io(error)))) => {
            let reason = format!("cannot connect: {}", diskfs_block::host_reason(&error));
            Err(failed(Error::new(ErrorKind::Io, reason), false))
        }
        Some(Err(Refusal::Failure(Failure::Violation(violation)))) => {
            let reason = format!("the server violates the NBD protocol: {violation}");
            Err(failed(Error::new(ErrorKind::Io, reason), false))
        }
        None => {
            let reason = "cannot connect: the server does not answer in time";
            Err(failed(Error::new(ErrorKind::Io, reason), false))
        }
    }
}

async fn establish(target: &Target) -> std::result::Result<Link, Refusal> {
    let peer = &target.peer;
    let stream = peer.connect().await?;
    let tls = peer.tls();
    let direct = stream.direct.clone().filter(|_| tls.is_none());
    let (stream, opened) = handshake::open(stream, &peer.export, tls).await?;
    Ok(Link::start(
        stream,
        direct,
        opened,
        target.options.request_timeout,
        Arc::clone(&target.durability),
    ))
}
