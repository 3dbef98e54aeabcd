//! The header: QEMU's `docs/interop/qed_spec`, "Header".

use diskfs_block::{BlockRead, Error, Result, bytes, read_within};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

const MAGIC: [u8; 4] = *b"QED\0";
/// The cluster sizes of QEMU, in bytes.
const CLUSTER_BYTES: std::ops::RangeInclusive<u32> = 4096..=64 << 20;
/// The sizes of a table in clusters (specification, "`table_size`").
const TABLE_CLUSTERS: std::ops::RangeInclusive<u32> = 1..=16;
/// The longest name of a backing file: the limit of Linux.
const NAME_MAX_BYTES: u32 = 4096;

const FEATURE_BACKING_FILE: u64 = 1;
const FEATURE_NEED_CHECK: u64 = 2;
const FEATURE_BACKING_NO_PROBE: u64 = 4;

/// The header, with the names of the specification.
#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 4],
    cluster_size: U32,
    table_size: U32,
    header_size: U32,
    features: U64,
    compat_features: U64,
    autoclear_features: U64,
    l1_table_offset: U64,
    image_size: U64,
    backing_filename_offset: U32,
    backing_filename_size: U32,
}

/// The backing file, as the image names it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backing {
    /// The name.
    pub name: Vec<u8>,
    /// True if the image says that the backing file is raw. Otherwise it does not name a format.
    pub is_raw: bool,
}

/// A header whose fields are in range.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) cluster_bytes: u64,
    /// The number of entries of a table.
    pub(crate) entries: u64,
    /// The length of the header in bytes. No table or cluster is before that.
    pub(crate) tables_from: u64,
    pub(crate) l1_at: u64,
    pub(crate) size_bytes: u64,
    pub(crate) backing: Option<Backing>,
    /// True if the image was not closed properly.
    pub(crate) needs_check: bool,
}

impl Header {
    /// Reads and checks the header of the image in `file`.
    pub(crate) fn read(file: &dyn BlockRead) -> Result<Self> {
        let start = read_within(file, 0, size_of::<RawHeader>())?;
        let raw = start.and_then(|start| RawHeader::read_from_bytes(&start).ok());
        let raw = raw.ok_or_else(|| Error::corrupt("truncated QED header").at(0))?;
        if raw.magic != MAGIC {
            return Err(Error::corrupt("not a QED image: its magic number is missing").at(0));
        }
        let known = FEATURE_BACKING_FILE | FEATURE_NEED_CHECK | FEATURE_BACKING_NO_PROBE;
        let unknown = raw.features.get() & !known;
        if unknown != 0 {
            let reason = format!("unsupported QED with unknown features {unknown:#x}");
            return Err(Error::unsupported(reason).at(16));
        }
        let backing = raw.backing(file)?;
        raw.header(backing)
    }
}

impl RawHeader {
    fn has(&self, feature: u64) -> bool {
        self.features.get() & feature != 0
    }

    fn backing(&self, file: &dyn BlockRead) -> Result<Option<Backing>> {
        if !self.has(FEATURE_BACKING_FILE) {
            return Ok(None);
        }
        let (at, len) = (
            self.backing_filename_offset.get(),
            self.backing_filename_size.get(),
        );
        if len > NAME_MAX_BYTES {
            let reason =
                format!("name of the backing file has {len} bytes, at most {NAME_MAX_BYTES}");
            return Err(Error::unsupported(reason).at(60));
        }
        let name = read_within(file, u64::from(at), bytes::index(len))?;
        let name = name.ok_or_else(|| {
            Error::corrupt("name of the backing file is past the end of the file").at(56)
        })?;
        Ok(Some(Backing {
            name,
            is_raw: self.has(FEATURE_BACKING_NO_PROBE),
        }))
    }

    fn header(&self, backing: Option<Backing>) -> Result<Header> {
        let cluster = self.cluster_size.get();
        if !cluster.is_power_of_two() || !CLUSTER_BYTES.contains(&cluster) {
            return Err(Error::corrupt(format!("invalid cluster size {cluster}")).at(4));
        }
        let table = self.table_size.get();
        if !table.is_power_of_two() || !TABLE_CLUSTERS.contains(&table) {
            return Err(Error::corrupt(format!("invalid table size {table}")).at(8));
        }
        let cluster_bytes = u64::from(cluster);
        let entries = cluster_bytes.saturating_mul(u64::from(table)) / 8;
        // At most 2^26, 2^27 and 2^27: the product has more than 64 bits only for sizes that no
        // image has.
        let size_max = cluster_bytes.checked_mul(entries.saturating_mul(entries));
        let size_bytes = self.image_size.get();
        if size_max.is_some_and(|max| size_bytes > max) {
            let reason = format!("disk of {size_bytes} bytes is larger than its tables map");
            return Err(Error::corrupt(reason).at(48));
        }
        let l1_at = self.l1_table_offset.get();
        if !l1_at.is_multiple_of(cluster_bytes) || l1_at == 0 {
            return Err(Error::corrupt(format!("invalid L1 table at {l1_at:#x}")).at(40));
        }
        Ok(Header {
            cluster_bytes,
            entries,
            tables_from: u64::from(self.header_size.get()).saturating_mul(cluster_bytes),
            l1_at,
            size_bytes,
            backing,
            needs_check: self.has(FEATURE_NEED_CHECK),
        })
    }
}
