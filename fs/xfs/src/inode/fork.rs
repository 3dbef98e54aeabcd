//! The forks of an inode: the map of its contents or of its attributes, within the inode.
//!
//! Source: "XFS Algorithms & Data Structures", sections "Data Fork" and "Attribute Fork".

use std::sync::Arc;

use diskfs_vfs::Device;

use crate::bytes::{be32, index, len_u64};
use crate::error::{Result, corrupt, unsupported};
use crate::extent::{self, Extent};
use crate::superblock::Superblock;

/// The name of a fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ForkKind {
    Data,
    Attributes,
}

/// A fork of an inode.
#[derive(Debug)]
pub(crate) enum Fork {
    /// The contents themselves.
    Local(Box<[u8]>),
    /// All extents.
    Extents(Arc<[Extent]>),
    /// The root of a tree of this number of extents.
    Tree { root: Box<[u8]>, extents: u64 },
    /// The number of a device node.
    Device(Device),
    /// The extents of a file on the real-time device, which the driver does not read.
    Realtime,
    /// A UUID, which nothing uses.
    Uuid,
}

/// The fields of an inode that describe a fork.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForkHeader<'a> {
    pub(crate) format: u8,
    pub(crate) extents: u64,
    /// The bytes of the fork.
    pub(crate) bytes: &'a [u8],
    /// The number of bytes that a local fork uses.
    pub(crate) local_bytes: u64,
    /// True for a regular file on the real-time device.
    pub(crate) realtime: bool,
    /// The byte of the inode on the device.
    pub(crate) at: u64,
}

impl Fork {
    /// Parses and checks a fork.
    pub(crate) fn parse(superblock: &Superblock, header: &ForkHeader<'_>) -> Result<Self> {
        let invalid = |what: &str| Err(corrupt(format!("invalid inode: {what}"), header.at));
        match header.format {
            0 => Ok(Self::Device(device(header.bytes))),
            1 => match header.bytes.get(..index(header.local_bytes)) {
                Some(bytes) if header.extents == 0 => Ok(Self::Local(bytes.into())),
                _ => invalid("local contents do not fit"),
            },
            2 | 3 if header.realtime => Ok(Self::Realtime),
            2 => {
                let len = index(header.extents).checked_mul(extent::RECORD_BYTES);
                match len.and_then(|len| header.bytes.get(..len)) {
                    Some(bytes) => extent::parse_list(superblock, bytes, header.at)
                        .map(|list| Self::Extents(list.into())),
                    None => invalid("its extents do not fit"),
                }
            }
            3 => Ok(Self::Tree {
                root: header.bytes.into(),
                extents: header.extents,
            }),
            4 => Ok(Self::Uuid),
            5 => Err(unsupported(
                "an inode of a metadata tree (real-time groups)",
            )),
            other => invalid(&format!("unknown fork format {other}")),
        }
    }

    /// Returns the memory that the fork uses outside of the inode's own structure.
    pub(crate) fn memory_bytes(&self) -> u64 {
        len_u64(match self {
            Self::Local(bytes) | Self::Tree { root: bytes, .. } => bytes.len(),
            Self::Extents(list) => size_of_val(&**list),
            Self::Device(_) | Self::Realtime | Self::Uuid => 0,
        })
    }
}

/// Returns the number of a device node: 14 bits of major, 18 bits of minor number.
fn device(bytes: &[u8]) -> Device {
    let number = be32(bytes, 0).unwrap_or(0);
    Device {
        major: number.wrapping_shr(18) & 0x3fff,
        minor: number & 0x3_ffff,
    }
}
