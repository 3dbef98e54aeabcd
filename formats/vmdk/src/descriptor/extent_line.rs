//! One line of the extent description: access, sectors, type, file name and offset.

use diskfs_block::{Error, Result};

/// The access to an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// `RW`: the guest may read and write.
    ReadWrite,
    /// `RDONLY`: the guest may read.
    ReadOnly,
    /// `NOACCESS`: the guest may not even read.
    None,
}

/// The type of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtentType {
    /// `FLAT`: the bytes of the disk.
    Flat,
    /// `VMFS`: the bytes of the disk, on ESXi.
    Vmfs,
    /// `SPARSE`: grains with tables, `KDMV`.
    Sparse,
    /// `VMFSSPARSE`: grains with tables, `COWD`.
    VmfsSparse,
    /// `SESPARSE`: grains with tables of ESXi 6.5 and later.
    SeSparse,
    /// `ZERO`: only zeroes, without a file.
    Zero,
    /// `VMFSRDM`: a device of ESXi's storage.
    VmfsRdm,
    /// `VMFSRAW`: a device of ESXi's storage.
    VmfsRaw,
}

/// An extent of the disk, as the descriptor describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtentDescriptor {
    /// The access that the guest has.
    pub access: Access,
    /// The size in sectors of 512 bytes.
    pub sectors: u64,
    /// The type.
    pub extent_type: ExtentType,
    /// The name of the file as the image states it: any text, not checked at all. `None` for
    /// [`ExtentType::Zero`].
    pub file_name: Option<String>,
    /// The first sector in the file, for flat extents.
    pub offset_sectors: u64,
}

/// The types by their names.
const TYPES: &[(&str, ExtentType)] = &[
    ("FLAT", ExtentType::Flat),
    ("VMFS", ExtentType::Vmfs),
    ("SPARSE", ExtentType::Sparse),
    ("VMFSSPARSE", ExtentType::VmfsSparse),
    ("SESPARSE", ExtentType::SeSparse),
    ("ZERO", ExtentType::Zero),
    ("VMFSRDM", ExtentType::VmfsRdm),
    ("VMFSRAW", ExtentType::VmfsRaw),
];

impl ExtentType {
    /// Returns the name of the type in descriptors.
    pub fn name(self) -> &'static str {
        let found = TYPES.iter().find(|(_, it)| *it == self);
        found.map_or("", |(name, _)| name)
    }
}

impl ExtentDescriptor {
    /// Parses a line; `None` if it does not describe an extent. `at` is its byte in the file.
    ///
    /// # Errors
    /// `Unsupported` for an unknown type, `Corrupt` for anything else that is invalid.
    pub(super) fn parse(line: &str, at: u64) -> Result<Option<Self>> {
        let mut words = line.splitn(4, [' ', '\t']);
        let access = match words.next() {
            Some("RW") => Access::ReadWrite,
            Some("RDONLY") => Access::ReadOnly,
            Some("NOACCESS") => Access::None,
            _ => return Ok(None),
        };
        let invalid = |what: &str| Error::corrupt(format!("invalid extent: {what}")).at(at);
        let sectors = words.next().and_then(|it| it.parse().ok());
        let sectors = sectors.ok_or_else(|| invalid("invalid number of sectors"))?;
        let name = words.next().unwrap_or_default();
        let found = TYPES.iter().find(|(it, _)| *it == name);
        let (_, extent_type) = found.ok_or_else(|| unknown_type(name, at))?;
        let rest = words.next().unwrap_or_default().trim();
        let (file_name, offset) = file_and_offset(rest).ok_or_else(|| invalid("unmatched `\"`"))?;
        if file_name.is_none() && *extent_type != ExtentType::Zero {
            return Err(invalid("missing file name"));
        }
        Ok(Some(Self {
            access,
            sectors,
            extent_type: *extent_type,
            file_name: file_name.filter(|_| *extent_type != ExtentType::Zero),
            offset_sectors: first_number(offset).ok_or_else(|| invalid("invalid offset"))?,
        }))
    }
}

fn unknown_type(name: &str, at: u64) -> Error {
    Error::unsupported(format!("unsupported extent type `{name}`")).at(at)
}

/// Splits `"name" offset ...`; `None` if the quotation mark is not closed.
fn file_and_offset(rest: &str) -> Option<(Option<String>, &str)> {
    let Some(quoted) = rest.strip_prefix('"') else {
        return Some((None, rest));
    };
    let (name, after) = quoted.split_once('"')?;
    Some((Some(name.to_owned()), after.trim()))
}

/// Parses the first word as a number; 0 if there is none. What follows on devices is ignored.
fn first_number(text: &str) -> Option<u64> {
    match text.split_ascii_whitespace().next() {
        Some(word) => word.parse().ok(),
        None => Some(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed() {
        let parse = |line| ExtentDescriptor::parse(line, 7);
        let extent = parse("RW 1048576 FLAT \"a b-f001.vmdk\" 128")
            .unwrap()
            .unwrap();
        assert_eq!(extent.sectors, 1_048_576);
        assert_eq!(extent.extent_type, ExtentType::Flat);
        assert_eq!(extent.file_name.as_deref(), Some("a b-f001.vmdk"));
        assert_eq!(extent.offset_sectors, 128);
        let zero = parse("NOACCESS 63 ZERO").unwrap().unwrap();
        assert_eq!((zero.access, zero.file_name), (Access::None, None));
        let device = parse("RW 63 FLAT \"\\\\.\\PhysicalDrive0\" 0 PartitionUUID x").unwrap();
        assert_eq!(device.unwrap().offset_sectors, 0);
        assert_eq!(parse("version=1").unwrap(), None);
    }

    #[test]
    fn invalid_lines_have_their_byte() {
        for line in [
            "RW",
            "RW x FLAT \"a\" 0",
            "RW 1 FLAT \"a",
            "RW 1 FLAT \"a\" x",
            "RW 1 SPARSE",
            "RW -1 ZERO",
            "RW 99999999999999999999 ZERO",
        ] {
            let e = ExtentDescriptor::parse(line, 7).unwrap_err();
            assert_eq!(e.kind(), diskfs_block::ErrorKind::Corrupt, "{line}");
            assert_eq!(e.offset(), Some(7));
        }
        let e = ExtentDescriptor::parse("RW 1 HOLOGRAM \"a\"", 7).unwrap_err();
        assert_eq!(
            e.to_string(),
            "unsupported extent type `HOLOGRAM` (at byte 0x7)"
        );
    }
}
