//! The file header, `Header`. <https://systemd.io/JOURNAL_FILE_FORMAT/#header>; `journal-def.h`.

use diskfs_block::{Error, Result};
use uuid::Uuid;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The signature of journal files, `HEADER_SIGNATURE`.
const SIGNATURE: [u8; 8] = *b"LPKSHHRH";

/// The header size of systemd 38, the first release with journal files: up to
/// `tail_entry_monotonic`. Fields of later releases are not needed.
pub(crate) const MIN_BYTES: u64 = 208;

/// The maximum header size. The current size is 272 bytes.
const MAX_BYTES: u64 = 4096;

#[derive(Clone, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Raw {
    signature: [u8; 8],
    compatible_flags: U32,
    incompatible_flags: U32,
    state: u8,
    reserved: [u8; 7],
    file_id: [u8; 16],
    machine_id: [u8; 16],
    tail_entry_boot_id: [u8; 16],
    seqnum_id: [u8; 16],
    header_size: U64,
    arena_size: U64,
    data_hash_table_offset: U64,
    data_hash_table_size: U64,
    field_hash_table_offset: U64,
    field_hash_table_size: U64,
    tail_object_offset: U64,
    n_objects: U64,
    n_entries: U64,
    tail_entry_seqnum: U64,
    head_entry_seqnum: U64,
    entry_array_offset: U64,
    head_entry_realtime: U64,
    tail_entry_realtime: U64,
    tail_entry_monotonic: U64,
}

const _: () = assert!(size_of::<Raw>() == 208);

/// The `state` of a file: whether it was closed after the last write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileState {
    /// `STATE_OFFLINE`: closed, and may be opened for writing again.
    Offline,
    /// `STATE_ONLINE`: not closed. The file is in use, or the machine stopped without closing it.
    Online,
    /// `STATE_ARCHIVED`: closed for good.
    Archived,
    /// Any other number.
    Unknown(u8),
}

/// The `compatible_flags`: features that a reader can ignore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compatible(u32);

impl Compatible {
    /// Returns true if the file has tags of Forward Secure Sealing (`HEADER_COMPATIBLE_SEALED`).
    pub fn is_sealed(self) -> bool {
        self.0 & 1 != 0
    }

    /// Returns the flags as a number.
    pub fn bits(self) -> u32 {
        self.0
    }
}

/// The `incompatible_flags`: features that a reader must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Incompatible(u32);

impl Incompatible {
    const KEYED_HASH: u32 = 1 << 2;
    const COMPACT: u32 = 1 << 4;
    /// The known flags: XZ, LZ4, keyed hash, ZSTD, compact.
    const KNOWN: u32 = 0b1_1111;

    /// Returns true if offsets have 32 bits (`HEADER_INCOMPATIBLE_COMPACT`).
    pub fn is_compact(self) -> bool {
        self.0 & Self::COMPACT != 0
    }

    /// Returns true if hashes are `SipHash`, keyed with the file's ID
    /// (`HEADER_INCOMPATIBLE_KEYED_HASH`).
    pub fn has_keyed_hash(self) -> bool {
        self.0 & Self::KEYED_HASH != 0
    }

    /// Returns the flags as a number.
    pub fn bits(self) -> u32 {
        self.0
    }
}

/// The header of a journal file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// The features that a reader can ignore.
    pub compatible: Compatible,
    /// The features that a reader must know.
    pub incompatible: Incompatible,
    /// The state: whether the file was closed.
    pub state: FileState,
    /// The ID of the file.
    pub file_id: Uuid,
    /// The ID of the machine that wrote the file.
    pub machine_id: Uuid,
    /// The boot of the last entry; in old files, the boot that opened the file last.
    pub tail_boot_id: Uuid,
    /// The ID of the sequence that the entries' sequence numbers belong to.
    pub seqnum_id: Uuid,
    /// The number of entries.
    pub entry_count: u64,
    /// The sequence number of the first entry.
    pub head_seqnum: u64,
    /// The sequence number of the last entry.
    pub tail_seqnum: u64,
    /// The time of the first entry, in microseconds since 1970.
    pub head_realtime_us: u64,
    /// The time of the last entry, in microseconds since 1970.
    pub tail_realtime_us: u64,
    /// The offset of the first object.
    pub(crate) objects_offset: u64,
    /// The minimum length of the complete file in bytes.
    pub(crate) whole_bytes: u64,
    pub(crate) entry_array_offset: u64,
    pub(crate) field_hash_table_offset: u64,
    pub(crate) field_hash_table_bytes: u64,
}

impl Header {
    pub(crate) fn from_raw(raw: &Raw) -> Result<Self> {
        if raw.signature != SIGNATURE {
            return Err(Error::corrupt("not a systemd journal file").at(0));
        }
        let flags = raw.incompatible_flags.get();
        let unknown = flags & !Incompatible::KNOWN;
        if unknown != 0 {
            let reason =
                format!("unsupported journal file: unknown incompatible flags {unknown:#x}");
            return Err(Error::unsupported(reason).at(12));
        }
        let header_bytes = raw.header_size.get();
        if !(MIN_BYTES..=MAX_BYTES).contains(&header_bytes) {
            let reason = format!(
                "invalid header: size is {header_bytes}, expected {MIN_BYTES} to {MAX_BYTES}"
            );
            return Err(Error::corrupt(reason).at(88));
        }
        Ok(Self {
            compatible: Compatible(raw.compatible_flags.get()),
            incompatible: Incompatible(flags),
            state: state(raw.state),
            file_id: Uuid::from_bytes(raw.file_id),
            machine_id: Uuid::from_bytes(raw.machine_id),
            tail_boot_id: Uuid::from_bytes(raw.tail_entry_boot_id),
            seqnum_id: Uuid::from_bytes(raw.seqnum_id),
            entry_count: raw.n_entries.get(),
            head_seqnum: raw.head_entry_seqnum.get(),
            tail_seqnum: raw.tail_entry_seqnum.get(),
            head_realtime_us: raw.head_entry_realtime.get(),
            tail_realtime_us: raw.tail_entry_realtime.get(),
            objects_offset: header_bytes,
            whole_bytes: header_bytes.saturating_add(raw.arena_size.get()),
            entry_array_offset: raw.entry_array_offset.get(),
            field_hash_table_offset: raw.field_hash_table_offset.get(),
            field_hash_table_bytes: raw.field_hash_table_size.get(),
        })
    }
}

fn state(number: u8) -> FileState {
    match number {
        0 => FileState::Offline,
        1 => FileState::Online,
        2 => FileState::Archived,
        other => FileState::Unknown(other),
    }
}
