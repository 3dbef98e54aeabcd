//! The header: QEMU's docs/interop/parallels, "Parallels Disk Format".

use diskfs_block::{BlockRead, Error, Result, bytes, read_within};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The magic number of images whose table has offsets in sectors.
const MAGIC_SECTORS: [u8; 16] = *b"WithoutFreeSpace";
/// The magic number of images whose table has offsets in clusters.
const MAGIC_CLUSTERS: [u8; 16] = *b"WithouFreSpacExt";
const VERSION: u32 = 2;
/// The mark of an image that is in use.
const IN_USE: u32 = 0x746f_6e59;
pub(crate) const SECTOR_BYTES: u64 = 512;
/// The offsets of header fields.
pub(crate) const IN_USE_AT: u64 = 44;
pub(crate) const DATA_OFFSET_AT: u64 = 48;
/// The largest cluster in sectors: 1 GiB. QEMU's limit is 2 GiB; images have 1 MiB.
const CLUSTER_SECTORS_MAX: u32 = 1 << 21;

/// The header, with the names of the specification.
#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 16],
    version: U32,
    heads: U32,
    cylinders: U32,
    tracks: U32,
    bat_entries: U32,
    nb_sectors: U64,
    in_use: U32,
    data_start: U32,
    flags: U32,
    ext_off: U64,
}

/// The offset of the block allocation table: the length of the header.
pub(crate) const TABLE_AT: u64 = 64;
const _: () = assert!(size_of::<RawHeader>() == 64);

/// A header whose fields are in range.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) size_bytes: u64,
    pub(crate) cluster_bytes: u64,
    pub(crate) entries: u64,
    /// The unit of entries of the table, in bytes.
    pub(crate) unit_bytes: u64,
    /// True for an image of the first kind, `WithoutFreeSpace`.
    is_old: bool,
    pub(crate) is_in_use: bool,
    /// The start of the data in sectors, as the header states it.
    pub(crate) data_offset_sectors: u64,
}

impl Header {
    /// Reads and checks the header of the image in `file`.
    pub(crate) fn read(file: &dyn BlockRead) -> Result<Self> {
        let start = read_within(file, 0, bytes::index(TABLE_AT))?;
        let raw = start.and_then(|start| RawHeader::read_from_bytes(&start).ok());
        let raw = raw.ok_or_else(|| Error::corrupt("truncated Parallels header").at(0))?;
        raw.header()
    }

    /// Returns the start of the data in sectors, and whether the header states a valid one. If it
    /// does not, the data are expected right after the table.
    pub(crate) fn data_start(&self, file_sectors: u64) -> (bool, u64) {
        let table_end = TABLE_AT.saturating_add(self.entries.saturating_mul(4));
        let unit_bytes = if self.is_old {
            SECTOR_BYTES
        } else {
            self.cluster_bytes
        };
        let first = table_end
            .checked_next_multiple_of(unit_bytes)
            .unwrap_or(table_end)
            / SECTOR_BYTES;
        match self.data_offset_sectors {
            0 if self.is_old => (true, first),
            stated if (first..=file_sectors).contains(&stated) => (true, stated),
            _ => (false, first),
        }
    }
}

impl RawHeader {
    fn header(&self) -> Result<Header> {
        let version = self.version.get();
        if version != VERSION {
            let reason = format!("unsupported version {version} of a Parallels image");
            return Err(Error::unsupported(reason).at(16));
        }
        let cluster_sectors = self.tracks.get();
        if !(1..=CLUSTER_SECTORS_MAX).contains(&cluster_sectors) {
            let reason = format!("invalid cluster of {cluster_sectors} sectors");
            return Err(Error::corrupt(reason).at(28));
        }
        let cluster_bytes = u64::from(cluster_sectors).saturating_mul(SECTOR_BYTES);
        let is_old = self.magic == MAGIC_SECTORS;
        let (unit_bytes, sectors) = match self.magic {
            // Old images have 32 bits for the size, and anything in the other 32.
            MAGIC_SECTORS => (SECTOR_BYTES, self.nb_sectors.get() & u64::from(u32::MAX)),
            MAGIC_CLUSTERS => (cluster_bytes, self.nb_sectors.get()),
            _ => {
                let reason = "not a Parallels image: its magic number is missing";
                return Err(Error::corrupt(reason).at(0));
            }
        };
        let entries = u64::from(self.bat_entries.get());
        let size_bytes = sectors.checked_mul(SECTOR_BYTES);
        let needed = size_bytes.map(|size| size.div_ceil(cluster_bytes));
        match size_bytes.zip(needed) {
            Some((size_bytes, needed)) if needed <= entries => Ok(Header {
                size_bytes,
                cluster_bytes,
                entries,
                unit_bytes,
                is_old,
                is_in_use: self.in_use.get() == IN_USE,
                data_offset_sectors: self.data_start.get().into(),
            }),
            _ => {
                let reason =
                    format!("disk of {sectors} sectors is larger than its {entries} clusters");
                Err(Error::corrupt(reason).at(36))
            }
        }
    }
}
