//! The new cluster numbers in directories.

use diskfs_clusters::resize::{Copies, Record, Renumbering, move_chain, record_directory};
use diskfs_clusters::{Cluster, ENTRY_LEN, Geometry, Root};

use crate::directory::{DOT, DOT_DOT};
use crate::directory_entry::ShortEntry;
use crate::error::{Error, ErrorKind, Result};

use super::OldVolume;
use super::scan::{OldDirectory, for_each_directory, has_clusters};

/// Records the changed sectors of all directories.
///
/// # Errors
/// Those of [`Record::write`]; `Corrupt`.
pub(super) fn record(
    old: &OldVolume,
    renumbering: &Renumbering,
    new: &Geometry,
    record: &mut Record<'_>,
) -> Result<()> {
    for_each_directory(old, |directory| {
        let mut bytes = directory.bytes.clone();
        renumber(directory, renumbering, &mut bytes)?;
        if let (None, Root::Fixed { offset, .. }) = (directory.first, new.root) {
            let moves = renumbering.shift() > 0;
            let before = &directory.bytes;
            record.write_sectors(offset, &bytes, Copies::ONE, |sector| {
                moves || before.get(sector.clone()) != bytes.get(sector)
            })
        } else {
            let chain = move_chain(&directory.chain, renumbering)?;
            let runs = new.runs(&chain, u64::MAX);
            record_directory(record, &runs, &directory.bytes, &bytes)
        }
    })
}

/// Changes the cluster numbers in a directory.
fn renumber(directory: &OldDirectory, renumbering: &Renumbering, bytes: &mut [u8]) -> Result<()> {
    let (entries, _) = bytes.as_chunks_mut::<ENTRY_LEN>();
    for raw in entries {
        let mut entry = ShortEntry::from_bytes(*raw);
        if entry.is_end() {
            break;
        }
        // `..` of a directory in the root directory is 0, and other implementations write the
        // number of the root directory there.
        let old = match &entry.name {
            DOT if directory.first.is_some() => directory.first,
            DOT_DOT if directory.parent.is_some() => directory.parent,
            _ => Some(entry.cluster()),
        };
        let old = old.filter(|_| entry.cluster() != Cluster(0) && has_clusters(&entry));
        let Some(old) = old else {
            continue;
        };
        let new = renumbering.new_number(old).ok_or_else(|| {
            let reason = format!("a directory entry leads to cluster {old}, which is free");
            Error::new(ErrorKind::Corrupt, reason)
        })?;
        entry.set_cluster(new);
        *raw = entry.to_bytes();
    }
    Ok(())
}
