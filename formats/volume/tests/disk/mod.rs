//! Disks that are built byte by byte, for cases that no tool produces.

#![allow(dead_code, reason = "each test program uses a part of it")]

use diskfs_block::Memory;

/// The type `Linux filesystem`, as it is stored on disk.
pub(crate) const LINUX: [u8; 16] = [
    0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47, 0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47, 0x7d, 0xe4,
];

/// A GPT to write to a disk: primary, backup and protective MBR.
#[derive(Clone)]
pub(crate) struct Gpt {
    pub(crate) sector: usize,
    pub(crate) sectors: u64,
    pub(crate) header_bytes: u32,
    pub(crate) entry_bytes: u32,
    pub(crate) entries: u32,
    /// The number from 1 on, the first and the last LBA.
    pub(crate) partitions: Vec<(u32, u64, u64)>,
}

impl Gpt {
    pub(crate) fn new(sector: usize, sectors: u64) -> Self {
        let entries = 128;
        Self {
            sector,
            sectors,
            header_bytes: 92,
            entry_bytes: 128,
            entries,
            partitions: Vec::new(),
        }
    }

    pub(crate) fn with(mut self, number: u32, first: u64, last: u64) -> Self {
        self.partitions.push((number, first, last));
        self
    }

    /// Builds the whole disk.
    pub(crate) fn disk(&self) -> Vec<u8> {
        let mut disk = vec![0; self.sector * usize::try_from(self.sectors).unwrap()];
        put_entry(
            &mut disk,
            0,
            0,
            0xee,
            1,
            u32::try_from(self.sectors - 1).unwrap(),
        );
        disk[510..512].copy_from_slice(&[0x55, 0xaa]);
        let array = self.array();
        let last = self.sectors - 1;
        let backup_array = last - self.array_sectors();
        self.put(&mut disk, 2, &array);
        self.put(&mut disk, backup_array, &array);
        self.put(&mut disk, 1, &self.header(1, last, 2));
        self.put(&mut disk, last, &self.header(last, 1, backup_array));
        disk
    }

    fn put(&self, disk: &mut [u8], lba: u64, bytes: &[u8]) {
        let at = usize::try_from(lba).unwrap() * self.sector;
        disk[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn array_sectors(&self) -> u64 {
        u64::from(self.entries * self.entry_bytes).div_ceil(self.sector as u64)
    }

    fn array(&self) -> Vec<u8> {
        let mut array = vec![0; (self.entries * self.entry_bytes) as usize];
        for &(number, first, last) in &self.partitions {
            let at = ((number - 1) * self.entry_bytes) as usize;
            let entry = &mut array[at..at + 128];
            entry[..16].copy_from_slice(&LINUX);
            entry[16..20].copy_from_slice(&number.to_le_bytes());
            entry[32..40].copy_from_slice(&first.to_le_bytes());
            entry[40..48].copy_from_slice(&last.to_le_bytes());
            entry[56] = b'p';
        }
        array
    }

    pub(crate) fn header(&self, my_lba: u64, alternate_lba: u64, array_lba: u64) -> Vec<u8> {
        let mut h = vec![0; self.header_bytes as usize];
        h[..8].copy_from_slice(b"EFI PART");
        h[8..12].copy_from_slice(&0x1_0000_u32.to_le_bytes());
        h[12..16].copy_from_slice(&self.header_bytes.to_le_bytes());
        h[24..32].copy_from_slice(&my_lba.to_le_bytes());
        h[32..40].copy_from_slice(&alternate_lba.to_le_bytes());
        h[40..48].copy_from_slice(&(2 + self.array_sectors()).to_le_bytes());
        h[48..56].copy_from_slice(&(self.sectors - 2 - self.array_sectors()).to_le_bytes());
        h[56] = 0xd1;
        h[72..80].copy_from_slice(&array_lba.to_le_bytes());
        h[80..84].copy_from_slice(&self.entries.to_le_bytes());
        h[84..88].copy_from_slice(&self.entry_bytes.to_le_bytes());
        h[88..92].copy_from_slice(&crc32fast::hash(&self.array()).to_le_bytes());
        seal(&mut h);
        h
    }
}

/// Corrects a header's checksum.
pub(crate) fn seal(header: &mut [u8]) {
    let size = u32::from_le_bytes(header[12..16].try_into().unwrap()) as usize;
    header[16..20].fill(0);
    let crc = crc32fast::hash(&header[..size]);
    header[16..20].copy_from_slice(&crc.to_le_bytes());
}

/// Writes entry `index` of the boot record in the sector at `at`.
pub(crate) fn put_entry(disk: &mut [u8], at: usize, index: usize, kind: u8, start: u32, len: u32) {
    let at = at + 446 + 16 * index;
    disk[at + 4] = kind;
    disk[at + 8..at + 12].copy_from_slice(&start.to_le_bytes());
    disk[at + 12..at + 16].copy_from_slice(&len.to_le_bytes());
}

/// Builds a disk of 512-byte sectors with an MBR of these entries (type, start, length).
pub(crate) fn mbr(sectors: usize, entries: &[(u8, u32, u32)]) -> Vec<u8> {
    let mut disk = vec![0; sectors * 512];
    disk[440..444].copy_from_slice(&0xcafe_0001_u32.to_le_bytes());
    put_record(&mut disk, 0, entries);
    disk
}

/// Writes a boot record with these entries to sector `lba`.
pub(crate) fn put_record(disk: &mut [u8], lba: usize, entries: &[(u8, u32, u32)]) {
    for (index, &(kind, start, len)) in entries.iter().enumerate() {
        put_entry(disk, lba * 512, index, kind, start, len);
    }
    disk[lba * 512 + 510..lba * 512 + 512].copy_from_slice(&[0x55, 0xaa]);
}

pub(crate) fn memory(disk: &[u8]) -> Memory {
    Memory::new(disk)
}
