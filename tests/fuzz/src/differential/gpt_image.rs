//! Random disks with a GPT. UEFI specification 2.10, section 5.3.

use crate::Sparse;
use crate::random::Random;

/// The size of a sector, the only one that `sfdisk` before 2.40 supports for a file.
pub(super) const SECTOR: u64 = 512;

/// The largest entry array that is written.
const MAX_ARRAY_BYTES: u64 = 2 << 20;

/// The types of partitions: nil is an unused entry.
const TYPES: [u128; 4] = [
    0x0fc6_3daf_8483_4772_8e79_3d69_d847_7de4,
    0xc12a_7328_f81f_11d2_ba4b_00a0_c93e_c93b,
    0x0123_4567_89ab_4cde_8f01_2345_6789_abcd,
    0,
];

/// The fields of a header, without its checksums.
#[derive(Debug, Clone)]
struct Header {
    revision: u32,
    len_bytes: u32,
    my_lba: u64,
    alternate_lba: u64,
    first_usable_lba: u64,
    last_usable_lba: u64,
    disk_guid: u128,
    entries_lba: u64,
    entry_count: u32,
    entry_bytes: u32,
}

/// An entry that is in use.
#[derive(Debug, Clone)]
struct Entry {
    index: u64,
    type_guid: u128,
    guid: u128,
    first: u64,
    last: u64,
    attributes: u64,
    name: Vec<u16>,
}

/// Returns a disk. Most of its fields are valid; a few have any of the values that a program should
/// notice. The checksums are correct unless the case is about them.
pub(super) fn build(random: &mut Random) -> Sparse {
    let sectors = *random.pick(&[200, 2048, 20_000, 131_072]) + random.below(40);
    let mut disk = Sparse::zeroes(sectors * SECTOR);
    if random.below(16) == 0 {
        // The disk grew or shrank by a part of a sector.
        disk.set_len(sectors * SECTOR + random.below(SECTOR));
    }
    write_mbr(&mut disk, sectors, random);
    let header = valid_header(sectors, random);
    let entries = some_entries(&header, random);
    let mut backup = header.clone();
    backup.my_lba = header.alternate_lba;
    backup.alternate_lba = 1;
    backup.entries_lba = header.last_usable_lba + 1;
    let mut of_backup = entries.clone();
    let mut primary = header;
    match random.below(10) {
        0..3 => change_header(&mut primary, sectors, random),
        3..5 => change_header(&mut backup, sectors, random),
        5 => {
            change_header(&mut primary, sectors, random);
            change_header(&mut backup, sectors, random);
        }
        6 => of_backup = some_entries(&backup, random),
        7 => backup.disk_guid ^= 1,
        _ => {}
    }
    // The last sector that exists, even if the header is to be somewhere else.
    let backup_at = if random.below(20) == 0 {
        random.below(sectors)
    } else {
        sectors - 1
    };
    write_copy(&mut disk, backup_at, &backup, &of_backup, random);
    write_copy(&mut disk, 1, &primary, &entries, random);
    disk
}

fn guid(random: &mut Random) -> u128 {
    u128::from(random.next()) << 64 | u128::from(random.next())
}

fn valid_header(sectors: u64, random: &mut Random) -> Header {
    let entry_bytes = *random.pick(&[128, 128, 128, 256, 512, 4096]);
    let entry_count = *random.pick(&[128, 128, 128, 4, 16, 64, 127, 129, 200]);
    let array = u64::from(entry_bytes * entry_count).div_ceil(SECTOR);
    let (entry_bytes, entry_count, array) = if 2 * array + 40 > sectors {
        (128, 128, 32)
    } else {
        (entry_bytes, entry_count, array)
    };
    Header {
        revision: 0x1_0000,
        len_bytes: 92,
        my_lba: 1,
        alternate_lba: sectors - 1,
        first_usable_lba: 2 + array,
        last_usable_lba: sectors - 2 - array,
        disk_guid: guid(random),
        entries_lba: 2,
        entry_count,
        entry_bytes,
    }
}

/// Returns up to 12 entries. Most are in order and apart.
fn some_entries(header: &Header, random: &mut Random) -> Vec<Entry> {
    let count = random.below(13).min(u64::from(header.entry_count));
    let usable = header.last_usable_lba - header.first_usable_lba;
    let room = usable / count.max(1);
    let mut entries = Vec::new();
    for n in 0..count {
        let first = header.first_usable_lba + n * room + random.below(room / 2);
        let mut entry = Entry {
            index: n,
            type_guid: *random.pick(&TYPES[..3]),
            guid: guid(random),
            first,
            last: first + random.below((room / 2).max(1)),
            attributes: *random.pick(&[0, 0, 1, 4, 1 << 48 | 1 << 63]),
            name: any_name(random),
        };
        if random.below(6) == 0 {
            change_entry(&mut entry, header, random);
        }
        entries.push(entry);
    }
    entries
}

fn any_name(random: &mut Random) -> Vec<u16> {
    let texts = [
        "",
        "root",
        "EFI system partition",
        "gr\u{fc}n \u{1f4be}",
        "a \"quoted\" \\ name",
        "tab\tand\nline",
        "  spaces  ",
        "exactly thirty-six characters of it!",
        "del\u{7f} c1\u{85} bom\u{feff}",
    ];
    let mut units: Vec<u16> = random.pick(&texts).encode_utf16().collect();
    if random.below(12) == 0 {
        // Half of a surrogate pair, an end in the middle, or any unit.
        let any = u16::try_from(random.below(1 << 16)).unwrap_or(1);
        units.insert(0, *random.pick(&[0xd83d, 0xdcbe, 0, any]));
    }
    units.truncate(36);
    units
}

fn change_entry(entry: &mut Entry, header: &Header, random: &mut Random) {
    let lbas = [
        0,
        1,
        header.first_usable_lba,
        header.last_usable_lba,
        header.last_usable_lba + 1,
        header.alternate_lba + 1,
        1 << 32,
        u64::MAX >> 1,
        u64::MAX / SECTOR,
        u64::MAX - 1,
        u64::MAX,
    ];
    match random.below(8) {
        0 => entry.first = *random.pick(&lbas),
        1 => entry.last = *random.pick(&lbas),
        2 => std::mem::swap(&mut entry.first, &mut entry.last),
        3 => entry.attributes = random.next(),
        4 => entry.type_guid = 0,
        5 => entry.guid = 0,
        6 => entry.index = random.below(u64::from(header.entry_count)),
        // It shares sectors with its neighbours.
        _ => {
            let more = random.below(header.last_usable_lba);
            entry.last = entry.last.saturating_add(more);
        }
    }
}

fn change_header(header: &mut Header, sectors: u64, random: &mut Random) {
    let lbas = [
        0,
        1,
        2,
        33,
        34,
        sectors / 2,
        sectors - 34,
        sectors - 1,
        sectors,
        1 << 32,
        u64::MAX >> 9,
        u64::MAX - 1,
        u64::MAX,
    ];
    match random.below(9) {
        0 => header.revision = *random.pick(&[0, 0x0002_0000, 0x0001_0001]),
        1 => header.len_bytes = *random.pick(&[0, 91, 93, 96, 128, 511, 512, 513, u32::MAX]),
        2 => header.my_lba = *random.pick(&lbas),
        3 => header.alternate_lba = *random.pick(&lbas),
        4 => header.first_usable_lba = *random.pick(&lbas),
        5 => header.last_usable_lba = *random.pick(&lbas),
        6 => header.entries_lba = *random.pick(&lbas),
        7 => header.entry_count = *random.pick(&[0, 1, 4, 5, 100, 1000, 4096, 40_000, u32::MAX]),
        _ => header.entry_bytes = *random.pick(&[0, 1, 64, 127, 192, 384, 1024, 8192, u32::MAX]),
    }
}

/// Writes the protective MBR. Some are hybrid or invalid.
fn write_mbr(disk: &mut Sparse, sectors: u64, random: &mut Random) {
    let mut slots = [[0_u8; 16]; 4];
    let mut start = 1_u32;
    let mut len = u32::try_from(sectors - 1).unwrap_or(u32::MAX);
    let mut slot = 0;
    match random.below(16) {
        0 => start = *random.pick(&[0, 2, 63]),
        1 => len = *random.pick(&[0, 1, u32::MAX]),
        2 => slot = usize::try_from(random.below(4)).unwrap_or(0),
        3 => {
            len = 33;
            slots[1][4] = 0x83;
            slots[1][8..12].copy_from_slice(&40_u32.to_le_bytes());
            slots[1][12..].copy_from_slice(&8_u32.to_le_bytes());
        }
        _ => {}
    }
    slots[slot][1..8].copy_from_slice(&[0, 2, 0, 0xee, 0xff, 0xff, 0xff]);
    slots[slot][8..12].copy_from_slice(&start.to_le_bytes());
    slots[slot][12..].copy_from_slice(&len.to_le_bytes());
    match random.below(40) {
        0 => slots[slot][4] = 0x83,
        1 => slots[slot][0] = *random.pick(&[0x80, 1]),
        _ => {}
    }
    disk.write(446, slots.as_flattened());
    if random.below(40) > 0 {
        disk.write(510, &[0x55, 0xaa]);
    }
}

/// Writes the entry array and the header with correct checksums; rarely one of them is wrong, or the
/// header is missing.
fn write_copy(disk: &mut Sparse, at: u64, header: &Header, entries: &[Entry], random: &mut Random) {
    let array_bytes = u64::from(header.entry_bytes) * u64::from(header.entry_count);
    let mut array = vec![0; usize::try_from(array_bytes.min(MAX_ARRAY_BYTES)).unwrap_or(0)];
    for entry in entries {
        let start = usize::try_from(entry.index * u64::from(header.entry_bytes)).unwrap_or(0);
        let bytes = entry_bytes(entry);
        let len = bytes.len().min(header.entry_bytes as usize);
        if let Some(place) = array.get_mut(start..start + len) {
            place.copy_from_slice(&bytes[..len]);
        }
    }
    disk.write(header.entries_lba.saturating_mul(SECTOR), &array);
    let mut crc = crc32fast::hash(&array);
    let mut sector = header_sector(header, crc);
    match random.below(40) {
        0 => {
            crc ^= 1;
            sector = header_sector(header, crc);
        }
        1 => sector[16] ^= 1,
        2 => sector = vec![0; 512],
        _ => {}
    }
    disk.write(at * SECTOR, &sector);
}

fn entry_bytes(entry: &Entry) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(on_disk(entry.type_guid));
    bytes.extend(on_disk(entry.guid));
    for number in [entry.first, entry.last, entry.attributes] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(entry.name.iter().flat_map(|unit| unit.to_le_bytes()));
    bytes.resize(128, 0);
    bytes
}

fn header_sector(header: &Header, array_crc: u32) -> Vec<u8> {
    let mut sector = b"EFI PART".to_vec();
    sector.extend(header.revision.to_le_bytes());
    sector.extend(header.len_bytes.to_le_bytes());
    sector.extend([0; 8]);
    for lba in [
        header.my_lba,
        header.alternate_lba,
        header.first_usable_lba,
        header.last_usable_lba,
    ] {
        sector.extend(lba.to_le_bytes());
    }
    sector.extend(on_disk(header.disk_guid));
    sector.extend(header.entries_lba.to_le_bytes());
    for number in [header.entry_count, header.entry_bytes, array_crc] {
        sector.extend(number.to_le_bytes());
    }
    sector.resize(512, 0);
    let covered = sector.get(..header.len_bytes as usize).unwrap_or(&sector);
    let crc = crc32fast::hash(covered);
    sector[16..20].copy_from_slice(&crc.to_le_bytes());
    sector
}

/// Returns a GUID as it is stored: its first three numbers are little-endian.
fn on_disk(guid: u128) -> [u8; 16] {
    let mut bytes = guid.to_be_bytes();
    bytes[..4].reverse();
    bytes[4..6].reverse();
    bytes[6..8].reverse();
    bytes
}
