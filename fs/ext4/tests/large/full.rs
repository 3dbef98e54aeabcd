//! Filesystems without free blocks or inodes.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use diskfs_block::{BlockRead, Fate, Faulty, Memory, Overlay};
use diskfs_ext4::{Ext4, Options, RootReserve, WritableExt4, WriteOptions};
use diskfs_fixtures::have;
use diskfs_vfs::{ErrorKind, FsRead, FsWrite, NewKind, SetXattr};

use crate::common::{Mounted, Random, e2fsck, mke2fs_empty, open, open_for_writing};
use crate::{create, number, pattern, read, usize_of};

/// The files that were written, and must exist.
#[derive(Default)]
struct Written {
    files: BTreeMap<String, Vec<u8>>,
    made: u64,
    /// The number of refused writes.
    refused: u64,
}

impl Written {
    /// Creates files of all sizes, some in small pieces, until `refusals` of them did not fit.
    fn fill(&mut self, fs: &dyn FsWrite, random: &mut Random, refusals: u64) {
        let until = self.refused + refusals;
        while self.refused < until {
            let name = format!("file-{}", self.made);
            self.made += 1;
            match create(fs, fs.root(), &name, NewKind::Regular) {
                Ok(_) => _ = self.files.insert(name.clone(), Vec::new()),
                Err(e) => {
                    self.is_no_room(&e);
                    continue;
                }
            }
            let len = random.below(400_000);
            let piece = [700, 30_000, 400_000][random.below(3)];
            self.append(fs, &name, len, piece);
        }
    }

    fn append(&mut self, fs: &dyn FsWrite, name: &str, len: usize, piece: usize) {
        let inode = fs.lookup(fs.root(), name.as_bytes()).unwrap();
        let data = pattern(self.made, len);
        for piece in data.chunks(piece) {
            let contents = self.files.get_mut(name).unwrap();
            match fs.write_at(inode, contents.len() as u64, piece) {
                Ok(done) => {
                    contents.extend_from_slice(&piece[..done]);
                    if done == piece.len() {
                        continue;
                    }
                    self.refused += 1;
                }
                Err(e) => self.is_no_room(&e),
            }
            return;
        }
    }

    fn is_no_room(&mut self, e: &diskfs_vfs::Error) {
        assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}");
        self.refused += 1;
    }

    /// Checks that every other operation that needs a block is refused, and changes nothing.
    fn nothing_fits(&self, fs: &dyn FsWrite, inline: bool) {
        let Some(name) = self.files.keys().next() else {
            return;
        };
        let file = fs.lookup(fs.root(), name.as_bytes()).unwrap();
        if !inline {
            let made = create(fs, fs.root(), "dir", NewKind::Directory);
            assert_eq!(made.unwrap_err().kind(), ErrorKind::NoSpace);
        }
        let link = NewKind::Symlink(&[b't'; 900]);
        let made = create(fs, fs.root(), "link", link);
        assert_eq!(made.unwrap_err().kind(), ErrorKind::NoSpace);
        let set = fs.set_xattr(file, b"user.large", &[7; 900], SetXattr::Any);
        assert_eq!(set.unwrap_err().kind(), ErrorKind::NoSpace);
    }

    fn remove_half(&mut self, fs: &dyn FsWrite) {
        let names: Vec<_> = self.files.keys().cloned().collect();
        for name in names.into_iter().step_by(2) {
            fs.unlink(fs.root(), name.as_bytes()).unwrap();
            self.files.remove(&name);
        }
    }

    fn check(&self, fs: &dyn FsRead) {
        for (name, contents) in &self.files {
            let inode = fs.lookup(fs.root(), name.as_bytes()).unwrap();
            assert!(read(fs, inode) == *contents, "{name}");
        }
    }

    fn check_mounted(&self, image: &Path) {
        let Some(mounted) = Mounted::new("a full disk", image) else {
            return;
        };
        for (name, contents) in &self.files {
            let found = fs::read(mounted.path().join(name)).unwrap();
            assert!(found == *contents, "{name}");
        }
    }
}

const MATRIX: [&str; 6] = [
    "-t ext4 -b 1024 -m 0",
    "-t ext4 -b 4096",
    "-t ext4 -b 1024 -O ^has_journal",
    "-t ext4 -b 1024 -O bigalloc -C 8192",
    "-t ext4 -b 1024 -O inline_data",
    "-t ext3 -b 1024",
];

/// Fills the disk twice: the written files exist each time, and removing files makes room.
#[test]
fn a_full_disk() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let size = format!("{}M", number("DISKFS_FULL_MIB", 8));
    for (seed, args) in (1..).zip(MATRIX) {
        let image = mke2fs_empty(dir.path(), args, &size);
        let mut random = Random(seed);
        let mut written = Written::default();
        for _ in 0..2 {
            let fs = open_for_writing(&image);
            written.fill(&fs, &mut random, 20);
            written.nothing_fits(&fs, args.contains("inline_data"));
            fs.sync().unwrap();
            written.check(&fs);
            fs.close().unwrap();
            drop(fs);
            e2fsck(&image);
            written.check(&open(&image));
            written.check_mounted(&image);
            let fs = open_for_writing(&image);
            let before = written.made;
            written.remove_half(&fs);
            written.fill(&fs, &mut random, 1);
            assert!(written.made > before + 5, "{args}: there is room again");
            written.remove_half(&fs);
            written.check(&fs);
            fs.close().unwrap();
            drop(fs);
            e2fsck(&image);
        }
    }
}

/// Checks that space is reserved for contents in memory: a sync of a full disk loses nothing,
/// whatever happens then.
#[test]
fn a_full_disk_keeps_what_was_synced() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (seed, args) in (1..).zip(["-t ext4 -b 1024 -m 0", "-t ext4 -b 4096", "-t ext3 -b 1024"]) {
        let image = mke2fs_empty(dir.path(), args, "8M");
        let before = Arc::new(Memory::new(fs::read(&image).unwrap()));
        let device = Arc::new(Faulty::new(Arc::new(Memory::new(before.to_vec())), []));
        let options = WriteOptions {
            commit_interval: None,
            ..WriteOptions::default()
        };
        let fs = WritableExt4::open(device.clone(), &options).unwrap();
        let mut written = Written::default();
        written.fill(&fs, &mut Random(seed), 8);
        fs.sync().unwrap();
        let log = device.log();
        // More of the same, which is lost.
        let synced = written.files.clone();
        written.remove_half(&fs);
        written.fill(&fs, &mut Random(seed + 50), 2);

        let crashed = Arc::new(Overlay::in_memory(before, 64 << 20));
        let all = log.crash_after(log.events().len());
        all.replay(&*crashed, |_, _| Fate::Lost).unwrap();
        let mut bytes = vec![0; usize_of(crashed.size_bytes())];
        crashed.read_at(0, &mut bytes).unwrap();
        fs::write(&image, bytes).unwrap();
        let reader = Ext4::open(crashed, &Options::default()).unwrap();
        let expected = Written {
            files: synced,
            ..Written::default()
        };
        expected.check(&reader);
        expected.check_mounted(&image);
        e2fsck(&image);
    }
}

/// Writes to a file until there is no space; returns the number of bytes.
fn write_until_full(fs: &dyn FsWrite, name: &str) -> u64 {
    let file = create(fs, fs.root(), name, NewKind::Regular).unwrap();
    let mut at = 0;
    loop {
        match fs.write_at(file, at, &[7; 1024]) {
            Ok(done) => at += done as u64,
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}");
                return at;
            }
        }
    }
}

/// Checks that root's blocks are left free, or allocated like the kernel does for root.
#[test]
fn a_reserve_for_root() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = mke2fs_empty(dir.path(), "-t ext4 -b 1024 -m 20", "16M");
    let reserve = 16 * 1024 / 5 * 1024;
    let fs = open_for_writing(&image);
    write_until_full(&fs, "users");
    let kept = fs.statistics().unwrap();
    assert!(kept.blocks_available < 8, "{kept:?}");
    assert!(kept.blocks_free * 1024 >= reserve, "{kept:?}");
    fs.close().unwrap();
    drop(fs);
    let copy = dir.path().join("copy");
    fs::copy(&image, &copy).unwrap();

    let device = Arc::new(diskfs_block::File::open_read_write(&image).unwrap());
    let options = WriteOptions {
        root_reserve: RootReserve::Use,
        ..WriteOptions::default()
    };
    let fs = WritableExt4::open(device, &options).unwrap();
    let written = write_until_full(&fs, "roots");
    assert!(written > reserve * 9 / 10, "{written} of {reserve}");
    fs.close().unwrap();
    drop(fs);
    e2fsck(&image);
    if let Some(mounted) = Mounted::new("a_reserve_for_root", &copy) {
        let mut file = fs::File::create(mounted.path().join("roots")).unwrap();
        while file.write_all(&[7; 1024]).is_ok() {}
        let theirs = file.metadata().unwrap().len();
        assert!(theirs.abs_diff(written) < 32 << 10, "{theirs}, {written}");
    }
}

/// Checks that each file needs an inode, and that with none left, deleting a file frees one.
#[test]
fn a_full_inode_table() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let inodes = number("DISKFS_INODES", 2048);
    for args in [
        "-t ext4 -b 1024",
        "-t ext4 -b 1024 -O ^flex_bg,^uninit_bg,^metadata_csum -g 1024",
        "-t ext2 -b 1024",
    ] {
        let size = format!("{}M", 16 + inodes / 1000);
        let image = mke2fs_empty(dir.path(), &format!("{args} -N {inodes}"), &size);
        let fs = open_for_writing(&image);
        let free = fs.statistics().unwrap().inodes_free;
        let mut made = 0;
        let refused = loop {
            let kind = match made % 10 {
                0 => NewKind::Directory,
                1 => NewKind::Symlink(b"target"),
                _ => NewKind::Regular,
            };
            match create(&fs, fs.root(), &format!("file-{made}"), kind) {
                Ok(_) => made += 1,
                Err(e) => break e,
            }
        };
        assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
        assert_eq!((made, fs.statistics().unwrap().inodes_free), (free, 0));
        for again in 0..20 {
            fs.unlink(fs.root(), format!("file-{}", again * 10 + 5).as_bytes())
                .unwrap();
            create(&fs, fs.root(), &format!("again-{again}"), NewKind::Fifo).unwrap();
            let full = create(&fs, fs.root(), "one-more", NewKind::Regular);
            assert_eq!(full.unwrap_err().kind(), ErrorKind::NoSpace);
        }
        fs.close().unwrap();
        drop(fs);
        e2fsck(&image);
        let reader = open(&image);
        assert_eq!(
            reader.read_dir(reader.root(), 0).unwrap().count() as u64,
            // The directory itself, its parent, and lost+found.
            made + 3
        );
        if let Some(mounted) = Mounted::new("a_full_inode_table", &image) {
            let refused = fs::write(mounted.path().join("one-more"), "").unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::StorageFull);
            fs::remove_file(mounted.path().join("again-3")).unwrap();
            fs::write(mounted.path().join("one-more"), "").unwrap();
        }
        e2fsck(&image);
    }
}
