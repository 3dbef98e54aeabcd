//! Images that are built by hand, for what QEMU does not write.

use diskfs_fixtures::Random;
use diskfs_vmdk::{StreamWriter, WriteOptions, compress_grain};

/// An image with a grain map of ESXi, and the bytes of its disk.
pub(crate) struct Made {
    pub(crate) file: Vec<u8>,
    pub(crate) disk: Vec<u8>,
}

const SECTOR: usize = 512;

pub(crate) fn put32(file: &mut [u8], at: usize, value: u32) {
    file[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put64(file: &mut [u8], at: usize, value: u64) {
    file[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Returns the descriptor of a disk with the given lines.
pub(crate) fn descriptor(create_type: &str, extents: &str) -> String {
    format!(
        "# Disk DescriptorFile\nversion=1\nCID=12345678\nparentCID=ffffffff\n\
         createType=\"{create_type}\"\n\n# Extent description\n{extents}\n\n\
         # The Disk Data Base\n#DDB\n\nddb.adapterType = \"lsilogic\"\n\
         ddb.uuid = \"60 00 C2 9f\"\nddb.virtualHWVersion = \"4\"\n"
    )
}

/// Builds a COWD extent with some grains of `grain` sectors. The first table is complete, the
/// second one is absent, and the third one has a part of its grains.
pub(crate) fn cowd(grain: usize, random: &mut Random) -> Made {
    const ENTRIES: usize = 4096;
    const TABLE_SECTORS: usize = ENTRIES * 4 / SECTOR;
    let grain_bytes = grain * SECTOR;
    let sectors = (ENTRIES * 2 + 3) * grain - (grain - 1).min(3);
    let mut disk = vec![0; sectors * SECTOR];
    let mut file = vec![0; (5 + 2 * TABLE_SECTORS) * SECTOR];
    file[..4].copy_from_slice(b"COWD");
    let fields = [
        1,
        3,
        u32::try_from(sectors).unwrap(),
        u32::try_from(grain).unwrap(),
        4,
        3,
    ];
    for (number, field) in fields.into_iter().enumerate() {
        put32(&mut file, 4 + number * 4, field);
    }
    put32(&mut file, 4 * SECTOR, 5);
    put32(
        &mut file,
        4 * SECTOR + 8,
        u32::try_from(5 + TABLE_SECTORS).unwrap(),
    );
    for number in (0..ENTRIES).chain(ENTRIES * 2..ENTRIES * 2 + 3) {
        if number < ENTRIES && random.below(50) != 0 {
            continue;
        }
        let start = number * grain_bytes;
        let end = (start + grain_bytes).min(disk.len());
        disk[start..end].copy_from_slice(&random.bytes(end - start));
        let table = if number < ENTRIES {
            5
        } else {
            5 + TABLE_SECTORS
        };
        let sector = u32::try_from(file.len() / SECTOR).unwrap();
        put32(&mut file, table * SECTOR + number % ENTRIES * 4, sector);
        let mut data = disk[start..end].to_vec();
        data.resize(grain_bytes, 0);
        file.extend(data);
    }
    Made { file, disk }
}

/// Builds a seSparse extent of two and a half tables, of which the second one is absent, with
/// grains of all types.
pub(crate) fn se_sparse(random: &mut Random) -> Made {
    const GRAIN: usize = 4096;
    const ENTRIES: usize = 4096;
    const DIRECTORY: usize = 2;
    const TABLES: usize = 4;
    const GRAINS: usize = TABLES + 2 * 64;
    let grains = ENTRIES * 2 + ENTRIES / 2;
    let mut disk = vec![0; grains * GRAIN];
    let mut file = vec![0; GRAINS * SECTOR];
    let fields: [u64; 26] = [
        0xcafe_babe,
        0x2_0000_0001,
        (grains * 8) as u64,
        8,
        64,
        0,
        0,
        0,
        0,
        0,
        1,
        1,
        0,
        0,
        0,
        0,
        DIRECTORY as u64,
        1,
        TABLES as u64,
        128,
        0,
        0,
        0,
        0,
        GRAINS as u64,
        0,
    ];
    for (number, field) in fields.into_iter().enumerate() {
        put64(&mut file, number * 8, field);
    }
    put64(&mut file, SECTOR, 0xcafe_cafe);
    // The first table is the second one in the file.
    put64(&mut file, DIRECTORY * SECTOR, 0x1000_0000_0000_0001);
    put64(&mut file, DIRECTORY * SECTOR + 16, 0x1000_0000_0000_0000);
    let mut count = 0_u64;
    for number in (0..ENTRIES).chain(ENTRIES * 2..grains) {
        let table = if number < ENTRIES {
            TABLES + 64
        } else {
            TABLES
        };
        let entry = match random.below(40) {
            0 => 0x1000_0000_0000_0000,
            1 => 0x2000_0000_0000_0000,
            2 | 3 => {
                let start = number * GRAIN;
                disk[start..start + GRAIN].copy_from_slice(&random.bytes(GRAIN));
                file.extend(&disk[start..start + GRAIN]);
                count += 1;
                0x3000_0000_0000_0000 | ((count - 1) & 0xfff) << 48 | (count - 1) >> 12
            }
            _ => 0,
        };
        put64(&mut file, table * SECTOR + number % ENTRIES * 8, entry);
    }
    Made { file, disk }
}

/// Builds a sparse extent with a descriptor: one table, of which the first grain is stored, the
/// second one is zeroes, and the last one is cut by the end of the file. Its redundant directory
/// is like the first one.
pub(crate) fn sparse() -> Vec<u8> {
    let mut file = vec![0; 31 * SECTOR];
    file[..4].copy_from_slice(b"KDMV");
    put32(&mut file, 4, 2);
    put32(&mut file, 8, 1 | 2 | 4);
    for (at, sectors) in [
        (12, 8 * 3),
        (20, 8),
        (28, 1),
        (36, 8),
        (48, 9),
        (56, 20),
        (64, 31),
    ] {
        put64(&mut file, at, sectors);
    }
    put32(&mut file, 44, 512);
    file[73..77].copy_from_slice(b"\n \r\n");
    let text = descriptor("monolithicSparse", "RW 24 SPARSE \"disk.vmdk\"");
    file[SECTOR..SECTOR + text.len()].copy_from_slice(text.as_bytes());
    for (directory, table) in [(9, 10), (20, 21)] {
        put32(&mut file, directory * SECTOR, u32::try_from(table).unwrap());
        for (number, entry) in [31, 1, 39].into_iter().enumerate() {
            put32(&mut file, table * SECTOR + number * 4, entry);
        }
    }
    file.extend([7; 4096]);
    file.extend([8; 1000]);
    file
}

/// Writes a stream of five grains, of which the third and the last one are left out.
pub(crate) fn stream() -> Vec<u8> {
    let options = WriteOptions {
        capacity_bytes: 300 << 10,
        file_name: "disk.vmdk".to_owned(),
        content_id: 1,
        adapter_type: "ide".to_owned(),
        hardware_version: 4,
    };
    let mut writer = StreamWriter::new(Vec::new(), options).unwrap();
    for (number, byte) in [(0, 1), (1, 2), (3, 3)] {
        let grain = compress_grain(&vec![byte; 60_000]).unwrap();
        writer.write_grain(number, &grain).unwrap();
    }
    writer.finish().unwrap()
}
