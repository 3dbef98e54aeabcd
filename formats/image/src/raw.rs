//! The raw format: the file contains the guest's bytes.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use diskfs_block::{BlockRead, BlockWrite, Error, ErrorKind, File, Result};

use crate::Format;
use crate::layer::{Status, read_only};
use crate::numbers::{to_u64, to_usize};
use crate::probe::{HEAD_BYTES, of_head};
use crate::qcow2::Fill;

/// The number of zeroes to write at once for full preallocation.
const FILL_BYTES: u64 = 1 << 20;

/// A raw image. Its size is exactly the file's.
#[derive(Debug)]
pub(crate) struct Raw {
    file: Arc<dyn BlockRead>,
    /// The file of the host, if it is one.
    host: Option<Arc<File>>,
    pub(crate) writer: Option<RawWriter>,
}

impl Raw {
    pub(crate) const fn new(
        file: Arc<dyn BlockRead>,
        host: Option<Arc<File>>,
        writer: Option<RawWriter>,
    ) -> Self {
        Self { file, host, writer }
    }

    /// Returns the writing half, unless the image was opened read-only.
    pub(crate) fn writer(&self) -> Result<&RawWriter> {
        self.writer.as_ref().ok_or_else(read_only)
    }

    pub(crate) const fn host(&self) -> Option<&Arc<File>> {
        self.host.as_ref()
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.file.size_bytes()
    }

    pub(crate) fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.file.read_at(offset, buf)
    }

    /// Returns how a run is stored. Holes of the file are zeroes that are present, as in QEMU.
    pub(crate) fn status_at(&self, offset: u64, max_len: u64) -> Result<Status> {
        let extent = self.file.extent_at(offset)?;
        let zero = extent.kind.reads_as_zeroes();
        Ok(Status {
            len_bytes: extent.len_bytes.min(max_len),
            depth: 0,
            present: true,
            zero,
            data: !zero,
            compressed: false,
            host_offset: Some(offset),
        })
    }

    pub(crate) fn block_size(&self) -> u32 {
        self.file.block_size()
    }

    pub(crate) fn will_need(&self, offset: u64, len_bytes: u64) {
        self.file.will_need(offset, len_bytes);
    }
}

/// A writer of a raw image.
#[derive(Debug)]
pub(crate) struct RawWriter {
    file: Arc<dyn BlockWrite>,
    /// The lock that is held from checking the first bytes to the write that changes them; `None`
    /// for an image whose format was given, which may contain anything.
    head: Option<Mutex<()>>,
}

impl RawWriter {
    pub(crate) fn new(file: Arc<dyn BlockWrite>, probed: bool) -> Self {
        Self {
            file,
            head: probed.then(Mutex::default),
        }
    }

    pub(crate) fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let _head = self.keep_raw(offset, buf)?;
        self.file.write_at(offset, buf)
    }

    pub(crate) fn write_zeroes(&self, offset: u64, len_bytes: u64) -> Result<()> {
        let _head = self.keep_raw_zeroed(offset, len_bytes)?;
        self.file.write_zeroes(offset, len_bytes)
    }

    /// Makes a range read as zeroes by punching a hole if possible.
    pub(crate) fn unmap(&self, offset: u64, len_bytes: u64) -> Result<()> {
        let _head = self.keep_raw_zeroed(offset, len_bytes)?;
        self.file.unmap(offset, len_bytes)
    }

    /// Discards a range by punching a hole if possible, which reads as zeroes.
    pub(crate) fn discard(&self, offset: u64, len_bytes: u64) -> Result<()> {
        let _head = self.keep_raw_zeroed(offset, len_bytes)?;
        self.file.discard(offset, len_bytes)
    }

    pub(crate) fn flush(&self) -> Result<()> {
        self.file.flush()
    }

    /// Changes the size of the file durably. If it cannot be filled, it keeps its old size.
    pub(crate) fn resize(&self, size_bytes: u64, fill: Fill) -> Result<()> {
        let old_bytes = self.file.size_bytes();
        self.file.set_size(size_bytes)?;
        if fill == Fill::Zeroes
            && let Err(e) = self.fill(old_bytes..size_bytes)
        {
            self.file.set_size(old_bytes)?;
            return Err(e);
        }
        self.file.flush()
    }

    /// Writes zeroes. Asking the host for zeroes would only reserve space.
    fn fill(&self, range: Range<u64>) -> Result<()> {
        let zeroes = vec![0; to_usize(FILL_BYTES)];
        let mut at = range.start;
        while at < range.end {
            let len_bytes = FILL_BYTES.min(range.end.saturating_sub(at));
            let piece = zeroes.get(..to_usize(len_bytes)).unwrap_or_default();
            self.file.write_at(at, piece)?;
            at = at.saturating_add(len_bytes);
        }
        self.file.flush()
    }

    fn keep_raw_zeroed(&self, offset: u64, len_bytes: u64) -> Result<Option<MutexGuard<'_, ()>>> {
        let zeroes = [0; HEAD_BYTES];
        let len = to_usize(len_bytes).min(HEAD_BYTES);
        self.keep_raw(offset, zeroes.get(..len).unwrap_or(&zeroes))
    }

    /// Refuses a write after which a probed raw image would be probed as another format: a guest
    /// that writes a qcow2 header to its disk could choose which files of the host are read.
    fn keep_raw(&self, offset: u64, buf: &[u8]) -> Result<Option<MutexGuard<'_, ()>>> {
        let start = to_usize(offset);
        let Some(head) = self.head.as_ref().filter(|_| start < HEAD_BYTES) else {
            return Ok(None);
        };
        let held = head.lock().unwrap_or_else(PoisonError::into_inner);
        let len = to_usize(self.file.size_bytes().min(to_u64(HEAD_BYTES)));
        let mut after = vec![0; len];
        self.file.read_at(0, &mut after)?;
        for (new, old) in buf.iter().zip(after.iter_mut().skip(start)) {
            *old = *new;
        }
        if matches!(of_head(&after), Ok(Format::Raw)) {
            return Ok(Some(held));
        }
        let reason =
            "refusing a write that would make a disk probed as raw look like another format";
        Err(Error::new(ErrorKind::Denied, reason)
            .at(offset)
            .with_hint("use format=raw to allow it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskfs_block::Memory;

    fn writer(probed: bool) -> (Arc<Memory>, RawWriter) {
        let memory = Arc::new(Memory::new(vec![0; 4096]));
        (Arc::clone(&memory), RawWriter::new(memory, probed))
    }

    #[test]
    fn a_probed_disk_stays_raw() {
        let (memory, raw) = writer(true);
        raw.write_at(100, &[1; 1000]).unwrap();
        let e = raw.write_at(0, b"QFI\xfb\0\0\0\x03").unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Denied);
        assert!(e.to_string().contains("format=raw"), "{e}");
        // Writing the header in parts is refused, too.
        raw.write_at(0, b"QF").unwrap();
        raw.write_at(2, b"I").unwrap();
        assert!(raw.write_at(3, b"\xfb").is_err());
        raw.write_at(0, b"\xbe\xba\xfe\xca\x01").unwrap();
        assert!(raw.write_zeroes(4, 10).is_err());
        assert!(raw.discard(4, 4000).is_err());
        assert_eq!(&memory.to_vec()[..6], b"\xbe\xba\xfe\xca\x01\0");
    }

    #[test]
    fn a_disk_that_is_given_as_raw_holds_anything() {
        let (memory, raw) = writer(false);
        raw.write_at(0, b"QFI\xfb\0\0\0\x03").unwrap();
        assert_eq!(&memory.to_vec()[..4], b"QFI\xfb");
    }
}
