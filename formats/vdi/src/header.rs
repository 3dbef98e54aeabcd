//! The header: the pre-header and the header of version 1.1, which VirtualBox's source describes.

use diskfs_block::{BlockRead, Error, Result, bytes};
use uuid::Uuid;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::ids::DiskIds;

/// The offset of the number of blocks in the file.
pub(crate) const ALLOCATED_AT: u64 = 0x184;
/// The offset of the signature. The text before it is for humans.
const SIGNATURE_AT: u64 = 0x40;
const SIGNATURE: u32 = 0xbeda_107f;
/// Version 1.1, the only one since 2007.
const VERSION: u32 = 0x0001_0001;
const SECTOR_BYTES: u32 = 512;
/// The block sizes that are read, as VirtualBox makes them: powers of two. The upper limit is
/// ours; VirtualBox and QEMU make blocks of 1 MiB.
const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 4096..=64 << 20;
/// The block size of new images, as VirtualBox and QEMU make them.
pub(crate) const NEW_BLOCK_BYTES: u32 = 1 << 20;
/// The type of an image that records what is to be undone, of old versions of VirtualBox.
const UNDO: u32 = 3;
/// The type of an image with a parent.
const DIFFERENCING: u32 = 4;
/// The text at the start of new images.
const TEXT: &[u8] = b"<<< diskfs VirtualBox Disk Image >>>\n";
/// The size of the header of version 1.1 without the pre-header, as QEMU writes it.
const HEADER_BYTES: u32 = 0x180;
/// The largest block map: 2^29 entries, as in QEMU, are 512 TiB at a block size of 1 MiB.
pub(crate) const BLOCKS_MAX: u32 = 1 << 29;

/// Bytes 0 to 511 of the file. The names are those of QEMU's and VirtualBox's sources.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    text: [u8; 0x40],
    signature: U32,
    version: U32,
    header_size: U32,
    image_type: U32,
    image_flags: U32,
    description: [u8; 256],
    offset_bmap: U32,
    offset_data: U32,
    cylinders: U32,
    heads: U32,
    sectors: U32,
    sector_size: U32,
    unused1: U32,
    disk_size: U64,
    block_size: U32,
    block_extra: U32,
    blocks_in_image: U32,
    blocks_allocated: U32,
    uuid_image: [u8; 16],
    uuid_last_snap: [u8; 16],
    uuid_link: [u8; 16],
    uuid_parent: [u8; 16],
    unused2: [u8; 56],
}

const _: () = assert!(size_of::<RawHeader>() == 512);

/// The type of a VDI image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageType {
    /// Blocks are allocated when they are written.
    Dynamic,
    /// All blocks are allocated.
    Static,
    /// Blocks are allocated when they are written; the others are those of a parent.
    Differencing,
}

impl ImageType {
    /// Returns the name of the type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dynamic => "dynamic",
            Self::Static => "static",
            Self::Differencing => "differencing",
        }
    }
}

/// A header to write, with blocks of 1 MiB.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewHeader {
    pub(crate) image_type: ImageType,
    pub(crate) size_bytes: u64,
    pub(crate) blocks: u32,
    pub(crate) allocated: u32,
    /// The offset of the block map in bytes.
    pub(crate) map_at: u32,
    /// The offset of the first block in bytes.
    pub(crate) data_at: u32,
    pub(crate) id: Uuid,
    /// The identifier of the contents, which changes with them.
    pub(crate) contents_id: Uuid,
}

impl NewHeader {
    /// Returns the header as it is stored.
    pub(crate) fn encode(&self) -> [u8; size_of::<RawHeader>()] {
        let mut raw = RawHeader::new_zeroed();
        bytes::put(&mut raw.text, 0, TEXT);
        raw.signature = U32::new(SIGNATURE);
        raw.version = U32::new(VERSION);
        raw.header_size = U32::new(HEADER_BYTES);
        raw.image_type = U32::new(match self.image_type {
            ImageType::Dynamic => 1,
            ImageType::Static => 2,
            ImageType::Differencing => DIFFERENCING,
        });
        raw.offset_bmap = U32::new(self.map_at);
        raw.offset_data = U32::new(self.data_at);
        raw.sector_size = U32::new(SECTOR_BYTES);
        raw.disk_size = U64::new(self.size_bytes);
        raw.block_size = U32::new(NEW_BLOCK_BYTES);
        raw.blocks_in_image = U32::new(self.blocks);
        raw.blocks_allocated = U32::new(self.allocated);
        raw.uuid_image = self.id.to_bytes_le();
        raw.uuid_last_snap = self.contents_id.to_bytes_le();
        let mut bytes = [0; size_of::<RawHeader>()];
        bytes.copy_from_slice(raw.as_bytes());
        bytes
    }
}

/// A header whose fields are in range.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) image_type: ImageType,
    pub(crate) size_bytes: u64,
    pub(crate) block_bytes: u64,
    pub(crate) blocks: u64,
    /// The number of blocks in the file, as stored.
    pub(crate) allocated: u64,
    /// The offset of the block map in bytes.
    pub(crate) map_at: u64,
    /// The offset of the first block in bytes.
    pub(crate) data_at: u64,
    pub(crate) id: Uuid,
    /// The parent of a differencing image.
    pub(crate) parent: Option<DiskIds>,
}

impl Header {
    /// Reads and checks the header of the image in `file`.
    pub(crate) fn read(file: &dyn BlockRead) -> Result<Self> {
        let raw = RawHeader::read_start(file)?;
        let raw =
            raw.ok_or_else(|| Error::corrupt("truncated VDI header").at(file.size_bytes()))?;
        raw.check_kind()?;
        let parent = raw.parent()?;
        raw.header(parent)
    }
}

impl DiskIds {
    /// Reads the identifiers of the image in `file`; returns `None` if it is not a VDI of version
    /// 1.1.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn read(file: &dyn BlockRead) -> Result<Option<Self>> {
        let Some(raw) = RawHeader::read_start(file)? else {
            return Ok(None);
        };
        Ok(raw.is_of_version().then(|| raw.own_ids()))
    }
}

impl RawHeader {
    /// Reads the start of a file; returns `None` for a shorter one.
    fn read_start(file: &dyn BlockRead) -> Result<Option<Self>> {
        let mut start = [0; size_of::<Self>()];
        if file.size_bytes() < bytes::len_u64(start.len()) {
            return Ok(None);
        }
        file.read_at(0, &mut start)?;
        Ok(Self::read_from_bytes(&start).ok())
    }

    /// Returns true for the header of a VDI of version 1.1.
    fn is_of_version(&self) -> bool {
        self.signature.get() == SIGNATURE && self.version.get() == VERSION
    }

    /// Returns the identifiers of the image itself.
    fn own_ids(&self) -> DiskIds {
        DiskIds {
            id: Uuid::from_bytes_le(self.uuid_image),
            contents_id: Uuid::from_bytes_le(self.uuid_last_snap),
        }
    }

    fn check_kind(&self) -> Result<()> {
        if self.signature.get() != SIGNATURE {
            return Err(
                Error::corrupt("not a VDI image: its signature is missing").at(SIGNATURE_AT)
            );
        }
        let version = self.version.get();
        if version != VERSION {
            let (major, minor) = (version.wrapping_shr(16), version & 0xffff);
            let reason =
                format!("unsupported version {major}.{minor} of VDI, only 1.1 is supported");
            return Err(unsupported(reason, 0x44));
        }
        let (sector, extra) = (self.sector_size.get(), self.block_extra.get());
        if sector != SECTOR_BYTES {
            let reason = format!("unsupported VDI with sectors of {sector} bytes");
            return Err(unsupported(reason, 0x168));
        }
        if extra != 0 {
            let reason = format!("unsupported VDI with {extra} extra bytes in each block");
            return Err(unsupported(reason, 0x17c));
        }
        Ok(())
    }

    /// Returns the parent, which only a differencing image has.
    fn parent(&self) -> Result<Option<DiskIds>> {
        let link = Uuid::from_bytes_le(self.uuid_link);
        let kind = self.image_type.get();
        if kind == UNDO || kind != DIFFERENCING && !link.is_nil() {
            let reason = format!("unsupported type {kind} of VDI, with the parent {link}");
            return Err(unsupported(reason, 0x4c).with_hint(
                "merge it with its parent: `VBoxManage clonemedium disk CHILD.vdi WHOLE.vdi`",
            ));
        }
        if kind != DIFFERENCING {
            return Ok(None);
        }
        if link.is_nil() {
            let reason = "missing UUID of the parent of a differencing image";
            return Err(Error::corrupt(reason).at(0x1a8));
        }
        Ok(Some(DiskIds {
            id: link,
            contents_id: Uuid::from_bytes_le(self.uuid_parent),
        }))
    }

    fn header(&self, parent: Option<DiskIds>) -> Result<Header> {
        let image_type = match self.image_type.get() {
            1 => ImageType::Dynamic,
            2 => ImageType::Static,
            DIFFERENCING => ImageType::Differencing,
            other => {
                return Err(unsupported(
                    format!("unsupported type {other} of VDI"),
                    0x4c,
                ));
            }
        };
        let block_bytes = self.block_size.get();
        if !block_bytes.is_power_of_two() || !BLOCK_BYTES.contains(&block_bytes) {
            let reason = format!("unsupported VDI with blocks of {block_bytes} bytes");
            return Err(unsupported(reason, 0x178));
        }
        let (blocks, block_bytes) = (self.blocks_in_image.get(), u64::from(block_bytes));
        let size_bytes = self.disk_size.get();
        if blocks > BLOCKS_MAX {
            let reason = format!("unsupported VDI with {blocks} blocks, at most {BLOCKS_MAX}");
            return Err(unsupported(reason, 0x180));
        }
        if size_bytes > block_bytes.saturating_mul(u64::from(blocks)) {
            let reason = format!("disk of {size_bytes} bytes is larger than its {blocks} blocks");
            return Err(Error::corrupt(reason).at(0x170));
        }
        let (map_at, data_at) = (self.offset_bmap.get(), self.offset_data.get());
        let map_end = u64::from(map_at).saturating_add(u64::from(blocks).saturating_mul(4));
        if u64::from(map_at) < bytes::len_u64(size_of::<Self>()) {
            return Err(Error::corrupt("block map overlaps the header").at(0x154));
        }
        if map_end > u64::from(data_at) {
            let reason = format!("block map ends at {map_end:#x}, after the first block");
            return Err(Error::corrupt(reason).at(0x158));
        }
        Ok(Header {
            image_type,
            size_bytes,
            block_bytes,
            blocks: u64::from(blocks),
            allocated: u64::from(self.blocks_allocated.get()),
            map_at: u64::from(map_at),
            data_at: u64::from(data_at),
            id: Uuid::from_bytes_le(self.uuid_image),
            parent,
        })
    }
}

fn unsupported(reason: String, at: u64) -> Error {
    Error::unsupported(reason).at(at)
}
