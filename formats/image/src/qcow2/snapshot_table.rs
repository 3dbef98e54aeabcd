//! The snapshot table: specification, section "Snapshots".

use std::time::{Duration, SystemTime};

use diskfs_block::{BlockRead, Error, Result};
use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::description::Snapshot;
use crate::numbers::to_u64;
use crate::qcow2::header::{Header, Table};
use crate::qcow2::not_found;
use crate::qcow2::table_reader::TableReader;
use crate::qcow2::units::HostOffset;

/// The largest size of the table: QEMU's limit of 65536 snapshots, at 128 bytes each; most need 80.
/// QEMU's own limit is 64 MiB, which is too much memory for names.
const TABLE_MAX_BYTES: u64 = 8 << 20;
/// The largest extra data of one entry: QEMU's limit.
const EXTRA_MAX_BYTES: u32 = 1024;

#[derive(Debug, Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSnapshot {
    l1_table_offset: U64,
    l1_size: U32,
    id_str_size: U16,
    name_size: U16,
    date_sec: U32,
    date_nsec: U32,
    vm_clock_nsec: U64,
    vm_state_size: U32,
    extra_data_size: U32,
}

/// The fields of the extra data, in their order; each may be missing.
#[derive(Debug, Clone, Copy, Default)]
struct Extra {
    vm_state_size_large: Option<u64>,
    disk_size: Option<u64>,
    icount: Option<u64>,
}

/// A snapshot and the location of its L1 table.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotEntry {
    pub(crate) snapshot: Snapshot,
    /// The L1 table as stored; it is checked when the snapshot is opened.
    pub(crate) l1: Table,
    /// The offset in the file at which the entry begins.
    pub(crate) at: HostOffset,
    /// The offset in the file at which the entry ends.
    pub(crate) end: HostOffset,
}

/// The snapshot table.
#[derive(Debug)]
pub(crate) struct SnapshotTable {
    pub(crate) entries: Vec<SnapshotEntry>,
    /// The offset of the end of the table.
    pub(crate) end: HostOffset,
}

/// Reads the table. `header` bounds the number of entries.
pub(crate) fn read(file: &dyn BlockRead, header: &Header) -> Result<SnapshotTable> {
    let mut table = TableReader::new(file, header.snapshots_at, TABLE_MAX_BYTES, "snapshot table");
    let entries = (0..header.snapshot_count)
        .map(|_| read_entry(&mut table))
        .collect::<Result<_>>()?;
    Ok(SnapshotTable {
        entries,
        end: table.at(),
    })
}

fn read_entry(table: &mut TableReader<'_>) -> Result<SnapshotEntry> {
    // Entries begin at multiples of 8; the file may end with the last one.
    table.align()?;
    let at = table.at();
    let bytes = table.take(to_u64(size_of::<RawSnapshot>()))?;
    let raw = RawSnapshot::read_from_bytes(bytes)
        .map_err(|_| Error::corrupt("snapshot table entry is truncated").at(at.0))?;
    let extra_size = raw.extra_data_size.get();
    if extra_size > EXTRA_MAX_BYTES {
        let reason = format!(
            "the extra data of a snapshot is too large: {extra_size} bytes, QEMU's limit is \
             {EXTRA_MAX_BYTES}"
        );
        return Err(Error::corrupt(reason).at(at.0));
    }
    let extra = Extra::parse(table.take(u64::from(extra_size))?);
    let id = text(table.take(u64::from(raw.id_str_size.get()))?);
    let name = text(table.take(u64::from(raw.name_size.get()))?);
    let seconds = Duration::from_secs(u64::from(raw.date_sec.get()));
    let taken = seconds.saturating_add(Duration::from_nanos(u64::from(raw.date_nsec.get())));
    let end = table.at();
    Ok(SnapshotEntry {
        at,
        end,
        l1: Table {
            at: HostOffset(raw.l1_table_offset.get()),
            entries: u64::from(raw.l1_size.get()),
        },
        snapshot: Snapshot {
            id,
            name,
            virtual_size_bytes: extra.disk_size,
            vm_state_bytes: extra
                .vm_state_size_large
                .unwrap_or_else(|| u64::from(raw.vm_state_size.get())),
            taken_at: SystemTime::UNIX_EPOCH
                .checked_add(taken)
                .unwrap_or(SystemTime::UNIX_EPOCH),
            vm_clock: Duration::from_nanos(raw.vm_clock_nsec.get()),
            icount: extra.icount,
        },
    })
}

impl Extra {
    fn parse(bytes: &[u8]) -> Self {
        let field = |index: usize| {
            let (words, _) = bytes.as_chunks::<8>();
            words.get(index).map(|word| u64::from_be_bytes(*word))
        };
        Self {
            vm_state_size_large: field(0),
            disk_size: field(1),
            // -1 means that instructions were not counted.
            icount: field(2).filter(|&count| count != u64::MAX),
        }
    }
}

/// Encodes a new entry for a snapshot of the disk alone.
pub(crate) fn encode(snapshot: &Snapshot, l1: Table) -> Vec<u8> {
    let taken = snapshot.taken_at.duration_since(SystemTime::UNIX_EPOCH);
    let taken = taken.unwrap_or_default();
    let len_of = |text: &str| U16::new(u16::try_from(text.len()).unwrap_or(u16::MAX));
    // No machine state, the disk's size, and no instruction count.
    let extra = [0, snapshot.virtual_size_bytes.unwrap_or(0), u64::MAX];
    let extra: Vec<u8> = extra.iter().flat_map(|word| word.to_be_bytes()).collect();
    let raw = RawSnapshot {
        l1_table_offset: l1.at.0.into(),
        l1_size: U32::new(u32::try_from(l1.entries).unwrap_or(u32::MAX)),
        id_str_size: len_of(&snapshot.id),
        name_size: len_of(&snapshot.name),
        date_sec: U32::new(u32::try_from(taken.as_secs()).unwrap_or(u32::MAX)),
        date_nsec: taken.subsec_nanos().into(),
        vm_clock_nsec: 0.into(),
        vm_state_size: 0.into(),
        extra_data_size: U32::new(u32::try_from(extra.len()).unwrap_or(0)),
    };
    let parts = [
        raw.as_bytes(),
        &extra,
        snapshot.id.as_bytes(),
        snapshot.name.as_bytes(),
    ];
    let mut bytes = parts.concat();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the index of the snapshot with this id or, if there is none, with this name. `qemu-img
/// convert -l` and `qemu-img snapshot -a` look up in the same order.
pub(crate) fn find(entries: &[SnapshotEntry], wanted: &str) -> Result<usize> {
    let by = |of: fn(&Snapshot) -> &String| entries.iter().position(|e| of(&e.snapshot) == wanted);
    by(|s| &s.id)
        .or_else(|| by(|s| &s.name))
        .ok_or_else(|| missing(entries, wanted))
}

fn missing(entries: &[SnapshotEntry], wanted: &str) -> Error {
    /// The largest number of names to list in the message.
    const LISTED_MAX: usize = 8;
    let reason = format!("no such snapshot: `{}`", wanted.escape_debug());
    let names: Vec<_> = entries
        .iter()
        .take(LISTED_MAX)
        .map(|e| format!("`{}`", e.snapshot.name.escape_debug()))
        .collect();
    let more = if entries.len() > LISTED_MAX {
        ", ..."
    } else {
        ""
    };
    let hint = if names.is_empty() {
        "the image has no snapshots".to_owned()
    } else {
        format!("available: {}{more}", names.join(", "))
    };
    not_found(reason).with_hint(hint)
}
