//! The types of SGI partitions (`sys/dvh.h` of IRIX, and some of Linux), as in `fdisk`.

/// The type of the entry for the whole disk.
pub(super) const VOLUME: u32 = 6;

/// Returns the name of a type; `None` for an unknown one.
pub(crate) fn type_name(type_number: u32) -> Option<&'static str> {
    Some(match type_number {
        0 => "SGI volhdr",
        1 => "SGI trkrepl",
        2 => "SGI secrepl",
        3 => "SGI raw",
        4 => "SGI bsd",
        5 => "SGI sysv",
        VOLUME => "SGI volume",
        7 => "SGI efs",
        8 => "SGI lvol",
        9 => "SGI rlvol",
        10 => "SGI xfs",
        11 => "SGI xfslog",
        12 => "SGI xlv",
        13 => "SGI xvm",
        0x82 => "Linux swap",
        0x83 => "Linux native",
        0x8e => "Linux LVM",
        0xfd => "Linux RAID",
        _ => return None,
    })
}
