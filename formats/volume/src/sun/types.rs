//! The tags of Sun partitions (`sys/vtoc.h` of Solaris, and some of Linux), as in `fdisk`.

/// The tag of the entry for the whole disk.
pub(super) const WHOLE_DISK: u16 = 5;

/// Returns the name of a tag; `None` for an unknown one.
pub(crate) fn type_name(tag: u16) -> Option<&'static str> {
    Some(match tag {
        0 => "Unassigned",
        1 => "Boot",
        2 => "SunOS root",
        3 => "SunOS swap",
        4 => "SunOS usr",
        WHOLE_DISK => "Whole disk",
        6 => "SunOS stand",
        7 => "SunOS var",
        8 => "SunOS home",
        9 => "SunOS alt sectors",
        10 => "SunOS cachefs",
        11 => "SunOS reserved",
        0x82 => "Linux swap",
        0x83 => "Linux native",
        0x8e => "Linux LVM",
        0xfd => "Linux raid autodetect",
        _ => return None,
    })
}
