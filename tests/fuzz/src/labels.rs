//! Disk labels of the BSDs, of Sun and of SGI: small seeds, and correction of their checksums.

use diskfs_block::{BlockWrite, Result};

use crate::Sparse;

/// The offsets of BSD labels from the start of a disk or a slice.
const BSD_PLACES: [u64; 2] = [512, 64];

/// The size of a BSD label up to its partitions; the size of a partition follows.
const BSD_LABEL: usize = 148;
const BSD_PARTITION: usize = 16;

/// The maximum number of partitions of a label whose checksum is corrected; more than any system
/// has.
const BSD_PARTITIONS: u16 = 64;

const BSD_MAGIC: [u8; 4] = 0x8256_4557_u32.to_le_bytes();
const SUN_MAGIC: [u8; 2] = 0xdabe_u16.to_be_bytes();
const SGI_MAGIC: [u8; 4] = 0x0be5_a941_u32.to_be_bytes();

/// Returns a label of each type, one in a slice of an MBR, and a partition map of Apple.
pub(crate) fn seeds() -> [(&'static str, Sparse); 5] {
    let (mut bsd, mut slice) = (Sparse::zeroes(1 << 20), Sparse::zeroes(1 << 20));
    write_bsd(&mut bsd, 512);
    slice.write(446 + 4, &[0xa5, 0, 0, 0, 8, 0, 0, 0, 0xf8, 7, 0, 0]);
    slice.write(510, &[0x55, 0xaa]);
    write_bsd(&mut slice, 8 * 512 + 512);
    let mut sun = Sparse::zeroes(1 << 20);
    // Version, partitions, two tags, and the sanity field of the table of contents.
    sun.write(128, &[0, 0, 0, 1]);
    sun.write(140, &[0, 8, 0, 2, 0, 0, 0, 5]);
    sun.write(188, &0x600d_deee_u32.to_be_bytes());
    // Heads and sectors; then the first cylinder and the sectors of two partitions.
    sun.write(436, &[0, 2, 0, 16]);
    sun.write(444, &[0, 0, 0, 1, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 8, 0]);
    sun.write(508, &SUN_MAGIC);
    let mut sgi = Sparse::zeroes(1 << 20);
    sgi.write(0, &SGI_MAGIC);
    // Blocks, first block and type of two partitions.
    sgi.write(312, &[0, 0, 4, 0, 0, 0, 0, 16, 0, 0, 0, 10]);
    sgi.write(324, &[0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 6]);
    [
        ("bsd", bsd),
        ("bsd in a slice", slice),
        ("sun", sun),
        ("sgi", sgi),
        ("apple", apple()),
    ]
}

/// Returns a partition map with itself, a filesystem and free space.
fn apple() -> Sparse {
    let mut disk = Sparse::zeroes(1 << 20);
    // The size of a block and their number.
    disk.write(0, b"ER\x02\0\0\0\x08\0");
    let partitions: [(&[u8], u8); 3] = [
        (b"Apple_partition_map", 1),
        (b"Apple_HFS", 4),
        (b"Apple_Free", 6),
    ];
    for (at, (kind, start_kib)) in (512..).step_by(512).zip(partitions) {
        disk.write(at, b"PM\0\0\0\0\0\x03");
        // The first block, and the number of blocks.
        disk.write(at + 8, &[0, 0, 0, start_kib * 2 - 1, 0, 0, 0, 3]);
        disk.write(at + 16, b"name");
        disk.write(at + 48, kind);
    }
    disk
}

fn write_bsd(disk: &mut Sparse, at: u64) {
    disk.write(at, &BSD_MAGIC);
    disk.write(at + 40, &512_u32.to_le_bytes());
    disk.write(at + 132, &BSD_MAGIC);
    disk.write(at + 138, &3_u16.to_le_bytes());
    // Sectors, first sector and type of two partitions; the third partition is the whole disk.
    disk.write(at + 148, &[0, 4, 0, 0, 16, 0, 0, 0, 0, 8, 0, 0, 7]);
    disk.write(at + 164, &[0, 2, 0, 0, 0, 5, 0, 0, 0, 8, 0, 0, 1]);
    disk.write(at + 180, &[0xf8, 7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0]);
}

/// Corrects the checksums of labels, which mutations never hit: in the first sector, after it, and
/// in the slices of an MBR. Unreadable sectors are ignored.
pub(crate) fn seal(device: &dyn BlockWrite) {
    let mut sector = [0; 512];
    if device.read_at(0, &mut sector).is_err() {
        return;
    }
    if sector[508..510] == SUN_MAGIC {
        let _ = device.write_at(
            510,
            &sum_of_words(&sector[..510], u16::from_be_bytes).to_be_bytes(),
        );
    }
    if sector[..4] == SGI_MAGIC {
        sector[504..508].fill(0);
        let words = sector.chunks_exact(4);
        let sum = words.fold(0_u32, |sum, word| {
            sum.wrapping_add(u32::from_be_bytes(word.try_into().expect("four bytes")))
        });
        let _ = device.write_at(504, &sum.wrapping_neg().to_be_bytes());
    }
    let slices = (446..510).step_by(16).map(|at| {
        let lba = &sector[at + 8..at + 12];
        u64::from(u32::from_le_bytes(lba.try_into().expect("four bytes"))) * 512
    });
    for start in slices.chain([0]) {
        for place in BSD_PLACES {
            let _ = seal_bsd(device, start + place);
        }
    }
}

fn seal_bsd(device: &dyn BlockWrite, at: u64) -> Result<()> {
    let mut label = vec![0; BSD_LABEL];
    device.read_at(at, &mut label)?;
    let count = u16::from_le_bytes([label[138], label[139]]);
    if label[..4] != BSD_MAGIC || count > BSD_PARTITIONS {
        return Ok(());
    }
    label.resize(BSD_LABEL + usize::from(count) * BSD_PARTITION, 0);
    device.read_at(at, &mut label)?;
    label[136..138].fill(0);
    let sum = sum_of_words(&label, u16::from_le_bytes);
    device.write_at(at + 136, &sum.to_le_bytes())
}

/// Returns the exclusive or of all words of two bytes.
fn sum_of_words(bytes: &[u8], order: fn([u8; 2]) -> u16) -> u16 {
    let words = bytes.chunks_exact(2);
    words.fold(0, |sum, word| sum ^ order([word[0], word[1]]))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use diskfs_block::{BlockRead, Overlay};
    use diskfs_volume::read_table;

    use super::*;

    #[test]
    fn the_seeds_are_tables_once_they_are_sealed() {
        for (name, image) in seeds() {
            let disk: Arc<dyn BlockRead> = Arc::new(image);
            let sealed = Overlay::in_memory(disk, 1 << 20);
            seal(&sealed);
            let table = read_table(&sealed).unwrap().expect(name);
            let kind = table.kind.to_string();
            let (partitions, expected) = match name {
                "bsd in a slice" => (3, "mbr"),
                "apple" => (3, "mac"),
                name => (2, name),
            };
            assert_eq!(table.partitions.len(), partitions, "{name}: {kind}");
            assert_eq!(kind, expected);
        }
    }
}
