//! The operations in the payload of a record: a header, `struct xlog_op_header`, and bytes of a
//! region of a transaction.

use zerocopy::big_endian::U32;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::bytes::{index, part};

/// The bytes of `struct xlog_op_header`.
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
#[repr(C)]
struct RawOperation {
    oh_tid: U32,
    oh_len: U32,
    oh_clientid: u8,
    oh_flags: u8,
    oh_res2: [u8; 2],
}

/// The size of the header of an operation.
const HEADER_BYTES: usize = size_of::<RawOperation>();
const _: () = assert!(HEADER_BYTES == 12);

/// The values of `oh_clientid` of transactions, and of the log itself.
const CLIENTS: [u8; 2] = [0x69, 0xaa];

bitflags::bitflags! {
    /// The flags of an operation, `oh_flags`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) struct OperationFlags: u8 {
        /// The start of a transaction.
        const START = 0x01;
        const COMMIT = 0x02;
        /// The region is continued in the next record.
        const CONTINUE = 0x04;
        /// The operation continues the region of the record before.
        const WAS_CONTINUED = 0x08;
        /// The end of a continued region.
        const END = 0x10;
        /// The record of a clean unmount.
        const UNMOUNT = 0x20;
    }
}

/// One operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation<'a> {
    /// The number of its transaction.
    pub(super) transaction: u32,
    pub(super) flags: OperationFlags,
    pub(super) bytes: &'a [u8],
}

/// Takes the operation at the start of a payload. Returns it and the rest of the payload; `None` if
/// it is invalid or exceeds the payload.
pub(super) fn take(payload: &[u8]) -> Option<(Operation<'_>, &[u8])> {
    let (raw, rest) = RawOperation::read_from_prefix(payload).ok()?;
    let len = index(raw.oh_len.get());
    let operation = Operation {
        transaction: raw.oh_tid.get(),
        flags: OperationFlags::from_bits_retain(raw.oh_flags),
        bytes: part(rest, 0, len)?,
    };
    CLIENTS
        .contains(&raw.oh_clientid)
        .then_some((operation, rest.get(len..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn must_lie_within_the_payload() {
        let bytes = [0, 0, 0, 7, 0, 0, 0, 2, 0x69, 2, 0, 0, 0xaa, 0xbb, 0xcc];
        let (operation, rest) = take(&bytes).unwrap();
        assert_eq!(
            (operation.transaction, operation.bytes),
            (7, &[0xaa, 0xbb][..])
        );
        assert_eq!(
            (operation.flags, rest),
            (OperationFlags::COMMIT, &[0xcc][..])
        );
        assert!(take(&bytes[..13]).is_none());
        assert!(take(&bytes[..11]).is_none());
        let mut other = bytes;
        other[8] = 1;
        assert!(take(&other).is_none());
    }
}
