//! A cache of another device's blocks in memory.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use quick_cache::Weighter;
use quick_cache::sync::Cache as Shards;

use crate::device::len_of;
use crate::{BlockRead, BlockWrite, Error, Extent, Result, check_bounds};

/// A cache of a device's blocks with a byte budget. It is meant for metadata, which is read in
/// small pieces and more than once. File contents are cached by the kernel, so long reads bypass
/// this cache.
///
/// Reads of cached blocks take no lock but a shard's. Neighbouring missing blocks are fetched in
/// one read. Writes go through: the device below has them before the call returns.
#[derive(Debug)]
pub struct Cache<D: ?Sized = dyn BlockRead> {
    blocks: Shards<u64, Arc<[u8]>, ByBytes>,
    block_bytes: u64,
    bypass_bytes: usize,
    size_bytes: u64,
    counters: Counters,
    /// The lock that keeps stale blocks out of the cache. A fetch holds it shared from its read
    /// below until its blocks are cached; a write holds it exclusively. Otherwise a block that was
    /// read before a write could be cached after it. Taken before any shard's lock.
    writing: RwLock<()>,
    inner: Arc<D>,
}

/// The settings of a [`Cache`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheOptions {
    /// The approximate number of bytes to cache.
    pub budget_bytes: u64,
    /// The size of a cached block: a power of two from 512 bytes to 1 MiB.
    pub block_bytes: u32,
    /// The length from which on reads and writes bypass the cache.
    pub bypass_bytes: usize,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            budget_bytes: 8 << 20,
            block_bytes: 4096,
            bypass_bytes: 128 << 10,
        }
    }
}

/// The hit, miss and read counters of a [`Cache`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStatistics {
    /// The number of blocks that were found in the cache.
    pub hits: u64,
    /// The number of blocks that were missing from the cache.
    pub misses: u64,
    /// The number of reads that bypassed the cache because they were long.
    pub bypasses: u64,
    /// The number of reads of the device below.
    pub reads_below: u64,
    /// The number of bytes that were read from the device below.
    pub read_bytes_below: u64,
    /// The number of bytes that are cached now.
    pub kept_bytes: u64,
}

#[derive(Debug, Default)]
struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
    bypasses: AtomicU64,
    reads_below: AtomicU64,
    read_bytes_below: AtomicU64,
}

#[derive(Debug, Clone, Copy)]
struct ByBytes;

impl Weighter<u64, Arc<[u8]>> for ByBytes {
    fn weight(&self, _: &u64, block: &Arc<[u8]>) -> u64 {
        /// The overhead of a block besides its bytes: reference counts, key and the shard's own
        /// entry.
        const ENTRY_BYTES: u64 = 64;
        len_of(block).saturating_add(ENTRY_BYTES)
    }
}

/// Converts a number of bytes that is at most a buffer's length to an index.
fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

impl<D: BlockRead + ?Sized> Cache<D> {
    /// Creates an empty cache of the blocks of `inner`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the block size is not a power of two
    /// from 512 bytes to 1 MiB.
    pub fn new(inner: Arc<D>, options: CacheOptions) -> Result<Self> {
        let block = options.block_bytes;
        if !block.is_power_of_two() || !(512..=1 << 20).contains(&block) {
            let reason =
                format!("invalid block size {block}: expected a power of two from 512 to 1048576");
            return Err(Error::invalid(reason).with_hint("choose another block size for the cache"));
        }
        let block_bytes = u64::from(block);
        let items = index(options.budget_bytes >> block.trailing_zeros());
        Ok(Self {
            blocks: Shards::with_weighter(items, options.budget_bytes, ByBytes),
            block_bytes,
            bypass_bytes: options.bypass_bytes,
            size_bytes: inner.size_bytes(),
            counters: Counters::default(),
            writing: RwLock::new(()),
            inner,
        })
    }

    /// Returns the counters since the cache was created.
    pub fn statistics(&self) -> CacheStatistics {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CacheStatistics {
            hits: of(&self.counters.hits),
            misses: of(&self.counters.misses),
            bypasses: of(&self.counters.bypasses),
            reads_below: of(&self.counters.reads_below),
            read_bytes_below: of(&self.counters.read_bytes_below),
            kept_bytes: self.blocks.weight(),
        }
    }

    /// Drops all cached blocks.
    pub fn clear(&self) {
        self.blocks.clear();
    }

    /// Returns the blocks that `len_bytes` at `offset` touch.
    fn blocks_of(&self, offset: u64, len_bytes: u64) -> Range<u64> {
        let first = offset.checked_div(self.block_bytes).unwrap_or(0);
        let end = offset.saturating_add(len_bytes).div_ceil(self.block_bytes);
        first..end.max(first)
    }

    /// Returns the bytes of a run of blocks. The device's last block may be shorter than the
    /// others.
    fn bytes_of(&self, blocks: &Range<u64>) -> Range<u64> {
        let at = |block: u64| block.saturating_mul(self.block_bytes).min(self.size_bytes);
        at(blocks.start)..at(blocks.end)
    }

    /// Reads a run of blocks from the device below, caches them, and copies the bytes from `offset`
    /// on to `buf`.
    fn fetch(&self, run: &Range<u64>, offset: u64, buf: &mut [u8]) -> Result<()> {
        let bytes = self.bytes_of(run);
        let mut fetched = vec![0; index(bytes.end.saturating_sub(bytes.start))];
        let guard = self.writing.read().unwrap_or_else(PoisonError::into_inner);
        add(&self.counters.reads_below, 1);
        add(&self.counters.read_bytes_below, len_of(&fetched));
        self.inner.read_at(bytes.start, &mut fetched)?;
        for (block, piece) in run.clone().zip(fetched.chunks(index(self.block_bytes))) {
            self.blocks.insert(block, piece.into());
        }
        drop(guard);
        copy_overlap(&fetched, bytes.start, buf, offset);
        Ok(())
    }

    fn read_cached(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        if buf.is_empty() {
            return Ok(());
        }
        let all = self.blocks_of(offset, len_of(buf));
        let count = all.end.saturating_sub(all.start);
        let mut missing: Option<Range<u64>> = None;
        let mut misses = 0_u64;
        for block in all {
            if let Some(kept) = self.blocks.get(&block) {
                if let Some(run) = missing.take() {
                    self.fetch(&run, offset, buf)?;
                }
                copy_overlap(&kept, block.saturating_mul(self.block_bytes), buf, offset);
            } else {
                misses = misses.saturating_add(1);
                let start = missing.map_or(block, |run| run.start);
                missing = Some(start..block.saturating_add(1));
            }
        }
        if let Some(run) = missing {
            self.fetch(&run, offset, buf)?;
        }
        add(&self.counters.misses, misses);
        add(&self.counters.hits, count.saturating_sub(misses));
        Ok(())
    }
}

/// Copies the bytes that two ranges of a device have in common.
fn copy_overlap(from: &[u8], from_offset: u64, to: &mut [u8], to_offset: u64) {
    let start = from_offset.max(to_offset);
    let from_end = from_offset.saturating_add(len_of(from));
    let end = from_end.min(to_offset.saturating_add(len_of(to)));
    let within = |base: u64| index(start.saturating_sub(base))..index(end.saturating_sub(base));
    if start < end
        && let Some(source) = from.get(within(from_offset))
        && let Some(target) = to.get_mut(within(to_offset))
    {
        target.copy_from_slice(source);
    }
}

impl<D: BlockRead + ?Sized> BlockRead for Cache<D> {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_bounds(offset, len_of(buf), self.size_bytes)?;
        if buf.len() < self.bypass_bytes {
            return self.read_cached(offset, buf);
        }
        add(&self.counters.bypasses, 1);
        add(&self.counters.reads_below, 1);
        add(&self.counters.read_bytes_below, len_of(buf));
        self.inner.read_at(offset, buf)
    }

    fn extent_at(&self, offset: u64) -> Result<Extent> {
        self.inner.extent_at(offset)
    }

    fn stored_at(&self, offset: u64) -> Result<Extent> {
        self.inner.stored_at(offset)
    }

    fn block_size(&self) -> u32 {
        u32::try_from(self.block_bytes).unwrap_or(512)
    }

    fn will_need(&self, offset: u64, len_bytes: u64) {
        self.inner.will_need(offset, len_bytes);
    }
}

impl<D: BlockWrite + ?Sized> Cache<D> {
    /// Runs `write` on the device below while no block is being fetched, then `settle` with the
    /// result.
    fn alone(
        &self,
        (offset, len_bytes): (u64, u64),
        write: impl FnOnce(&D) -> Result<()>,
        settle: impl FnOnce(&Self, &Result<()>),
    ) -> Result<()> {
        check_bounds(offset, len_bytes, self.size_bytes)?;
        let _alone = self.writing.write().unwrap_or_else(PoisonError::into_inner);
        let written = write(&self.inner);
        settle(self, &written);
        written
    }

    /// Drops the cached blocks of a range.
    fn forget(&self, offset: u64, len_bytes: u64) {
        let touched = self.blocks_of(offset, len_bytes);
        let count = touched.end.saturating_sub(touched.start);
        if count > u64::try_from(self.blocks.len()).unwrap_or(u64::MAX) {
            self.blocks.retain(|block, _| !touched.contains(block));
        } else {
            for block in touched {
                self.blocks.remove(&block);
            }
        }
    }

    /// Brings the cached blocks up to date after `buf` was written to the device below.
    fn update(&self, offset: u64, buf: &[u8]) {
        for block in self.blocks_of(offset, len_of(buf)) {
            let Some(kept) = self.blocks.peek(&block) else {
                continue;
            };
            let mut bytes = kept.to_vec();
            let start = block.saturating_mul(self.block_bytes);
            copy_overlap(buf, offset, &mut bytes, start);
            self.blocks.insert(block, bytes.into());
        }
    }
}

impl<D: BlockWrite + ?Sized> BlockWrite for Cache<D> {
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let range = (offset, len_of(buf));
        let write = |below: &D| below.write_at(offset, buf);
        self.alone(range, write, |cache, written| {
            if written.is_ok() && buf.len() < cache.bypass_bytes {
                cache.update(offset, buf);
            } else {
                // After a failed write the contents of the device below are unknown.
                cache.forget(offset, len_of(buf));
            }
        })
    }

    fn write_zeroes(&self, offset: u64, len_bytes: u64) -> Result<()> {
        let write = |below: &D| below.write_zeroes(offset, len_bytes);
        self.alone((offset, len_bytes), write, |cache, _| {
            cache.forget(offset, len_bytes);
        })
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<()> {
        let write = |below: &D| below.discard(offset, len_bytes);
        self.alone((offset, len_bytes), write, |cache, _| {
            cache.forget(offset, len_bytes);
        })
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Counting, ErrorKind, Fault, Faulty, Memory};
    use proptest::prelude::*;

    const OPTIONS: CacheOptions = CacheOptions {
        budget_bytes: 64 << 10,
        block_bytes: 512,
        bypass_bytes: 4096,
    };

    fn pattern(len: usize) -> Vec<u8> {
        (0..len)
            .map(|i| u8::try_from(i * 7 % 251).unwrap())
            .collect()
    }

    #[test]
    fn reads_below_once_and_a_run_in_one_go() {
        let below = Arc::new(Counting::new(Arc::new(Memory::new(pattern(10_000)))));
        let cache = Cache::new(Arc::clone(&below), OPTIONS).unwrap();
        let mut b = [0; 1500];
        cache.read_at(700, &mut b).unwrap();
        assert_eq!(b, pattern(10_000)[700..2200]);
        assert_eq!(
            (below.counts().reads, below.counts().read_bytes),
            (1, 4 * 512)
        );
        cache.read_at(600, &mut b).unwrap();
        assert_eq!(below.counts().reads, 1);
        // A hit between two misses: two reads below, and no block is read twice.
        let mut b = [0; 3000];
        cache.read_at(0, &mut b).unwrap();
        assert_eq!(b, pattern(10_000)[..3000]);
        assert_eq!(
            (below.counts().reads, below.counts().read_bytes),
            (3, 6 * 512)
        );
        let s = cache.statistics();
        assert_eq!((s.hits, s.misses, s.reads_below, s.bypasses), (8, 6, 3, 0));
        assert!(s.kept_bytes >= 6 * 512);
    }

    #[test]
    fn long_reads_pass_by() {
        let below = Arc::new(Counting::new(Arc::new(Memory::new(pattern(10_000)))));
        let cache = Cache::new(Arc::clone(&below), OPTIONS).unwrap();
        let mut b = vec![0; 4096];
        cache.read_at(1, &mut b).unwrap();
        cache.read_at(1, &mut b).unwrap();
        assert_eq!(below.counts().reads, 2);
        assert_eq!(
            (cache.statistics().bypasses, cache.statistics().kept_bytes),
            (2, 0)
        );
    }

    #[test]
    fn the_last_block_may_be_cut() {
        let cache = Cache::new(Arc::new(Memory::new(pattern(1000))), OPTIONS).unwrap();
        let mut b = [0; 100];
        for _ in 0..2 {
            cache.read_at(900, &mut b).unwrap();
            assert_eq!(b, pattern(1000)[900..]);
        }
        assert_eq!(
            cache.read_at(901, &mut b).unwrap_err().kind(),
            ErrorKind::OutOfBounds
        );
        cache.read_at(1000, &mut []).unwrap();
    }

    #[test]
    fn keeps_to_its_budget() {
        let cache = Cache::new(Arc::new(Memory::new(vec![0; 1 << 20])), OPTIONS).unwrap();
        for offset in (0..1 << 20).step_by(512) {
            cache.read_at(offset, &mut [0]).unwrap();
        }
        let kept = cache.statistics().kept_bytes;
        assert!((32 << 10..=64 << 10).contains(&kept), "{kept}");
        cache.clear();
        assert_eq!(cache.statistics().kept_bytes, 0);
        let none = CacheOptions {
            budget_bytes: 0,
            ..OPTIONS
        };
        let cache = Cache::new(Arc::new(Memory::new(vec![3; 9000])), none).unwrap();
        let mut b = [0; 10];
        cache.read_at(0, &mut b).unwrap();
        assert_eq!(b, [3; 10]);
    }

    #[test]
    fn refuses_odd_block_sizes() {
        for block_bytes in [0, 1, 256, 513, 4097, 2 << 20] {
            let options = CacheOptions {
                block_bytes,
                ..OPTIONS
            };
            let e = Cache::new(Arc::new(Memory::new([0])), options).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Invalid);
        }
    }

    #[test]
    fn a_write_that_fails_below_leaves_nothing_stale() {
        let torn = Fault::TornWrite {
            nth: 0,
            keep_bytes: 3,
        };
        let below = Faulty::new(Arc::new(Memory::new(vec![0; 2048])), [torn]);
        let cache = Cache::new(Arc::new(below), OPTIONS).unwrap();
        let mut b = [9; 8];
        cache.read_at(0, &mut b).unwrap();
        assert!(cache.write_at(0, &[1; 8]).is_err());
        cache.read_at(0, &mut b).unwrap();
        assert_eq!(b, [1, 1, 1, 0, 0, 0, 0, 0]);
    }

    /// A block that was read before a write must not be cached after it.
    #[test]
    fn no_thread_sees_old_bytes_after_a_write() {
        let cache = Arc::new(Cache::new(Arc::new(Memory::new(vec![0; 8192])), OPTIONS).unwrap());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut last = 0;
                    for _ in 0..3000 {
                        let mut b = [0];
                        cache.read_at(100, &mut b).unwrap();
                        assert!(b[0] >= last, "{} after {last}", b[0]);
                        last = b[0];
                        cache.clear();
                    }
                });
            }
            for value in 1..=200 {
                cache.write_at(100, &[value]).unwrap();
                let mut b = [0];
                cache.read_at(100, &mut b).unwrap();
                assert_eq!(b[0], value);
            }
        });
    }

    proptest! {
        #[test]
        fn behaves_as_the_bytes_it_covers(steps in prop::collection::vec(
            (0_u8..5, 0_u64..10_000, 0_usize..6000, any::<u8>()), 1..40,
        )) {
            let mut model = pattern(10_000);
            let small = CacheOptions { budget_bytes: 4 << 10, ..OPTIONS };
            let cache = Cache::new(Arc::new(Memory::new(model.clone())), small).unwrap();
            for (step, offset, len, value) in steps {
                let start = usize::try_from(offset).unwrap();
                let len = len.min(model.len() - start);
                let there = start..start + len;
                match step {
                    0 | 1 => {
                        let mut b = vec![0; len];
                        cache.read_at(offset, &mut b).unwrap();
                        prop_assert_eq!(&b, &model[there]);
                    }
                    2 | 3 => {
                        cache.write_at(offset, &vec![value; len]).unwrap();
                        model[there].fill(value);
                    }
                    _ => {
                        cache.write_zeroes(offset, len as u64).unwrap();
                        model[there].fill(0);
                    }
                }
            }
        }
    }
}
