//! The hashes of names by which directory indexes are sorted.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Hash Tree
//! Directories". Half MD4 is the first, second and third round of RFC 1320's MD4, reduced to eight
//! steps each; TEA is Wheeler and Needham's cipher with 16 cycles.

/// The hash function for names: `hash_version` of the index's root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// `DX_HASH_LEGACY`, the oldest one.
    Legacy,
    /// `DX_HASH_HALF_MD4`, the default.
    HalfMd4,
    /// `DX_HASH_TEA`, which is seldom used.
    Tea,
}

/// The signedness of a name's bytes in directory hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HashSignedness {
    Signed,
    Unsigned,
}

/// Converts a byte of a name to a number. The first implementation used C's `char`, so whether
/// bytes from 0x80 on are negative depends on the machine that made the filesystem.
fn widen(sign: HashSignedness, byte: u8) -> u32 {
    match sign {
        HashSignedness::Signed => i32::from(byte.cast_signed()).cast_unsigned(),
        HashSignedness::Unsigned => u32::from(byte),
    }
}

/// The seed of the hashes: `s_hash_seed`, or MD4's initial state if that is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HashSeed([u32; 4]);

impl HashSeed {
    const DEFAULT: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

    /// Returns the seed for the superblock's four words.
    pub(crate) fn new(words: [u32; 4]) -> Self {
        if words == [0; 4] {
            Self(Self::DEFAULT)
        } else {
            Self(words)
        }
    }
}

/// A name's hash: 31 bits, with the low bit clear (in an index it marks that names with the same
/// hash began in the leaf before).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NameHash(pub(crate) u32);

impl NameHash {
    /// The highest hash, which the kernel's readdir uses for the end of a directory; so no name has
    /// it.
    const END: u32 = 0xffff_fffe;

    fn new(raw: u32) -> Self {
        let hash = raw & !1;
        Self(if hash == Self::END {
            hash.wrapping_sub(2)
        } else {
            hash
        })
    }
}

/// Everything that a name's hash depends on besides the name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hasher {
    pub(crate) algorithm: Algorithm,
    pub(crate) sign: HashSignedness,
    pub(crate) seed: HashSeed,
}

impl Hasher {
    /// Returns the hash of `name`.
    pub(crate) fn hash(&self, name: &[u8]) -> NameHash {
        NameHash::new(match self.algorithm {
            Algorithm::Legacy => legacy(name, self.sign),
            Algorithm::HalfMd4 => self.fold(name, 32, half_md4)[1],
            Algorithm::Tea => self.fold(name, 16, tea)[0],
        })
    }

    /// Returns the hash of `name`, and a second word that distinguishes names with the same hash
    /// while the kernel lists a directory.
    pub(crate) fn hash_and_minor(&self, name: &[u8]) -> (NameHash, u32) {
        let minor = match self.algorithm {
            Algorithm::Legacy => 0,
            Algorithm::HalfMd4 => self.fold(name, 32, half_md4)[2],
            Algorithm::Tea => self.fold(name, 16, tea)[1],
        };
        (self.hash(name), minor)
    }

    /// Runs `transform` over the name, `step` bytes at a time; each call gets the words of the rest
    /// of the name.
    fn fold(
        &self,
        name: &[u8],
        step: usize,
        transform: fn([u32; 4], &[u32; 8]) -> [u32; 4],
    ) -> [u32; 4] {
        let mut state = self.seed.0;
        let mut left = name;
        while !left.is_empty() {
            state = transform(state, &words(left, step, self.sign));
            left = left.get(step..).unwrap_or_default();
        }
        state
    }
}

/// Returns the first `step` bytes of `left` as big-endian words. Missing bytes are filled with the
/// number of bytes left, so that names of different lengths differ.
fn words(left: &[u8], step: usize, sign: HashSignedness) -> [u32; 8] {
    // A name has at most 255 bytes; the pattern is that number in each byte.
    let len = u32::try_from(left.len()).unwrap_or(u32::MAX);
    let pad = len | len.wrapping_shl(8);
    let pad = pad | pad.wrapping_shl(16);
    let mut words = [pad; 8];
    let now = left.get(..step).unwrap_or(left);
    for (word, bytes) in words.iter_mut().zip(now.chunks(4)) {
        *word = bytes.iter().fold(pad, |word, &b| {
            word.wrapping_shl(8).wrapping_add(widen(sign, b))
        });
    }
    words
}

fn legacy(name: &[u8], sign: HashSignedness) -> u32 {
    let mut before: u32 = 0x37ab_e8f9;
    let mut hash: u32 = 0x12a3_fe2d;
    for &byte in name {
        let mixed = hash ^ widen(sign, byte).wrapping_mul(7_152_373);
        let mut next = before.wrapping_add(mixed);
        if next & 0x8000_0000 != 0 {
            next = next.wrapping_sub(0x7fff_ffff);
        }
        before = hash;
        hash = next;
    }
    hash.wrapping_shl(1)
}

fn tea(state: [u32; 4], input: &[u32; 8]) -> [u32; 4] {
    const DELTA: u32 = 0x9e37_79b9;
    let [mut x, mut y, c, d] = state;
    let [k0, k1, k2, k3, ..] = *input;
    let mut sum = 0u32;
    for _ in 0..16 {
        sum = sum.wrapping_add(DELTA);
        x = x.wrapping_add(tea_half(y, k0, k1, sum));
        y = y.wrapping_add(tea_half(x, k2, k3, sum));
    }
    [state[0].wrapping_add(x), state[1].wrapping_add(y), c, d]
}

const fn tea_half(v: u32, k0: u32, k1: u32, sum: u32) -> u32 {
    v.wrapping_shl(4).wrapping_add(k0) ^ v.wrapping_add(sum) ^ v.wrapping_shr(5).wrapping_add(k1)
}

/// A round of half MD4: its function, its constant, its rotations, and the order in which it uses
/// the input's words.
struct Round {
    mix: fn(u32, u32, u32) -> u32,
    constant: u32,
    rotations: [u32; 4],
    order: [usize; 8],
}

const ROUNDS: [Round; 3] = [
    Round {
        mix: |x, y, z| (x & y) | (!x & z),
        constant: 0,
        rotations: [3, 7, 11, 19],
        order: [0, 1, 2, 3, 4, 5, 6, 7],
    },
    Round {
        mix: |x, y, z| (x & y) | (x & z) | (y & z),
        constant: 0x5a82_7999,
        rotations: [3, 5, 9, 13],
        order: [1, 3, 5, 7, 0, 2, 4, 6],
    },
    Round {
        mix: |x, y, z| x ^ y ^ z,
        constant: 0x6ed9_eba1,
        rotations: [3, 9, 11, 15],
        order: [3, 7, 2, 6, 1, 5, 0, 4],
    },
];

fn half_md4(state: [u32; 4], input: &[u32; 8]) -> [u32; 4] {
    let [mut a, mut b, mut c, mut d] = state;
    for round in &ROUNDS {
        for (word, rotation) in round.order.iter().zip(round.rotations.iter().cycle()) {
            let word = input.get(*word).copied().unwrap_or_default();
            let sum = a
                .wrapping_add((round.mix)(b, c, d))
                .wrapping_add(word)
                .wrapping_add(round.constant);
            (a, b, c, d) = (d, sum.rotate_left(*rotation), b, c);
        }
    }
    [
        state[0].wrapping_add(a),
        state[1].wrapping_add(b),
        state[2].wrapping_add(c),
        state[3].wrapping_add(d),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 12345678-1234-1234-1234-123456789abc, as four little-endian words.
    const SEED: [u32; 4] = [0x7856_3412, 0x3412_3412, 0x3412_3412, 0xbc9a_7856];
    const LONG: &[u8] = &[b'x'; 100];
    const HIGH: &[u8] = b"na\xc3\xafve-\xff";

    fn hash(algorithm: Algorithm, sign: HashSignedness, seed: [u32; 4], name: &[u8]) -> u32 {
        let seed = HashSeed::new(seed);
        Hasher {
            algorithm,
            sign,
            seed,
        }
        .hash(name)
        .0
    }

    /// Compares with the output of `debugfs -R "dx_hash -h ALGORITHM -s SEED NAME"`.
    #[test]
    fn same_as_debugfs() {
        use Algorithm::{HalfMd4, Legacy, Tea};
        let zero = [0; 4];
        let expected: [(Algorithm, [u32; 4], &[u8], u32); 12] = [
            (Legacy, SEED, b"a", 0xe74b_53e2),
            (Legacy, SEED, b"hello", 0x3225_2546),
            (Legacy, SEED, LONG, 0xf985_a9f6),
            (Legacy, zero, HIGH, 0x6daa_140e),
            (HalfMd4, SEED, b"a", 0x09da_0480),
            (HalfMd4, SEED, b"hello", 0x06cc_2f6e),
            (HalfMd4, SEED, LONG, 0xf047_84dc),
            (HalfMd4, zero, b"hello", 0x1746_da32),
            (Tea, SEED, b"a", 0x19de_2d0a),
            (Tea, SEED, b"hello", 0x4498_1648),
            (Tea, SEED, LONG, 0xf89a_1920),
            (Tea, zero, b"hello", 0x6f5b_b1a8),
        ];
        for (algorithm, seed, name, want) in expected {
            let got = hash(algorithm, HashSignedness::Signed, seed, name);
            assert_eq!(
                got,
                want,
                "{algorithm:?} of {:?}",
                name.escape_ascii().to_string()
            );
        }
    }

    #[test]
    fn sign_matters_for_bytes_from_0x80_on() {
        use Algorithm::{HalfMd4, Tea};
        let zero = [0; 4];
        assert_eq!(
            hash(HalfMd4, HashSignedness::Signed, zero, HIGH),
            0xe80f_eca2
        );
        assert_eq!(hash(Tea, HashSignedness::Signed, zero, HIGH), 0xd935_e2a6);
        // debugfs takes the unsigned variants by number: 3, 4, 5.
        let legacy = hash(Algorithm::Legacy, HashSignedness::Unsigned, zero, HIGH);
        assert_eq!(legacy, 0xfc1a_0c56);
        assert_eq!(
            hash(HalfMd4, HashSignedness::Unsigned, zero, HIGH),
            0x7e94_eef2
        );
        assert_eq!(hash(Tea, HashSignedness::Unsigned, zero, HIGH), 0xb3c7_d962);
    }

    #[test]
    fn no_name_has_the_hash_of_the_end() {
        assert_eq!(NameHash::new(0xffff_ffff), NameHash(0xffff_fffc));
        assert_eq!(NameHash::new(3), NameHash(2));
    }
}
