//! Requests of the guest: `struct virtio_blk_req` (virtio 1.3, 5.2.6).

use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_S_IOERR, VIRTIO_BLK_S_OK, VIRTIO_BLK_S_UNSUPP, VIRTIO_BLK_T_DISCARD,
    VIRTIO_BLK_T_FLUSH, VIRTIO_BLK_T_GET_ID, VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT,
    VIRTIO_BLK_T_WRITE_ZEROES, VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP,
};

/// The unit of sector numbers in virtio-blk, whatever the device's own block size.
pub(super) const SECTOR_SIZE: u16 = 512;

/// The length of a serial number.
pub(super) const ID_BYTES: usize = 20;

/// The length of a request's header: type, a reserved word, sector.
pub(super) const HEADER_BYTES: usize = 16;

/// The length of a range to discard or zero: sector, count, flags.
pub(super) const RANGE_BYTES: usize = 16;

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    Read { sector: u64 },
    Write { sector: u64 },
    Flush,
    Id,
    Discard,
    WriteZeroes,
    Unknown,
}

/// The result of a request, its last byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Done,
    Failed,
    Unsupported,
}

impl Request {
    pub(super) fn parse(header: [u8; HEADER_BYTES]) -> Self {
        let [t0, t1, t2, t3, _, _, _, _, sector @ ..] = header;
        let sector = u64::from_le_bytes(sector);
        match u32::from_le_bytes([t0, t1, t2, t3]) {
            VIRTIO_BLK_T_IN => Self::Read { sector },
            VIRTIO_BLK_T_OUT => Self::Write { sector },
            VIRTIO_BLK_T_FLUSH => Self::Flush,
            VIRTIO_BLK_T_GET_ID => Self::Id,
            VIRTIO_BLK_T_DISCARD => Self::Discard,
            VIRTIO_BLK_T_WRITE_ZEROES => Self::WriteZeroes,
            _ => Self::Unknown,
        }
    }
}

impl Status {
    pub(super) fn byte(self) -> u8 {
        let number = match self {
            Self::Done => VIRTIO_BLK_S_OK,
            Self::Failed => VIRTIO_BLK_S_IOERR,
            Self::Unsupported => VIRTIO_BLK_S_UNSUPP,
        };
        // The values are 0, 1 and 2.
        u8::try_from(number).unwrap_or(u8::MAX)
    }
}

/// A range to discard or zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) sector: u64,
    pub(super) sectors: u32,
    flags: u32,
}

impl Range {
    pub(super) fn parse(bytes: [u8; RANGE_BYTES]) -> Self {
        let [s0, s1, s2, s3, s4, s5, s6, s7, n0, n1, n2, n3, flags @ ..] = bytes;
        Self {
            sector: u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]),
            sectors: u32::from_le_bytes([n0, n1, n2, n3]),
            flags: u32::from_le_bytes(flags),
        }
    }

    /// Returns true if a flag is set that the request does not have: only zeroes may be written by
    /// unmapping.
    pub(super) fn has_unknown_flags(self, request: Request) -> bool {
        let known = match request {
            Request::WriteZeroes => VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP,
            _ => 0,
        };
        self.flags & !known != 0
    }
}

/// Returns the byte offset of whole sectors; `None` if the device does not have them.
pub(super) fn locate(sector: u64, len_bytes: u64, size_bytes: u64) -> Option<u64> {
    if !len_bytes.is_multiple_of(SECTOR_SIZE.into()) {
        return None;
    }
    let offset = sector.checked_mul(SECTOR_SIZE.into())?;
    let end = offset.checked_add(len_bytes)?;
    (end <= size_bytes).then_some(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_do_not_wrap() {
        assert_eq!(locate(2, 512, 1536), Some(1024));
        assert_eq!(locate(2, 1024, 1536), None);
        assert_eq!(locate(0, 100, 1536), None);
        assert_eq!(locate(u64::MAX / 512, 1024, u64::MAX), None);
        assert_eq!(locate(u64::MAX, 0, u64::MAX), None);
    }

    #[test]
    fn headers_and_ranges_are_read_as_written() {
        let mut header = [0; HEADER_BYTES];
        header[8] = 7;
        assert_eq!(Request::parse(header), Request::Read { sector: 7 });
        header[0] = 99;
        assert_eq!(Request::parse(header), Request::Unknown);
        let mut bytes = [0; RANGE_BYTES];
        (bytes[0], bytes[8], bytes[12]) = (1, 2, 1);
        let range = Range::parse(bytes);
        assert_eq!((range.sector, range.sectors), (1, 2));
        assert!(range.has_unknown_flags(Request::Discard));
        assert!(!range.has_unknown_flags(Request::WriteZeroes));
    }
}
