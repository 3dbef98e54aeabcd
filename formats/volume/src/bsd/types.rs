//! The names of BSD partition types (`fstypenames` of `sys/disklabel.h`), as in `fdisk`.

/// Returns the name of a type; `None` for an unknown one.
pub(crate) fn type_name(fstype: u8) -> Option<&'static str> {
    Some(match fstype {
        0 => "unused",
        1 => "swap",
        2 => "Version 6",
        3 => "Version 7",
        4 => "System V",
        5 => "4.1BSD",
        6 => "Eighth Edition",
        7 => "4.2BSD",
        8 => "MS-DOS",
        9 => "4.4LFS",
        11 => "HPFS",
        12 => "ISO-9660",
        13 => "boot",
        14 => "ADOS",
        15 => "HFS",
        16 => "AdvFS",
        17 => "ext2fs",
        27 => "ZFS",
        _ => return None,
    })
}
