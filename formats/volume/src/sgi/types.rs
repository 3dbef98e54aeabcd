//! Types of partitions (`sys/dvh.h` of IRIX; Linux has some of its own), in the words of `fdisk`.

/// That of the partition which is the disk.
pub(super) const VOLUME: u32 = 6;

/// The name of a type; `None` for one that is in no list.
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
