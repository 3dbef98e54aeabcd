//! A number of requests of the same size, several of which are under way at once.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use diskfs::block::{BlockRead, BlockWrite, Error, Result};

/// The largest number of requests under way. Each has a thread.
pub(crate) const DEPTH_MAX: u32 = 512;
/// The largest number of bytes of all requests under way, which are in memory.
const BUFFERS_MAX_BYTES: u64 = 1 << 30;

/// The requests to make.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requests {
    pub(crate) count: u32,
    /// The number of requests that are under way at once.
    pub(crate) depth: u32,
    /// The offset of the first request in bytes.
    pub(crate) offset: u64,
    /// The length of a request in bytes.
    pub(crate) size_bytes: u32,
    /// The distance between the offsets of two requests in bytes.
    pub(crate) step_bytes: u64,
    pub(crate) kind: RequestKind,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum RequestKind {
    Read,
    /// Writes of this byte.
    Write(u8, Option<Flushes>),
}

/// The flushes between writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flushes {
    /// The number of writes after which there is a flush.
    pub(crate) interval: u32,
    /// True if a flush waits for the writes that are under way, and they for it.
    pub(crate) drains: bool,
}

/// The disk of which the requests are made.
#[derive(Debug)]
pub(crate) enum Disk {
    ReadOnly(Arc<dyn BlockRead>),
    Writable(Arc<dyn BlockWrite>),
}

impl Disk {
    fn size_bytes(&self) -> u64 {
        match self {
            Self::ReadOnly(disk) => disk.size_bytes(),
            Self::Writable(disk) => disk.size_bytes(),
        }
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        match self {
            Self::ReadOnly(disk) => disk.read_at(offset, buf),
            Self::Writable(disk) => disk.read_at(offset, buf),
        }
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        match self {
            Self::ReadOnly(_) => Err(read_only()),
            Self::Writable(disk) => disk.write_at(offset, buf),
        }
    }

    fn flush(&self) -> Result<()> {
        match self {
            Self::ReadOnly(_) => Err(read_only()),
            Self::Writable(disk) => disk.flush(),
        }
    }
}

fn read_only() -> Error {
    Error::new(
        diskfs::block::ErrorKind::ReadOnly,
        "the disk is open read-only",
    )
}

/// The state that the threads share.
#[derive(Debug, Default)]
struct State {
    /// The number of the next request.
    next: u32,
    under_way: u32,
    /// The number of the request before which there is the next flush.
    flush_at: u64,
    is_flushing: bool,
    failure: Option<Error>,
}

struct Run<'a> {
    requests: &'a Requests,
    disk: &'a Disk,
    state: Mutex<State>,
    changed: Condvar,
}

impl Requests {
    /// Fails for requests that would need too many threads or too much memory.
    pub(crate) fn check(&self) -> Result<()> {
        if self.depth > DEPTH_MAX {
            let reason = format!(
                "at most {DEPTH_MAX} requests can be under way at once, not {}",
                self.depth
            );
            return Err(Error::invalid(reason));
        }
        if u64::from(self.depth) * u64::from(self.size_bytes) > BUFFERS_MAX_BYTES {
            let reason = "the requests that are under way at once have more than 1 GiB";
            return Err(Error::invalid(reason).with_hint("use a smaller size or depth"));
        }
        Ok(())
    }

    /// Returns the lines that `qemu-img bench` prints before the requests.
    pub(crate) fn description(&self) -> String {
        let (kind, flushes) = match self.kind {
            RequestKind::Read => ("read", None),
            RequestKind::Write(_, flushes) => ("write", flushes),
        };
        let text = format!(
            "Sending {} {kind} requests, {} bytes each, {} in parallel (starting at offset {}, step \
             size {})\n",
            self.count, self.size_bytes, self.depth, self.offset, self.step_bytes
        );
        match flushes {
            Some(Flushes { interval, .. }) => {
                format!("{text}Sending flush every {interval} requests\n")
            }
            None => text,
        }
    }

    /// Makes the requests; returns the time that they took.
    pub(crate) fn make(&self, disk: &Disk) -> Result<Duration> {
        self.check()?;
        let interval = match self.kind {
            RequestKind::Write(_, Some(flushes)) => u64::from(flushes.interval),
            _ => u64::MAX,
        };
        let run = Run {
            requests: self,
            disk,
            state: Mutex::new(State {
                flush_at: interval,
                ..State::default()
            }),
            changed: Condvar::new(),
        };
        let started = Instant::now();
        thread::scope(|scope| {
            for _ in 1..self.depth.min(self.count) {
                let builder = thread::Builder::new().name("diskfs-bench".to_owned());
                if let Err(e) = builder.spawn_scoped(scope, || run.work()) {
                    run.fail(Error::from(io::Error::new(
                        e.kind(),
                        format!("cannot start a thread: {e}"),
                    )));
                }
            }
            run.work();
        });
        let took = started.elapsed();
        let state = run.state.into_inner();
        match state.unwrap_or_else(PoisonError::into_inner).failure {
            Some(failure) => Err(failure),
            None => Ok(took),
        }
    }

    /// Returns the offset of a request. After the first one, requests stay within the disk.
    fn offset_of(&self, number: u32, disk_bytes: u64) -> u64 {
        let end = disk_bytes.saturating_sub(self.size_bytes.into());
        if number == 0 {
            return self.offset;
        }
        let distance = u128::from(number) * u128::from(self.step_bytes);
        let at = u128::from(self.offset) + distance;
        let places = u128::from(end) + 1;
        u64::try_from(at % places).unwrap_or(0)
    }
}

impl Run<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, error: Error) {
        self.lock().failure.get_or_insert(error);
        self.changed.notify_all();
    }

    /// Makes requests until there are no more.
    fn work(&self) {
        let byte = match self.requests.kind {
            RequestKind::Read => 0,
            RequestKind::Write(byte, _) => byte,
        };
        let mut buf = vec![byte; self.requests.size_bytes.try_into().unwrap_or(0)];
        loop {
            match self.next() {
                Ok(Some(number)) => {
                    let done = self.request(number, &mut buf);
                    self.lock().under_way -= 1;
                    self.changed.notify_all();
                    if let Err(error) = done {
                        return self.fail(error);
                    }
                }
                Ok(None) => return,
                Err(error) => return self.fail(error),
            }
        }
    }

    fn request(&self, number: u32, buf: &mut [u8]) -> Result<()> {
        let at = self.requests.offset_of(number, self.disk.size_bytes());
        match self.requests.kind {
            RequestKind::Read => self.disk.read_at(at, buf),
            RequestKind::Write(..) => self.disk.write_at(at, buf),
        }
    }

    /// Returns the number of the next request, which is under way from then on. Flushes before, if
    /// it is time.
    fn next(&self) -> Result<Option<u32>> {
        let mut state = self.lock();
        loop {
            if state.failure.is_some() || state.next >= self.requests.count {
                return Ok(None);
            }
            let RequestKind::Write(_, Some(flushes)) = self.requests.kind else {
                break;
            };
            let is_due = u64::from(state.next) >= state.flush_at;
            let waits = flushes.drains && (state.is_flushing || is_due && state.under_way > 0);
            if waits {
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            if !is_due {
                break;
            }
            state.flush_at += u64::from(flushes.interval);
            state.is_flushing = true;
            drop(state);
            let flushed = self.disk.flush();
            state = self.lock();
            state.is_flushing = false;
            self.changed.notify_all();
            flushed?;
        }
        let number = state.next;
        state.next += 1;
        state.under_way += 1;
        Ok(Some(number))
    }
}

#[cfg(test)]
mod tests {
    use diskfs::block::{Counting, Memory};

    use super::*;

    fn requests(kind: RequestKind) -> Requests {
        Requests {
            count: 1000,
            depth: 7,
            offset: 512,
            size_bytes: 3000,
            step_bytes: 5000,
            kind,
        }
    }

    #[test]
    fn every_request_is_made_within_the_disk() {
        let counted = Arc::new(Counting::new(Arc::new(Memory::new(vec![0; 100_000]))));
        let disk = Disk::Writable(counted.clone());
        requests(RequestKind::Read).make(&disk).unwrap();
        assert_eq!(counted.counts().reads, 1000);
        for drains in [false, true] {
            let flushes = Flushes {
                interval: 10,
                drains,
            };
            let writes = requests(RequestKind::Write(7, Some(flushes)));
            writes.make(&disk).unwrap();
        }
        let counts = counted.counts();
        assert_eq!((counts.writes, counts.flushes), (2000, 198));
        let mut byte = [0; 2];
        disk.read_at(512, &mut byte).unwrap();
        assert_eq!(byte, [7; 2]);
    }

    #[test]
    fn a_failed_request_ends_all() {
        let disk = Disk::Writable(Arc::new(Memory::new(vec![0; 100_000])));
        let far = Requests {
            offset: 1 << 20,
            ..requests(RequestKind::Read)
        };
        assert!(far.make(&disk).is_err());
        let long = Requests {
            size_bytes: 200_000,
            ..requests(RequestKind::Read)
        };
        assert!(long.make(&disk).is_err());
        let deep = Requests {
            depth: 1000,
            ..requests(RequestKind::Read)
        };
        assert!(deep.make(&disk).is_err());
    }
}
