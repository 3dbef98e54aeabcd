//! The cluster numbers in directories.

use std::collections::BTreeMap;
use std::ops::Range;

use diskfs_clusters::resize::{Record, Renumbering, move_chain, record_directory};
use diskfs_clusters::{Cluster, ENTRY_LEN, Geometry, RawEntry, Run};

use crate::bytes::{array, le16, le32, put};
use crate::checksum::checksum16;
use crate::directory_entry::{
    ALLOCATION_BITMAP, ALLOCATION_POSSIBLE, END, FILE, FILE_NAME, FileEntry, IN_USE, NO_FAT_CHAIN,
    SECONDARY, UPCASE_TABLE, VOLUME_LABEL,
};
use crate::entry_set::SECONDARY_COUNTS;
use crate::error::{Error, ErrorKind, Result};

use super::OldVolume;
use super::scan::{chain, damaged, for_each_directory};

/// `EntryType` of the volume's GUID (7.5), which has no clusters.
const VOLUME_GUID: u8 = 0xa0;
/// The fields of all entries that can have clusters (6.2, 6.4).
const FLAGS: usize = 1;
const FIRST_CLUSTER: usize = 20;
const DATA_LENGTH: usize = 24;
const SET_CHECKSUM: usize = 2;

/// The clusters that a directory entry leads to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allocated {
    pub(super) first: Cluster,
    pub(super) len_bytes: u64,
    pub(super) is_contiguous: bool,
}

/// An entry that leads to clusters.
#[derive(Debug, Clone, Copy)]
pub(super) enum EntryKind {
    Directory(Allocated),
    File(Allocated),
}

/// The new place of everything.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewPlace<'a> {
    pub(super) renumbering: &'a Renumbering,
    pub(super) geometry: &'a Geometry,
    pub(super) bitmap: Run,
}

/// The contiguous files that are not contiguous any more, by their old first cluster, with their
/// number of clusters. They need a chain in the table.
pub(super) type Broken = BTreeMap<Cluster, u32>;

/// Calls `look` with each entry of a directory that leads to clusters.
///
/// # Errors
/// Those of [`sets`] and of `look`.
pub(super) fn entries(bytes: &[u8], mut look: impl FnMut(EntryKind) -> Result<()>) -> Result<()> {
    let (raw, _) = bytes.as_chunks::<ENTRY_LEN>();
    for set in sets(raw)? {
        let [first, secondary @ ..] = raw.get(set).unwrap_or_default() else {
            continue;
        };
        let is_directory = FileEntry::from_bytes(*first).is_directory();
        for (nth, entry) in secondary.iter().enumerate() {
            match Allocated::of(entry)? {
                Some(allocated) if is_directory && nth == 0 => {
                    look(EntryKind::Directory(allocated))?;
                }
                Some(allocated) => look(EntryKind::File(allocated))?,
                None => {}
            }
        }
    }
    Ok(())
}

/// Returns the slots of the sets of files, and of the entries of the bitmap and the up-case table.
///
/// # Errors
/// `Corrupt` for an invalid set; `Unsupported` for an unknown primary entry, which may lead to
/// clusters.
fn sets(raw: &[RawEntry]) -> Result<Vec<Range<usize>>> {
    let mut sets = Vec::new();
    let mut slot: usize = 0;
    while let Some([kind, count, ..]) = raw.get(slot) {
        let mut end = slot.saturating_add(1);
        match *kind {
            END => break,
            FILE => {
                end = end.saturating_add((*count).into());
                check_set(raw.get(slot..end).unwrap_or_default())?;
                sets.push(slot..end);
            }
            ALLOCATION_BITMAP | UPCASE_TABLE => sets.push(slot..end),
            VOLUME_LABEL | VOLUME_GUID => {}
            kind if kind & IN_USE == 0 || kind & SECONDARY == SECONDARY => {}
            kind => {
                let reason =
                    format!("cannot resize the filesystem: unknown directory entry {kind:#x}");
                return Err(Error::new(ErrorKind::Unsupported, reason));
            }
        }
        slot = end;
    }
    Ok(sets)
}

fn check_set(set: &[RawEntry]) -> Result<()> {
    let [first, secondary @ ..] = set else {
        return Err(damaged("incomplete set of directory entries"));
    };
    let [_, count, ..] = first;
    let is_secondary = |[kind, ..]: &RawEntry| kind & SECONDARY == SECONDARY;
    if !SECONDARY_COUNTS.contains(count) || !secondary.iter().all(is_secondary) {
        return Err(damaged("invalid set of directory entries"));
    }
    if le16(first, SET_CHECKSUM) != Some(checksum(set)) {
        return Err(damaged("wrong checksum of a set of directory entries"));
    }
    Ok(())
}

/// Computes the checksum over all bytes but the checksum field (6.3.3).
fn checksum(set: &[RawEntry]) -> u16 {
    let bytes = set.iter().flatten().enumerate();
    let counted = bytes.filter(|(at, _)| !(SET_CHECKSUM..SET_CHECKSUM + 2).contains(at));
    checksum16(counted.map(|(_, byte)| byte))
}

impl Allocated {
    /// Returns the clusters of a secondary entry; `None` if it has none.
    fn of(entry: &RawEntry) -> Result<Option<Self>> {
        let [kind, flags, ..] = *entry;
        let len_bytes = array(entry, DATA_LENGTH).map_or(0, u64::from_le_bytes);
        if kind == FILE_NAME || flags & ALLOCATION_POSSIBLE == 0 || len_bytes == 0 {
            return Ok(None);
        }
        match le32(entry, FIRST_CLUSTER) {
            None | Some(0) => Err(damaged("a file has a size and no clusters")),
            Some(first) => Ok(Some(Self {
                first: Cluster(first),
                len_bytes,
                is_contiguous: flags & NO_FAT_CHAIN != 0,
            })),
        }
    }
}

/// Records the changed sectors of all directories. Returns the files that are not contiguous any
/// more.
///
/// # Errors
/// Those of [`Record::write`]; `Corrupt`.
pub(super) fn record(
    old: &OldVolume,
    place: &NewPlace<'_>,
    record: &mut Record<'_>,
) -> Result<Broken> {
    let mut broken = Broken::new();
    for_each_directory(old, |directory| {
        let mut bytes = directory.bytes.clone();
        let (raw, _) = bytes.as_chunks_mut::<ENTRY_LEN>();
        for set in sets(raw)? {
            renumber(
                old,
                place,
                raw.get_mut(set).unwrap_or_default(),
                &mut broken,
            )?;
        }
        let chain = move_chain(&directory.chain, place.renumbering)?;
        let runs = place.geometry.runs(&chain, u64::MAX);
        record_directory(record, &runs, &directory.bytes, &bytes)
    })?;
    Ok(broken)
}

/// Changes the cluster numbers in one set.
fn renumber(
    old: &OldVolume,
    place: &NewPlace<'_>,
    set: &mut [RawEntry],
    broken: &mut Broken,
) -> Result<()> {
    let set_first = |entry: &mut RawEntry, first: Cluster| {
        put(entry, FIRST_CLUSTER, &first.0.to_le_bytes());
    };
    match set {
        [entry] if entry.starts_with(&[ALLOCATION_BITMAP]) => {
            set_first(entry, place.bitmap.first);
            let len_bytes = u64::from(place.geometry.clusters.div_ceil(8));
            put(entry, DATA_LENGTH, &len_bytes.to_le_bytes());
            return Ok(());
        }
        [entry] => {
            let first = old
                .upcase
                .first()
                .and_then(|first| place.renumbering.new_number(first));
            set_first(
                entry,
                first.ok_or_else(|| damaged("missing up-case table"))?,
            );
            return Ok(());
        }
        _ => {}
    }
    for entry in set.iter_mut().skip(1) {
        let Some(allocated) = Allocated::of(entry)? else {
            continue;
        };
        let chain = move_chain(&chain(old, &allocated)?, place.renumbering)?;
        set_first(entry, chain.first().unwrap_or(Cluster(0)));
        if allocated.is_contiguous && chain.runs().len() > 1 {
            let [_, flags, ..] = *entry;
            put(entry, FLAGS, &[flags & !NO_FAT_CHAIN]);
            broken.insert(allocated.first, chain.clusters());
        }
    }
    let checksum = checksum(set).to_le_bytes();
    if let Some(first) = set.first_mut() {
        put(first, SET_CHECKSUM, &checksum);
    }
    Ok(())
}
