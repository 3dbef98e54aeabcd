//! The check of a filesystem before its size changes, and the walk through its directories.

use diskfs_block::BlockRead;
use diskfs_clusters::resize::read_directory;
use diskfs_clusters::{Allocation, Chain, Cluster, Root, Run};

use crate::allocation_bitmap::AllocationBitmap;
use crate::bytes::len_u64;
use crate::error::{Error, ErrorKind, Result};
use crate::root_entries::MAX_DIRECTORY_BYTES;

use super::OldVolume;
use super::directories::{Allocated, EntryKind, entries};

/// The result of the check.
#[derive(Debug)]
pub(super) struct Scan {
    /// The clusters in use, including those that no file has.
    pub(super) used: Allocation,
    /// The maximum length of a record of all metadata.
    pub(super) record_bytes: u64,
}

/// A directory of the old filesystem.
#[derive(Debug)]
pub(super) struct OldDirectory {
    pub(super) chain: Chain,
    /// The bytes up to the piece with the end of the directory.
    pub(super) bytes: Vec<u8>,
}

impl Scan {
    /// Checks that each chain is valid, and that no two files share a cluster.
    ///
    /// # Errors
    /// `Corrupt`, or errors of the device.
    pub(super) fn of(old: &OldVolume) -> Result<Self> {
        let (bitmap, len_bytes) = &old.bitmap;
        let device: &dyn BlockRead = &*old.device;
        let used = AllocationBitmap::new(&old.boot, bitmap, *len_bytes)?.read(device)?;
        let mut owned = Owned {
            used: &used,
            owned: Allocation::new(used.clusters()),
        };
        owned.add(bitmap)?;
        owned.add(&old.upcase)?;
        let mut record_bytes = old.boot.fat_bytes.saturating_add(*len_bytes);
        for_each_directory(old, |directory| {
            owned.add(&directory.chain)?;
            record_bytes = record_bytes.saturating_add(len_u64(directory.bytes.len()));
            entries(&directory.bytes, |entry| {
                // The walk shows directories themselves.
                match entry {
                    EntryKind::File(allocated) => owned.add(&chain(old, &allocated)?),
                    EntryKind::Directory(_) => Ok(()),
                }
            })
        })?;
        // Boot regions, and what the record adds to small pieces.
        let boot_bytes = u64::from(old.boot.geometry.sector_bytes).saturating_mul(32);
        let more = (record_bytes / 4)
            .saturating_add(boot_bytes)
            .saturating_add(4096);
        let record_bytes = record_bytes.saturating_add(more);
        Ok(Self { used, record_bytes })
    }
}

/// The clusters that have an owner.
struct Owned<'a> {
    used: &'a Allocation,
    owned: Allocation,
}

impl Owned<'_> {
    /// Fails if a cluster of the chain is free or has an owner already.
    fn add(&mut self, chain: &Chain) -> Result<()> {
        for cluster in chain.runs().iter().flat_map(Run::clusters) {
            if self.owned.is_in_use(cluster) {
                return Err(damaged(&format!("two files have cluster {cluster}")));
            }
            if !self.used.is_in_use(cluster) {
                let reason = format!("cluster {cluster} of a file is marked as free");
                return Err(damaged(&reason));
            }
            self.owned.mark(cluster, true);
        }
        Ok(())
    }
}

/// Returns the error for a filesystem that must be repaired first.
pub(super) fn damaged(reason: &str) -> Error {
    let reason = format!("cannot resize the filesystem: {reason}");
    Error::new(ErrorKind::Corrupt, reason).with_hint("repair it with fsck.exfat first")
}

/// Returns the clusters of a file.
pub(super) fn chain(old: &OldVolume, allocated: &Allocated) -> Result<Chain> {
    let geometry = &old.boot.geometry;
    geometry.check_first(allocated.first)?;
    if !allocated.is_contiguous {
        return old.fat.chain(allocated.first);
    }
    let count = geometry.clusters_for(allocated.len_bytes);
    let last = allocated.first.0.checked_add(count.saturating_sub(1));
    geometry.check_first(Cluster(last.unwrap_or(u32::MAX)))?;
    let mut chain = Chain::default();
    chain.push(allocated.first, count);
    Ok(chain)
}

/// Calls `look` with each directory.
///
/// # Errors
/// `Corrupt`, errors of the device and of `look`. `look` must fail for a cluster that it has seen
/// before: otherwise the walk does not end.
pub(super) fn for_each_directory(
    old: &OldVolume,
    mut look: impl FnMut(&OldDirectory) -> Result<()>,
) -> Result<()> {
    let Root::Chain { first } = old.boot.geometry.root else {
        return Ok(());
    };
    let root = Allocated {
        first,
        len_bytes: u64::MAX,
        is_contiguous: false,
    };
    let mut waiting = vec![root];
    while let Some(allocated) = waiting.pop() {
        let chain = chain(old, &allocated)?;
        let runs = old.boot.geometry.runs(&chain, allocated.len_bytes);
        let bytes = read_directory(&*old.device, &runs, MAX_DIRECTORY_BYTES)?;
        let directory = OldDirectory { chain, bytes };
        look(&directory)?;
        entries(&directory.bytes, |entry| {
            if let EntryKind::Directory(allocated) = entry {
                waiting.push(allocated);
            }
            Ok(())
        })?;
    }
    Ok(())
}
