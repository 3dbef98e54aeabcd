//! The files of an image in memory, which lose power together: every request is logged, in one
//! order for all files.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use diskfs_block::{BlockRead, BlockWrite, Event, Fate, Memory};
use diskfs_image::{
    Access, DirectOpener, FileOpener, Format, Gate, NamedFile, NamedFor, OpenOptions,
};

use crate::random::Random;

/// The space that is added to a crashed file, so that it can be written.
const ROOM_BYTES: usize = 1 << 20;

/// The bytes of the files of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Files {
    pub(super) image: Vec<u8>,
    /// The external data file.
    pub(super) data: Option<Vec<u8>>,
    /// The backing file, which is only read.
    pub(super) backing: Option<Vec<u8>>,
}

/// The treatment of flushes by a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flushes {
    /// A flush makes the writes before it durable.
    #[default]
    Done,
    /// One of so many flushes is reported as done, and is not.
    OneDropped(u64),
}

/// The files of an image in memory.
#[derive(Debug)]
pub(super) struct Power {
    image: Arc<Memory>,
    data: Option<Arc<Memory>>,
    backing: Option<Arc<Memory>>,
    log: Arc<Mutex<Log>>,
    is_logged: bool,
}

/// The requests so far, each with the file that it was for.
#[derive(Debug)]
struct Log {
    events: Vec<(FileRole, Event)>,
    flushes: Flushes,
    random: Random,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileRole {
    Image,
    Data,
}

impl Power {
    /// Returns the files, with an empty log.
    pub(super) fn new(files: &Files, flushes: Flushes, seed: u64) -> Self {
        let memory = |bytes: &Vec<u8>| Arc::new(Memory::new(bytes.as_slice()));
        Self {
            image: memory(&files.image),
            data: files.data.as_ref().map(memory),
            backing: files.backing.as_ref().map(memory),
            log: Arc::new(Mutex::new(Log {
                events: Vec::new(),
                flushes,
                random: Random::new(seed),
            })),
            is_logged: true,
        }
    }

    /// Returns the same files without a log, for more requests than memory can hold.
    pub(super) fn without_log(self) -> Self {
        Self {
            is_logged: false,
            ..self
        }
    }

    /// Returns the device of the image, which logs.
    pub(super) fn image(&self) -> Arc<dyn BlockWrite> {
        self.logged(&self.image, FileRole::Image)
    }

    /// Returns the options for opening the image: its other files are these.
    pub(super) fn options(&self) -> OpenOptions {
        let named = NamedDevices {
            data: self
                .data
                .as_ref()
                .map(|data| self.logged(data, FileRole::Data)),
            backing: self
                .backing
                .as_ref()
                .map(|memory| -> Arc<dyn BlockWrite> { memory.clone() }),
        };
        OpenOptions {
            format: Some(Format::Qcow2),
            files: Arc::new(named),
            ..OpenOptions::default()
        }
    }

    fn logged(&self, memory: &Arc<Memory>, file: FileRole) -> Arc<dyn BlockWrite> {
        Arc::new(Logged {
            inner: Arc::clone(memory),
            file,
            log: self.is_logged.then(|| Arc::clone(&self.log)),
        })
    }

    /// Returns the number of requests so far.
    pub(super) fn logged_count(&self) -> usize {
        lock(&self.log).events.len()
    }

    /// Returns the current bytes of the files.
    pub(super) fn files(&self) -> Files {
        Files {
            image: self.image.to_vec(),
            data: self.data.as_ref().map(|data| data.to_vec()),
            backing: self.backing.as_ref().map(|backing| backing.to_vec()),
        }
    }

    /// Returns the files that a crash after the first `seen` requests can leave, which had the
    /// bytes of `before` when the log began. Of the writes that were not flushed, `random` chooses.
    pub(super) fn crash(&self, before: &Files, seen: usize, random: &mut Random) -> Result<Files> {
        let log = lock(&self.log);
        let events = log.events.get(..seen).unwrap_or(&log.events);
        let mut left = before.clone();
        left.image = replay(
            events,
            FileRole::Image,
            &before.image,
            self.image.size_bytes(),
            random,
        )?;
        if let (Some(bytes), Some(memory)) = (&before.data, &self.data) {
            left.data = Some(replay(
                events,
                FileRole::Data,
                bytes,
                memory.size_bytes(),
                random,
            )?);
        }
        Ok(left)
    }
}

/// Repeats the requests for a file on its bytes: all before the last flush, and some of the others.
fn replay(
    events: &[(FileRole, Event)],
    file: FileRole,
    before: &[u8],
    len_bytes: u64,
    random: &mut Random,
) -> Result<Vec<u8>> {
    let events = events.iter().filter(|(of, _)| *of == file);
    let events: Vec<_> = events.map(|(_, event)| event).collect();
    let flushed = events.iter().rposition(|event| **event == Event::Flush);
    let durable = flushed.map_or(0, |last| last + 1);
    let mut bytes = before.to_vec();
    bytes.resize(usize::try_from(len_bytes)?.max(bytes.len()) + ROOM_BYTES, 0);
    let device = Memory::new(bytes);
    let open = events.len() - durable;
    let (pattern, chosen) = (random.below(7), random.index(open.max(1)));
    let mut chance = Fate::by_chance(random.any());
    for (number, event) in events.into_iter().enumerate() {
        let fate = match (number.checked_sub(durable), pattern) {
            (Some(nth), 1) if nth == chosen => Fate::Lost,
            (None, _) | (_, 0 | 1) => Fate::Kept,
            (Some(nth), 2) if nth == chosen => Fate::Kept,
            (_, 2 | 3) => Fate::Lost,
            (Some(nth), _) => chance(nth, event),
        };
        event.replay(&device, fate)?;
    }
    Ok(device.to_vec())
}

/// The files that the image names, by their roles.
#[derive(Debug)]
struct NamedDevices {
    data: Option<Arc<dyn BlockWrite>>,
    backing: Option<Arc<dyn BlockWrite>>,
}

impl FileOpener for NamedDevices {
    fn open(&self, path: &Path, access: Access) -> diskfs_block::Result<diskfs_block::File> {
        DirectOpener.open(path, access)
    }

    fn open_named(
        &self,
        named: &NamedFile<'_>,
        gate: &Gate,
    ) -> diskfs_block::Result<diskfs_block::File> {
        DirectOpener.open_named(named, gate)
    }

    fn named_device(&self, named: &NamedFile<'_>) -> Option<Arc<dyn BlockWrite>> {
        match named.named_for {
            NamedFor::Data => self.data.clone(),
            _ => self.backing.clone(),
        }
    }

    fn overlays_of(&self, _: &Path, _: &diskfs_block::File) -> Vec<String> {
        Vec::new()
    }
}

/// A file that logs its requests.
#[derive(Debug)]
struct Logged {
    inner: Arc<Memory>,
    file: FileRole,
    log: Option<Arc<Mutex<Log>>>,
}

impl Logged {
    /// Does a request and logs it, in the order in which requests are done.
    fn change(
        &self,
        event: Event,
        request: impl FnOnce(&Memory) -> diskfs_block::Result<()>,
    ) -> diskfs_block::Result<()> {
        let Some(log) = &self.log else {
            return request(&self.inner);
        };
        let mut log = lock(log);
        request(&self.inner)?;
        log.events.push((self.file, event));
        Ok(())
    }
}

impl BlockRead for Logged {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> diskfs_block::Result<()> {
        self.inner.read_at(offset, buf)
    }
}

impl BlockWrite for Logged {
    fn write_at(&self, offset: u64, buf: &[u8]) -> diskfs_block::Result<()> {
        let bytes = buf.into();
        self.change(Event::Write { offset, bytes }, |inner| {
            inner.write_at(offset, buf)
        })
    }

    fn write_zeroes(&self, offset: u64, len_bytes: u64) -> diskfs_block::Result<()> {
        self.change(Event::WriteZeroes { offset, len_bytes }, |inner| {
            inner.write_zeroes(offset, len_bytes)
        })
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> diskfs_block::Result<()> {
        self.change(Event::Discard { offset, len_bytes }, |inner| {
            inner.discard(offset, len_bytes)
        })
    }

    fn set_size(&self, size_bytes: u64) -> diskfs_block::Result<()> {
        self.inner.set_size(size_bytes)
    }

    fn flush(&self) -> diskfs_block::Result<()> {
        let Some(log) = &self.log else {
            return Ok(());
        };
        let mut log = lock(log);
        let is_dropped = match log.flushes {
            Flushes::Done => false,
            Flushes::OneDropped(of) => log.random.one_in(of),
        };
        if !is_dropped {
            log.events.push((self.file, Event::Flush));
        }
        Ok(())
    }
}

fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}
