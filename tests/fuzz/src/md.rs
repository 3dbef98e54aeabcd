//! md arrays.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Overlay, Slice};
use diskfs_volume::md::{Member, arrays};

use crate::Sparse;
use crate::lvm::{SEALED_BYTES, places};
use crate::volume::{read_some, write_some};

const MAGIC: [u8; 4] = 0xa92b_4efc_u32.to_le_bytes();

/// Reads the arrays on the device and its partitions, with corrected checksums, which mutations
/// never hit.
pub(crate) fn all(device: &Arc<dyn BlockRead>) {
    let sealed = Arc::new(Overlay::in_memory(Arc::clone(device), SEALED_BYTES));
    let whole: Arc<dyn BlockRead> = sealed.clone();
    let places = places(&whole, 64);
    for (start, place) in &places {
        let size = place.size_bytes();
        let end = (size / 512).saturating_sub(16) & !7;
        let old = (size & !0xffff).saturating_sub(1 << 16);
        for at in [0, 4096, end * 512, old] {
            // Superblocks that are outside of the device or invalid cannot be sealed.
            let _ = seal(&*sealed, start + at);
        }
    }
    let read = places.iter();
    let read = read.filter_map(|(start, place)| {
        let member = Member::read(&**place).ok()??;
        let device = Slice::new(Arc::clone(&sealed), *start, place.size_bytes());
        Some((member, Arc::new(device.ok()?)))
    });
    let (mut members, devices): (Vec<Member>, Vec<_>) = read.unzip();
    // An array with redundancy is readable without one or two of its members.
    for _ in 0..3 {
        open(&members, &devices);
        members.pop();
    }
}

/// Opens the arrays of these members, reads and writes.
fn open(members: &[Member], devices: &[Arc<Slice<Overlay>>]) {
    let device = |index: usize| Ok(Arc::clone(&devices[index]));
    for array in arrays(members) {
        if let Ok(opened) = array.open(&device) {
            read_some(&opened);
        }
        if let Ok(opened) = array.open_writable(&device) {
            write_some(&opened);
        }
    }
}

/// The number of members of each seed, on the partitions of an MBR.
const MEMBERS: u8 = 4;

/// Returns an array of each level.
pub(crate) fn seeds() -> impl Iterator<Item = (&'static str, Sparse)> {
    let of = |name, level: i32, layout: u32| (name, array(level, layout));
    [
        of("md, linear", -1, 0),
        of("md, raid0", 0, 0),
        of("md, raid1", 1, 0),
        of("md, raid4", 4, 0),
        of("md, raid5", 5, 2),
        of("md, raid6", 6, 2),
        of("md, raid10", 10, 0x102),
        of("md, raid10 far", 10, 0x201),
        ("md, version 0", version_0()),
    ]
    .into_iter()
}

/// Returns a disk whose four partitions begin and end at whole MiB.
fn partitioned() -> Sparse {
    let mut disk = Sparse::zeroes((u64::from(MEMBERS) + 1) << 20);
    for n in 0..MEMBERS {
        // The type, the first sector and the number of sectors.
        let entry = [0, 0, 0, 0, 0xfd, 0, 0, 0, 0, (n + 1) * 8, 0, 0, 0, 8, 0, 0];
        disk.write(446 + u64::from(n) * 16, &entry);
    }
    disk.write(510, &[0x55, 0xaa]);
    disk
}

/// Returns an array with superblocks of version 1.2.
fn array(level: i32, layout: u32) -> Sparse {
    let mut disk = partitioned();
    for n in 0..MEMBERS {
        let at = ((u64::from(n) + 1) << 20) + 4096;
        let mut field = |offset: u64, bytes: &[u8]| disk.write(at + offset, bytes);
        field(0, &MAGIC);
        field(4, &1_u32.to_le_bytes());
        field(16, b"uuid of an array");
        field(32, b"host:name");
        field(72, &level.to_le_bytes());
        field(76, &layout.to_le_bytes());
        // The used sectors of each member, and the sectors of a chunk.
        field(80, &1024_u64.to_le_bytes());
        field(88, &16_u32.to_le_bytes());
        field(92, &u32::from(MEMBERS).to_le_bytes());
        // The place of the data, its size, and the place of the superblock, in sectors.
        field(128, &[256, 1024, 8_u64].map(u64::to_le_bytes).concat());
        field(160, &u32::from(n).to_le_bytes());
        field(168, &[n + 1; 16]);
        field(200, &7_u64.to_le_bytes());
        field(208, &u64::MAX.to_le_bytes());
        field(220, &u32::from(MEMBERS).to_le_bytes());
        field(256, &[0, 0, 1, 0, 2, 0, 3, 0]);
    }
    disk
}

/// Returns a mirror with superblocks of version 0.90, at the end of each partition.
fn version_0() -> Sparse {
    let mut disk = partitioned();
    for n in 0..MEMBERS {
        let at = ((u64::from(n) + 2) << 20) - (64 << 10);
        let mut words = [0_u32; 1024];
        // Magic, version, words of the superblock, UUID; level, KiB, disks.
        words[..3].copy_from_slice(&[u32::from_le_bytes(MAGIC), 0, 90]);
        words[5..12].copy_from_slice(&[9, 0, 1, 900, 4, 4, 0]);
        words[13..16].copy_from_slice(&[10, 11, 12]);
        // State, and the numbers of active, working, failed and spare disks.
        words[32..38].copy_from_slice(&[0, 1, 4, 4, 0, 0]);
        words[39] = 7;
        words[64..66].copy_from_slice(&[0, 16 << 10]);
        // Each descriptor has its number, the device, its role and its state.
        for disk in 0..u32::from(MEMBERS) {
            let start = 128 + 32 * usize::try_from(disk).unwrap_or(0);
            words[start..start + 5].copy_from_slice(&[disk, 8, disk, disk, 6]);
        }
        let own = 992;
        words[own..own + 5].copy_from_slice(&[u32::from(n), 8, u32::from(n), u32::from(n), 6]);
        disk.write(at, &words.map(u32::to_le_bytes).concat());
    }
    disk
}

/// Corrects the checksum of a superblock.
fn seal(device: &dyn BlockWrite, at: u64) -> diskfs_block::Result<()> {
    let mut block = vec![0; 4096];
    device.read_at(at, &mut block)?;
    if !block.starts_with(&MAGIC) {
        return Ok(());
    }
    let word = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"));
    let (len, own) = match word(4) {
        0 => (4096, 38 * 4),
        _ => (256 + 2 * (word(220) as usize).min(1920), 216),
    };
    let words = block[..len].chunks(4).enumerate();
    let sum: u64 = words
        .filter(|(n, _)| n * 4 != own)
        .map(|(_, word)| {
            let mut padded = [0; 4];
            padded[..word.len()].copy_from_slice(word);
            u64::from(u32::from_le_bytes(padded))
        })
        .sum();
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    device.write_at(at + own as u64, &sum.to_le_bytes()[..4])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each seed is an array of four members, so that mutations start at one.
    #[test]
    fn seeds_are_arrays() {
        for (name, image) in seeds() {
            let disk: Arc<dyn BlockRead> = Arc::new(image);
            let sealed = Arc::new(Overlay::in_memory(Arc::clone(&disk), SEALED_BYTES));
            for (start, _) in places(&disk, 64) {
                for at in [4096, (1 << 20) - (64 << 10)] {
                    let _ = seal(&*sealed, start + at);
                }
            }
            let read = |n: u8| {
                let slice = Slice::new(Arc::clone(&sealed), (u64::from(n) + 1) << 20, 1 << 20);
                Member::read(&slice.unwrap()).unwrap().expect(name)
            };
            let members: Vec<_> = (0..MEMBERS).map(read).collect();
            let [array] = &arrays(&members)[..] else {
                panic!("{name}: not one array");
            };
            let device = |n: usize| {
                let start = (u64::try_from(n).unwrap() + 1) << 20;
                Slice::new(Arc::clone(&sealed), start, 1 << 20).map(Arc::new)
            };
            let opened = array.open(&device);
            assert!(opened.is_ok(), "{name}: {opened:?}");
        }
    }
}
