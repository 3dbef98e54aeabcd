//! Mutation of images.

use diskfs_block::BlockRead;

use crate::random::Random;
use crate::seeds::Seed;
use crate::{Sparse, Target, exfat, ext4_write, fat, journal};

/// Returns the seed's image with one to eight changes.
pub fn mutate(seed: &Seed, random: &mut Random) -> Sparse {
    let mut image = seed.image.clone();
    // Few changes are more likely than many: one wrong field gets further than eight.
    let count = 1 + random.below(8).min(random.below(8));
    for _ in 0..count {
        change(&mut image, seed, random);
    }
    if let Some(superblock) = seed.journal
        && random.below(8) > 0
    {
        journal::seal(&mut image, superblock);
    }
    let place_of_seed = match seed.target {
        Target::Ext4Write => Some(ext4_write::SEED_OFFSET),
        Target::Fat => Some(fat::SEED_OFFSET),
        Target::Exfat => Some(exfat::SEED_OFFSET),
        _ => None,
    };
    if let Some(offset) = place_of_seed {
        image.write(offset, &random.next().to_le_bytes());
    }
    image
}

fn change(image: &mut Sparse, seed: &Seed, random: &mut Random) {
    match random.below(20) {
        0..6 => {
            let at = place(image, seed, random);
            image.write(at, &[image.byte(at) ^ 1 << random.below(8)]);
        }
        6..9 => {
            let byte = u8::try_from(random.below(256)).unwrap_or(0);
            image.write(place(image, seed, random), &[byte]);
        }
        9..15 => number(image, seed, random),
        15..18 => splice(image, seed, random),
        18 => {
            let len = 1 + random.below(64);
            let byte = *random.pick(&[0, 0xff]);
            let bytes = vec![byte; usize::try_from(len).unwrap_or(1)];
            image.write(place(image, seed, random), &bytes);
        }
        _ => resize(image, random),
    }
}

/// Chooses a place to change: usually one that the target reads, and there usually one that is not
/// zero.
fn place(image: &Sparse, seed: &Seed, random: &mut Random) -> u64 {
    let mut at = 0;
    for _ in 0..6 {
        at = if seed.touched.is_empty() || random.below(8) == 0 {
            random.below(image.size_bytes())
        } else {
            let is_first = random.below(3) == 0 && !seed.first.is_empty();
            let places = if is_first { &seed.first } else { &seed.touched };
            let &(offset, len) = random.pick(places);
            offset + random.below(len)
        };
        if image.byte(at) != 0 {
            break;
        }
    }
    at
}

/// Writes an interesting number of 2, 4 or 8 bytes in either byte order, aligned: an extreme one,
/// or one near the old value.
fn number(image: &mut Sparse, seed: &Seed, random: &mut Random) {
    let width = *random.pick(&[2_u64, 4, 4, 8]);
    let bytes = usize::try_from(width).unwrap_or(2);
    let at = place(image, seed, random) / width * width;
    let mut there = [0; 8];
    for (i, byte) in (0..width).zip(&mut there) {
        *byte = image.byte(at + i);
    }
    let big = random.below(2) == 0;
    let old = if big {
        u64::from_be_bytes(there) >> (64 - 8 * width)
    } else {
        u64::from_le_bytes(there)
    };
    let new = match random.below(12) {
        0 => 0,
        1 => 1,
        2 => u64::MAX,
        3 => u64::MAX >> 1,
        4 => 1 << (8 * width - 1),
        5 => old.wrapping_add(1),
        6 => old.wrapping_sub(1),
        7 => old << 1,
        8 => old >> 1,
        9 => 1 << random.below(8 * width),
        10 => random.below(65_536),
        _ => image.size_bytes() >> random.below(14),
    };
    if big {
        image.write(at, &new.to_be_bytes()[8 - bytes..]);
    } else {
        image.write(at, &new.to_le_bytes()[..bytes]);
    }
}

/// Copies some bytes to another place: a structure in place of another, or a pointer to the target
/// of another.
fn splice(image: &mut Sparse, seed: &Seed, random: &mut Random) {
    let len = *random.pick(&[4_u64, 8, 8, 12, 16, 32, 128, 256, 1024, 4096]);
    let align = len.min(512).next_power_of_two();
    let from = place(image, seed, random) / align * align;
    let to = place(image, seed, random) / align * align;
    let bytes: Vec<u8> = (from..from + len).map(|at| image.byte(at)).collect();
    image.write(to, &bytes);
}

fn resize(image: &mut Sparse, random: &mut Random) {
    let size = image.size_bytes();
    let len = match random.below(4) {
        0 => random.below(size.min(1 << 16)),
        1 => random.below(size) / 4096 * 4096,
        2 => random.below(size),
        _ => size + random.below(1 << 20),
    };
    image.set_len(len);
}
