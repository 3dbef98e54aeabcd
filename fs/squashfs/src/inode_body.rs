//! The fields of an inode after its header.

use diskfs_vfs::{Device, FileType};
use zerocopy::little_endian::U32;

use crate::error::{Result, corrupt};
use crate::metadata_block::{MetadataCursor, MetadataPlace};
use crate::raw_inode::{
    RawDevInode, RawDirInode, RawIpcInode, RawLdirInode, RawLregInode, RawRegInode, RawSymlinkInode,
};

/// The maximum length of a symlink's target, which is Linux's.
const TARGET_MAX_BYTES: u32 = 4096;

/// The part of an inode that depends on its type.
#[derive(Debug, Clone)]
pub(crate) enum Contents {
    Directory(Directory),
    File(File),
    Symlink {
        target: MetadataPlace,
        len: u32,
    },
    Device(Device),
    /// A FIFO or socket.
    Ipc,
}

/// The contents of a directory.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    /// The place of the listing in the directory table.
    pub(crate) start_block: u32,
    pub(crate) offset: u16,
    /// The size as the inode has it: the listing, and [`DOTS_BYTES`].
    pub(crate) size_bytes: u32,
    /// The stored number of the parent.
    pub(crate) parent: u32,
    pub(crate) index_entries: u16,
    pub(crate) index: MetadataPlace,
}

/// The contents of a regular file.
#[derive(Debug, Clone)]
pub(crate) struct File {
    /// The place of the first block on the device.
    pub(crate) start: u64,
    pub(crate) size_bytes: u64,
    /// The number of bytes in holes.
    pub(crate) sparse_bytes: u64,
    /// The fragment with the end of the file.
    pub(crate) fragment: Option<FragmentPlace>,
    /// The place of the list of blocks.
    pub(crate) list: MetadataPlace,
}

/// A part of a fragment block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FragmentPlace {
    pub(crate) number: u32,
    pub(crate) offset: u32,
}

/// The fields of an inode after its header.
pub(crate) struct InodeBody {
    pub(crate) links: u32,
    /// The index of the attributes.
    pub(crate) xattr: Option<u32>,
    pub(crate) contents: Contents,
}

impl InodeBody {
    /// Reads the fields of an inode of a type.
    pub(crate) fn read(
        cursor: &mut MetadataCursor<'_>,
        kind: FileType,
        is_extended: bool,
    ) -> Result<Self> {
        match (kind, is_extended) {
            (FileType::Directory, false) => Self::directory(cursor),
            (FileType::Directory, true) => Self::extended_directory(cursor),
            (FileType::Regular, false) => Self::file(cursor),
            (FileType::Regular, true) => Self::extended_file(cursor),
            (FileType::Symlink, _) => Self::symlink(cursor, is_extended),
            (FileType::BlockDevice | FileType::CharacterDevice, _) => {
                let raw: RawDevInode = cursor.read_raw()?;
                let contents = Contents::Device(device(raw.rdev.get()));
                Self::special(cursor, raw.nlink, contents, is_extended)
            }
            (FileType::Fifo | FileType::Socket, _) => {
                let raw: RawIpcInode = cursor.read_raw()?;
                Self::special(cursor, raw.nlink, Contents::Ipc, is_extended)
            }
        }
    }

    fn special(
        cursor: &mut MetadataCursor<'_>,
        links: U32,
        contents: Contents,
        is_extended: bool,
    ) -> Result<Self> {
        let xattr = if is_extended {
            optional(cursor.read_raw::<U32>()?.get())
        } else {
            None
        };
        Ok(Self {
            links: links.get(),
            xattr,
            contents,
        })
    }

    fn symlink(cursor: &mut MetadataCursor<'_>, is_extended: bool) -> Result<Self> {
        let raw: RawSymlinkInode = cursor.read_raw()?;
        let len = raw.symlink_size.get();
        if len > TARGET_MAX_BYTES {
            let reason = format!("invalid symlink: its target has {len} bytes, more than 4096");
            return Err(corrupt(reason, cursor.place()));
        }
        let target = cursor.position();
        if is_extended {
            cursor.skip(len.into())?;
        }
        let contents = Contents::Symlink { target, len };
        Self::special(cursor, raw.nlink, contents, is_extended)
    }

    fn file(cursor: &mut MetadataCursor<'_>) -> Result<Self> {
        let raw: RawRegInode = cursor.read_raw()?;
        Ok(Self {
            links: 1,
            xattr: None,
            contents: Contents::File(File {
                start: raw.start_block.get().into(),
                size_bytes: raw.file_size.get().into(),
                sparse_bytes: 0,
                fragment: fragment(raw.fragment.get(), raw.offset.get()),
                list: cursor.position(),
            }),
        })
    }

    fn extended_file(cursor: &mut MetadataCursor<'_>) -> Result<Self> {
        let raw: RawLregInode = cursor.read_raw()?;
        Ok(Self {
            links: raw.nlink.get(),
            xattr: optional(raw.xattr.get()),
            contents: Contents::File(File {
                start: raw.start_block.get(),
                size_bytes: raw.file_size.get(),
                sparse_bytes: raw.sparse.get(),
                fragment: fragment(raw.fragment.get(), raw.offset.get()),
                list: cursor.position(),
            }),
        })
    }

    fn directory(cursor: &mut MetadataCursor<'_>) -> Result<Self> {
        let raw: RawDirInode = cursor.read_raw()?;
        Ok(Self {
            links: raw.nlink.get(),
            xattr: None,
            contents: Contents::Directory(Directory {
                start_block: raw.start_block.get(),
                offset: raw.offset.get(),
                size_bytes: raw.file_size.get().into(),
                parent: raw.parent_inode.get(),
                index_entries: 0,
                index: cursor.position(),
            }),
        })
    }

    fn extended_directory(cursor: &mut MetadataCursor<'_>) -> Result<Self> {
        let raw: RawLdirInode = cursor.read_raw()?;
        Ok(Self {
            links: raw.nlink.get(),
            xattr: optional(raw.xattr.get()),
            contents: Contents::Directory(Directory {
                start_block: raw.start_block.get(),
                offset: raw.offset.get(),
                size_bytes: raw.file_size.get(),
                parent: raw.parent_inode.get(),
                index_entries: raw.i_count.get(),
                index: cursor.position(),
            }),
        })
    }
}

/// Returns the number of a fragment or of attributes; `None` if there are none.
fn optional(number: u32) -> Option<u32> {
    (number != u32::MAX).then_some(number)
}

fn fragment(number: u32, offset: u32) -> Option<FragmentPlace> {
    optional(number).map(|number| FragmentPlace { number, offset })
}

/// Decodes a device number, as Linux's `new_decode_dev` does.
fn device(rdev: u32) -> Device {
    Device {
        major: rdev.wrapping_shr(8) & 0xfff,
        minor: (rdev & 0xff) | (rdev.wrapping_shr(12) & 0xf_ff00),
    }
}
