//! Copy-on-write over a device that is never written.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use crate::device::len_of;
use crate::range_map::RangeMap;
use crate::{
    BlockRead, BlockWrite, Error, ErrorKind, Extent, ExtentKind, File, Result, check_bounds,
};

/// A writable device over a read-only one. Changes are kept in memory or in a temporary file, and
/// are dropped together with the overlay.
///
/// Readers run in parallel; a writer is alone. Zeroes take no space.
pub struct Overlay {
    base: Arc<dyn BlockRead>,
    /// The changed ranges, locked shared for the whole of a read, also while the base is read, so
    /// that no reader sees a half-written block. Under this lock only the base's own locks are
    /// taken.
    state: RwLock<OverlayState>,
}

struct OverlayState {
    changed: RangeMap<Content>,
    store: Store,
}

/// The replacement of the base's bytes in a range of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Stored,
    Zero,
}

/// The storage for the bytes of changed blocks.
enum Store {
    Memory {
        blocks: HashMap<u64, Box<[u8]>>,
        limit_blocks: usize,
    },
    /// A sparse file with each block at the offset that it has on the device. The file is unlinked.
    File(File),
}

/// A range that an [`Overlay`] changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangedRange {
    /// The offset of the range in bytes.
    pub offset: u64,
    /// The length in bytes; never zero.
    pub len_bytes: u64,
    /// The kind of the change: [`ExtentKind::Data`] or [`ExtentKind::Zero`].
    pub kind: ExtentKind,
}

/// The unit of copying: the usual block size of filesystems.
const BLOCK_BYTES: u64 = 4096;

impl Overlay {
    /// Creates an overlay that keeps its changes in memory, at most about `limit_bytes` of them.
    /// Zeroes do not count.
    pub fn in_memory(base: Arc<dyn BlockRead>, limit_bytes: u64) -> Self {
        let limit_blocks = index(limit_bytes / BLOCK_BYTES);
        let blocks = HashMap::new();
        Self::over(
            base,
            Store::Memory {
                blocks,
                limit_blocks,
            },
        )
    }

    /// Creates an overlay that keeps its changes in an unlinked file in `directory`. The file
    /// disappears with the process, however that ends.
    ///
    /// # Errors
    /// Host errors when the file cannot be created.
    pub fn in_file(base: Arc<dyn BlockRead>, directory: &Path) -> Result<Self> {
        let failed = |e: std::io::Error| Error::from(e).in_file(directory);
        let file = tempfile::tempfile_in(directory).map_err(failed)?;
        file.set_len(base.size_bytes()).map_err(failed)?;
        let file = File::from_fd(file.into(), directory.join("(overlay)"))?;
        Ok(Self::over(base, Store::File(file)))
    }

    fn over(base: Arc<dyn BlockRead>, store: Store) -> Self {
        Self {
            base,
            state: RwLock::new(OverlayState {
                changed: RangeMap::default(),
                store,
            }),
        }
    }

    /// Returns the ranges that differ from the base, in order and in whole blocks. A range that was
    /// written counts as changed even if its bytes are the same as before.
    pub fn changed(&self) -> impl Iterator<Item = ChangedRange> + use<> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let ranges: Vec<ChangedRange> = state
            .changed
            .iter()
            .map(|(blocks, content)| {
                let bytes = self.bytes_of(&blocks);
                ChangedRange {
                    offset: bytes.start,
                    len_bytes: bytes.end.saturating_sub(bytes.start),
                    kind: content.kind(),
                }
            })
            .collect();
        ranges.into_iter()
    }

    /// Returns the bytes of a range of blocks. The device's last block may be shorter than the
    /// others.
    fn bytes_of(&self, blocks: &Range<u64>) -> Range<u64> {
        let size_bytes = self.base.size_bytes();
        let at = |block: u64| block.saturating_mul(BLOCK_BYTES).min(size_bytes);
        at(blocks.start)..at(blocks.end)
    }

    /// Returns the whole blocks within a range of bytes. A shorter block at the device's end counts
    /// as whole.
    fn whole_blocks(&self, bytes: &Range<u64>) -> Range<u64> {
        let start = bytes.start.div_ceil(BLOCK_BYTES);
        let end = if bytes.end == self.base.size_bytes() {
            bytes.end.div_ceil(BLOCK_BYTES)
        } else {
            block_of(bytes.end)
        };
        start..end.max(start)
    }

    /// Reads a range of bytes under the lock, each part from where it is stored.
    fn read_under(&self, state: &OverlayState, offset: u64, buf: &mut [u8]) -> Result<()> {
        let end = offset.saturating_add(len_of(buf));
        let mut at = offset;
        let mut rest = buf;
        while !rest.is_empty() {
            let last_block = block_of(end.saturating_sub(1)).saturating_add(1);
            let found = state.changed.find(block_of(at), last_block);
            let run_end = self.bytes_of(&(found.end..found.end)).start.min(end);
            let len = index(run_end.saturating_sub(at)).min(rest.len());
            let (piece, after) = rest.split_at_mut(len);
            match found.value {
                None => self.base.read_at(at, piece)?,
                Some(Content::Zero) => piece.fill(0),
                Some(Content::Stored) => state.store.read(at, piece)?,
            }
            at = run_end;
            rest = after;
        }
        Ok(())
    }

    /// Writes a part of one block and keeps the rest of it.
    fn write_part(&self, state: &mut OverlayState, offset: u64, piece: &[u8]) -> Result<()> {
        let block = block_of(offset);
        let bytes = self.bytes_of(&(block..block.saturating_add(1)));
        let mut whole = vec![0; index(bytes.end.saturating_sub(bytes.start))];
        self.read_under(state, bytes.start, &mut whole)?;
        let start = index(offset.saturating_sub(bytes.start));
        if let Some(target) = whole.get_mut(start..start.saturating_add(piece.len())) {
            target.copy_from_slice(piece);
        }
        state.write_whole(block, &whole)
    }

    /// Makes whole blocks zero and frees their storage.
    fn zero_whole(&self, state: &mut OverlayState, blocks: Range<u64>) {
        let bytes = self.bytes_of(&blocks);
        state.store.free(&blocks, &bytes);
        state.changed.insert(blocks, Content::Zero);
    }

    /// Returns the parts of a range before and after its whole blocks.
    fn edges(&self, bytes: &Range<u64>) -> (Range<u64>, Range<u64>, [Range<u64>; 2]) {
        let blocks = self.whole_blocks(bytes);
        if blocks.is_empty() {
            // The range lies within one block, or crosses the border of two without filling either.
            let middle = blocks.start.saturating_mul(BLOCK_BYTES);
            let middle = middle.clamp(bytes.start, bytes.end);
            let edges = [bytes.start..middle, middle..bytes.end];
            return (blocks, middle..middle, edges);
        }
        let whole = self.bytes_of(&blocks);
        let edges = [bytes.start..whole.start, whole.end..bytes.end];
        (blocks, whole, edges)
    }
}

impl Content {
    const fn kind(self) -> ExtentKind {
        match self {
            Self::Stored => ExtentKind::Data,
            Self::Zero => ExtentKind::Zero,
        }
    }
}

impl OverlayState {
    /// Writes whole blocks from `block` on.
    fn write_whole(&mut self, block: u64, bytes: &[u8]) -> Result<()> {
        let count = len_of(bytes).div_ceil(BLOCK_BYTES);
        self.store.write(block, bytes)?;
        let blocks = block..block.saturating_add(count);
        self.changed.insert(blocks, Content::Stored);
        Ok(())
    }
}

impl Store {
    /// Reads within a run of stored blocks.
    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let blocks = match self {
            Self::File(file) => return file.read_at(offset, buf),
            Self::Memory { blocks, .. } => blocks,
        };
        let mut at = offset;
        let mut rest = buf;
        while !rest.is_empty() {
            let skip = index(at % BLOCK_BYTES);
            let stored = blocks.get(&(at / BLOCK_BYTES));
            let stored = stored
                .and_then(|block| block.get(skip..))
                .unwrap_or_default();
            let len = stored.len().min(rest.len());
            if len == 0 {
                let reason = "the overlay has no contents for a block that is marked as stored";
                return Err(Error::new(ErrorKind::Io, reason).at(at));
            }
            let (piece, after) = rest.split_at_mut(len);
            piece.copy_from_slice(stored.get(..len).unwrap_or_default());
            at = at.saturating_add(len_of(piece));
            rest = after;
        }
        Ok(())
    }

    /// Writes whole blocks to the storage.
    fn write(&mut self, block: u64, bytes: &[u8]) -> Result<()> {
        let offset = block.saturating_mul(BLOCK_BYTES);
        let (blocks, limit) = match self {
            Self::File(file) => return file.write_at(offset, bytes),
            Self::Memory {
                blocks,
                limit_blocks,
            } => (blocks, *limit_blocks),
        };
        let pieces = || (block..).zip(bytes.chunks(index(BLOCK_BYTES)));
        let added = pieces().filter(|(n, _)| !blocks.contains_key(n)).count();
        if blocks.len().saturating_add(added) > limit {
            let reason = format!(
                "no space left in the overlay: at most {limit} changed blocks fit in memory"
            );
            return Err(Error::new(ErrorKind::NoSpace, reason).at(offset));
        }
        for (number, piece) in pieces() {
            blocks.insert(number, piece.into());
        }
        Ok(())
    }

    /// Frees the storage of blocks that will not be read any more.
    fn free(&mut self, numbers: &Range<u64>, bytes: &Range<u64>) {
        let blocks = match self {
            Self::File(file) => {
                // A failure only costs space: on a host filesystem without holes it stays
                // allocated.
                let _ = file.discard(bytes.start, bytes.end.saturating_sub(bytes.start));
                return;
            }
            Self::Memory { blocks, .. } => blocks,
        };
        let count = numbers.end.saturating_sub(numbers.start);
        if count > u64::try_from(blocks.len()).unwrap_or(u64::MAX) {
            blocks.retain(|number, _| !numbers.contains(number));
        } else {
            for number in numbers.clone() {
                blocks.remove(&number);
            }
        }
    }
}

/// Returns the block that contains a byte.
const fn block_of(offset: u64) -> u64 {
    offset / BLOCK_BYTES
}

/// Converts a number of bytes or blocks that fits in memory.
fn index(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

impl std::fmt::Debug for Overlay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Overlay")
            .field("base", &self.base)
            .finish_non_exhaustive()
    }
}

impl BlockRead for Overlay {
    fn size_bytes(&self) -> u64 {
        self.base.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_bounds(offset, len_of(buf), self.size_bytes())?;
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        self.read_under(&state, offset, buf)
    }

    fn extent_at(&self, offset: u64) -> Result<Extent> {
        let size_bytes = self.size_bytes();
        check_bounds(offset, 1, size_bytes)?;
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let last_block = size_bytes.div_ceil(BLOCK_BYTES);
        let found = state.changed.find(block_of(offset), last_block);
        let end = self.bytes_of(&(found.end..found.end)).start;
        let len_bytes = end.saturating_sub(offset);
        if let Some(content) = found.value {
            return Ok(Extent {
                len_bytes,
                kind: content.kind(),
            });
        }
        let below = self.base.extent_at(offset)?;
        Ok(Extent {
            len_bytes: below.len_bytes.min(len_bytes),
            ..below
        })
    }

    fn block_size(&self) -> u32 {
        u32::try_from(BLOCK_BYTES).unwrap_or(512)
    }

    fn will_need(&self, offset: u64, len_bytes: u64) {
        self.base.will_need(offset, len_bytes);
    }
}

impl BlockWrite for Overlay {
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        check_bounds(offset, len_of(buf), self.size_bytes())?;
        let bytes = offset..offset.saturating_add(len_of(buf));
        let (blocks, whole, edges) = self.edges(&bytes);
        let piece = |part: &Range<u64>| {
            let at = |place: u64| index(place.saturating_sub(offset));
            buf.get(at(part.start)..at(part.end)).unwrap_or_default()
        };
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        for edge in edges.iter().filter(|edge| !edge.is_empty()) {
            self.write_part(&mut state, edge.start, piece(edge))?;
        }
        if !blocks.is_empty() {
            state.write_whole(blocks.start, piece(&whole))?;
        }
        Ok(())
    }

    /// Marks whole blocks as zero, which takes no space; writes the rest.
    fn write_zeroes(&self, offset: u64, len_bytes: u64) -> Result<()> {
        check_bounds(offset, len_bytes, self.size_bytes())?;
        let (blocks, _, edges) = self.edges(&(offset..offset.saturating_add(len_bytes)));
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        for edge in edges.iter().filter(|edge| !edge.is_empty()) {
            // The edge of a range is shorter than a block.
            let zeroes = vec![0; index(edge.end.saturating_sub(edge.start))];
            self.write_part(&mut state, edge.start, &zeroes)?;
        }
        if !blocks.is_empty() {
            self.zero_whole(&mut state, blocks);
        }
        Ok(())
    }

    /// Marks whole blocks within the range as zero, which takes no space.
    fn discard(&self, offset: u64, len_bytes: u64) -> Result<()> {
        check_bounds(offset, len_bytes, self.size_bytes())?;
        let blocks = self.whole_blocks(&(offset..offset.saturating_add(len_bytes)));
        if !blocks.is_empty() {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            self.zero_whole(&mut state, blocks);
        }
        Ok(())
    }

    /// Does nothing: an overlay's changes are not meant to outlive it.
    fn flush(&self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;
    use proptest::prelude::*;

    fn pattern(len: usize) -> Vec<u8> {
        (0..len)
            .map(|i| u8::try_from(i % 251).unwrap() | 1)
            .collect()
    }

    fn overlays(bytes: &[u8]) -> [Overlay; 2] {
        let base: Arc<dyn BlockRead> = Arc::new(Memory::new(bytes));
        [
            Overlay::in_memory(Arc::clone(&base), 1 << 30),
            Overlay::in_file(base, &std::env::temp_dir()).unwrap(),
        ]
    }

    #[test]
    fn the_base_stays_as_it_is() {
        let base = Arc::new(Memory::new(pattern(10_000)));
        let overlay = Overlay::in_memory(Arc::<Memory>::clone(&base), 1 << 20);
        overlay.write_at(4000, &[0xaa; 200]).unwrap();
        overlay.write_zeroes(0, 10_000).unwrap();
        assert_eq!(base.to_vec(), pattern(10_000));
        let mut b = vec![1; 10_000];
        overlay.read_at(0, &mut b).unwrap();
        assert_eq!(b, vec![0; 10_000]);
        overlay.flush().unwrap();
    }

    #[test]
    fn changed_ranges_and_extents_are_merged() {
        for overlay in overlays(&pattern(100_000)) {
            overlay.write_at(8192, &[1; 4096]).unwrap();
            overlay.write_at(12_288, &[1]).unwrap();
            overlay.write_zeroes(20_480, 8192).unwrap();
            overlay.write_at(99_999, &[1]).unwrap();
            let changed: Vec<_> = overlay
                .changed()
                .map(|r| (r.offset, r.len_bytes, r.kind))
                .collect();
            assert_eq!(
                changed,
                [
                    (8192, 8192, ExtentKind::Data),
                    (20_480, 8192, ExtentKind::Zero),
                    (98_304, 1696, ExtentKind::Data),
                ]
            );
            let extent = |offset| {
                let e = overlay.extent_at(offset).unwrap();
                (e.len_bytes, e.kind)
            };
            assert_eq!(extent(10), (8182, ExtentKind::Data));
            assert_eq!(extent(9000), (7384, ExtentKind::Data));
            assert_eq!(extent(20_481), (8191, ExtentKind::Zero));
            assert_eq!(extent(99_999), (1, ExtentKind::Data));
            assert!(overlay.extent_at(100_000).is_err());
        }
    }

    #[test]
    fn zeroes_of_any_length_take_no_room() {
        #[derive(Debug)]
        struct Huge;
        impl BlockRead for Huge {
            fn size_bytes(&self) -> u64 {
                1 << 60
            }
            fn read_at(&self, _: u64, buf: &mut [u8]) -> Result<()> {
                buf.fill(7);
                Ok(())
            }
        }
        let overlay = Overlay::in_memory(Arc::new(Huge), 8192);
        overlay.write_zeroes(1, (1 << 60) - 2).unwrap();
        overlay.discard(0, 1 << 59).unwrap();
        let mut b = [1; 3];
        overlay.read_at(1 << 50, &mut b).unwrap();
        assert_eq!(b, [0; 3]);
        overlay.read_at((1 << 60) - 3, &mut b).unwrap();
        assert_eq!(b, [0, 0, 7]);
    }

    #[test]
    fn a_full_overlay_says_so() {
        let overlay = Overlay::in_memory(Arc::new(Memory::new(vec![0; 1 << 20])), 8192);
        overlay.write_at(0, &[1; 8192]).unwrap();
        overlay.write_at(4096, &[2; 100]).unwrap();
        let e = overlay.write_at(500_000, &[1]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NoSpace);
        overlay.discard(0, 4096).unwrap();
        overlay.write_at(500_000, &[1]).unwrap();
    }

    #[test]
    fn its_file_has_no_name() {
        let directory = tempfile::tempdir().unwrap();
        let base = Arc::new(Memory::new(vec![0; 1 << 20]));
        let overlay = Overlay::in_file(base, directory.path()).unwrap();
        overlay.write_at(0, &[1; 8192]).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        let e = Overlay::in_file(Arc::new(overlay), &directory.path().join("no")).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn readers_never_see_half_a_block() {
        for overlay in overlays(&vec![0; 64 << 10]) {
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        for _ in 0..500 {
                            let mut b = [0; 4096];
                            overlay.read_at(4096, &mut b).unwrap();
                            assert!(b.iter().all(|&byte| byte == b[0]));
                        }
                    });
                }
                for value in 1..=100 {
                    overlay.write_at(4096, &[value; 4096]).unwrap();
                }
            });
        }
    }

    proptest! {
        #[test]
        fn behaves_as_a_copy(size in 1_usize..40_000, steps in prop::collection::vec(
            (0_u8..6, any::<u64>(), 0_usize..20_000, any::<u8>()), 1..30,
        )) {
            for overlay in overlays(&pattern(size)) {
                let mut model = pattern(size);
                for &(step, offset, len, value) in &steps {
                    let start = usize::try_from(offset % (size as u64 + 1)).unwrap();
                    let len = len.min(size - start);
                    let there = start..start + len;
                    let at = start as u64;
                    match step {
                        0 | 1 => {
                            overlay.write_at(at, &vec![value; len]).unwrap();
                            model[there].fill(value);
                        }
                        2 => {
                            overlay.write_zeroes(at, len as u64).unwrap();
                            model[there].fill(0);
                        }
                        3 => {
                            overlay.discard(at, len as u64).unwrap();
                            // The contents are unspecified, but they must stay the same from then
                            // on.
                            overlay.read_at(at, &mut model[there]).unwrap();
                        }
                        _ => {
                            let mut b = vec![0; len];
                            overlay.read_at(at, &mut b).unwrap();
                            prop_assert_eq!(&b, &model[there]);
                        }
                    }
                }
                // Ranges that are not reported as changed have the base's bytes, and extents report
                // zeroes correctly.
                let base = pattern(size);
                let mut at = 0;
                for range in overlay.changed() {
                    let start = usize::try_from(range.offset).unwrap();
                    prop_assert_eq!(&model[at..start], &base[at..start]);
                    at = start + usize::try_from(range.len_bytes).unwrap();
                }
                prop_assert_eq!(&model[at..], &base[at..]);
                let mut at = 0;
                while at < size {
                    let extent = overlay.extent_at(at as u64).unwrap();
                    let end = at + usize::try_from(extent.len_bytes).unwrap();
                    prop_assert!(!extent.kind.reads_as_zeroes() || model[at..end].iter().all(|&b| b == 0));
                    at = end;
                }
                prop_assert_eq!(at, size);
            }
        }
    }
}
