//! A model of a disk: random writes go to both the disk and the model.

use std::path::Path;

use diskfs_block::BlockWrite;
use diskfs_image::{Gate, OpenOptions, WritableImage};

use crate::encryption::options;
use crate::tools::{Random, run, try_run};

/// The expected contents of the guest's disk.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) bytes: Vec<u8>,
    /// The ranges that were discarded and not written since. Such bytes may have any value that
    /// they ever had in this image, or zero. Where the image format can express zeroes, they must
    /// be zero.
    pub(crate) discards_zero: bool,
}

/// A request of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Write { at: u64, len: u64, seed: u64 },
    Zero { at: u64, len: u64 },
    Discard { at: u64, len: u64 },
    Read { at: u64, len: u64 },
    Flush,
}

impl Step {
    pub(crate) fn random(size: u64, cluster: u64, r: &mut Random) -> Self {
        let unit = r.one_of(&[1, 512, 512, 4096, cluster, cluster]);
        let longest = r.one_of(&[512, 4096, cluster, cluster * 4, cluster * 40]);
        let at = r.below(size.div_ceil(unit)) * unit;
        let len = (1 + r.below(longest.min(2 << 20))).next_multiple_of(unit);
        let len = len.min(size - at);
        match r.below(20) {
            0..10 => Self::Write {
                at,
                len,
                seed: r.next(),
            },
            10..13 => Self::Zero { at, len },
            13..15 => Self::Discard { at, len },
            15..19 => Self::Read { at, len },
            _ => Self::Flush,
        }
    }
}

/// Returns bytes that identify their write and their position in it, sector by sector.
pub(crate) fn content(len: u64, seed: u64) -> Vec<u8> {
    let mut r = Random::new(seed);
    let mut bytes = vec![0; usize::try_from(len).unwrap()];
    for sector in bytes.chunks_mut(512) {
        let word = (r.next() | 1).to_le_bytes();
        sector.fill(word[1] | 1);
        let head = sector.len().min(8);
        sector[..head].copy_from_slice(&word[..head]);
    }
    bytes
}

fn range(at: u64, len: u64) -> std::ops::Range<usize> {
    usize::try_from(at).unwrap()..usize::try_from(at + len).unwrap()
}

impl Model {
    pub(crate) fn new(bytes: Vec<u8>, discards_zero: bool) -> Self {
        Self {
            bytes,
            discards_zero,
        }
    }

    /// Executes the step on the disk and on the model, and compares their contents.
    pub(crate) fn step(&mut self, step: Step, disk: &dyn BlockWrite) {
        match step {
            Step::Write { at, len, seed } => {
                let bytes = content(len, seed);
                disk.write_at(at, &bytes).unwrap();
                self.bytes[range(at, len)].copy_from_slice(&bytes);
            }
            Step::Zero { at, len } => {
                disk.write_zeroes(at, len).unwrap();
                self.bytes[range(at, len)].fill(0);
            }
            Step::Discard { at, len } => {
                disk.discard(at, len).unwrap();
                self.after_discard(at, len, disk);
            }
            Step::Read { at, len } => {
                let mut bytes = vec![0x5a; usize::try_from(len).unwrap()];
                disk.read_at(at, &mut bytes).unwrap();
                self.compare(at, &bytes);
            }
            Step::Flush => disk.flush().unwrap(),
        }
    }

    /// Checks that discarded bytes read as zeroes or as before, byte for byte.
    fn after_discard(&mut self, at: u64, len: u64, disk: &dyn BlockWrite) {
        let mut now = vec![0x5a; usize::try_from(len).unwrap()];
        disk.read_at(at, &mut now).unwrap();
        let before = &mut self.bytes[range(at, len)];
        if before == now || self.discards_zero && now.iter().all(|&byte| byte == 0) {
            before.copy_from_slice(&now);
            return;
        }
        for (index, (before, now)) in before.iter_mut().zip(&now).enumerate() {
            let zeroed = *now == 0 && self.discards_zero;
            assert!(
                zeroed || now == before,
                "discarded byte {at} + {index} is {now}, was {before}"
            );
            *before = *now;
        }
    }

    #[track_caller]
    pub(crate) fn compare(&self, at: u64, bytes: &[u8]) {
        let expected = &self.bytes[range(at, bytes.len() as u64)];
        if bytes == expected {
            return;
        }
        if let Some(i) = bytes.iter().zip(expected).position(|(a, b)| a != b) {
            panic!(
                "byte {at} + {i} (of {}) is {:#x}, not {:#x}",
                bytes.len(),
                bytes[i],
                expected[i]
            );
        }
    }

    #[track_caller]
    pub(crate) fn compare_all(&self, disk: &dyn BlockWrite) {
        let mut bytes = vec![0x5a; self.bytes.len()];
        disk.read_at(0, &mut bytes).unwrap();
        self.compare(0, &bytes);
    }
}

pub(crate) fn open(dir: &Path, image: &str) -> WritableImage {
    let options = OpenOptions {
        gate: Gate::default().allow(dir),
        ..options()
    };
    WritableImage::open(&dir.join(image), &options).unwrap()
}

/// Asserts that `qemu-img check` finds no errors or leaks.
#[track_caller]
pub(crate) fn is_clean(dir: &Path, image: &str) {
    let output = try_run(dir, "qemu-img", &["check", image]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("No errors were found"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Asserts that `qemu-img check` finds at most leaks.
#[track_caller]
pub(crate) fn is_sound(dir: &Path, image: &str) {
    let output = try_run(dir, "qemu-img", &["check", image]);
    // Exit code 3 means leaks and no errors.
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Writes random ranges with qemu-io to the image, and to the model.
pub(crate) fn qemu_writes(dir: &Path, image: &str, model: &mut Model, r: &mut Random) {
    let size = model.bytes.len() as u64;
    let mut args = vec!["-f".to_owned(), "qcow2".to_owned()];
    for _ in 0..6 {
        let at = r.below(size / 512) * 512;
        let len = (1 + r.below(40)) * 512;
        let len = len.min(size - at);
        let byte = u8::try_from(1 + r.below(255)).unwrap();
        let (command, byte) = match r.below(3) {
            0 => (format!("write -z {at} {len}"), 0),
            _ => (format!("write -P {byte} {at} {len}"), byte),
        };
        model.bytes[range(at, len)].fill(byte);
        args.extend(["-c".to_owned(), command]);
    }
    args.push(image.to_owned());
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    run(dir, "qemu-io", &args);
}
