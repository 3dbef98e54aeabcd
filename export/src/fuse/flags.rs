//! File attributes besides the mode, as chattr(1) and lsattr(1) read and set them.

use diskfs_vfs::FileAttributes;

/// `FS_IOC_GETFLAGS` of linux/fs.h, `_IOR('f', 1, long)`, on hosts of 64 bits; the value is an
/// `int` nevertheless.
pub(super) const FS_IOC_GETFLAGS: u32 = 0x8008_6601;

/// `FS_IOC_SETFLAGS`, `_IOW('f', 2, long)`.
pub(super) const FS_IOC_SETFLAGS: u32 = 0x4008_6602;

/// `FS_IOC_FSGETXATTR`, `_IOR('X', 31, struct fsxattr)`: the kernel asks for it before it sets
/// flags.
pub(super) const FS_IOC_FSGETXATTR: u32 = 0x801c_581f;

/// `FS_IOC_FSSETXATTR`, `_IOW('X', 32, struct fsxattr)`.
pub(super) const FS_IOC_FSSETXATTR: u32 = 0x401c_5820;

/// The length of `struct fsxattr`: flags, extent size hint, number of extents, project id, a second
/// hint, and padding.
const FSXATTR_LEN: usize = 28;

/// The offset of the project id.
const PROJECT_AT: usize = 12;

/// The flag of a file that can't be changed.
pub(super) const IMMUTABLE: u32 = 0x10;

/// The flag of a file that can only be appended to.
pub(super) const APPEND_ONLY: u32 = 0x20;

/// The flags of `struct fsxattr`: each with its bit there and its bit in [`FileAttributes`].
const X_BITS: [(u32, u32); 7] = [
    (0x08, IMMUTABLE),
    (0x10, APPEND_ONLY),
    // Synchronous, no access times, no dump.
    (0x20, 0x08),
    (0x40, 0x80),
    (0x80, 0x40),
    // New files inherit the directory's project.
    (0x200, 0x2000_0000),
    // Direct access (DAX).
    (0x8000, 0x0200_0000),
];

/// Builds a `struct fsxattr` with the file's flags and project.
pub(super) fn fsxattr(attributes: FileAttributes) -> [u8; FSXATTR_LEN] {
    let mut bytes = [0; FSXATTR_LEN];
    let flags = X_BITS
        .iter()
        .filter_map(|(x_bit, bit)| (attributes.flags & bit != 0).then_some(x_bit))
        .sum::<u32>();
    bytes[..4].copy_from_slice(&flags.to_ne_bytes());
    let project = attributes.project.to_ne_bytes();
    bytes[PROJECT_AT..PROJECT_AT + 4].copy_from_slice(&project);
    bytes
}

/// Returns the attributes that `FS_IOC_SETFLAGS` sets; `None` if the input is too short.
pub(super) fn with_flags(input: &[u8], old: FileAttributes) -> Option<FileAttributes> {
    let flags = u32::from_ne_bytes(*input.first_chunk()?);
    Some(FileAttributes { flags, ..old })
}

/// Returns the attributes that `FS_IOC_FSSETXATTR` sets. Flags that `struct fsxattr` lacks are
/// kept.
pub(super) fn with_fsxattr(input: &[u8], old: FileAttributes) -> Option<FileAttributes> {
    let wanted = u32::from_ne_bytes(*input.first_chunk()?);
    let project = u32::from_ne_bytes(*input.get(PROJECT_AT..)?.first_chunk()?);
    let flags = X_BITS.iter().fold(old.flags, |flags, (x_bit, bit)| {
        if wanted & x_bit != 0 {
            flags | bit
        } else {
            flags & !bit
        }
    });
    Some(FileAttributes { flags, project })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_go_both_ways() {
        let attributes = FileAttributes {
            flags: 0x2008_0020,
            project: 77,
        };
        let bytes = fsxattr(attributes);
        assert_eq!(bytes[..4], 0x210_u32.to_ne_bytes());
        assert_eq!(with_fsxattr(&bytes, attributes), Some(attributes));
        let old = FileAttributes {
            flags: 0x0008_0010,
            project: 1,
        };
        assert_eq!(with_fsxattr(&bytes, old), Some(attributes));
        assert_eq!(with_fsxattr(&bytes[..12], old), None);
        let set = with_flags(&0x0008_0000_u32.to_ne_bytes(), attributes).unwrap();
        assert_eq!((set.flags, set.project), (0x0008_0000, 77));
        assert_eq!(with_flags(&[0; 3], old), None);
    }
}
