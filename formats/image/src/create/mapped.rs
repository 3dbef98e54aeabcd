//! The options for new images of formats that diskfs writes only as a whole.

use diskfs_block::Result;
use diskfs_vhd::SizeRule;

use super::{NewImage, whole_sectors};

/// The options for a new VMDK image. Use `..Default::default()` for the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewVmdk {
    /// The subformat.
    pub subformat: VmdkSubformat,
    /// The type of the virtual controller: `ide`, `buslogic`, `lsilogic` or `legacyESX`.
    pub adapter_type: String,
    /// The version of the virtual hardware.
    pub hardware_version: u32,
}

/// The subformat of a new VMDK image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VmdkSubformat {
    /// One file with the grains that have data, which VMware's desktop products use.
    #[default]
    MonolithicSparse,
    /// One file with compressed grains, which can be written to a pipe: the format of disks in OVA
    /// packages.
    StreamOptimized,
}

impl Default for NewVmdk {
    fn default() -> Self {
        Self {
            subformat: VmdkSubformat::default(),
            adapter_type: "ide".to_owned(),
            hardware_version: 4,
        }
    }
}

/// The options for a new VHD image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NewVhd {
    /// The allocation of the disk. A fixed disk has no structure at its start, so it must be opened
    /// by its format.
    pub allocation: Allocation,
    /// The treatment of a size that no geometry has.
    pub size: VhdSize,
}

/// The allocation of space in a new image of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Allocation {
    /// The image has the blocks with data.
    #[default]
    Dynamic,
    /// The image has all blocks, in their order. Zeroes are holes of the file.
    Fixed,
}

/// The treatment of a size that no geometry of a VHD has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VhdSize {
    /// The disk is made larger by at most 2 MiB, with zeroes, as far as there are geometries (127.5
    /// GiB).
    #[default]
    Geometry,
    /// The disk keeps its size. Azure requires that, and a fixed disk of whole MiB.
    Exact,
}

/// The options for a new VDI image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NewVdi {
    /// The allocation of the disk, which VirtualBox calls dynamic and static.
    pub allocation: Allocation,
}

/// The options for a new VHDX image. Use `..Default::default()` for the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewVhdx {
    /// The allocation of the disk.
    pub allocation: Allocation,
    /// The size of a block in bytes: a power of two from 1 MiB to 256 MiB; `None` for the one that
    /// QEMU chooses, 8 to 64 MiB by the size of the disk.
    pub block_size_bytes: Option<u64>,
    /// The size of the log in bytes: a multiple of 1 MiB from 1 MiB to 4095 MiB.
    pub log_size_bytes: u64,
}

impl Default for NewVhdx {
    fn default() -> Self {
        Self {
            allocation: Allocation::default(),
            block_size_bytes: None,
            log_size_bytes: 1 << 20,
        }
    }
}

impl NewVhd {
    pub(crate) const fn size_rule(self) -> SizeRule {
        match self.size {
            VhdSize::Geometry => SizeRule::Geometry,
            VhdSize::Exact => SizeRule::Exact,
        }
    }
}

impl NewImage {
    /// Returns the size of the guest's disk in bytes for a requested size, which is rounded up: to
    /// sectors, or to a geometry ([`VhdSize::Geometry`]).
    ///
    /// # Errors
    /// `Invalid` for a size that is too large for the format.
    pub fn virtual_size_bytes(&self, size_bytes: u64) -> Result<u64> {
        match self {
            Self::Vhd(new) => diskfs_vhd::virtual_size_bytes(size_bytes, new.size_rule()),
            _ => whole_sectors(size_bytes),
        }
    }
}
