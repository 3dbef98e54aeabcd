//! The descriptor: the text that describes a disk, in a file of its own or in a sparse extent.

mod encoding;
mod extent_line;
mod parser;
mod read;

use std::collections::{BTreeMap, HashSet};

use diskfs_block::{Error, Result};

use crate::create_type::CreateType;

pub(crate) use read::MAX_DESCRIPTOR_BYTES;

pub use extent_line::{Access, ExtentDescriptor, ExtentType};

/// The most extents of a disk: 8 TiB in files of 2 GiB, the largest disk of VMware Workstation.
/// Each is an open file.
pub const MAX_EXTENTS: usize = 4096;

/// The place of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DescriptorPlace {
    /// In a file of its own: all extents are other files.
    File,
    /// In the sparse file that is the disk's only extent.
    Embedded,
}

/// The parent of a disk: a disk that this one stores the differences from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// The content identifier that the parent must have.
    pub cid: u32,
    /// The name of the parent's descriptor file as the image states it: any text, not checked at
    /// all.
    pub file_name: String,
}

/// The parsed descriptor of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// The place of the descriptor.
    pub place: DescriptorPlace,
    /// The version of the descriptor's format: 1 to 3.
    pub version: u32,
    /// The content identifier: a random number that changes with the first write after opening.
    pub cid: u32,
    /// The type of the disk.
    pub create_type: CreateType,
    /// The parent; `None` for a disk that stores everything.
    pub parent: Option<Parent>,
    /// The extents in the order of the disk; at most [`MAX_EXTENTS`].
    pub extents: Vec<ExtentDescriptor>,
    /// The disk database, without the prefix `ddb.`; at most 256 entries.
    pub database: BTreeMap<String, String>,
}

impl Descriptor {
    /// Returns the names of the files that contain the extents, each once, in the order of their
    /// first use: file 1, 2 and so on of the map. The list is empty if the image itself is the
    /// only extent.
    ///
    /// The names are the image's: a caller opens only those that its policy allows.
    ///
    /// # Errors
    /// `Unsupported` for extents on devices, by their type, and for extents without access.
    pub fn extent_files(&self) -> Result<Vec<&str>> {
        self.refuse_devices()?;
        if self.place == DescriptorPlace::Embedded {
            return Ok(Vec::new());
        }
        let names = self.extents.iter().filter_map(|it| it.file_name.as_deref());
        let mut seen = HashSet::new();
        Ok(names.filter(|name| seen.insert(*name)).collect())
    }

    /// Returns the type of the virtual controller: `ide`, `lsilogic`, `buslogic`, `legacyESX`.
    pub fn adapter_type(&self) -> Option<&str> {
        self.database.get("adapterType").map(String::as_str)
    }

    /// Returns the UUID of the disk as the database has it: 16 bytes in hexadecimal.
    pub fn uuid(&self) -> Option<&str> {
        self.database.get("uuid").map(String::as_str)
    }

    /// Checks that `parent` is the disk, in the state, that this one stores the differences from.
    ///
    /// # Errors
    /// `Corrupt` if the content identifiers differ: the parent was written to since.
    pub fn check_parent(&self, parent: &Self) -> Result<()> {
        let Some(expected) = &self.parent else {
            return Ok(());
        };
        if expected.cid == parent.cid {
            return Ok(());
        }
        let reason = format!(
            "the parent has content ID {:08x}, but this image needs {:08x}: the parent was changed \
             or is another disk",
            parent.cid, expected.cid
        );
        Err(Error::corrupt(reason))
    }

    fn refuse_devices(&self) -> Result<()> {
        if let CreateType::Device(name) = &self.create_type {
            let reason = format!("unsupported VMDK type `{name}`: the disk is a device");
            return Err(Error::unsupported(reason));
        }
        for extent in &self.extents {
            let is_device = matches!(
                extent.extent_type,
                ExtentType::VmfsRdm | ExtentType::VmfsRaw
            );
            if is_device {
                let name = extent.extent_type.name();
                let reason = format!("unsupported extent type `{name}`: the extent is a device");
                return Err(Error::unsupported(reason));
            }
            if extent.access == Access::None && extent.extent_type != ExtentType::Zero {
                return Err(Error::unsupported("unsupported extent access `NOACCESS`"));
            }
        }
        Ok(())
    }
}
