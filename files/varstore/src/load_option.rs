//! `EFI_LOAD_OPTION`: the data of a boot entry (`Boot####`). UEFI 3.1.3.

use diskfs_block::bytes::{index, le16, le32, part};
use diskfs_block::{Error, Result};

use crate::{DevicePath, HardDrive, ucs2};

/// The offset of the description, after the attributes and the length of the paths.
const DESCRIPTION_OFFSET: usize = 6;

/// The attribute of an option that the boot manager tries.
const LOAD_OPTION_ACTIVE: u32 = 1;

/// A load option of the boot manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadOption {
    /// The attributes (UEFI 3.1.3).
    pub attributes: u32,
    /// The description in the boot menu. Invalid Unicode becomes U+FFFD.
    pub description: String,
    /// The paths. The first one is that of the program to start; the others belong to the operating
    /// system.
    pub file_path_list: Vec<DevicePath>,
    /// The data that is passed to the started program.
    pub optional_data: Vec<u8>,
}

impl LoadOption {
    /// Returns an option that starts a file of a partition, such as `\EFI\debian\shimx64.efi`.
    pub fn file(description: &str, partition: &HardDrive, path: &str) -> Self {
        Self {
            attributes: LOAD_OPTION_ACTIVE,
            description: description.to_owned(),
            file_path_list: vec![DevicePath::file(partition, path)],
            optional_data: Vec::new(),
        }
    }

    /// Parses the data of a `Boot####`.
    ///
    /// # Errors
    /// `Corrupt` if a structure is invalid.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        parsed(bytes)?.ok_or_else(|| Error::corrupt("invalid boot entry: it is truncated"))
    }

    /// Returns the data of a `Boot####`.
    ///
    /// # Errors
    /// `Invalid` for a description with NUL, and for paths that are too long.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        if self.description.contains('\0') {
            return Err(Error::invalid(
                "invalid description of a boot entry: it has NUL",
            ));
        }
        let paths = self.file_path_list.iter().map(DevicePath::to_bytes);
        let paths: Vec<u8> = paths.collect::<Result<Vec<_>>>()?.concat();
        let len = u16::try_from(paths.len())
            .map_err(|_| Error::invalid("paths of a boot entry are too large: at most 64 KiB"))?;
        let mut bytes = self.attributes.to_le_bytes().to_vec();
        bytes.extend(len.to_le_bytes());
        bytes.extend(ucs2::to_bytes(&self.description));
        bytes.extend(paths);
        bytes.extend(&self.optional_data);
        Ok(bytes)
    }

    /// Returns true if the boot manager tries this option.
    pub fn is_active(&self) -> bool {
        self.attributes & LOAD_OPTION_ACTIVE != 0
    }

    /// Returns the path of the program to start.
    pub fn path(&self) -> Option<&DevicePath> {
        self.file_path_list.first()
    }
}

fn parsed(bytes: &[u8]) -> Result<Option<LoadOption>> {
    let (Some(attributes), Some(len)) = (le32(bytes, 0), le16(bytes, 4)) else {
        return Ok(None);
    };
    let rest = bytes.get(DESCRIPTION_OFFSET..).unwrap_or_default();
    let Some((description, description_bytes)) = ucs2::read(rest) else {
        return Ok(None);
    };
    let rest = rest.get(description_bytes..).unwrap_or_default();
    let Some(mut paths) = part(rest, 0, index(len)) else {
        return Ok(None);
    };
    let mut file_path_list = Vec::new();
    while !paths.is_empty() {
        let (path, after) = DevicePath::read(paths)?;
        file_path_list.push(path);
        paths = after;
    }
    Ok(Some(LoadOption {
        attributes,
        description,
        file_path_list,
        optional_data: rest.get(index(len)..).unwrap_or_default().to_vec(),
    }))
}
