//! Inodes, compact and extended.

use diskfs_vfs::{Device, FileType, InodeNumber, Timestamp};
use zerocopy::FromBytes;
use zerocopy::little_endian::U16;

use crate::error::{Error, ErrorKind, Result, corrupt};
use crate::layout::Layout;
use crate::place::Place;
use crate::raw_inode::{RawCompactInode, RawExtendedInode};
use crate::superblock::{METABOX_BIT, SUPERBLOCK_OFFSET, Superblock};
use crate::volume::Volume;

/// The bits of `i_format` that are known.
const FORMAT_KNOWN: u16 = 0x1f;
const FORMAT_EXTENDED: u16 = 0x01;
/// A file with one link, or a directory without an entry for itself.
const FORMAT_ONE_LINK_OR_NO_DOT: u16 = 0x10;

/// The size of the place of an inode: numbers count in it.
const SLOT_BYTES: u64 = 32;

/// An inode.
#[derive(Debug, Clone)]
pub(crate) struct Inode {
    pub(crate) number: InodeNumber,
    pub(crate) layout: Layout,
    pub(crate) file_type: FileType,
    pub(crate) mode: u16,
    pub(crate) size_bytes: u64,
    pub(crate) links: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) modified: Timestamp,
    /// True for a directory without an entry for itself.
    pub(crate) has_no_dot: bool,
    /// The place after the fixed fields, where the attributes are.
    pub(crate) xattrs: Place,
    /// The size of the attributes.
    pub(crate) xattr_bytes: u64,
    /// The first block, the number of compressed blocks, the device or the format of chunks.
    union: u32,
    /// The high bits of the union, and whether the inode has them.
    union_high: Option<u16>,
}

impl Inode {
    /// Reads the inode with a number.
    ///
    /// # Errors
    /// `NotFound` if the number lies outside of the device; `Corrupt` if the inode is invalid.
    pub(crate) fn read(volume: &Volume, number: InodeNumber) -> Result<Self> {
        Self::read_at(volume, number).map_err(|error: Error| error.in_inode(number))
    }

    /// Reads an inode whose address is in the superblock.
    ///
    /// # Errors
    /// `Corrupt` if it lies outside of the device.
    pub(crate) fn read_named(volume: &Volume, nid: u64) -> Result<Self> {
        Self::read(volume, volume.superblock.number_of(nid)).map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                let reason = format!("invalid superblock: inode {nid} is outside of the device");
                corrupt(reason, SUPERBLOCK_OFFSET)
            }
            _ => error,
        })
    }

    fn read_at(volume: &Volume, number: InodeNumber) -> Result<Self> {
        let place = place(volume, number)?;
        let mut format = [0; 2];
        volume.read_metadata(place, &mut format)?;
        let format = u16::from_le_bytes(format);
        check_format(format, place)?;
        if format & FORMAT_EXTENDED == 0 {
            let mut bytes = [0; size_of::<RawCompactInode>()];
            volume.read_metadata(place, &mut bytes)?;
            let raw = RawCompactInode::read_from_bytes(&bytes);
            let raw = raw.map_err(|_| corrupt("invalid inode: wrong size", place.at))?;
            Self::compact(&volume.superblock, number, place, &raw)
        } else {
            let mut bytes = [0; size_of::<RawExtendedInode>()];
            volume.read_metadata(place, &mut bytes)?;
            let raw = RawExtendedInode::read_from_bytes(&bytes);
            let raw = raw.map_err(|_| corrupt("invalid inode: wrong size", place.at))?;
            Self::extended(number, place, &raw)
        }
    }

    fn compact(
        superblock: &Superblock,
        number: InodeNumber,
        place: Place,
        raw: &RawCompactInode,
    ) -> Result<Self> {
        let format = raw.i_format.get();
        let file_type = file_type(raw.i_mode, place)?;
        let has_flag = format & FORMAT_ONE_LINK_OR_NO_DOT != 0;
        let has_one_link = has_flag && file_type != FileType::Directory;
        let seconds = superblock.epoch.wrapping_add(raw.i_mtime.get().into());
        Ok(Self {
            number,
            layout: layout(format, place)?,
            file_type,
            mode: raw.i_mode.get(),
            size_bytes: raw.i_size.get().into(),
            links: if has_one_link {
                1
            } else {
                raw.i_nb.get().into()
            },
            uid: raw.i_uid.get().into(),
            gid: raw.i_gid.get().into(),
            modified: Timestamp {
                seconds: seconds.cast_signed(),
                nanoseconds: superblock.fixed_nanoseconds.min(999_999_999),
            },
            has_no_dot: has_flag && file_type == FileType::Directory,
            xattrs: place.after(32),
            xattr_bytes: xattr_bytes(raw.i_xattr_icount),
            union: raw.i_u.get(),
            union_high: has_one_link.then(|| raw.i_nb.get()),
        })
    }

    fn extended(number: InodeNumber, place: Place, raw: &RawExtendedInode) -> Result<Self> {
        let format = raw.i_format.get();
        let file_type = file_type(raw.i_mode, place)?;
        let size_bytes = raw.i_size.get();
        if i64::try_from(size_bytes).is_err() {
            let reason = format!("invalid inode: a size of {size_bytes} bytes");
            return Err(corrupt(reason, place.at));
        }
        let has_flag = format & FORMAT_ONE_LINK_OR_NO_DOT != 0;
        Ok(Self {
            number,
            layout: layout(format, place)?,
            file_type,
            mode: raw.i_mode.get(),
            size_bytes,
            links: raw.i_nlink.get(),
            uid: raw.i_uid.get(),
            gid: raw.i_gid.get(),
            modified: Timestamp {
                seconds: raw.i_mtime.get().cast_signed(),
                nanoseconds: raw.i_mtime_nsec.get().min(999_999_999),
            },
            has_no_dot: has_flag && file_type == FileType::Directory,
            xattrs: place.after(64),
            xattr_bytes: xattr_bytes(raw.i_xattr_icount),
            union: raw.i_u.get(),
            union_high: Some(raw.i_nb.get()),
        })
    }

    /// Returns the place after the attributes: inline contents, or the indexes of contents.
    pub(crate) fn body(&self) -> Place {
        self.xattrs.after(self.xattr_bytes)
    }

    /// Returns the first block of flat contents; `None` for a hole.
    pub(crate) fn start_block(&self) -> Option<u64> {
        let high = self.union_high.map_or(u16::MAX, |high| high);
        let is_null = self.union == u32::MAX && high == u16::MAX;
        let high = u64::from(self.union_high.unwrap_or(0)).wrapping_shl(32);
        let block = u64::from(self.union) | high;
        (!is_null || self.layout != Layout::FlatPlain).then_some(block)
    }

    /// Returns the number of blocks of compressed contents.
    pub(crate) fn compressed_blocks(&self) -> u64 {
        let high = u64::from(self.union_high.unwrap_or(0)).wrapping_shl(32);
        u64::from(self.union) | high
    }

    /// Returns the format of chunks.
    pub(crate) fn chunk_format(&self) -> u32 {
        self.union & 0xffff
    }

    /// Returns the number of a device node, decoded as Linux's `new_decode_dev` does.
    pub(crate) fn device(&self) -> Option<Device> {
        let is_node = matches!(
            self.file_type,
            FileType::BlockDevice | FileType::CharacterDevice
        );
        is_node.then_some(Device {
            major: self.union.wrapping_shr(8) & 0xfff,
            minor: (self.union & 0xff) | (self.union.wrapping_shr(12) & 0xf_ff00),
        })
    }

    /// Fails unless it is a directory.
    pub(crate) fn check_directory(&self) -> Result<()> {
        match self.file_type {
            FileType::Directory => Ok(()),
            _ => Err(Error::from(ErrorKind::NotADirectory).in_inode(self.number)),
        }
    }

    /// Fails unless it is a regular file.
    pub(crate) fn check_file(&self) -> Result<()> {
        let kind = match self.file_type {
            FileType::Regular => return Ok(()),
            FileType::Directory => ErrorKind::IsADirectory,
            _ => ErrorKind::Invalid,
        };
        Err(Error::from(kind).in_inode(self.number))
    }
}

/// Returns the place of the inode with a number.
fn place(volume: &Volume, number: InodeNumber) -> Result<Place> {
    let superblock = &volume.superblock;
    let nid = superblock.nid_of(number);
    let is_in_metabox = superblock.metabox.is_some() && nid & METABOX_BIT != 0;
    let slot = if is_in_metabox {
        nid & !METABOX_BIT
    } else {
        nid
    };
    let start = if is_in_metabox {
        0
    } else {
        superblock.byte_of(superblock.meta_block.into())
    };
    let at = slot.checked_mul(SLOT_BYTES);
    let at = at.and_then(|offset| offset.checked_add(start));
    let end = volume.metadata_end(is_in_metabox);
    match at.filter(|at| at.saturating_add(SLOT_BYTES) <= end) {
        Some(at) => Ok(Place { is_in_metabox, at }),
        None => Err(ErrorKind::NotFound.into()),
    }
}

fn check_format(format: u16, place: Place) -> Result<()> {
    if format & !FORMAT_KNOWN != 0 {
        let reason = format!("inodes of the unknown format {format:#x} are not supported");
        return Err(Error::new(ErrorKind::Unsupported, reason).at(place.at));
    }
    Ok(())
}

fn layout(format: u16, place: Place) -> Result<Layout> {
    Layout::from_format(format).ok_or_else(|| {
        let reason = format!("inodes of the unknown format {format:#x} are not supported");
        Error::new(ErrorKind::Unsupported, reason).at(place.at)
    })
}

fn file_type(mode: U16, place: Place) -> Result<FileType> {
    let mode = u32::from(mode.get());
    FileType::from_mode(mode)
        .ok_or_else(|| corrupt(format!("invalid inode: mode {mode:#o}"), place.at))
}

/// Returns the size of the attributes in an inode: a header of 12 bytes, and units of 4 bytes.
fn xattr_bytes(count: U16) -> u64 {
    match u64::from(count.get()) {
        0 => 0,
        count => count.saturating_sub(1).saturating_mul(4).saturating_add(12),
    }
}
