//! Types of partitions: GUIDs, bytes and common names.
//!
//! The names are those of `sfdisk` and of systemd's `repart.d` (the Discoverable Partitions
//! Specification).

use std::str::FromStr;

use diskfs_block::{Error, Result};

use crate::Guid;

/// A type of partition, for a GPT, an MBR or both. It is parsed from a GUID, a byte (`0x83`) or a
/// name (`linux`, `esp`, `swap`, `root-x86-64`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionType {
    guid: Option<Guid>,
    byte: Option<u8>,
}

/// The names, and the types that they mean in a GPT and in an MBR.
#[rustfmt::skip] // One line per name.
const NAMES: &[(&str, Option<u128>, Option<u8>)] = &[
    ("linux", Some(0x0fc63daf_8483_4772_8e79_3d69d8477de4), Some(0x83)),
    ("linux-generic", Some(0x0fc63daf_8483_4772_8e79_3d69d8477de4), Some(0x83)),
    ("swap", Some(0x0657fd6d_a4ab_43c4_84e5_0933c84b4f4f), Some(0x82)),
    ("esp", Some(0xc12a7328_f81f_11d2_ba4b_00a0c93ec93b), Some(0xef)),
    ("uefi", Some(0xc12a7328_f81f_11d2_ba4b_00a0c93ec93b), Some(0xef)),
    ("xbootldr", Some(0xbc13c2ff_59e6_4262_a352_b275fd6f7172), Some(0xea)),
    ("bios-boot", Some(0x21686148_6449_6e6f_744e_656564454649), None),
    ("prep", Some(0x9e1a2d38_c612_4316_aa26_8b49521e5a8b), Some(0x41)),
    ("lvm", Some(0xe6d6d379_f507_44c2_a23c_238f2a3df928), Some(0x8e)),
    ("raid", Some(0xa19d880f_05fc_4d3b_a006_743f0f84911e), Some(0xfd)),
    ("luks", Some(0xca7d7ccb_63ed_4c53_861c_1742536059cc), None),
    ("home", Some(0x933ac7e1_2eb4_4f13_b844_0e14e2aef915), None),
    ("srv", Some(0x3b8f8425_20e0_4f3b_907f_1a25a76f98e8), None),
    ("var", Some(0x4d21b016_b534_45c2_a9fb_5c16e091fd2d), None),
    ("tmp", Some(0x7ec6f557_3bc5_4aca_b293_16ef5df639d1), None),
    ("user-home", Some(0x773f91ef_66d4_49b5_bd83_d683bf40ad16), None),
    ("root-x86-64", Some(0x4f68bce3_e8cd_4db1_96e7_fbcaf984b709), None),
    ("root-x86", Some(0x44479540_f297_41b2_9af7_d131d5f0458a), None),
    ("root-arm64", Some(0xb921b045_1df0_41c3_af44_4c6f280d3fae), None),
    ("root-arm", Some(0x69dad710_2ce4_4e3c_b16c_21a1d49abed3), None),
    ("root-riscv64", Some(0x72ec70a6_cf74_40e6_bd49_4bda08e8f224), None),
    ("root-ppc64-le", Some(0xc31c45e6_3f39_412e_80fb_4809c4980599), None),
    ("root-s390x", Some(0x5eead9a9_fe09_4a1e_a1d7_520d00531306), None),
    ("root-loongarch64", Some(0x77055800_792c_4f94_b39a_98c91b762bb6), None),
    ("root-x86-64-verity", Some(0x2c7357ed_ebd2_46d9_aec1_23d437ec2bf5), None),
    ("root-arm64-verity", Some(0xdf3300ce_d69f_4c92_978c_9bfb0f38d820), None),
    ("usr-x86-64", Some(0x8484680c_9521_48c6_9c11_b0720656f69e), None),
    ("usr-arm64", Some(0xb0e01050_ee5f_4390_949a_9101b17104e9), None),
    ("usr-x86-64-verity", Some(0x77ff5f63_e7b6_4633_acf4_1565b864c0e6), None),
    ("msdata", Some(0xebd0a0a2_b9e5_4433_87c0_68b6b72699c7), Some(0x07)),
    ("ntfs", Some(0xebd0a0a2_b9e5_4433_87c0_68b6b72699c7), Some(0x07)),
    ("fat32", Some(0xebd0a0a2_b9e5_4433_87c0_68b6b72699c7), Some(0x0c)),
    ("msr", Some(0xe3c9e316_0b5c_4db8_817d_f92df00215ae), None),
    ("winre", Some(0xde94bba4_06d1_4d40_a16a_bfd50179d6ac), Some(0x27)),
    ("extended", None, Some(0x05)),
    ("linux-extended", None, Some(0x85)),
];

impl PartitionType {
    /// The type of Linux data, in both kinds of table.
    pub const LINUX: Self = Self {
        guid: Some(Guid::from_u128(0x0fc6_3daf_8483_4772_8e79_3d69_d847_7de4)),
        byte: Some(0x83),
    };

    /// Returns the names of types that [`from_str`](FromStr::from_str) knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|&(name, _, _)| name)
    }

    /// Returns the type in a GPT.
    ///
    /// # Errors
    /// `Invalid` for a type that only an MBR has.
    pub fn guid(self) -> Result<Guid> {
        let guid = self.guid.filter(|guid| !guid.is_nil());
        guid.ok_or_else(|| {
            Error::invalid("a GPT has no partitions of this type")
                .with_hint("give a GUID, or a name such as linux, esp or swap")
        })
    }

    /// Returns the type in an MBR.
    ///
    /// # Errors
    /// `Invalid` for a type that only a GPT has.
    pub(super) fn byte(self) -> Result<u8> {
        let byte = self.byte.filter(|byte| *byte != 0);
        byte.ok_or_else(|| {
            Error::invalid("an MBR has no partitions of this type")
                .with_hint("give a byte such as 0x83, or a name such as linux, esp or swap")
        })
    }
}

impl From<Guid> for PartitionType {
    fn from(guid: Guid) -> Self {
        Self {
            guid: Some(guid),
            byte: None,
        }
    }
}

impl From<u8> for PartitionType {
    fn from(byte: u8) -> Self {
        Self {
            guid: None,
            byte: Some(byte),
        }
    }
}

impl FromStr for PartitionType {
    type Err = Error;

    /// Parses a name, a GUID, or a byte in hexadecimal digits (`0x83`, `8e`).
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](diskfs_block::ErrorKind::Invalid).
    fn from_str(text: &str) -> Result<Self> {
        let lower = text.to_ascii_lowercase();
        if let Some(&(_, guid, byte)) = NAMES.iter().find(|(name, _, _)| *name == lower) {
            let guid = guid.map(Guid::from_u128);
            return Ok(Self { guid, byte });
        }
        if let Ok(guid) = lower.parse::<Guid>() {
            return Ok(guid.into());
        }
        let digits = lower.strip_prefix("0x").unwrap_or(&lower);
        let is_byte = matches!(digits.len(), 1 | 2) && !digits.starts_with('+');
        match u8::from_str_radix(digits, 16) {
            Ok(byte) if is_byte => Ok(byte.into()),
            _ => {
                let names: Vec<&str> = Self::names().collect();
                let names = names.join(", ");
                Err(
                    Error::invalid(format!("unknown partition type `{text}`")).with_hint(format!(
                        "give a GUID, a byte such as 0x83, or one of {names}"
                    )),
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_guids_and_bytes_are_parsed() {
        for name in PartitionType::names() {
            let parsed: PartitionType = name.parse().unwrap();
            assert!(parsed.guid().is_ok() || parsed.byte().is_ok(), "{name}");
            if let Ok(guid) = parsed.guid() {
                assert!(crate::gpt::type_name(guid).is_some(), "{name}");
                assert_eq!(
                    guid.to_string().parse::<PartitionType>().unwrap().guid,
                    Some(guid)
                );
            }
        }
        assert_eq!(
            "0x8E".parse::<PartitionType>().unwrap().byte().unwrap(),
            0x8e
        );
        assert_eq!("c".parse::<PartitionType>().unwrap().byte().unwrap(), 0x0c);
        assert_eq!(
            "linux".parse::<PartitionType>().unwrap(),
            PartitionType::LINUX
        );
        for invalid in ["", "0x", "+8", "183", "xfs", "0fc63daf-8483"] {
            assert!(invalid.parse::<PartitionType>().is_err(), "{invalid}");
        }
        assert!(PartitionType::from(0).byte().is_err());
        assert!(PartitionType::from(Guid::NIL).guid().is_err());
    }
}
