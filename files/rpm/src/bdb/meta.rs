//! The metadata page of the hash: `HMETA33`, with the generic `DBMETA` before it.

use diskfs_block::bytes::index;
use diskfs_block::{BlockRead, Error, Result, read_within};

use crate::byte_order::ByteOrder;
use crate::visited::page_count;

/// The magic number of hashes, `DB_HASHMAGIC`.
const HASH_MAGIC: u32 = 0x0006_1561;

/// The magic number of btrees, `DB_BTREEMAGIC`.
const BTREE_MAGIC: u32 = 0x0005_3162;

const MAGIC_AT: usize = 12;

/// The number of bytes to read: the part of the page with fields.
const META_BYTES: usize = 512;

/// The flag of pages with checksums, which have another layout, `DBMETA_CHKSUM`.
const HAS_CHECKSUMS: u8 = 1;

const SPLIT_POINTS: usize = 32;

/// Returns true if a file that starts with these bytes is a Berkeley DB database.
pub(crate) fn is_bdb(start: &[u8]) -> bool {
    order_of(start, HASH_MAGIC).is_some() || order_of(start, BTREE_MAGIC).is_some()
}

fn order_of(start: &[u8], magic: u32) -> Option<ByteOrder> {
    let orders = [ByteOrder::Little, ByteOrder::Big];
    let mut orders = orders.into_iter();
    orders.find(|order| order.u32(start, MAGIC_AT) == Some(magic))
}

/// The fields of the metadata page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HashMeta {
    pub(super) order: ByteOrder,
    /// The page size: a power of two from 512 to 65536.
    pub(super) page_bytes: usize,
    /// The number of pages in the file.
    pub(super) pages: u32,
    /// The number of the last bucket.
    pub(super) max_bucket: u32,
    /// For each doubling of the table, the number of other pages before its buckets.
    spares: [u32; SPLIT_POINTS],
}

impl HashMeta {
    pub(super) fn read(device: &dyn BlockRead) -> Result<Self> {
        let bytes = read_within(device, 0, META_BYTES)?;
        let bytes = bytes.ok_or_else(|| {
            Error::corrupt("invalid database: the file ends within its first page")
        })?;
        let Some(order) = order_of(&bytes, HASH_MAGIC) else {
            let reason = "unsupported btree of Berkeley DB: rpm keeps packages in a hash";
            return Err(Error::unsupported(reason));
        };
        Self::from_bytes(&bytes, order, device.size_bytes())
    }

    fn from_bytes(bytes: &[u8], order: ByteOrder, size_bytes: u64) -> Result<Self> {
        let field = |at| order.u32(bytes, at).unwrap_or_default();
        refuse_unknown(bytes, field(16))?;
        let page_bytes = index(field(20));
        if !(512..=65536).contains(&page_bytes) || !page_bytes.is_power_of_two() {
            let reason = format!(
                "invalid database: page size is {page_bytes}, expected a power of two from 512 to 65536"
            );
            return Err(Error::corrupt(reason).at(20));
        }
        let pages = page_count(size_bytes, page_bytes)?;
        let max_bucket = field(72);
        if max_bucket >= pages {
            let reason = format!(
                "invalid database: the last bucket is {max_bucket}, the file has {pages} pages"
            );
            return Err(Error::corrupt(reason).at(72));
        }
        let mut spares = [0; SPLIT_POINTS];
        for (spare, at) in spares.iter_mut().zip((96..).step_by(4)) {
            *spare = field(at);
        }
        Ok(Self {
            order,
            page_bytes,
            pages,
            max_bucket,
            spares,
        })
    }

    /// Returns the first page of a bucket. Buckets are stored in order, with other pages between
    /// those of one doubling of the table and the next.
    pub(super) fn page_of(&self, bucket: u32) -> Result<u32> {
        let doubling = index(32_u32.saturating_sub(bucket.leading_zeros()));
        let spare = self.spares.get(doubling);
        let page = spare.and_then(|spare| bucket.checked_add(*spare));
        page.ok_or_else(|| Error::corrupt(format!("invalid database: bucket {bucket} has no page")))
    }
}

fn refuse_unknown(bytes: &[u8], version: u32) -> Result<()> {
    let byte = |at| bytes.get(at).copied().unwrap_or_default();
    let reason = match () {
        () if !(8..=10).contains(&version) => {
            format!("unsupported Berkeley DB hash version {version}, expected 8 to 10")
        }
        () if byte(24) != 0 => "unsupported database: it is encrypted".to_owned(),
        () if byte(26) & HAS_CHECKSUMS != 0 => {
            "unsupported database: its pages have checksums".to_owned()
        }
        () => return Ok(()),
    };
    Err(Error::unsupported(reason))
}
