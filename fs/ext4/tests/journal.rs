//! Journals into which debugfs writes transactions: what is shown, and that the image stays
//! unchanged. (Journals that the kernel wrote are among the fixtures.)

mod common;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{debugfs, mke2fs, open, run};
use diskfs_block::File;
use diskfs_ext4::{Ext4, Options};
use diskfs_fixtures::have;
use diskfs_vfs::{ErrorKind, FileExtentKind, FsRead, Result};

const MAGIC: [u8; 4] = [0xc0, 0x3b, 0x39, 0x98];

/// A filesystem with two files of three blocks each. Its journal contains new contents of the first
/// file, and of the second file, which the next transaction revokes.
struct Unclean {
    _dir: tempfile::TempDir,
    image: PathBuf,
    block_size: usize,
}

/// The old contents of both files.
const OLD: u8 = b'o';
/// The new contents in the journal; the second block begins with the log's own magic number.
const NEW: u8 = b'n';

impl Unclean {
    fn new(features: &str, block_size: usize, open: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir(&tree).unwrap();
        for name in ["replayed", "revoked"] {
            fs::write(tree.join(name), vec![OLD; 3 * block_size]).unwrap();
        }
        let journal = block_size / 1024;
        let options = format!("-t ext4 -b {block_size} -O {features} -J size={journal}");
        let image = mke2fs(dir.path(), &tree, "32M", &options);
        let this = Self {
            _dir: dir,
            image,
            block_size,
        };
        this.write_journal(open);
        this
    }

    fn path(&self) -> &str {
        self.image.to_str().unwrap()
    }

    fn blocks_of(&self, file: &str) -> Vec<String> {
        let blocks = run("debugfs", &["-R", &format!("blocks {file}"), self.path()]);
        blocks.split_whitespace().map(str::to_owned).collect()
    }

    fn write_journal(&self, open: &str) {
        let new = self.image.with_extension("new");
        fs::write(&new, self.new_contents()).unwrap();
        let new = new.display();
        let commands = format!(
            "{open}\njw -b {} {new}\njw -b {} {new}\njw -r {}\njc\n",
            self.blocks_of("replayed").join(","),
            self.blocks_of("revoked").join(","),
            self.blocks_of("revoked").join(","),
        );
        let script = self.image.with_extension("commands");
        fs::write(&script, commands).unwrap();
        run(
            "debugfs",
            &["-w", "-f", script.to_str().unwrap(), self.path()],
        );
    }

    fn new_contents(&self) -> Vec<u8> {
        let mut new = vec![NEW; 3 * self.block_size];
        new[self.block_size..][..4].copy_from_slice(&MAGIC);
        new
    }

    /// Flips a bit in a byte of the journal.
    fn flip(&self, block: usize, byte: usize) {
        let blocks = self.blocks_of("<8>");
        let at = blocks[block].parse::<usize>().unwrap() * self.block_size + byte;
        let file = fs::File::options()
            .read(true)
            .write(true)
            .open(&self.image)
            .unwrap();
        let mut bytes = [0];
        file.read_exact_at(&mut bytes, at as u64).unwrap();
        file.write_all_at(&[bytes[0] ^ 0x40], at as u64).unwrap();
    }

    fn open(&self) -> Result<Ext4> {
        Ext4::open(
            Arc::new(File::open(&self.image).unwrap()),
            &Options::default(),
        )
    }
}

fn contents(fs: &dyn FsRead, name: &str) -> Vec<u8> {
    let inode = fs.lookup(fs.root(), name.as_bytes()).unwrap();
    let mut bytes = vec![0; 1 << 20];
    let n = fs.read_at(inode, 0, &mut bytes).unwrap();
    bytes.truncate(n);
    bytes
}

/// Returns the places of a file's runs, without their lengths.
fn places(fs: &dyn FsRead, name: &str) -> Vec<FileExtentKind> {
    let inode = fs.lookup(fs.root(), name.as_bytes()).unwrap();
    let mut kinds: Vec<_> = fs
        .extents_of(inode, 0)
        .unwrap()
        .map(|extent| extent.unwrap().kind)
        .collect();
    kinds.dedup();
    kinds
}

fn assert_replayed(unclean: &Unclean, what: &str) {
    let before = fs::read(&unclean.image).unwrap();
    let fs = unclean.open().unwrap();
    assert_eq!(contents(&fs, "replayed"), unclean.new_contents(), "{what}");
    assert_eq!(
        contents(&fs, "revoked"),
        vec![OLD; 3 * unclean.block_size],
        "{what}"
    );
    assert_eq!(places(&fs, "replayed"), [FileExtentKind::Inline], "{what}");
    let revoked = places(&fs, "revoked");
    assert!(
        matches!(revoked[..], [FileExtentKind::Stored { .. }]),
        "{what}: {revoked:?}"
    );
    let notes = fs.identity().notes;
    assert!(
        notes.contains(&"journal replayed in memory (3 transactions)".to_owned()),
        "{notes:?}"
    );
    assert!(
        fs::read(&unclean.image).unwrap() == before,
        "{what}: the image changed"
    );
}

#[test]
fn every_form_is_replayed_in_memory() {
    if !have(&["mke2fs", "debugfs"]) {
        return;
    }
    for block_size in [1024, 4096] {
        for wide in ["64bit", "^64bit"] {
            for (open, csum) in [
                ("jo", "^metadata_csum"),
                ("jo -c -v 2", "metadata_csum"),
                ("jo -c -v 3", "metadata_csum"),
            ] {
                let features = format!("{csum},{wide}");
                let unclean = Unclean::new(&features, block_size, open);
                assert_replayed(&unclean, &format!("{open}, {features}, {block_size}"));
            }
        }
    }
}

/// The log of [`Unclean`]: a descriptor, three data blocks and a commit, twice; then a revocation
/// and a commit.
const DATA_OF_FIRST: usize = 3;
const REVOCATION: usize = 11;
const LAST_COMMIT: usize = 12;

#[test]
fn a_damaged_end_is_left_out_and_reported() {
    if !have(&["mke2fs", "debugfs"]) {
        return;
    }
    for block in [REVOCATION, LAST_COMMIT] {
        let unclean = Unclean::new("metadata_csum,64bit", 1024, "jo -c -v 3");
        unclean.flip(block, 20);
        let fs = unclean.open().unwrap();
        // Without the revocation the second file is replayed, too.
        assert_eq!(contents(&fs, "revoked"), unclean.new_contents());
        let notes = fs.identity().notes;
        assert!(
            notes.iter().any(|note| note.contains("was not replayed")),
            "{notes:?}"
        );
    }
}

#[test]
fn a_damaged_middle_is_corrupt() {
    if !have(&["mke2fs", "debugfs"]) {
        return;
    }
    let unclean = Unclean::new("metadata_csum,64bit", 1024, "jo -c -v 3");
    unclean.flip(DATA_OF_FIRST, 500);
    let e = unclean.open().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corrupt);
    assert!(
        e.to_string().contains("journal block 3: transaction"),
        "{e}"
    );
}

#[test]
fn a_journal_that_is_not_needed_is_not_read() {
    if !have(&["mke2fs", "debugfs"]) {
        return;
    }
    let unclean = Unclean::new("metadata_csum,64bit", 1024, "jo -c -v 3");
    // Like the kernel: without the flag, the contents of the log are out of date.
    debugfs(&unclean.image, &["feature -needs_recovery"]);
    unclean.flip(0, 0);
    let fs = open(&unclean.image);
    assert_eq!(contents(&fs, "replayed"), vec![OLD; 3 * 1024]);
}

#[test]
fn broken_journals_are_refused_by_kind() {
    if !have(&["mke2fs", "debugfs"]) {
        return;
    }
    let cases = [
        (
            "ssv journal_inum 0",
            ErrorKind::Unsupported,
            "external journal",
        ),
        (
            "ssv journal_inum 2",
            ErrorKind::Corrupt,
            "not a regular file",
        ),
        ("sif <8> links_count 0", ErrorKind::Corrupt, "the journal's"),
        ("sif <8> block[2] 0", ErrorKind::Corrupt, "journal"),
    ];
    for (command, kind, says) in cases {
        let unclean = Unclean::new("^metadata_csum,^64bit,^extent", 1024, "jo");
        debugfs(&unclean.image, &[command]);
        let e = unclean.open().unwrap_err();
        assert_eq!(e.kind(), kind, "{command}: {e}");
        assert!(e.to_string().contains(says), "{command}: {e}");
    }
    let unclean = Unclean::new("metadata_csum,64bit", 1024, "jo -c -v 3");
    unclean.flip(0, 0x28);
    let e = unclean.open().unwrap_err();
    assert!(e.to_string().contains("journal superblock"), "{e}");
}

/// Checks that the missing part of a truncated image is not read as zeroes.
#[test]
fn a_cut_image_is_refused() {
    if !have(&["mke2fs", "debugfs"]) {
        return;
    }
    let unclean = Unclean::new("metadata_csum,64bit", 1024, "jo -c -v 3");
    let cut = |path: &Path, len: u64| {
        fs::File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(len)
            .unwrap();
    };
    cut(&unclean.image, 16 << 20);
    assert_eq!(unclean.open().unwrap_err().kind(), ErrorKind::Corrupt);
}
