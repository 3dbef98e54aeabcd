//! Attributes besides the mode, as chattr(1) and lsattr(1) ask for them.

use diskfs_vfs::FileFlags;

/// `FS_IOC_GETFLAGS` of linux/fs.h, `_IOR('f', 1, long)`, on hosts of 64 bits; the value is an
/// `int` all the same.
pub(super) const FS_IOC_GETFLAGS: u32 = 0x8008_6601;

/// `FS_IOC_SETFLAGS`, `_IOW('f', 2, long)`.
pub(super) const FS_IOC_SETFLAGS: u32 = 0x4008_6602;

/// `FS_IOC_FSGETXATTR`, `_IOR('X', 31, struct fsxattr)`: the kernel asks for it before it sets
/// flags.
pub(super) const FS_IOC_FSGETXATTR: u32 = 0x801c_581f;

/// `struct fsxattr`.
const FSXATTR_LEN: usize = 28;

/// Finds a flag among all.
type Flag = fn(&mut FileFlags) -> &mut bool;

/// Each flag by its bit in linux/fs.h.
const BITS: [(u32, Flag); 6] = [
    (0x0000_0010, |flags| &mut flags.immutable),
    (0x0000_0020, |flags| &mut flags.append_only),
    (0x0000_0040, |flags| &mut flags.no_dump),
    (0x0000_0800, |flags| &mut flags.encrypted),
    (0x0010_0000, |flags| &mut flags.verity),
    (0x4000_0000, |flags| &mut flags.casefold),
];

/// Those that `struct fsxattr` has, by their bit there.
const X_BITS: [(u32, Flag); 3] = [
    (0x08, |flags| &mut flags.immutable),
    (0x10, |flags| &mut flags.append_only),
    (0x80, |flags| &mut flags.no_dump),
];

/// A `struct fsxattr` with nothing but its flags, which come first.
pub(super) fn fsxattr(flags: FileFlags) -> [u8; FSXATTR_LEN] {
    let mut bytes = [0; FSXATTR_LEN];
    bytes[..4].copy_from_slice(&sum(&X_BITS, flags).to_ne_bytes());
    bytes
}

pub(super) fn flag_bits(flags: FileFlags) -> u32 {
    sum(&BITS, flags)
}

fn sum(bits: &[(u32, Flag)], mut flags: FileFlags) -> u32 {
    bits.iter()
        .filter_map(|(bit, flag)| flag(&mut flags).then_some(bit))
        .sum()
}

/// The flags that these bits stand for; `None` when there are others among them.
pub(super) fn flags_of(mut bits: u32) -> Option<FileFlags> {
    let mut flags = FileFlags::default();
    for (bit, flag) in BITS {
        *flag(&mut flags) = bits & bit != 0;
        bits &= !bit;
    }
    (bits == 0).then_some(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_go_both_ways() {
        let flags = FileFlags {
            append_only: true,
            casefold: true,
            ..FileFlags::default()
        };
        assert_eq!(flag_bits(flags), 0x4000_0020);
        assert_eq!(fsxattr(flags)[..4], 0x10_u32.to_ne_bytes());
        assert_eq!(flags_of(0x4000_0020), Some(flags));
        assert_eq!(flags_of(0x0008_0000), None, "extents are not ours to set");
    }
}
