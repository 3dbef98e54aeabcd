//! `EFI_DEVICE_PATH_PROTOCOL`: where a device or a file is, node by node. UEFI 10.3.

mod text;

use diskfs_block::bytes::{le16, len_u64, part};
use diskfs_block::{Error, Result};

use crate::{Guid, ucs2};

/// Types of nodes (UEFI 10.3.1 and following).
pub(crate) mod node_type {
    pub(crate) const HARDWARE: u8 = 1;
    pub(crate) const ACPI: u8 = 2;
    pub(crate) const MESSAGING: u8 = 3;
    pub(crate) const MEDIA: u8 = 4;
    pub(crate) const BIOS_BOOT: u8 = 5;
    pub(crate) const END: u8 = 0x7f;
}

/// Ends the whole path; another subtype ends one of several paths in it.
const END_ENTIRE: u8 = 0xff;

/// The type, the subtype and the length of a node.
const NODE_HEADER_BYTES: usize = 4;

/// A load option says in 16 bits how long its paths are.
const MAX_PATH_BYTES: usize = 0xffff;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// What it is a step of: hardware, ACPI, a bus, a medium.
    pub node_type: u8,
    /// Which of them.
    pub subtype: u8,
    /// What follows its header.
    pub data: Vec<u8>,
}

/// A path. Displayed as UEFI's own programs do: `PciRoot(0x0)/Pci(0x1F,0x2)/Sata(0x0,0xFFFF,0x0)`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DevicePath {
    /// All steps, without the end.
    pub nodes: Vec<Node>,
}

/// A partition of a GPT, as a path names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HardDrive {
    /// Counted from 1.
    pub partition_number: u32,
    /// The first block.
    pub start_lba: u64,
    /// How many blocks.
    pub size_lba: u64,
    /// The partition's own GUID, not that of its type.
    pub guid: Guid,
}

impl DevicePath {
    /// Reads a path.
    ///
    /// # Errors
    /// `Corrupt` when it is cut off; `Unsupported` when it is longer than 64 KiB.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        Ok(Self::read(bytes)?.0)
    }

    /// The path that `bytes` begin with, and what is behind it.
    pub(crate) fn read(bytes: &[u8]) -> Result<(Self, &[u8])> {
        let mut path = Self::default();
        let mut rest = bytes;
        loop {
            let at = bytes.len().saturating_sub(rest.len());
            if at > MAX_PATH_BYTES {
                return Err(Error::unsupported("a device path of more than 64 KiB"));
            }
            let (node, after) = Node::read(rest).ok_or_else(|| {
                Error::corrupt(format!(
                    "a device path is cut off at its byte {}",
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

    /// A file on a partition. The firmware looks for the partition on all disks.
    pub fn file(partition: &HardDrive, path: &str) -> Self {
        let path = Node::new(node_type::MEDIA, 4, ucs2::to_bytes(path));
        Self {
            nodes: vec![partition.node(), path],
        }
    }

    /// Its bytes, with the end.
    ///
    /// # Errors
    /// `Invalid` for a node of more than 64 KiB.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let end = Node::new(node_type::END, END_ENTIRE, Vec::new());
        let mut bytes = Vec::new();
        for node in self.nodes.iter().chain([&end]) {
            let len = node.data.len().saturating_add(NODE_HEADER_BYTES);
            let len = u16::try_from(len)
                .map_err(|_| Error::invalid("a step of a device path is longer than 64 KiB"))?;
            bytes.extend([node.node_type, node.subtype]);
            bytes.extend(len.to_le_bytes());
            bytes.extend(&node.data);
        }
        Ok(bytes)
    }
}

impl Node {
    /// A node, of the bytes that follow its header.
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
    /// `HARDDRIVE_DEVICE_PATH` (UEFI 10.3.5.1).
    fn node(&self) -> Node {
        let mut data = self.partition_number.to_le_bytes().to_vec();
        data.extend(self.start_lba.to_le_bytes());
        data.extend(self.size_lba.to_le_bytes());
        data.extend(self.guid.to_bytes());
        // A GPT, and a GUID.
        data.extend([2, 2]);
        Node::new(node_type::MEDIA, 1, data)
    }
}
