//! Names of MBR partition types.
//!
//! No body assigns them; these are in common use, by the names that `fdisk` users know.

/// Whether the type is that of a container of logical partitions: DOS, Windows 95 (LBA), Linux.
pub(crate) const fn is_extended(type_byte: u8) -> bool {
    matches!(type_byte, 0x05 | 0x0f | 0x85)
}

/// The name of a type; `None` for one that is in no list.
pub(crate) fn type_name(type_byte: u8) -> Option<&'static str> {
    Some(match type_byte {
        0x00 => "Empty",
        0x01 => "FAT12",
        0x04 => "FAT16 <32M",
        0x05 => "Extended",
        0x06 => "FAT16",
        0x07 => "HPFS/NTFS/exFAT",
        0x0b => "W95 FAT32",
        0x0c => "W95 FAT32 (LBA)",
        0x0e => "W95 FAT16 (LBA)",
        0x0f => "W95 Ext'd (LBA)",
        0x11 => "Hidden FAT12",
        0x12 => "Compaq diagnostics",
        0x14 => "Hidden FAT16 <32M",
        0x16 => "Hidden FAT16",
        0x17 => "Hidden HPFS/NTFS",
        0x1b => "Hidden W95 FAT32",
        0x1c => "Hidden W95 FAT32 (LBA)",
        0x1e => "Hidden W95 FAT16 (LBA)",
        0x27 => "Hidden NTFS WinRE",
        0x39 => "Plan 9",
        0x41 => "PPC PReP Boot",
        0x42 => "SFS",
        0x63 => "GNU HURD or SysV",
        0x81 => "Minix / old Linux",
        0x82 => "Linux swap / Solaris",
        0x83 => "Linux",
        0x84 => "OS/2 hidden or Intel hibernation",
        0x85 => "Linux extended",
        0x86 | 0x87 => "NTFS volume set",
        0x88 => "Linux plaintext",
        0x8e => "Linux LVM",
        0xa5 => "FreeBSD",
        0xa6 => "OpenBSD",
        0xa8 => "Darwin UFS",
        0xa9 => "NetBSD",
        0xab => "Darwin boot",
        0xaf => "HFS / HFS+",
        0xbe => "Solaris boot",
        0xbf => "Solaris",
        0xda => "Non-FS data",
        0xde => "Dell Utility",
        0xea => "Linux extended boot",
        0xeb => "BeOS fs",
        0xee => "GPT",
        0xef => "EFI (FAT-12/16/32)",
        0xf0 => "Linux/PA-RISC boot",
        0xfb => "VMware VMFS",
        0xfc => "VMware VMKCORE",
        0xfd => "Linux raid autodetect",
        _ => return None,
    })
}
