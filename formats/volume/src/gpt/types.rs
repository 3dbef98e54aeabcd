//! Names of GPT partition types.
//!
//! Sources: UEFI specification 2.10, table 5.7; the UAPI Group's Discoverable Partitions
//! Specification; Microsoft's `PARTITION_INFORMATION_GPT`; and for the others the systems that
//! define them. The names are those that `fdisk` users know.

use crate::Guid;

/// Returns the name of a type; `None` for an unknown one.
pub(crate) fn type_name(type_guid: Guid) -> Option<&'static str> {
    NAMES
        .iter()
        .find(|&&(digits, _)| Guid::from_u128(digits) == type_guid)
        .map(|&(_, name)| name)
}

#[rustfmt::skip] // One line per type.
const NAMES: &[(u128, &str)] = &[
    // Firmware and boot loaders.
    (0xc12a7328_f81f_11d2_ba4b_00a0c93ec93b, "EFI System"),
    (0x21686148_6449_6e6f_744e_656564454649, "BIOS boot"),
    (0x024dee41_33e7_11d3_9d69_0008c781f39f, "MBR partition scheme"),
    (0x9e1a2d38_c612_4316_aa26_8b49521e5a8b, "PowerPC PReP boot"),
    (0xbc13c2ff_59e6_4262_a352_b275fd6f7172, "Linux extended boot"),
    // Linux.
    (0x0fc63daf_8483_4772_8e79_3d69d8477de4, "Linux filesystem"),
    (0x0657fd6d_a4ab_43c4_84e5_0933c84b4f4f, "Linux swap"),
    (0xe6d6d379_f507_44c2_a23c_238f2a3df928, "Linux LVM"),
    (0xa19d880f_05fc_4d3b_a006_743f0f84911e, "Linux RAID"),
    (0x8da63339_0007_60c0_c436_083ac8230908, "Linux reserved"),
    (0xca7d7ccb_63ed_4c53_861c_1742536059cc, "Linux LUKS"),
    (0x7ffec5c9_2d00_49b7_8941_3ea10a5586b7, "Linux dm-crypt"),
    (0x933ac7e1_2eb4_4f13_b844_0e14e2aef915, "Linux home"),
    (0x773f91ef_66d4_49b5_bd83_d683bf40ad16, "Linux user's home"),
    (0x3b8f8425_20e0_4f3b_907f_1a25a76f98e8, "Linux server data"),
    (0x4d21b016_b534_45c2_a9fb_5c16e091fd2d, "Linux variable data"),
    (0x7ec6f557_3bc5_4aca_b293_16ef5df639d1, "Linux temporary data"),
    // Linux roots, one for each architecture.
    (0x4f68bce3_e8cd_4db1_96e7_fbcaf984b709, "Linux root (x86-64)"),
    (0x44479540_f297_41b2_9af7_d131d5f0458a, "Linux root (x86)"),
    (0xb921b045_1df0_41c3_af44_4c6f280d3fae, "Linux root (ARM-64)"),
    (0x69dad710_2ce4_4e3c_b16c_21a1d49abed3, "Linux root (ARM)"),
    (0x993d8d3d_f80e_4225_855a_9daf8ed7ea97, "Linux root (IA-64)"),
    (0x77055800_792c_4f94_b39a_98c91b762bb6, "Linux root (LoongArch-64)"),
    (0x6523f8ae_3eb1_4e2a_a05a_18b695ae656f, "Linux root (Alpha)"),
    (0xd27f46ed_2919_4cb8_bd25_9531f3c16534, "Linux root (ARC)"),
    (0xe9434544_6e2c_47cc_bae2_12d6deafb44c, "Linux root (MIPS-32 BE)"),
    (0xd113af76_80ef_41b4_bdb6_0cff4d3d4a25, "Linux root (MIPS-64 BE)"),
    (0x37c58c8a_d913_4156_a25f_48b1b64e07f0, "Linux root (MIPS-32 LE)"),
    (0x700bda43_7a34_4507_b179_eeb93d7a7ca3, "Linux root (MIPS-64 LE)"),
    (0x1aacdb3b_5444_4138_bd9e_e5c2239b2346, "Linux root (HPPA/PARISC)"),
    (0x1de3f1ef_fa98_47b5_8dcd_4a860a654d78, "Linux root (PPC)"),
    (0x912ade1d_a839_4913_8964_a10eee08fbd2, "Linux root (PPC64)"),
    (0xc31c45e6_3f39_412e_80fb_4809c4980599, "Linux root (PPC64LE)"),
    (0x60d5a7fe_8e7d_435c_b714_3dd8162144e1, "Linux root (RISC-V-32)"),
    (0x72ec70a6_cf74_40e6_bd49_4bda08e8f224, "Linux root (RISC-V-64)"),
    (0x08a7acea_624c_4a20_91e8_6e0fa67d23f9, "Linux root (S390)"),
    (0x5eead9a9_fe09_4a1e_a1d7_520d00531306, "Linux root (S390X)"),
    (0xc50cdd70_3862_4cc3_90e1_809a8c93ee2c, "Linux root (TILE-Gx)"),
    // Linux /usr of the architectures that clouds offer.
    (0x8484680c_9521_48c6_9c11_b0720656f69e, "Linux /usr (x86-64)"),
    (0x75250d76_8cc6_458e_bd66_bd47cc81a812, "Linux /usr (x86)"),
    (0xb0e01050_ee5f_4390_949a_9101b17104e9, "Linux /usr (ARM-64)"),
    (0x7d0359a3_02b3_4f0a_865c_654403e70625, "Linux /usr (ARM)"),
    (0xe611c702_575c_4cbe_9a46_434fa0bf7e3f, "Linux /usr (LoongArch-64)"),
    (0x15bb03af_77e7_4d4a_b12b_c0d084f7491c, "Linux /usr (PPC64LE)"),
    (0xbeaec34b_8442_439b_a40b_984381ed097d, "Linux /usr (RISC-V-64)"),
    (0x8a4f5770_50aa_4ed3_874a_99b710db6fea, "Linux /usr (S390X)"),
    // dm-verity hashes of root and /usr, and their signatures.
    (0x2c7357ed_ebd2_46d9_aec1_23d437ec2bf5, "Linux root verity (x86-64)"),
    (0xd13c5d3b_b5d1_422a_b29f_9454fdc89d76, "Linux root verity (x86)"),
    (0xdf3300ce_d69f_4c92_978c_9bfb0f38d820, "Linux root verity (ARM-64)"),
    (0x7386cdf2_203c_47a9_a498_f2ecce45a2d6, "Linux root verity (ARM)"),
    (0x77ff5f63_e7b6_4633_acf4_1565b864c0e6, "Linux /usr verity (x86-64)"),
    (0x6e11a4e7_fbca_4ded_b9e9_e1a512bb664e, "Linux /usr verity (ARM-64)"),
    (0x41092b05_9fc8_4523_994f_2def0408b176, "Linux root verity sign. (x86-64)"),
    (0x6db69de6_29f4_4758_a7a5_962190f00ce3, "Linux root verity sign. (ARM-64)"),
    (0xe7bb33fb_06cf_4e81_8273_e543b413e2e2, "Linux /usr verity sign. (x86-64)"),
    (0xc23ce4ff_44bd_4b00_b2d4_b41b3419e02a, "Linux /usr verity sign. (ARM-64)"),
    // Microsoft.
    (0xe3c9e316_0b5c_4db8_817d_f92df00215ae, "Microsoft reserved"),
    (0xebd0a0a2_b9e5_4433_87c0_68b6b72699c7, "Microsoft basic data"),
    (0x5808c8aa_7e8f_42e0_85d2_e1e90434cfb3, "Microsoft LDM metadata"),
    (0xaf9b60a0_1431_4f62_bc68_3311714a69ad, "Microsoft LDM data"),
    (0xde94bba4_06d1_4d40_a16a_bfd50179d6ac, "Windows recovery environment"),
    (0xe75caf8f_f680_4cee_afa3_b001e56efc2d, "Microsoft Storage Spaces"),
    (0x558d43c5_a1ac_43c0_aac8_d1472b2923d1, "Microsoft Storage Replica"),
    // Apple.
    (0x48465300_0000_11aa_aa11_00306543ecac, "Apple HFS/HFS+"),
    (0x7c3457ef_0000_11aa_aa11_00306543ecac, "Apple APFS"),
    (0x426f6f74_0000_11aa_aa11_00306543ecac, "Apple boot"),
    (0x53746f72_6167_11aa_aa11_00306543ecac, "Apple Core storage"),
    (0x52414944_0000_11aa_aa11_00306543ecac, "Apple RAID"),
    // The BSDs.
    (0x83bd6b9d_7f41_11dc_be0b_001560b84f0f, "FreeBSD boot"),
    (0x516e7cb4_6ecf_11d6_8ff8_00022d09712b, "FreeBSD data"),
    (0x516e7cb5_6ecf_11d6_8ff8_00022d09712b, "FreeBSD swap"),
    (0x516e7cb6_6ecf_11d6_8ff8_00022d09712b, "FreeBSD UFS"),
    (0x516e7cb8_6ecf_11d6_8ff8_00022d09712b, "FreeBSD Vinum"),
    (0x516e7cba_6ecf_11d6_8ff8_00022d09712b, "FreeBSD ZFS"),
    (0x824cc7a0_36a8_11e3_890a_952519ad3f61, "OpenBSD data"),
    (0x49f48d5a_b10e_11dc_b99b_0019d1879648, "NetBSD FFS"),
    (0x49f48d32_b10e_11dc_b99b_0019d1879648, "NetBSD swap"),
    // Solaris and illumos; ZFS on Linux also uses the first one.
    (0x6a898cc3_1dd2_11b2_99a6_080020736631, "Solaris /usr & Apple ZFS"),
    (0x6a82cb45_1dd2_11b2_99a6_080020736631, "Solaris boot"),
    (0x6a85cf4d_1dd2_11b2_99a6_080020736631, "Solaris root"),
    (0x6a945a3b_1dd2_11b2_99a6_080020736631, "Solaris reserved 1"),
    // ChromeOS and its descendants (Container-Optimized OS, Flatcar).
    (0xfe3a2a5d_4f32_41a7_b725_accc3285a309, "ChromeOS kernel"),
    (0x3cb8e202_3b7e_47dd_8a3c_7ff2a13cfcec, "ChromeOS root fs"),
    (0x2e0a753d_9e48_43b0_8337_b15192cb1b5e, "ChromeOS reserved"),
    (0x3884dd41_8582_4404_b9a8_e9b84f2df50e, "CoreOS root"),
    (0x5dfbf5f4_2848_4bac_aa5e_0d9a20b745a6, "CoreOS /usr"),
    (0xc95dc21a_df0e_4340_8d7b_26cbfa9a03e0, "CoreOS reserved"),
    // Hypervisors and storage.
    (0xaa31e02a_400f_11db_9590_000c2911d1b8, "VMware VMFS"),
    (0x9d275380_40ad_11db_bf97_000c2911d1b8, "VMware Diagnostic"),
    (0x9198effc_31c0_11db_8f78_000c2911d1b8, "VMware Reserved"),
    (0x4fbd7e29_9d25_41b8_afd0_062c0ceff05d, "Ceph OSD"),
    (0x45b0969e_9b03_4f30_b4c6_b4b80ceff106, "Ceph Journal"),
    (0x42465331_3ba3_10f1_802a_4861696b7521, "Haiku BFS"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_type_is_named_twice() {
        let mut digits: Vec<u128> = NAMES.iter().map(|&(digits, _)| digits).collect();
        digits.sort_unstable();
        assert!(digits.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
