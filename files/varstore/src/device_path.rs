//! `EFI_DEVICE_PATH_PROTOCOL`: the path of a device or a file, as a list of nodes. UEFI 10.3.

mod text;

use diskfs_block::bytes::{le16, len_u64, part};
use diskfs_block::{Error, Result};

use crate::{Guid, ucs2};

/// The types of nodes (UEFI 10.3.1 and following).
pub(crate) mod node_type {
    pub(crate) const HARDWARE: u8 = 1;
    pub(crate) const ACPI: u8 = 2;
    pub(crate) const MESSAGING: u8 = 3;
    pub(crate) const MEDIA: u8 = 4;
    pub(crate) const BIOS_BOOT: u8 = 5;
    pub(crate) const END: u8 = 0x7f;
}

/// The subtype of the node that ends the whole path. Other subtypes end one of several paths.
const END_ENTIRE: u8 = 0xff;

/// The size of a node's header: type, subtype and length.
const NODE_HEADER_BYTES: usize = 4;

/// The maximum length of a path: a load option stores the length of its paths in 16 bits.
const MAX_PATH_BYTES: usize = 0xffff;

/// A node of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The type of the node: hardware, ACPI, messaging (bus or network) or media.
    pub node_type: u8,
    /// The subtype, within the type.
    pub subtype: u8,
    /// The data after the header.
    pub data: Vec<u8>,
}

/// A device path. Displayed in the format of UEFI's programs:
/// `PciRoot(0x0)/Pci(0x1F,0x2)/Sata(0x0,0xFFFF,0x0)`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DevicePath {
    /// All nodes except the end node.
    pub nodes: Vec<Node>,
}

/// A GPT partition, as a path identifies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HardDrive {
    /// The number of the partition, from 1.
    pub partition_number: u32,
    /// The first block.
    pub start_lba: u64,
    /// The number of blocks.
    pub size_lba: u64,
    /// The GUID of the partition, not that of its type.
    pub guid: Guid,
}

impl DevicePath {
    /// Parses a path.
    ///
    /// # Errors
    /// `Corrupt` if the path is truncated; `Unsupported` if it is longer than 64 KiB.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        Ok(Self::read(bytes)?.0)
    }

    /// Parses the path at the start of `bytes`. Returns it with the bytes after it.
    pub(crate) fn read(bytes: &[u8]) -> Result<(Self, &[u8])> {
        let mut path = Self::default();
        let mut rest = bytes;
        loop {
            let at = bytes.len().saturating_sub(rest.len());
            if at > MAX_PATH_BYTES {
                return Err(Error::unsupported(
                    "device path is too large: at most 64 KiB",
                ));
            }
            let (node, after) = Node::read(rest).ok_or_else(|| {
                Error::corrupt(format!(
                    "invalid device path: it is truncated at byte {}",
                    len_u64(at)
                ))
            })?;
            rest = after;
            if (node.node_type, node.subtype) == (node_type::END, END_ENTIRE) {
                return Ok((path, rest));
            }
            path.nodes.push(node);
        }
    }

    /// Returns the path of a file on a partition. The firmware looks for the partition on all
    /// disks.
    pub fn file(partition: &HardDrive, path: &str) -> Self {
        let path = Node::new(node_type::MEDIA, 4, ucs2::to_bytes(path));
        Self {
            nodes: vec![partition.node(), path],
        }
    }

    /// Returns the bytes of the path, including the end node.
    ///
    /// # Errors
    /// `Invalid` if a node is longer than 64 KiB.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let end = Node::new(node_type::END, END_ENTIRE, Vec::new());
        let mut bytes = Vec::new();
        for node in self.nodes.iter().chain([&end]) {
            let len = node.data.len().saturating_add(NODE_HEADER_BYTES);
            let len = u16::try_from(len).map_err(|_| {
                Error::invalid("node of a device path is too large: at most 64 KiB")
            })?;
            bytes.extend([node.node_type, node.subtype]);
            bytes.extend(len.to_le_bytes());
            bytes.extend(&node.data);
        }
        Ok(bytes)
    }
}

impl Node {
    /// Returns a node with this data after its header.
    pub(crate) fn new(node_type: u8, subtype: u8, data: Vec<u8>) -> Self {
        Self {
            node_type,
            subtype,
            data,
        }
    }

    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let &[node_type, subtype, ..] = bytes else {
            return None;
        };
        let len = usize::from(le16(bytes, 2)?);
        let data_bytes = len.checked_sub(NODE_HEADER_BYTES)?;
        let data = part(bytes, NODE_HEADER_BYTES, data_bytes)?;
        Some((
            Self::new(node_type, subtype, data.to_vec()),
            bytes.get(len..)?,
        ))
    }
}

impl HardDrive {
    /// Returns the node of the partition, a `HARDDRIVE_DEVICE_PATH` (UEFI 10.3.5.1).
    fn node(&self) -> Node {
        let mut data = self.partition_number.to_le_bytes().to_vec();
        data.extend(self.start_lba.to_le_bytes());
        data.extend(self.size_lba.to_le_bytes());
        data.extend(self.guid.to_bytes());
        // The format is GPT, and the signature is a GUID.
        data.extend([2, 2]);
        Node::new(node_type::MEDIA, 1, data)
    }
}
