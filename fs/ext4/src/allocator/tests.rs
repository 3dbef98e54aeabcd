//! Allocation on filesystems made by mke2fs, compared with a model. The model starts with the free
//! blocks that dumpe2fs lists; at the end e2fsck checks the result.

#![allow(clippy::cast_possible_truncation, reason = "counts here are small")]

mod fixture;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::block::FsBlock;
use crate::error::{ErrorKind, Result};
use crate::handle::Handle;
use crate::inode::ROOT;
use crate::transaction::FreedRun;

use super::{Allocated, Request, Reserve};
use fixture::{Fixture, Random, available};

/// Filesystems with different features: a name, the arguments of mke2fs, the size.
const MATRIX: [(&str, &str, &str); 14] = [
    ("default", "-t ext4 -b 4096", "40M"),
    ("1 KiB", "-t ext4 -b 1024", "40M"),
    ("64 KiB", "-t ext4 -b 65536", "80M"),
    ("bigalloc", "-t ext4 -O bigalloc -C 16384", "64M"),
    ("bigalloc, 1 KiB", "-t ext4 -b 1024 -O bigalloc", "40M"),
    ("no flex_bg", "-t ext4 -O ^flex_bg -b 1024", "40M"),
    (
        "meta_bg",
        "-t ext4 -b 1024 -O meta_bg,^resize_inode -g 1024",
        "24M",
    ),
    (
        "gdt_csum",
        "-t ext4 -b 1024 -O ^metadata_csum,uninit_bg",
        "40M",
    ),
    (
        "gdt_csum, no flex_bg, lazy",
        "-t ext4 -b 1024 -O ^metadata_csum,uninit_bg,^flex_bg -E lazy_itable_init=1,nodiscard",
        "40M",
    ),
    ("no checksums", "-t ext4 -b 1024 -O ^metadata_csum", "40M"),
    ("32 bit", "-t ext4 -b 1024 -O ^64bit", "40M"),
    (
        "lazy tables",
        "-t ext4 -b 1024 -E lazy_itable_init=1,nodiscard",
        "40M",
    ),
    ("ext2", "-t ext2", "40M"),
    ("tiny", "-t ext4 -b 1024", "1M"),
];

fn request(goal: u64, len_blocks: u32) -> Request {
    Request {
        goal: FsBlock(goal),
        len_blocks,
        preallocate_blocks: 0,
        reserve: Reserve::Use,
    }
}

fn run_of(allocated: Allocated) -> FreedRun {
    FreedRun {
        first: allocated.first,
        len_blocks: allocated.len_blocks.into(),
    }
}

/// A model of allocated blocks and of system blocks.
struct Model<'a> {
    fixture: &'a Fixture,
    /// For each cluster, true if it may be allocated.
    free: Vec<bool>,
    taken: Vec<Allocated>,
    freed: Vec<FreedRun>,
}

impl<'a> Model<'a> {
    fn new(fixture: &'a Fixture) -> Self {
        Self {
            fixture,
            free: fixture.free_clusters(),
            taken: Vec::new(),
            freed: Vec::new(),
        }
    }

    fn clusters(&self, first: FsBlock, len_blocks: u64) -> std::ops::Range<usize> {
        let ratio = self.fixture.ratio();
        let start = first.0 / ratio;
        let end = (first.0 + len_blocks).div_ceil(ratio);
        usize::try_from(start).unwrap()..usize::try_from(end).unwrap()
    }

    fn free_blocks(&self) -> u64 {
        let free = self.free.iter().filter(|&&free| free).count() as u64;
        let held = self.freed.iter().map(|run| run.len_blocks).sum::<u64>();
        free * self.fixture.ratio() + held
    }

    fn allocate(&mut self, goal: u64, len_blocks: u32) -> Result<Allocated> {
        self.allocate_as(request(goal, len_blocks))
    }

    fn allocate_as(&mut self, request: Request) -> Result<Allocated> {
        let len_blocks = request.len_blocks;
        let got = self
            .fixture
            .do_once(|handle| handle.allocator.allocate(handle, request))?;
        assert!(
            got.len_blocks >= 1
                && got.len_blocks <= len_blocks.saturating_add(self.fixture.ratio() as u32 - 1)
        );
        for cluster in self.clusters(got.first, got.len_blocks.into()) {
            assert!(
                self.free[cluster],
                "{}: cluster {cluster} is not free",
                self.fixture.what
            );
            self.free[cluster] = false;
        }
        self.taken.push(got);
        Ok(got)
    }

    fn release_one(&mut self, nth: usize) {
        let run = run_of(self.taken.swap_remove(nth));
        self.fixture
            .do_once(|handle| handle.allocator.free(handle, run))
            .unwrap();
        self.freed.push(run);
    }

    fn commit(&mut self) {
        self.fixture.commit();
        for run in std::mem::take(&mut self.freed) {
            for cluster in self.clusters(run.first, run.len_blocks) {
                self.free[cluster] = true;
            }
        }
    }
}

/// Does random operations. The model is compared after each, dumpe2fs at the end, and e2fsck runs
/// after everything is freed.
fn random_blocks(fixture: &Fixture, seed: u64, steps: usize) {
    let mut random = Random(seed);
    let mut model = Model::new(fixture);
    let blocks = fixture.blocks();
    for step in 0..steps {
        match random.below(10) {
            0..6 => {
                let wanted = Request {
                    preallocate_blocks: (random.below(3) * random.below(600)) as u32,
                    ..request(random.below(blocks), 1 << random.below(12))
                };
                match model.allocate_as(wanted) {
                    Ok(_) => {}
                    Err(e) => {
                        assert_eq!(e.kind(), ErrorKind::NoSpace);
                        model.commit();
                    }
                }
            }
            6..9 if !model.taken.is_empty() => {
                let nth = random.below(model.taken.len() as u64);
                model.release_one(usize::try_from(nth).unwrap());
            }
            _ => model.commit(),
        }
        // The model counts clusters one by one, so it is compared only now and then.
        if step % 8 == 0 {
            let free = fixture.totals().free_blocks;
            assert_eq!(free, model.free_blocks(), "{}", fixture.what);
        }
    }
    model.commit();
    let dumped = fixture.free_clusters();
    for (cluster, (dumped, model)) in dumped.iter().zip(&model.free).enumerate() {
        assert_eq!(
            dumped, model,
            "{}: cluster {cluster} in dumpe2fs",
            fixture.what
        );
    }
    while !model.taken.is_empty() {
        model.release_one(0);
    }
    model.commit();
}

#[test]
fn blocks_as_the_model_has_them() {
    if !available() {
        return;
    }
    for (nth, (what, args, size)) in MATRIX.into_iter().enumerate() {
        let fixture = Fixture::new(what, args, size);
        random_blocks(&fixture, 0x5eed + nth as u64, 400);
        fixture.check();
    }
}

/// Allocates up to the last block and not one more; freed blocks can be allocated only after a
/// commit.
#[test]
fn a_full_filesystem_is_full() {
    if !available() {
        return;
    }
    for (what, args, size) in MATRIX {
        let fixture = Fixture::new(what, args, size);
        let mut model = Model::new(&fixture);
        let all = model.free_blocks();
        let mut runs = 0;
        while fixture.totals().free_blocks > 0 {
            model.allocate(0, u32::MAX).unwrap();
            runs += 1;
        }
        assert!(runs < 200, "{what}: {runs} runs for {all} blocks");
        assert!(model.free.iter().all(|free| !free), "{what}");
        let e = model.allocate(0, 1).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NoSpace);
        model.release_one(0);
        assert!(fixture.totals().free_blocks > 0);
        assert_eq!(model.allocate(0, 1).unwrap_err().kind(), ErrorKind::NoSpace);
        model.commit();
        fixture
            .do_once(|handle| {
                let new = handle.allocator.allocate(handle, request(0, 1))?;
                handle.allocator.undo(handle, run_of(new))
            })
            .unwrap();
        // Without another commit.
        model.allocate(0, 1).unwrap();
        while !model.taken.is_empty() {
            model.release_one(0);
        }
        // Now all free blocks are held, and the operation is repeated after a commit.
        let done = fixture.core().update(&[], 8, |handle| {
            handle.allocator.allocate(handle, request(0, 1))
        });
        model.commit();
        let run = run_of(done.unwrap());
        fixture
            .do_once(|handle| handle.allocator.free(handle, run))
            .unwrap();
        fixture.check();
    }
}

#[test]
fn the_reserve_is_for_root() {
    if !available() {
        return;
    }
    let fixture = Fixture::new("reserve", "-t ext4 -b 4096 -m 10", "40M");
    let kept = fixture.core().allocator.reserve_clusters;
    assert_eq!(kept, 1024 + 204);
    let keep = |len_blocks| Request {
        reserve: Reserve::Keep,
        ..request(0, len_blocks)
    };
    while fixture.totals().free_blocks > kept {
        fixture
            .do_once(|handle| handle.allocator.allocate(handle, keep(1 << 20)))
            .unwrap();
    }
    assert_eq!(fixture.totals().free_blocks, kept);
    let refused = fixture.do_once(|handle| handle.allocator.allocate(handle, keep(1)));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NoSpace);
    fixture
        .do_once(|handle| handle.allocator.allocate(handle, request(0, 1)))
        .unwrap();
}

#[test]
fn a_large_file_is_in_few_pieces() {
    if !available() {
        return;
    }
    let fixture = Fixture::new("1 GiB", "-t ext4", "1200M");
    let mut goal = fixture.core().allocator.goal_for(&fixture.inode(ROOT)).0;
    let mut left = (1 << 30) / 4096;
    let mut pieces = 0;
    while left > 0 {
        let got = fixture
            .do_once(|handle| {
                handle
                    .allocator
                    .allocate(handle, request(goal, 2048.min(left)))
            })
            .unwrap();
        pieces += u32::from(got.first != FsBlock(goal));
        goal = got.first.0 + u64::from(got.len_blocks);
        left -= got.len_blocks;
    }
    // 9 groups, of which some begin with a copy of the superblock.
    assert!(pieces <= 9, "{pieces}");
}

/// Checks that files that grow side by side, block by block, have few fragments, and that
/// preallocated blocks are available to others when they need them.
#[test]
fn files_that_grow_side_by_side() {
    if !available() {
        return;
    }
    let fixture = Fixture::new("side by side", "-t ext4 -b 1024", "40M");
    let mut model = Model::new(&fixture);
    let mut ends = [0u64; 8];
    let mut pieces = [0; 8];
    for nth in 0..1000u32 {
        for (end, pieces) in ends.iter_mut().zip(&mut pieces) {
            let preallocate_blocks = if nth == 0 { 0 } else { nth.clamp(8, 2048) };
            let wanted = Request {
                preallocate_blocks,
                ..request(*end, 1)
            };
            let got = model.allocate_as(wanted).unwrap();
            *pieces += u32::from(got.first != FsBlock(*end));
            *end = got.first.0 + 1;
        }
    }
    assert!(pieces.iter().all(|&pieces| pieces <= 10), "{pieces:?}");
    while fixture.totals().free_blocks > 0 {
        model.allocate(0, u32::MAX).unwrap();
    }
    assert!(model.free.iter().all(|free| !free));
}

fn free_inodes_as_dumped(fixture: &Fixture) -> u64 {
    fixture.free_inodes().iter().filter(|&&free| free).count() as u64
}

/// Does random allocations and frees of inodes.
fn random_inodes(fixture: &Fixture, seed: u64, steps: usize) {
    let mut random = Random(seed);
    let mut free = fixture.free_inodes();
    let mut taken: BTreeMap<u32, bool> = BTreeMap::new();
    for _ in 0..steps {
        if random.below(3) > 0 {
            let is_dir = random.below(4) == 0;
            let parent = taken
                .iter()
                .find(|(_, is_dir)| **is_dir)
                .map_or(ROOT, |(&n, _)| n);
            let parent = if random.below(2) == 0 { ROOT } else { parent };
            let number = fixture.new_inode(parent, is_dir);
            assert!(free[number as usize], "{}: inode {number}", fixture.what);
            free[number as usize] = false;
            taken.insert(number, is_dir);
        } else if let Some((&number, &is_dir)) = taken
            .iter()
            .nth(random.below(taken.len().max(1) as u64) as usize)
        {
            fixture.delete_inode(number, is_dir);
            taken.remove(&number);
            free[number as usize] = true;
        }
        let expected = free.iter().filter(|&&free| free).count() as u64;
        assert_eq!(fixture.totals().free_inodes, expected);
    }
    fixture.commit();
    for (number, (dumped, model)) in fixture.free_inodes().iter().zip(&free).enumerate() {
        assert_eq!(
            dumped, model,
            "{}: inode {number} in dumpe2fs",
            fixture.what
        );
    }
    for (number, is_dir) in taken {
        fixture.delete_inode(number, is_dir);
    }
    fixture.commit();
}

#[test]
fn inodes_as_the_model_has_them() {
    if !available() {
        return;
    }
    for (nth, (what, args, size)) in MATRIX.into_iter().enumerate() {
        let fixture = Fixture::new(what, args, size);
        let steps = 300.min(fixture.totals().free_inodes as usize);
        random_inodes(&fixture, 0xd1ce + nth as u64, steps);
        fixture.check();
    }
}

#[test]
fn all_inodes_can_be_had() {
    if !available() {
        return;
    }
    for (what, args, size) in [MATRIX[1], MATRIX[8], MATRIX[11], MATRIX[13]] {
        let fixture = Fixture::new(what, &format!("{args} -N 400"), size);
        let count = free_inodes_as_dumped(&fixture);
        let numbers: Vec<u32> = (0..count).map(|_| fixture.new_inode(ROOT, false)).collect();
        let refused =
            fixture.do_once(|handle| handle.allocator.allocate_inode(handle, ROOT, false));
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::NoSpace);
        for number in numbers {
            fixture.delete_inode(number, false);
        }
        fixture.commit();
        fixture.check();
    }
}

#[test]
fn directories_at_the_top_are_spread() {
    if !available() {
        return;
    }
    let fixture = Fixture::new(
        "spread",
        "-t ext4 -b 1024 -g 1024 -O ^resize_inode -G 4",
        "24M",
    );
    let allocator = &fixture.core().allocator;
    let group_of = |number| allocator.geometry.inode_place(number).unwrap().0;
    let mut flexes: Vec<u32> = (0..6)
        .map(|_| group_of(fixture.new_inode(ROOT, true)) / 4)
        .collect();
    flexes.sort_unstable();
    flexes.dedup();
    assert!(flexes.len() >= 3, "{flexes:?}");
    let top = fixture.new_inode(ROOT, true);
    let below = fixture.new_inode(top, true);
    assert_eq!(group_of(top) / 4, group_of(below) / 4);
    let file = fixture.new_inode(below, false);
    assert_eq!(group_of(file) / 4, group_of(below) / 4);
}

#[test]
fn side_by_side() {
    if !available() {
        return;
    }
    let fixture = Arc::new(Fixture::new("threads", "-t ext4 -b 1024", "40M"));
    let threads: Vec<_> = (0..4)
        .map(|nth| {
            let fixture = Arc::clone(&fixture);
            std::thread::spawn(move || churn(&fixture, nth))
        })
        .collect();
    let all = threads
        .into_iter()
        .flat_map(|thread| thread.join().unwrap());
    let mut blocks: Vec<u64> = all
        .flat_map(|got| got.first.0..got.first.0 + u64::from(got.len_blocks))
        .collect();
    let count = blocks.len();
    blocks.sort_unstable();
    blocks.dedup();
    assert_eq!(blocks.len(), count, "a block was given twice");
    for block in blocks {
        let run = FreedRun {
            first: FsBlock(block),
            len_blocks: 1,
        };
        fixture
            .do_once(|handle| handle.allocator.free(handle, run))
            .unwrap();
    }
    fixture.commit();
    fixture.check();
}

/// Allocates and frees blocks; returns those that are still allocated.
fn churn(fixture: &Fixture, nth: u64) -> Vec<Allocated> {
    let mut random = Random(0xabc + nth);
    let mut kept: Vec<Allocated> = Vec::new();
    for step in 0..400 {
        let goal = random.below(fixture.blocks());
        let len = u32::try_from(1 + random.below(40)).unwrap();
        let step_of = |handle: &Handle<'_>| {
            let allocator = handle.allocator;
            let got = allocator.allocate(handle, request(goal, len))?;
            let number = allocator.allocate_inode(handle, ROOT, false)?;
            allocator.free_inode(handle, number, false)?;
            Ok(got)
        };
        kept.push(fixture.core().update(&[], 16, step_of).unwrap());
        if step % 3 == 0 {
            let run = run_of(kept.swap_remove(0));
            fixture
                .do_once(|handle| handle.allocator.free(handle, run))
                .unwrap();
        }
        if step % 100 == 50 {
            fixture.commit();
        }
    }
    kept
}

#[test]
fn a_contradiction_ends_writing() {
    if !available() {
        return;
    }
    let fixture = Fixture::new("free twice", "-t ext4", "40M");
    let got = fixture
        .do_once(|handle| handle.allocator.allocate(handle, request(0, 1)))
        .unwrap();
    let run = FreedRun {
        first: got.first,
        len_blocks: 2,
    };
    let e = fixture
        .do_once(|handle| handle.allocator.free(handle, run))
        .unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corrupt);
    let again = fixture.do_once(|handle| handle.allocator.allocate(handle, request(0, 1)));
    assert_eq!(again.unwrap_err().kind(), ErrorKind::ReadOnly);

    let fixture = Fixture::new("metadata", "-t ext4", "40M");
    let run = FreedRun {
        first: FsBlock(1),
        len_blocks: 1,
    };
    let e = fixture
        .do_once(|handle| handle.allocator.free(handle, run))
        .unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corrupt);

    let fixture = Fixture::new("reserved inode", "-t ext4", "40M");
    let e = fixture.do_once(|handle| handle.allocator.free_inode(handle, 8, false));
    assert_eq!(e.unwrap_err().kind(), ErrorKind::Corrupt);
}

/// Checks that bitmaps and descriptors that contradict each other are found before anything is
/// overwritten.
#[test]
fn what_the_image_claims_is_checked() {
    if !available() {
        return;
    }
    let claims: [(&str, &str, &[&str]); 5] = [
        (
            "the inode table is free",
            "-O ^metadata_csum",
            &["freeb 60 3"],
        ),
        (
            "more is free than the bitmap has",
            "-O ^metadata_csum",
            &["set_bg 0 free_blocks_count 9000", "set_bg 0 checksum calc"],
        ),
        (
            "less is free than the bitmap has",
            "-O ^metadata_csum",
            &["set_bg 0 free_blocks_count 0", "set_bg 0 checksum calc"],
        ),
        (
            "the bitmap's checksum",
            "",
            &["zap_block -o 500 -l 1 -p 0x55 6"],
        ),
        (
            "the bitmap is the inode table",
            "-O ^metadata_csum",
            &["set_bg 0 block_bitmap 60", "set_bg 0 checksum calc"],
        ),
    ];
    for (what, args, commands) in claims {
        let args = format!("-t ext4 -b 4096 {args}");
        let fixture = Fixture::altered(what, &args, "40M", commands);
        let got = fixture.do_once(|handle| handle.allocator.allocate(handle, request(0, 1)));
        assert_eq!(got.unwrap_err().kind(), ErrorKind::Corrupt, "{what}");
    }
}
