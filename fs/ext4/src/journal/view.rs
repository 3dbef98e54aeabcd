//! A view of the device as it will be after the log is replayed.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Extent, ExtentKind, Result, check_bounds};

use crate::block::BlockSize;
use crate::bytes::{index, len_u64};

use super::block_header::MAGIC;
use super::replay::ReplayedRun;

/// A device whose blocks with a newer version in the log are read from the log. Nothing is copied,
/// neither to memory nor to the device.
///
/// A read without any of those blocks is one read of the device below.
#[derive(Debug)]
pub(crate) struct JournalView {
    device: Arc<dyn BlockRead>,
    block_size: BlockSize,
    runs: Box<[ReplayedRun]>,
}

/// A part of a read.
enum ReadPart<'a> {
    /// Bytes of the device below.
    Plain { len: usize },
    /// Bytes from the log, from byte `skip` of the run on.
    Replayed {
        run: &'a ReplayedRun,
        skip: u64,
        len: usize,
    },
}

impl JournalView {
    /// Returns the view of `device` with `runs`, which are sorted and do not overlap.
    pub(super) fn new(
        device: Arc<dyn BlockRead>,
        block_size: BlockSize,
        runs: Box<[ReplayedRun]>,
    ) -> Self {
        Self {
            device,
            block_size,
            runs,
        }
    }

    /// Writes all blocks that have a newer version in the log to their final places. Repeating it
    /// after a crash gives the same result, because the log is not changed.
    ///
    /// # Errors
    /// Returns the device's errors.
    pub(crate) fn write_to_final_places(&self, device: &dyn BlockWrite) -> Result<()> {
        /// The number of bytes copied at once.
        const PIECE_BYTES: u64 = 1 << 20;
        let mut buffer = Vec::new();
        for run in &self.runs {
            let (mut at, end) = (self.start_of(run), self.end_of(run));
            while at < end {
                let len_bytes = end.saturating_sub(at).min(PIECE_BYTES);
                buffer.resize(index(len_bytes), 0);
                self.read_at(at, &mut buffer)?;
                device.write_at(at, &buffer)?;
                at = at.saturating_add(len_bytes);
            }
        }
        Ok(())
    }

    fn start_of(&self, run: &ReplayedRun) -> u64 {
        self.block_size.byte_of(run.target)
    }

    fn end_of(&self, run: &ReplayedRun) -> u64 {
        let len_bytes = self.block_size.bytes_of(u64::from(run.len_blocks));
        self.start_of(run).saturating_add(len_bytes)
    }

    /// Returns the first run that ends after `offset`.
    fn first_run_after(&self, offset: u64) -> Option<&ReplayedRun> {
        let at = self.runs.partition_point(|run| self.end_of(run) <= offset);
        self.runs.get(at)
    }

    /// Returns the part with which a read of `len` bytes at `offset` begins.
    fn piece(&self, offset: u64, len: usize) -> ReadPart<'_> {
        let Some(run) = self.first_run_after(offset) else {
            return ReadPart::Plain { len };
        };
        let Some(skip) = offset.checked_sub(self.start_of(run)) else {
            let left = index(self.start_of(run).saturating_sub(offset));
            return ReadPart::Plain { len: len.min(left) };
        };
        let left = index(self.end_of(run).saturating_sub(offset));
        let len = len.min(left);
        ReadPart::Replayed { run, skip, len }
    }

    /// Returns true if the bytes from `offset` on are those of the device below, and for how many
    /// of `len_bytes` (at least one) the answer is valid.
    pub(crate) fn is_on_device(&self, offset: u64, len_bytes: u64) -> (bool, u64) {
        match self.piece(offset, index(len_bytes)) {
            ReadPart::Plain { len } => (true, u64::try_from(len).unwrap_or(u64::MAX)),
            ReadPart::Replayed { len, .. } => (false, u64::try_from(len).unwrap_or(u64::MAX)),
        }
    }

    fn read_replayed(&self, run: &ReplayedRun, skip: u64, buf: &mut [u8]) -> Result<()> {
        let source = self.block_size.byte_of(run.source).saturating_add(skip);
        self.device.read_at(source, buf)?;
        if run.escaped {
            // Such a run is a single block, so `skip` is the offset within it.
            let magic = MAGIC.to_be_bytes();
            let gone = magic.get(index(skip)..).unwrap_or_default();
            for (byte, magic) in buf.iter_mut().zip(gone) {
                *byte = *magic;
            }
        }
        Ok(())
    }
}

impl BlockRead for JournalView {
    fn size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_bounds(offset, len_u64(buf.len()), self.size_bytes())?;
        let mut offset = offset;
        let mut left = buf;
        while !left.is_empty() {
            let piece = self.piece(offset, left.len());
            let (ReadPart::Plain { len } | ReadPart::Replayed { len, .. }) = piece;
            // A piece is never longer than the rest.
            let Some((now, rest)) = left.split_at_mut_checked(len) else {
                break;
            };
            match piece {
                ReadPart::Plain { .. } => self.device.read_at(offset, now)?,
                ReadPart::Replayed { run, skip, .. } => self.read_replayed(run, skip, now)?,
            }
            left = rest;
            offset = offset.saturating_add(len_u64(len));
        }
        Ok(())
    }

    fn extent_at(&self, offset: u64) -> Result<Extent> {
        check_bounds(offset, 1, self.size_bytes())?;
        match self.piece(offset, usize::MAX) {
            ReadPart::Replayed { len, .. } => Ok(Extent {
                len_bytes: len_u64(len),
                kind: ExtentKind::Data,
            }),
            ReadPart::Plain { len } => {
                let extent = self.device.extent_at(offset)?;
                let len_bytes = extent.len_bytes.min(len_u64(len));
                Ok(Extent {
                    len_bytes,
                    ..extent
                })
            }
        }
    }

    fn block_size(&self) -> u32 {
        self.device.block_size()
    }

    fn will_need(&self, offset: u64, len_bytes: u64) {
        // The log has just been read, so the host has it cached.
        self.device.will_need(offset, len_bytes);
    }
}

#[cfg(test)]
mod tests {
    use diskfs_block::{ErrorKind, Memory};
    use proptest::prelude::*;

    use super::*;
    use crate::block::FsBlock;

    const BLOCKS: usize = 16;

    fn run(target: u64, source: u64, len_blocks: u32, escaped: bool) -> ReplayedRun {
        ReplayedRun {
            target: FsBlock(target),
            source: FsBlock(source),
            len_blocks,
            escaped,
        }
    }

    /// Returns a device of 16 blocks in which no two nearby bytes are equal, its view, and the
    /// expected contents of the view.
    fn view(runs: &[ReplayedRun]) -> (JournalView, Vec<u8>) {
        let bytes: Vec<u8> = (0..BLOCKS * 1024)
            .map(|n| u8::try_from(n % 251).unwrap())
            .collect();
        let mut expected = bytes.clone();
        for run in runs {
            let [target, source] = [run.target, run.source].map(|b| index(b.0) * 1024);
            let len = index(run.len_blocks) * 1024;
            expected[target..target + len].copy_from_slice(&bytes[source..source + len]);
            if run.escaped {
                expected[target..target + 4].copy_from_slice(&MAGIC.to_be_bytes());
            }
        }
        let device = Arc::new(Memory::new(bytes));
        let size = BlockSize::from_log(0).unwrap();
        (JournalView::new(device, size, runs.into()), expected)
    }

    fn runs() -> Vec<ReplayedRun> {
        vec![
            run(0, 9, 1, false),
            run(2, 10, 3, false),
            run(5, 14, 1, true),
            run(15, 8, 1, false),
        ]
    }

    proptest! {
        #[test]
        fn reads_as_if_replayed(start in 0..BLOCKS * 1024, len in 0..BLOCKS * 1024) {
            let (view, expected) = view(&runs());
            let end = (start + len).min(expected.len());
            let mut buf = vec![0xee; end - start];
            view.read_at(len_u64(start), &mut buf).unwrap();
            prop_assert_eq!(&buf, &expected[start..end]);
        }
    }

    #[test]
    fn the_magic_is_put_back_wherever_the_read_begins() {
        let (view, expected) = view(&runs());
        for start in 5 * 1024 - 3..5 * 1024 + 6 {
            for len in 0..8 {
                let mut buf = vec![0; len];
                view.read_at(len_u64(start), &mut buf).unwrap();
                assert_eq!(buf, expected[start..start + len], "{len} at {start}");
            }
        }
    }

    #[test]
    fn ends_where_the_device_does() {
        let (view, _) = view(&runs());
        let mut buf = [0; 2];
        let end = view.size_bytes();
        assert_eq!(
            view.read_at(end - 1, &mut buf).unwrap_err().kind(),
            ErrorKind::OutOfBounds
        );
        assert!(view.read_at(u64::MAX, &mut buf).is_err());
        assert!(view.extent_at(end).is_err());
    }

    #[test]
    fn extents_end_at_runs() {
        let (view, _) = view(&runs());
        let at = |offset| view.extent_at(offset).unwrap().len_bytes;
        assert_eq!(at(0), 1024);
        assert_eq!(at(1024), 1024);
        assert_eq!(at(2048 + 1), 3071);
        assert_eq!(at(6 * 1024), 9 * 1024);
    }
}
