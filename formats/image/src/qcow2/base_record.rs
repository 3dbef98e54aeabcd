//! The record of a backing file's state: a header extension of our own.
//!
//! QEMU ignores unknown extensions, and keeps them when it rewrites a header. So the record
//! includes a hash of the backing file's name: after `qemu-img rebase` it is void.

use diskfs_block::{BlockWrite, Result};
use zerocopy::byteorder::big_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::base::{Identity, hash};
use crate::numbers::to_u64;
use crate::qcow2::header::Header;
use crate::qcow2::units::HostOffset;

const VERSION: u32 = 1;
/// The backing file must be as recorded.
const STATE_HOLDS: u32 = 0;
/// The state of the backing file is unknown, or it is being changed through this overlay.
const STATE_VOID: u32 = 1;
/// The image has everything that it needs of the backing file, and does not name it any more.
const STATE_COPIED: u32 = 2;
/// The offset of the state in the record.
const STATE_AT: u64 = 4;

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRecord {
    version: U32,
    state: U32,
    name_hash: U64,
    size_bytes: U64,
    seconds: I64,
    nanoseconds: U32,
    reserved: U32,
}

/// A record and its offset.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BaseRecord {
    at: HostOffset,
    raw: RawRecord,
}

impl BaseRecord {
    /// Parses a record from the data of an extension at byte `at`; returns `None` for a future
    /// version.
    pub(crate) fn parse(data: &[u8], at: usize) -> Option<Self> {
        let (raw, _) = RawRecord::read_from_prefix(data).ok()?;
        let at = HostOffset(to_u64(at));
        (raw.version.get() == VERSION).then_some(Self { at, raw })
    }

    /// Returns the recorded state of the backing file `name`, if it is known.
    pub(crate) fn expected(&self, name: &[u8]) -> Option<Identity> {
        let is_valid =
            self.raw.state.get() == STATE_HOLDS && self.raw.name_hash.get() == hash(name);
        is_valid.then(|| Identity {
            size_bytes: self.raw.size_bytes.get(),
            seconds: self.raw.seconds.get(),
            nanoseconds: self.raw.nanoseconds.get(),
        })
    }

    /// Returns true if the backing file `name` was copied into the image.
    pub(crate) fn is_copied(&self, name: &[u8]) -> bool {
        self.raw.state.get() == STATE_COPIED && self.raw.name_hash.get() == hash(name)
    }
}

/// Encodes a record of the backing file `name`, which was copied into the image.
pub(crate) fn encode_copied(name: &[u8]) -> Vec<u8> {
    let copied = RawRecord {
        state: STATE_COPIED.into(),
        ..raw(name, None)
    };
    copied.as_bytes().to_vec()
}

/// Encodes a record for the backing file `name`, as it is stored. Without an identity the record is
/// void.
pub(crate) fn encode(name: &[u8], identity: Option<Identity>) -> Vec<u8> {
    raw(name, identity).as_bytes().to_vec()
}

fn raw(name: &[u8], identity: Option<Identity>) -> RawRecord {
    let state = match identity {
        Some(_) => STATE_HOLDS,
        None => STATE_VOID,
    };
    let identity = identity.unwrap_or(Identity {
        size_bytes: 0,
        seconds: 0,
        nanoseconds: 0,
    });
    RawRecord {
        version: VERSION.into(),
        state: state.into(),
        name_hash: hash(name).into(),
        size_bytes: identity.size_bytes.into(),
        seconds: identity.seconds.into(),
        nanoseconds: identity.nanoseconds.into(),
        reserved: 0.into(),
    }
}

/// Makes the record of the overlay in `file` void, durably, before its backing file is changed
/// through it. The overlay then shows the same disk even if that is interrupted, and must open.
pub(crate) fn make_void(file: &dyn BlockWrite) -> Result<()> {
    let Some(record) = Header::read(file)?.extensions.base else {
        return Ok(());
    };
    set_state(file, &record, STATE_VOID)?;
    file.flush()
}

/// Updates the record of the overlay in `file` to the current state of its backing file.
pub(crate) fn renew(file: &dyn BlockWrite, identity: Identity) -> Result<()> {
    let header = Header::read(file)?;
    let (Some(record), Some(name)) = (header.extensions.base, header.backing_name) else {
        return Ok(());
    };
    // A crash in the middle of the record must not leave a valid one.
    set_state(file, &record, STATE_VOID)?;
    file.flush()?;
    let void = RawRecord {
        state: STATE_VOID.into(),
        ..raw(&name, Some(identity))
    };
    file.write_at(record.at.0, void.as_bytes())?;
    file.flush()?;
    set_state(file, &record, STATE_HOLDS)?;
    file.flush()
}

fn set_state(file: &dyn BlockWrite, record: &BaseRecord, state: u32) -> Result<()> {
    file.write_at(record.at.plus(STATE_AT).0, &state.to_be_bytes())
}
