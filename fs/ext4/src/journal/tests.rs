//! Tests with logs that are written by hand: what is replayed, what ends a log, and what a log
//! cannot do.

use diskfs_block::Memory;
use diskfs_vfs::ErrorKind;
use proptest::prelude::*;

use super::block_header::{MAGIC, Sequence};
use super::checksum::{BlockChecksum, TransactionChecksum};
use crate::block::FsBlock;
use crate::bytes::{index, len_u64, low16};

use super::superblock::tests::{put, sample, seal};
use super::*;

/// The device block where the journal starts; the filesystem is before it.
const JOURNAL: u64 = 64;
const LEN_BLOCKS: u32 = 2048;
const SIZE: usize = 4096;
/// The numbers of blocks of the filesystem and of the journal, as lengths in memory.
const BEFORE: usize = 64;
const BLOCKS: usize = BEFORE + 2048;
const V1: (u32, u32) = (1, 0x1);
const V2_WIDE: (u32, u32) = (0, 0xb);
const V3: (u32, u32) = (0, 0x11);
const V3_WIDE: (u32, u32) = (0, 0x13);
const PLAIN: (u32, u32) = (0, 0x1);
const ALL: [(u32, u32); 6] = [PLAIN, V1, V2_WIDE, (0, 0x9), V3, V3_WIDE];

/// Writes a log block by block, as the kernel does.
struct Log {
    bytes: Vec<u8>,
    features: (u32, u32),
    at: u32,
    sequence: u32,
    seconds: u64,
    sum: TransactionChecksum,
}

impl Log {
    fn new(features: (u32, u32)) -> Self {
        Self::starting_at(features, 5)
    }

    fn starting_at(features: (u32, u32), at: u32) -> Self {
        let mut bytes = vec![0; BLOCKS * SIZE];
        for (block, bytes) in bytes.chunks_mut(SIZE).take(BEFORE).enumerate() {
            bytes.fill(u8::try_from(block).unwrap());
        }
        let mut superblock = sample(features.0, features.1);
        put(&mut superblock, 0x1c, at);
        seal(&mut superblock);
        bytes[BEFORE * SIZE..][..1024].copy_from_slice(&superblock);
        let sum = TransactionChecksum::new();
        Self {
            bytes,
            features,
            at,
            sequence: 7,
            seconds: 1000,
            sum,
        }
    }

    fn per_block(&self) -> bool {
        self.features.1 & 0x18 != 0
    }

    fn wide(&self) -> bool {
        self.features.1 & 2 != 0
    }

    fn checksum() -> BlockChecksum {
        BlockChecksum::of_uuid(&[0; 16])
    }

    fn block(&mut self, block: u32) -> &mut [u8] {
        &mut self.bytes[(BEFORE + index(block)) * SIZE..][..SIZE]
    }

    fn push(&mut self, bytes: &[u8]) -> u32 {
        let at = self.at;
        self.block(at)[..].copy_from_slice(bytes);
        self.at = if at + 1 == LEN_BLOCKS { 1 } else { at + 1 };
        at
    }

    fn header(&self, kind: u32) -> Vec<u8> {
        let mut block = vec![0; SIZE];
        for (offset, value) in [(0, MAGIC), (4, kind), (8, self.sequence)] {
            put(&mut block, offset, value);
        }
        block
    }

    fn with_tail(&self, mut block: Vec<u8>) -> Vec<u8> {
        if self.per_block() {
            let sum = Self::checksum().of_block(&block, SIZE - 4);
            put(&mut block, SIZE - 4, sum);
        }
        block
    }

    /// Writes a descriptor with one data block for each target, filled with `value`.
    fn data(&mut self, targets: &[u64], value: u8) -> u32 {
        let blocks: Vec<_> = targets.iter().map(|&t| (t, vec![value; SIZE])).collect();
        self.blocks(&blocks)
    }

    fn blocks(&mut self, blocks: &[(u64, Vec<u8>)]) -> u32 {
        let mut descriptor = self.header(1);
        let mut stored = Vec::new();
        let mut at = 12;
        for (index, (target, data)) in blocks.iter().enumerate() {
            let mut data = data.clone();
            let escaped = data[..4] == MAGIC.to_be_bytes();
            if escaped {
                data[..4].fill(0);
            }
            let last = index + 1 == blocks.len();
            let flags = u32::from(escaped) | if index > 0 { 2 } else { 0 } | u32::from(last) << 3;
            let tag = self.tag(*target, flags, &data);
            descriptor[at..at + tag.len()].copy_from_slice(&tag);
            at += tag.len() + if index == 0 { 16 } else { 0 };
            stored.push(data);
        }
        let descriptor = self.with_tail(descriptor);
        self.sum.update(&descriptor);
        let first = self.push(&descriptor);
        for data in stored {
            self.sum.update(&data);
            self.push(&data);
        }
        first
    }

    fn tag(&self, target: u64, flags: u32, data: &[u8]) -> Vec<u8> {
        let sum = Self::checksum().of_data(Sequence(self.sequence), &[data]);
        let [high, low] = [target >> 32, target & 0xffff_ffff].map(|n| u32::try_from(n).unwrap());
        let mut tag = low.to_be_bytes().to_vec();
        if self.features.1 & 0x10 != 0 {
            tag.extend(flags.to_be_bytes());
            tag.extend(high.to_be_bytes());
            tag.extend(sum.to_be_bytes());
            return tag;
        }
        tag.extend(if self.per_block() {
            low16(sum).to_be_bytes()
        } else {
            [0; 2]
        });
        tag.extend(low16(flags).to_be_bytes());
        if self.wide() {
            tag.extend(high.to_be_bytes());
        }
        if self.per_block() {
            tag.extend([0; 2]);
        }
        tag
    }

    fn revoke(&mut self, targets: &[u64]) -> u32 {
        let mut block = self.header(5);
        let mut at = 16;
        for target in targets {
            let record = target.to_be_bytes();
            let record = if self.wide() {
                &record[..]
            } else {
                &record[4..]
            };
            block[at..at + record.len()].copy_from_slice(record);
            at += record.len();
        }
        put(&mut block, 12, u32::try_from(at).unwrap());
        let block = self.with_tail(block);
        self.push(&block)
    }

    fn commit(&mut self) -> u32 {
        let mut block = self.header(2);
        block[48..56].copy_from_slice(&self.seconds.to_be_bytes());
        if self.features.0 & 1 != 0 {
            block[12..14].copy_from_slice(&[1, 4]);
            let sum = self.sum.value();
            put(&mut block, 16, sum);
        }
        if self.per_block() {
            let sum = Self::checksum().of_block(&block, 16);
            put(&mut block, 16, sum);
        }
        self.sequence = self.sequence.wrapping_add(1);
        self.seconds += 1;
        self.sum = TransactionChecksum::new();
        self.push(&block)
    }

    fn transaction(&mut self, targets: &[u64], value: u8) -> u32 {
        let first = self.data(targets, value);
        self.commit();
        first
    }

    fn open(&self) -> Result<Journal> {
        let device = Arc::new(Memory::new(self.bytes.clone()));
        let run = JournalRun {
            start: FsBlock(JOURNAL),
            len_blocks: LEN_BLOCKS,
        };
        let size = BlockSize::from_log(2).unwrap();
        let fs_blocks = JOURNAL + u64::from(LEN_BLOCKS);
        Journal::open(device, size, fs_blocks, [Ok(run)])
    }

    fn replay(&self) -> Result<Option<Replayed>> {
        self.open()?.replay()
    }

    /// Returns the first byte of each of the filesystem's first ten blocks after the replay.
    fn result(&self) -> Vec<u8> {
        let view = self.replay().unwrap().unwrap().view;
        let mut bytes = self.bytes[..10 * SIZE].to_vec();
        if let Some(view) = view {
            view.read_at(0, &mut bytes).unwrap();
        }
        bytes.chunks(SIZE).map(|block| block[0]).collect()
    }
}

#[test]
fn whole_transactions_are_replayed_in_every_form() {
    for features in ALL {
        let mut log = Log::new(features);
        log.transaction(&[1, 2, 3], 0x11);
        log.transaction(&[2, 5], 0x22);
        // Without its commit block it never was a transaction.
        log.data(&[1, 9], 0x33);
        assert_eq!(
            log.result(),
            [0, 0x11, 0x22, 0x11, 4, 0x22, 6, 7, 8, 9],
            "{features:x?}"
        );
        let replayed = log.replay().unwrap().unwrap();
        assert_eq!(replayed.transactions, 2);
        assert_eq!(
            replayed.notes("in memory"),
            ["journal replayed in memory (2 transactions)"]
        );
    }
}

#[test]
fn an_empty_log_is_none() {
    let mut log = Log::new(V3);
    log.transaction(&[1], 0x11);
    let mut superblock = log.block(0)[..1024].to_vec();
    put(&mut superblock, 0x1c, 0);
    seal(&mut superblock);
    log.block(0)[..1024].copy_from_slice(&superblock);
    assert!(log.replay().unwrap().is_none());
}

#[test]
fn nothing_to_replay_is_no_view() {
    let log = Log::new(V3);
    let replayed = log.replay().unwrap().unwrap();
    assert!(replayed.view.is_none());
    assert!(replayed.notes("in memory").is_empty());
}

#[test]
fn a_log_goes_round() {
    for features in ALL {
        for start in LEN_BLOCKS - 8..LEN_BLOCKS {
            let mut log = Log::starting_at(features, start);
            log.transaction(&[1, 2, 3], 0x11);
            log.transaction(&[2, 5], 0x22);
            log.revoke(&[3]);
            log.commit();
            assert_eq!(
                log.result(),
                [0, 0x11, 0x22, 3, 4, 0x22, 6, 7, 8, 9],
                "{start}"
            );
        }
    }
}

#[test]
fn transaction_numbers_start_anew() {
    let mut log = Log::new(V3);
    let mut superblock = log.block(0)[..1024].to_vec();
    put(&mut superblock, 0x18, u32::MAX);
    seal(&mut superblock);
    log.block(0)[..1024].copy_from_slice(&superblock);
    log.sequence = u32::MAX;
    log.transaction(&[1], 0x11);
    log.revoke(&[1]);
    log.transaction(&[2], 0x22);
    assert_eq!(log.result()[..4], [0, 1, 0x22, 3]);
}

#[test]
fn revoked_blocks_are_left_alone() {
    for features in ALL {
        let mut log = Log::new(features);
        log.transaction(&[1, 2, 3], 0x11);
        log.revoke(&[1, 2, 8]);
        log.transaction(&[4], 0x22);
        log.transaction(&[2], 0x33);
        assert_eq!(
            log.result(),
            [0, 1, 0x33, 0x11, 0x22, 5, 6, 7, 8, 9],
            "{features:x?}"
        );
    }
}

#[test]
fn a_revocation_counts_within_its_own_transaction() {
    let mut log = Log::new(V3_WIDE);
    log.data(&[1], 0x11);
    log.revoke(&[1]);
    log.commit();
    assert_eq!(log.result()[1], 1);
}

#[test]
fn escaped_data_gets_its_magic_back() {
    for features in ALL {
        let mut log = Log::new(features);
        let mut data = vec![0x55; SIZE];
        data[..4].copy_from_slice(&MAGIC.to_be_bytes());
        log.blocks(&[(3, data.clone()), (4, vec![0x66; SIZE])]);
        log.commit();
        let view = log.replay().unwrap().unwrap().view.unwrap();
        let mut bytes = vec![0; 2 * SIZE];
        view.read_at(3 * len_u64(SIZE), &mut bytes).unwrap();
        assert_eq!(bytes[..SIZE], data);
        assert_eq!(bytes[SIZE..], [0x66; SIZE]);
    }
}

/// Flips a bit in one block of the first or the last of two transactions.
fn broken(features: (u32, u32), last: bool, offset: u32, byte: usize) -> Log {
    let mut log = Log::new(features);
    let first = log.transaction(&[1, 2], 0x11);
    let second = log.transaction(&[2, 3], 0x22);
    let block = if last { second } else { first } + offset;
    log.block(block)[byte] ^= 0x10;
    log
}

#[test]
fn a_damaged_last_transaction_is_left_out() {
    for features in [V1, V2_WIDE, V3, V3_WIDE] {
        // Descriptor, data, commit.
        for (offset, byte) in [(0, 3000), (1, 0), (2, 4095), (3, 17)] {
            let log = broken(features, true, offset, byte);
            let replayed = log.replay().unwrap().unwrap();
            assert_eq!(
                log.result()[..5],
                [0, 0x11, 0x11, 3, 4],
                "{features:x?} {offset}"
            );
            assert_eq!(replayed.transactions, 1);
            let note = replayed.notes("in memory").pop().unwrap();
            assert!(
                note.contains("last transaction, 8, was not replayed"),
                "{note}"
            );
        }
    }
}

#[test]
fn a_damaged_earlier_transaction_is_corrupt() {
    for features in [V1, V2_WIDE, V3, V3_WIDE] {
        for (offset, byte) in [(0, 3000), (1, 0), (2, 4095), (3, 17)] {
            let e = broken(features, false, offset, byte).replay().unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Corrupt);
            let says = "transaction 7 is damaged, although transaction 8 follows it";
            assert!(e.to_string().contains(says), "{e}");
        }
    }
}

#[test]
fn what_was_left_over_from_before_ends_the_log() {
    let mut log = Log::new(V3);
    log.transaction(&[1, 2], 0x11);
    log.seconds = 10;
    let old = log.transaction(&[2, 3], 0x22);
    log.block(old + 1)[0] ^= 1;
    log.transaction(&[4], 0x33);
    let replayed = log.replay().unwrap().unwrap();
    assert_eq!(log.result()[..5], [0, 0x11, 0x11, 3, 4]);
    assert_eq!(replayed.notes("in memory").len(), 1, "nothing was lost");
}

#[test]
fn a_target_outside_of_the_filesystem_is_damage() {
    let mut log = Log::new(V3_WIDE);
    log.transaction(&[1 << 40], 0x11);
    let replayed = log.replay().unwrap().unwrap();
    assert!(replayed.view.is_none());
    assert!(
        replayed.notes("in memory")[0].contains("outside of the filesystem"),
        "{}",
        replayed.notes("in memory")[0]
    );
    log.transaction(&[1], 0x11);
    assert_eq!(log.replay().unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_log_without_end_is_gone_round_once() {
    // Every block is a descriptor of the same transaction with as many tags as fit.
    let mut log = Log::new(PLAIN);
    let mut block = log.header(1);
    for tag in block[12..].chunks_exact_mut(8) {
        tag.copy_from_slice(&[0, 0, 0, 5, 0, 0, 0, 2]);
    }
    for at in 1..LEN_BLOCKS {
        log.block(at).copy_from_slice(&block);
    }
    assert!(log.replay().unwrap().unwrap().view.is_none());
    // The same with commit blocks alone.
    for at in 1..LEN_BLOCKS {
        let commit = log.header(2);
        log.block(at).copy_from_slice(&commit);
    }
    assert_eq!(log.replay().unwrap().unwrap().transactions, 1);
}

#[test]
fn a_revocation_block_that_is_too_long_is_damage() {
    let mut log = Log::new(PLAIN);
    log.transaction(&[1], 0x11);
    let block = log.revoke(&[1]);
    put(log.block(block), 12, 5000);
    log.commit();
    let replayed = log.replay().unwrap().unwrap();
    assert!(
        replayed.notes("in memory")[1].contains("longer than a block"),
        "{}",
        replayed.notes("in memory")[1]
    );
    assert_eq!(log.result()[1], 0x11);
}

#[test]
fn the_map_must_reach_the_end() {
    let log = Log::new(PLAIN);
    let device: Arc<dyn BlockRead> = Arc::new(Memory::new(log.bytes.clone()));
    let size = BlockSize::from_log(2).unwrap();
    let run = JournalRun {
        start: FsBlock(JOURNAL),
        len_blocks: LEN_BLOCKS - 1,
    };
    let e = Journal::open(Arc::clone(&device), size, 1 << 40, [Ok(run)]).unwrap_err();
    assert!(e.to_string().contains("its inode has 2047"), "{e}");
    let e = Journal::open(device, size, 1 << 40, []).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corrupt);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Checks that the scan of a log with arbitrary blocks ends without a panic, and that
    /// everything shown is within the device.
    #[test]
    fn any_log_ends(
        features in proptest::sample::select(ALL.to_vec()),
        damage in proptest::collection::vec((0u32..40, 0..SIZE, any::<u8>()), 0..40),
    ) {
        let mut log = Log::new(features);
        for value in 0..4 {
            log.data(&[1, 2, u64::from(value)], value);
            log.revoke(&[3, 5]);
            log.commit();
        }
        for (block, byte, value) in damage {
            log.block(block)[byte] = value;
        }
        if let Ok(Some(Replayed { view: Some(view), .. })) = log.open().and_then(|j| j.replay()) {
            let mut bytes = vec![0; log.bytes.len()];
            view.read_at(0, &mut bytes).unwrap();
        }
    }
}
