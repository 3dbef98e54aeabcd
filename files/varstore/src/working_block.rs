//! `EFI_FAULT_TOLERANT_WORKING_BLOCK_HEADER` and its queue of writes. edk2,
//! `Guid/SystemNvDataGuid.h` and `FaultTolerantWriteDxe/FaultTolerantWrite.h`.
//!
//! The firmware writes a whole block in two steps: first to a spare block, then to the block
//! itself. The queue records the progress. After an interruption, the firmware reads the queue when
//! it next runs.

use diskfs_block::bytes::index;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Guid;

pub(crate) const EDKII_WORKING_BLOCK_SIGNATURE_GUID: Guid = Guid::new(
    0x9e58_292b,
    0x7c68,
    0x497d,
    [0xa0, 0xce, 0x65, 0x00, 0xfd, 0x9f, 0x1b, 0x95],
);

/// The bits of the states below. As everywhere in the flash, a bit is set by clearing it to zero.
const WORKING_BLOCK_VALID: u8 = 1;
const WORKING_BLOCK_INVALID: u8 = 2;
const HEADER_ALLOCATED: u8 = 1;
const WRITES_ALLOCATED: u8 = 2;
const COMPLETE: u8 = 4;

#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    signature: Guid,
    crc: U32,
    state: u8,
    reserved: [u8; 3],
    write_queue_size: U64,
}

/// `EFI_FAULT_TOLERANT_WRITE_HEADER`, including the compiler's padding between its fields.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct WriteHeader {
    state: u8,
    padding: [u8; 3],
    caller_id: Guid,
    padding_2: [u8; 4],
    number_of_writes: U64,
    private_data_size: U64,
}

/// The length of `EFI_FAULT_TOLERANT_WRITE_RECORD`.
const WRITE_RECORD_BYTES: u64 = 40;

const _: () = assert!(size_of::<Raw>() == 32);
const _: () = assert!(size_of::<WriteHeader>() == 40);

/// The state of the firmware's fault tolerant writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultTolerantWrite {
    /// The volume has no space for them, or the firmware has not initialised it yet.
    Absent,
    /// No write is in progress.
    Idle,
    /// A write was interrupted: a part of the variables may be in the spare block only. The
    /// firmware completes the write when it next runs.
    Interrupted,
}

impl FaultTolerantWrite {
    /// Reads the state from a volume whose variables end at `variables_end`. The working block is
    /// the first one after them with its signature; its length is not recorded anywhere.
    pub(crate) fn read(volume: &[u8], variables_end: usize, block_bytes: usize) -> Self {
        let ends = (0..volume.len()).step_by(block_bytes.max(1));
        let mut blocks = ends.filter(|&start| start >= variables_end);
        let block = blocks.find_map(|start| {
            let rest = volume.get(start..)?;
            let (raw, queue) = Raw::ref_from_prefix(rest).ok()?;
            (raw.signature == EDKII_WORKING_BLOCK_SIGNATURE_GUID).then_some((raw, queue))
        });
        match block {
            None => Self::Absent,
            Some((raw, queue)) if is_valid(raw) && all_complete(raw, queue) => Self::Idle,
            Some(_) => Self::Interrupted,
        }
    }
}

/// Returns true if the working block is neither being created nor being replaced.
fn is_valid(raw: &Raw) -> bool {
    let states = raw.state & (WORKING_BLOCK_VALID | WORKING_BLOCK_INVALID);
    states == WORKING_BLOCK_INVALID && raw.crc == crc(raw)
}

/// Computes the checksum of the header, with state and checksum as if erased.
fn crc(raw: &Raw) -> u32 {
    let sealed = Raw {
        crc: U32::new(u32::MAX),
        state: u8::MAX,
        ..*raw
    };
    crc32fast::hash(sealed.as_bytes())
}

/// Returns true if each write that was started is complete. A write of which only the header exists
/// has changed nothing.
fn all_complete(raw: &Raw, after: &[u8]) -> bool {
    let queue_bytes = index(raw.write_queue_size.get());
    let Some(mut queue) = after.get(..queue_bytes) else {
        return false;
    };
    loop {
        let Ok((header, _)) = WriteHeader::ref_from_prefix(queue) else {
            return true;
        };
        if header.state & HEADER_ALLOCATED != 0 || header.state & WRITES_ALLOCATED != 0 {
            return true;
        }
        if header.state & COMPLETE != 0 {
            return false;
        }
        match total_bytes(header).and_then(|len| queue.get(len..)) {
            Some(rest) => queue = rest,
            None => return false,
        }
    }
}

/// Returns the length of a write in the queue.
fn total_bytes(header: &WriteHeader) -> Option<usize> {
    let record = WRITE_RECORD_BYTES.checked_add(header.private_data_size.get())?;
    let records = record.checked_mul(header.number_of_writes.get())?;
    let header_bytes = u64::try_from(size_of::<WriteHeader>()).ok()?;
    usize::try_from(records.checked_add(header_bytes)?).ok()
}

/// Returns the header of a working block without writes, for a queue of `queue_bytes`.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn idle(queue_bytes: u64) -> Vec<u8> {
    let mut raw = Raw {
        signature: EDKII_WORKING_BLOCK_SIGNATURE_GUID,
        crc: U32::new(0),
        state: !WORKING_BLOCK_VALID,
        reserved: [0xff; 3],
        write_queue_size: queue_bytes.into(),
    };
    raw.crc = crc(&raw).into();
    raw.as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a write of one record with its private data.
    fn write(state: u8, private_data_size: u8) -> Vec<u8> {
        let mut bytes = vec![0xff; 24];
        bytes[0] = state;
        bytes.extend(1_u64.to_le_bytes());
        bytes.extend(u64::from(private_data_size).to_le_bytes());
        bytes.resize(bytes.len() + 40 + usize::from(private_data_size), 0xf8);
        bytes
    }

    fn state(writes: &[Vec<u8>]) -> FaultTolerantWrite {
        let mut volume = vec![0xff; 256];
        volume.extend(idle(4096 - 32));
        volume.extend(writes.concat());
        volume.resize(256 + 4096, 0xff);
        FaultTolerantWrite::read(&volume, 100, 128)
    }

    #[test]
    fn the_queue_shows_what_was_begun() {
        assert_eq!(state(&[]), FaultTolerantWrite::Idle);
        for (begun, expected) in [
            (0xff, FaultTolerantWrite::Idle),
            (0xfe, FaultTolerantWrite::Idle),
            (0xfc, FaultTolerantWrite::Interrupted),
            (0xf8, FaultTolerantWrite::Idle),
        ] {
            assert_eq!(state(&[write(begun, 0)]), expected);
            assert_eq!(
                state(&[write(0xf8, 24), write(0xf8, 0), write(begun, 1)]),
                expected
            );
        }
    }

    #[test]
    fn a_working_block_that_is_being_replaced_is_reported() {
        let mut volume = vec![0xff; 256];
        volume.extend(idle(64));
        volume.resize(512, 0xff);
        assert_eq!(
            FaultTolerantWrite::read(&volume, 0, 256),
            FaultTolerantWrite::Idle
        );
        assert_eq!(
            FaultTolerantWrite::read(&volume, 257, 256),
            FaultTolerantWrite::Absent
        );
        for state in [0xff, 0xfc, 0xfd] {
            volume[256 + 20] = state;
            assert_eq!(
                FaultTolerantWrite::read(&volume, 0, 256),
                FaultTolerantWrite::Interrupted
            );
        }
        volume[256 + 20] = 0xfe;
        for at in [256 + 16, 256 + 24, 256 + 31] {
            volume[at] ^= 1;
            assert_eq!(
                FaultTolerantWrite::read(&volume, 0, 256),
                FaultTolerantWrite::Interrupted
            );
            volume[at] ^= 1;
        }
    }
}
