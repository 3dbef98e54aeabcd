//! The check of a filesystem before its size changes, and the walk through its directories.

use diskfs_block::BlockRead;
use diskfs_clusters::resize::read_directory;
use diskfs_clusters::{Allocation, Chain, Cluster, ENTRY_LEN, Format, Root, Run};

use crate::bytes::{index, len_u64};
use crate::directory;
use crate::directory_entry::{DELETED, LONG_NAME, LONG_NAME_MASK, ShortEntry};
use crate::error::{Error, ErrorKind, Result, device_failed};
use crate::fat::FatEntry;
use crate::structures::Structures;

use super::OldVolume;

/// The result of the check.
#[derive(Debug)]
pub(super) struct Scan {
    /// The clusters in use, bad ones and those that no file has included.
    pub(super) used: Allocation,
    /// The maximum length of a record of all metadata.
    pub(super) record_bytes: u64,
}

/// A directory of the old filesystem.
#[derive(Debug)]
pub(super) struct OldDirectory {
    /// The first cluster; `None` for a fixed root directory.
    pub(super) first: Option<Cluster>,
    /// The first cluster of the parent; `None` in the root directory and below it.
    pub(super) parent: Option<Cluster>,
    pub(super) chain: Chain,
    /// The bytes up to the piece with the end of the directory; of a fixed root directory all.
    pub(super) bytes: Vec<u8>,
}

impl Scan {
    /// Checks that each chain is valid, and that no two files share a cluster.
    ///
    /// # Errors
    /// `Corrupt`, or errors of the device.
    pub(super) fn of(old: &OldVolume) -> Result<Self> {
        let mut used = Allocation::new(old.boot.geometry.clusters);
        let mut invalid = None;
        let bad = old.fat.mask() & !8;
        old.fat.for_each(|cluster, entry| {
            used.mark(cluster, entry != FatEntry::Free);
            if matches!(entry, FatEntry::Other(raw) if raw != bad) {
                invalid = Some(cluster);
            }
        })?;
        if let Some(cluster) = invalid {
            return Err(damaged(&format!(
                "invalid entry of cluster {cluster} in the table"
            )));
        }
        let mut owned = Allocation::new(old.boot.geometry.clusters);
        let mut record_bytes = old.boot.fat_bytes;
        for_each_directory(old, |directory| {
            own(&mut owned, &directory.chain)?;
            record_bytes = record_bytes.saturating_add(len_u64(directory.bytes.len()));
            for entry in files(&directory.bytes).filter(|entry| !entry.is_directory()) {
                if entry.cluster() != Cluster(0) {
                    own(&mut owned, &chain(old, entry.cluster())?)?;
                }
            }
            Ok(())
        })?;
        // Boot sectors, and what the record adds to small pieces.
        let boot_bytes = u64::from(old.boot.geometry.sector_bytes).saturating_mul(8);
        let more = (record_bytes / 4)
            .saturating_add(boot_bytes)
            .saturating_add(4096);
        let record_bytes = record_bytes.saturating_add(more);
        Ok(Self { used, record_bytes })
    }
}

/// Marks the clusters of a file. Fails if another file has one of them.
fn own(owned: &mut Allocation, chain: &Chain) -> Result<()> {
    for cluster in chain.runs().iter().flat_map(Run::clusters) {
        if owned.is_in_use(cluster) {
            return Err(damaged(&format!("two files have cluster {cluster}")));
        }
        owned.mark(cluster, true);
    }
    Ok(())
}

fn damaged(reason: &str) -> Error {
    let reason = format!("cannot resize the filesystem: {reason}");
    Error::new(ErrorKind::Corrupt, reason).with_hint("repair it with fsck.fat first")
}

fn chain(old: &OldVolume, first: Cluster) -> Result<Chain> {
    old.boot.geometry.check_first(first)?;
    old.fat.chain(first)
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
    let root = match old.boot.geometry.root {
        Root::Fixed { .. } => None,
        Root::Chain { first } => Some(first),
    };
    let mut waiting = vec![(root, None)];
    while let Some((first, parent)) = waiting.pop() {
        let directory = OldDirectory::read(old, first, parent)?;
        look(&directory)?;
        let parent = first.filter(|_| first != root);
        let below = files(&directory.bytes).filter(ShortEntry::is_directory);
        waiting.extend(below.map(|entry| (Some(entry.cluster()), parent)));
    }
    Ok(())
}

impl OldDirectory {
    fn read(old: &OldVolume, first: Option<Cluster>, parent: Option<Cluster>) -> Result<Self> {
        let geometry = &old.boot.geometry;
        let chain = first.map_or(Ok(Chain::default()), |first| chain(old, first))?;
        let bytes = if let (None, Root::Fixed { offset, .. }) = (first, geometry.root) {
            // It is read to its end, because it can move as a whole.
            let len_bytes = geometry.first_offset.saturating_sub(offset);
            let mut bytes = vec![0; index(len_bytes)];
            let read = BlockRead::read_at(&*old.device, offset, &mut bytes);
            read.map_err(device_failed)?;
            bytes
        } else {
            let runs = geometry.runs(&chain, u64::MAX);
            read_directory(&*old.device, &runs, Structures::MAX_DIRECTORY_BYTES)?
        };
        Ok(Self {
            first,
            parent,
            chain,
            bytes,
        })
    }
}

/// Returns the entries of files and directories in use, except `.` and `..`.
fn files(bytes: &[u8]) -> impl Iterator<Item = ShortEntry> {
    let (entries, _) = bytes.as_chunks::<ENTRY_LEN>();
    let entries = entries.iter().map(|raw| ShortEntry::from_bytes(*raw));
    let entries = entries.take_while(|entry| !entry.is_end());
    entries.filter(|entry| {
        has_clusters(entry) && entry.name != *directory::DOT && entry.name != *directory::DOT_DOT
    })
}

/// Returns true for an entry that can lead to clusters: not for a deleted one, a part of a long
/// name, or the label.
pub(super) fn has_clusters(entry: &ShortEntry) -> bool {
    let [first, ..] = entry.name;
    let is_long = entry.attributes & LONG_NAME_MASK == LONG_NAME;
    first != DELETED && !is_long && !entry.is_label()
}
