//! Generated volumes of a few bytes each.

/// A generated volume: its name, its size, and the bytes on it.
pub(super) struct GeneratedVolume {
    pub(super) name: &'static str,
    pub(super) size_bytes: u64,
    pub(super) parts: &'static [(At, &'static [u8])],
}

/// A place on the volume.
pub(super) enum At {
    Start(u64),
    /// This number of bytes before the end.
    End(u64),
}

use At::{End, Start};

const UUID: &[u8] = b"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10";
const HEX: &[u8] = b"0123456789abcdef0123456789abcdef";

const fn made(
    name: &'static str,
    size_bytes: u64,
    parts: &'static [(At, &'static [u8])],
) -> GeneratedVolume {
    GeneratedVolume {
        name,
        size_bytes,
        parts,
    }
}

/// All generated volumes.
pub(super) const MADE: &[GeneratedVolume] = &[
    made("nothing", 8 << 20, &[]),
    made("isw", 8 << 20, &[(End(1024), b"Intel Raid ISM Cfg Sig. 1.3.00")]),
    made("lsi", 8 << 20, &[(End(512), b"$XIDE$")]),
    made("nvidia", 8 << 20, &[(End(1024), b"NVIDIA  \x1e\0\0\0\0\0\0\0\x64\0")]),
    made("promise", 8 << 20, &[(End(63 * 512), b"Promise Technology, Inc.")]),
    made("promise-far", 8 << 20, &[(End(3087 * 512), b"Promise Technology, Inc.")]),
    made("hpt45x", 8 << 20, &[(End(11 * 512), b"\xf3\x16\x78\x5a")]),
    made("hpt37x", 8 << 20, &[(Start(9 * 512 + 32), b"\xf0\x16\x78\x5a")]),
    made("adaptec", 8 << 20, &[(End(512), b"\x37\xfc\x4d\x1e"), (End(256), b"DPTM")]),
    made("jmicron", 8 << 20, &[(End(512), b"JM\0\x01\xb6\xb1")]),
    made("via", 8 << 20, &[(End(512), b"\x55\xaa\x01"), (End(462), b"\0")]),
    made("silicon", 8 << 20, &[(End(512 - 0x60), b"\0\0\0\x2f"), (End(512 - 0x13e), b"\0\xd1")]),
    made(
        "ddf",
        64 << 20,
        &[
            (End(512), b"\xde\x11\xde\x11"),
            (End(504), b"LSI     0123456789abcdef"),
            (End(480), b"02.00.00"),
            (End(512 - 0x60), b"\0\0\0\0\0\x01\xff\xfe"),
            (End(1024), b"\xde\x11\xde\x11"),
        ],
    ),
    made("drbd-8", 8 << 20, &[(End(4096 - 40), UUID), (End(4096 - 60), b"\x83\x74\x02\x6b")]),
    made("drbd-9", 8 << 20, &[(End(4096 - 48), UUID), (End(4096 - 60), b"\x83\x74\x02\x6d")]),
    made("drbdmanage", 8 << 20, &[(Start(0), b"$DRBDmgr=q"), (Start(11), HEX), (Start(43), b"\n")]),
    made("drbdproxy", 8 << 20, &[(Start(0), b"DRBDdlh*"), (Start(16), UUID)]),
    made("bluestore", 8 << 20, &[(Start(0), b"bluestore block device\n")]),
    made("lvm1", 8 << 20, &[(Start(0), b"HM\x01\0"), (Start(0x2c), HEX)]),
    made("snapshot", 8 << 20, &[(Start(0), b"SnAp\x01\0\0\0\x01\0\0\0\x08\0\0\0")]),
    made("integrity", 8 << 20, &[(Start(0), b"integrt\0\x05")]),
    made("vdo", 8 << 20, &[(Start(0), b"dmvdo001"), (Start(40), UUID)]),
    made("vmfs-volume", 8 << 20, &[(Start(1 << 20), b"\x0d\xd0\x01\xc0"), (Start((1 << 20) + 130), UUID)]),
    made("vmfs", 8 << 20, &[(Start(2 << 20), b"\x5e\xf1\xab\x2f"), (Start((2 << 20) + 9), UUID), (Start((2 << 20) + 29), b"vmfs label")]),
    made("ubi", 8 << 20, &[(Start(0), b"UBI#\x01"), (Start(24), b"\x12\x34\x56\x78")]),
    made("zfs-nothing", 8 << 20, &[(Start(128 << 10), b"\x0c\xb1\xba\0\0\0\0\0")]),
    made(
        "zfs",
        64 << 20,
        &[
            (Start(128 << 10), b"\x0c\xb1\xba\0\0\0\0\0"),
            (Start(129 << 10), b"\x0c\xb1\xba\0\0\0\0\0"),
            (Start(130 << 10), b"\x0c\xb1\xba\0\0\0\0\0"),
            (Start(131 << 10), b"\x0c\xb1\xba\0\0\0\0\0"),
            (Start(132 << 10), b"\x0c\xb1\xba\0\0\0\0\0"),
            (
                Start(16 << 10),
                b"\x01\x01\0\0\0\0\0\0\0\0\0\x01\
                \0\0\0\x24\0\0\0\x20\0\0\0\x07version\0\0\0\0\x08\0\0\0\x01\0\0\0\0\0\0\x13\x88\
                \0\0\0\x24\0\0\0\x20\0\0\0\x04name\0\0\0\x09\0\0\0\x01\0\0\0\x06my tank\0\
                \0\0\0\x28\0\0\0\x28\0\0\0\x09pool_guid\0\0\0\0\0\0\x08\0\0\0\x01\x01\x02\x03\x04\x05\x06\x07\x08\
                \0\0\0\0\0\0\0\0",
            ),
        ],
    ),
    made("refs", 8 << 20, &[(Start(0), b"\0\0\0ReFS\0")]),
    made("hpfs", 8 << 20, &[(Start(8192), b"\x49\xe8\x95\xf9"), (Start(8704), b"\x49\x18\x91\xf9"), (Start(510), b"\x55\xaa"), (Start(0x26), b"\x28\x78\x56\x34\x12OS2 LABEL  HPFS    ")]),
    made("sysv", 8 << 20, &[(Start(512 + 504), b"\x20\x7e\x18\xfd\x02\0\0\0"), (Start(512 + 440), b"fname")]),
    made("oracleasm", 8 << 20, &[(Start(32), b"ORCLDISKVOL1")]),
    made("vxfs", 8 << 20, &[(Start(1024), b"\xf5\xfc\x01\xa5\x05\0\0\0")]),
    made("vxfs-hp", 8 << 20, &[(Start(8192), b"\xa5\x01\xfc\xf5\0\0\0\x05")]),
    made("squashfs3", 8 << 20, &[(Start(0), b"hsqs"), (Start(28), b"\x03\0\x01\0")]),
    made("squashfs3-big", 8 << 20, &[(Start(0), b"sqsh"), (Start(28), b"\0\x03\0\x01")]),
    made("zonefs", 8 << 20, &[(Start(0), b"SFOZ"), (Start(8), b"zonefs label"), (Start(72), UUID)]),
    made("swsuspend", 8 << 20, &[(Start(4086), b"S1SUSPEND\0"), (Start(1024), b"\x01\0\0\0\xff\x07\0\0"), (Start(1036), UUID), (Start(1052), b"swap label")]),
    made("linhib", 8 << 20, &[(Start(4086), b"LINHIB0001"), (Start(1024), b"\x01\0\0\0\xff\x07\0\0"), (Start(1036), UUID)]),
    made("swap-old", 8 << 20, &[(Start(4086), b"SWAP-SPACE"), (Start(1024), b"\xff")]),
    made("swap-big-endian", 8 << 20, &[(Start(4086), b"SWAPSPACE2"), (Start(1024), b"\0\0\0\x01\0\0\x07\xff"), (Start(1036), UUID)]),
    made("tuxonice", 8 << 20, &[(Start(0), b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c")]),
    made("hfsplus", 8 << 20, &[
        (Start(1024), b"H+\0\x04"),
        (Start(1024 + 40), b"\0\0\x10\0\0\0\x08\0"),
        (Start(1024 + 104), b"\x01\x02\x03\x04\x05\x06\x07\x08"),
        (Start(1024 + 288), b"\0\0\0\x10\0\0\0\x10"),
        (Start(65536 + 8), b"\x01\0\0\x03"),
        (Start(65536 + 14), b"\0\x01\0\0\0\x01\0\0\0\x04\0\0\0\x01\0\0\0\x01\x10\0"),
        (Start(65536 + 4096), b"\0\0\0\0\0\0\0\0\xff\x01\0\x04\0\0\0\x14\0\0\0\x01\0\x07\0H\0F\0S\0 \0L\0b\0l"),
    ]),
    made("md-0.90", 8 << 20, &[(End(65536), b"\xfc\x4e\x2b\xa9\0\0\0\0\x5a\0\0\0\0\0\0\0\0\0\0\0\x01\x02\x03\x04"), (End(65536 - 52), b"\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10")]),
    made("stratis", 8 << 20, &[(Start(512), b"\x18\x8a\x2b\xf2!Stra0tis\x86\xff\x02^\x41rh"), (Start(512 + 32), HEX), (Start(512 + 64), HEX)]),
    made("mpool", 8 << 20, &[(Start(0), b"mpoolDev"), (Start(8), b"mpool label"), (Start(40), UUID), (Start(62), b"\x96\xb7\x39\x79")]),
    made("gfs", 64 << 20, &[(Start(65536), b"\x01\x16\x19\x70\0\0\0\x01"), (Start(65536 + 24), b"\0\0\x05\x1d\0\0\x05\x79"), (Start(65536 + 160), b"cluster:gfs1")]),
    made("bitlocker", 8 << 20, &[(Start(0), b"\xeb\x58\x90-FVE-FS-"), (Start(176), b"\0\0\x10"), (Start(1 << 20), b"-FVE-FS-")]),
    made("bitlocker-vista", 8 << 20, &[(Start(0), b"\xeb\x52\x90-FVE-FS-")]),
    made("nss", 8 << 20, &[(Start(4096), b"SPB5"), (Start(4096 + 0x15c), UUID)]),
];

/// Volumes whose magic number `blkid` searches in another place, or with more conditions.
pub(super) const MADE_ALONE: &[GeneratedVolume] = &[
    made(
        "ocfs",
        8 << 20,
        &[
            (Start(0), b"\x02\0\0\0\x01\0\0\0OracleCFS"),
            (Start(512 + 48), b"ocfs label"),
            (Start(512 + 112), b"\x0a\0"),
            (Start(512 + 114), UUID),
        ],
    ),
    made(
        "xenix",
        8 << 20,
        &[
            (Start(2040), b"\x44\x55\x2b\0\x02\0\0\0"),
            (Start(1024 + 632), b"fname"),
        ],
    ),
    made(
        "exfs",
        8 << 20,
        &[
            (Start(0), b"EXFS\0\0\x10\0\0\0\0\0\0\0\x07\0"),
            (Start(32), UUID),
            (Start(108), b"exfslabel"),
        ],
    ),
    made(
        "befs",
        8 << 20,
        &[
            (Start(512), b"befs label"),
            (Start(512 + 32), b"1SFBEGIB\0\x04\0\0\x0a\0\0\0"),
            (
                Start(512 + 64),
                b"\0\x04\0\0\x31\x10\x12\xdd\x01\0\0\0\x0d\0\0\0\x01\0\0\0",
            ),
            (Start(512 + 112), b"\x0e\x63\xb6\x15\0\0\0\0\x10\0\x01\0"),
            (Start(16 << 10), b"\xd9\x0a\xbe\x3b"),
            (Start((16 << 10) + 64), b"\0\x04\0\0"),
            (
                Start((16 << 10) + 232),
                b"GLLU\x0c\0\x08\0be:volume_id\0\0\0\x08\x07\x06\x05\x04\x03\x02\x01",
            ),
        ],
    ),
    // The versions of `blkid` in distributions do not know these kinds.
    made(
        "bcachefs-old",
        8 << 20,
        &[
            (
                Start(4096 + 24),
                b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
            ),
            (Start(4096 + 56), UUID),
            (Start(4096 + 72), b"old label"),
        ],
    ),
    made(
        "scoutfs-data",
        8 << 20,
        &[
            (Start((64 << 10) + 4), b"\x8b\x42\x3c\x10"),
            (Start((64 << 10) + 56), UUID),
        ],
    ),
    made(
        "scoutfs-meta",
        8 << 20,
        &[
            (Start((64 << 10) + 4), b"\x8b\x42\x3c\x10"),
            (Start((64 << 10) + 48), b"\x01"),
            (Start((64 << 10) + 56), UUID),
        ],
    ),
    made(
        "bitlocker-described",
        8 << 20,
        &[
            (Start(0), b"\xeb\x58\x90-FVE-FS-"),
            (Start(176), b"\0\0\x10"),
            (Start(1 << 20), b"-FVE-FS-"),
            (Start((1 << 20) + 64), b"\x80"),
            (Start((1 << 20) + 80), UUID),
            (
                Start((1 << 20) + 112),
                b"\x0c\0\x01\0\x01\0\x01\0\0\0\0\0\x0e\0\x07\0\x02\0\x01\0C\0:\0\0\0",
            ),
        ],
    ),
    made(
        "vmfs-volume-named",
        8 << 20,
        &[
            (Start(1 << 20), b"\x0d\xd0\x01\xc0"),
            (
                Start((1 << 20) + 532),
                b"49edf842-dcb35d37-b383-0021280083cf",
            ),
        ],
    ),
    made(
        "tuxonice-header",
        8 << 20,
        &[
            (Start(0), b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c"),
            (Start(1024), b"\x01\0\0\0\x0f"),
            (Start(1036), UUID),
            (Start(4086), b"SWAPSPACE2"),
        ],
    ),
];
