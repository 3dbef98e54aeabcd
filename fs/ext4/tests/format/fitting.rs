//! A tree fits into a filesystem of the size that `fitting_size` returns, and fills it.

use std::sync::Arc;

use diskfs_block::Memory;
use diskfs_ext4::{
    FormatOptions, RootReserve, TreeUsage, WritableExt4, WriteOptions, fitting_size, format,
};
use diskfs_vfs::{FsRead, FsWrite, InodeNumber, NewAttributes, NewKind};

use crate::common::Random;
use crate::options::parse;

/// A tree: directories with files of these lengths.
struct Tree(Vec<Vec<u64>>);

impl Tree {
    fn random(seed: u64, directories: usize, files: usize, max_bytes: usize) -> Self {
        let mut random = Random(seed | 1);
        let mut file = || u64::try_from(random.below(max_bytes)).unwrap();
        let mut directory = || (0..files).map(|_| file()).collect();
        Self((0..directories).map(|_| directory()).collect())
    }

    fn usage(&self) -> TreeUsage {
        let mut usage = TreeUsage::new();
        usage.add_directory(self.0.iter().map(|_| 8));
        for files in &self.0 {
            usage.add_directory((0..files.len()).map(|nth| name(nth).len()));
            for &len in files {
                usage.add_file(len, len);
            }
        }
        usage
    }

    fn data_bytes(&self) -> u64 {
        self.0.iter().flatten().sum()
    }

    /// Creates the tree; every file must fit.
    fn create(&self, fs: &dyn FsWrite) {
        let attributes = NewAttributes::for_root(0o755);
        let create = |dir: InodeNumber, name: &str, kind| {
            fs.create(dir, name.as_bytes(), kind, &attributes).unwrap()
        };
        for (nth, files) in self.0.iter().enumerate() {
            let dir = create(fs.root(), &format!("dir-{nth:04}"), NewKind::Directory);
            for (nth, &len) in files.iter().enumerate() {
                let file = create(dir, &name(nth), NewKind::Regular);
                let bytes = vec![7; usize::try_from(len).unwrap()];
                fs.write_at(file, 0, &bytes).unwrap();
            }
        }
    }
}

fn name(nth: usize) -> String {
    format!("{nth}{}", "-and-more".repeat(nth % 8))
}

/// Formats a device of the fitting size, and creates the tree there. Returns the size in bytes.
fn fill(tree: &Tree, options: &FormatOptions, what: &str) -> u64 {
    let size = fitting_size(options, &tree.usage()).unwrap();
    let device = Arc::new(Memory::new(vec![0; usize::try_from(size).unwrap()]));
    format(&*device, options).unwrap();
    let options = WriteOptions {
        commit_interval: None,
        root_reserve: RootReserve::UseAll,
        ..WriteOptions::default()
    };
    let fs = WritableExt4::open(device, &options).unwrap();
    tree.create(&fs);
    fs.sync().unwrap();
    let statistics = fs.statistics().unwrap();
    let used = statistics.blocks - statistics.blocks_free;
    assert!(
        used * 100 >= statistics.blocks * 95,
        "{what}: {statistics:?}"
    );
    fs.close().unwrap();
    size
}

#[test]
fn a_tree_fits_and_fills_the_filesystem() {
    for args in [
        "-t ext4 -m 0",
        "-t ext2 -m 0",
        "-t ext4 -m 0 -b 4096",
        "-t ext4 -m 0 -O bigalloc",
    ] {
        for (nth, tree) in [
            Tree::random(1, 20, 100, 40_000),
            Tree::random(2, 3, 5, 9_000_000),
            Tree::random(3, 5, 800, 3000),
        ]
        .into_iter()
        .enumerate()
        {
            let mut options = parse(args);
            options.inodes = Some(tree.usage().inodes());
            let what = format!("{args}, tree {nth}");
            let size = fill(&tree, &options, &what);
            assert!(size >= tree.data_bytes(), "{what}");
        }
    }
}

#[test]
fn inodes_and_reserves_count() {
    let tree = Tree::random(4, 4, 1000, 10);
    let by_ratio = fitting_size(&parse("-t ext4"), &tree.usage()).unwrap();
    let mut options = parse("-t ext4");
    options.inodes = Some(tree.usage().inodes());
    let by_number = fitting_size(&options, &tree.usage()).unwrap();
    assert!(by_number < by_ratio, "{by_number} {by_ratio}");
    options.reserved_ppm = 200_000;
    let with_reserve = fitting_size(&options, &tree.usage()).unwrap();
    assert!(with_reserve > by_number);
    let e = fitting_size(&parse("-t ext4 -b 3000"), &tree.usage()).unwrap_err();
    assert!(e.to_string().contains("block size"), "{e}");
}
