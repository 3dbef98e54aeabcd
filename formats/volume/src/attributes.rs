//! The attributes of a GPT partition.

use std::fmt;

/// The attributes of a GPT entry. Bits 0 to 2 apply to every type; the type defines bits 48 to 63.
///
/// Printed as in `sfdisk`: `RequiredPartition LegacyBIOSBootable GUID:60,63`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Attributes(pub u64);

impl Attributes {
    /// Returns true if the platform needs the partition to work.
    pub const fn required(self) -> bool {
        self.0 & 1 != 0
    }

    /// Returns true if firmware must not look for a filesystem on it.
    pub const fn no_block_io(self) -> bool {
        self.0 & 2 != 0
    }

    /// Returns true if a BIOS may boot from it.
    pub const fn legacy_bios_bootable(self) -> bool {
        self.0 & 4 != 0
    }
}

impl fmt::Display for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = [
            (self.required(), "RequiredPartition"),
            (self.no_block_io(), "NoBlockIOProtocol"),
            (self.legacy_bios_bootable(), "LegacyBIOSBootable"),
        ];
        let mut words: Vec<String> = named
            .into_iter()
            .filter(|&(set, _)| set)
            .map(|(_, name)| name.to_owned())
            .collect();
        let bits: Vec<String> = (48_u32..64)
            .filter(|&bit| self.0.checked_shr(bit).unwrap_or(0) & 1 != 0)
            .map(|bit| bit.to_string())
            .collect();
        if !bits.is_empty() {
            words.push(format!("GUID:{}", bits.join(",")));
        }
        f.write_str(&words.join(" "))
    }
}
