//! `Header`: what a file begins with. <https://systemd.io/JOURNAL_FILE_FORMAT/#header>; `journal-def.h`.

use diskfs_block::{Error, Result};
use uuid::Uuid;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `HEADER_SIGNATURE`.
const SIGNATURE: [u8; 8] = *b"LPKSHHRH";

/// The header of systemd 38, the first release with journal files: up to `tail_entry_monotonic`. What later ones
/// added is not needed.
pub(crate) const MIN_BYTES: u64 = 208;

/// No header is larger: today's has 272 bytes.
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

/// `enum` of `state`: whether somebody was writing when the file was last touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// `STATE_OFFLINE`: closed, and may be written again.
    Offline,
    /// `STATE_ONLINE`: not closed. It is being written, or the machine stopped meanwhile.
    Online,
    /// `STATE_ARCHIVED`: closed, and not written again.
    Archived,
    /// Any other number.
    Unknown(u8),
}

/// `compatible_flags`: what a reader may ignore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compatible(u32);

impl Compatible {
    /// `HEADER_COMPATIBLE_SEALED`: it has tags of Forward Secure Sealing.
    pub fn is_sealed(self) -> bool {
        self.0 & 1 != 0
    }

    /// The flags as a number.
    pub fn bits(self) -> u32 {
        self.0
    }
}

/// `incompatible_flags`: what a reader must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Incompatible(u32);

impl Incompatible {
    const KEYED_HASH: u32 = 1 << 2;
    const COMPACT: u32 = 1 << 4;
    /// XZ, LZ4, the keyed hash, ZSTD, compact.
    const KNOWN: u32 = 0b1_1111;

    /// `HEADER_INCOMPATIBLE_COMPACT`: offsets of 32 bits.
    pub fn is_compact(self) -> bool {
        self.0 & Self::COMPACT != 0
    }

    /// `HEADER_INCOMPATIBLE_KEYED_HASH`: hashes are `SipHash`, keyed with the file's ID.
    pub fn has_keyed_hash(self) -> bool {
        self.0 & Self::KEYED_HASH != 0
    }

    /// The flags as a number.
    pub fn bits(self) -> u32 {
        self.0
    }
}

/// What the header of a journal file says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// What may be ignored.
    pub compatible: Compatible,
    /// What must be known.
    pub incompatible: Incompatible,
    /// Whether it was closed.
    pub state: State,
    /// The file's own ID.
    pub file_id: Uuid,
    /// The machine that wrote it.
    pub machine_id: Uuid,
    /// The boot that was logged last, or for old files, that opened the file last.
    pub tail_boot_id: Uuid,
    /// Whose sequence numbers the entries have.
    pub seqnum_id: Uuid,
    /// How many entries it has.
    pub entry_count: u64,
    /// The sequence number of the first entry.
    pub head_seqnum: u64,
    /// The sequence number of the last entry.
    pub tail_seqnum: u64,
    /// When the first entry was logged, in microseconds since 1970.
    pub head_realtime_us: u64,
    /// When the last entry was logged, in microseconds since 1970.
    pub tail_realtime_us: u64,
    /// Where objects begin.
    pub(crate) objects_offset: u64,
    /// How long the file should be, at least.
    pub(crate) whole_bytes: u64,
    pub(crate) entry_array_offset: u64,
    pub(crate) field_hash_table_offset: u64,
    pub(crate) field_hash_table_bytes: u64,
}

impl Header {
    pub(crate) fn from_raw(raw: &Raw) -> Result<Self> {
        if raw.signature != SIGNATURE {
            return Err(Error::corrupt("not a journal file of systemd").at(0));
        }
        let flags = raw.incompatible_flags.get();
        let unknown = flags & !Incompatible::KNOWN;
        if unknown != 0 {
            let reason = format!("a journal file with unknown incompatible flags {unknown:#x}");
            return Err(Error::unsupported(reason).at(12));
        }
        let header_bytes = raw.header_size.get();
        if !(MIN_BYTES..=MAX_BYTES).contains(&header_bytes) {
            let reason = format!("a header of {header_bytes} bytes");
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

fn state(number: u8) -> State {
    match number {
        0 => State::Offline,
        1 => State::Online,
        2 => State::Archived,
        other => State::Unknown(other),
    }
}
