//! Each command is one transaction: after a power cut at any moment, its image shows the old tree
//! or the new one.
//!
//! The image is on a mount of this test, which sees each write and each flush in the order in which
//! a host's disk would get them.

mod tape;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use diskfs::block::{BlockRead, Crash, Event, Fate, Memory, Overlay};
use diskfs::export::fuse::{Options, mount_writable};
use diskfs_ext4::Ext4;
use diskfs_fixtures::{Entry, Tree, require};
use tempfile::TempDir;

use super::served::Served;
use super::{DISKFS, can_mount, run, stderr};
use tape::{IMAGE, Tape};

/// The largest overlay: the whole image.
const IMAGE_BYTES: u64 = 64 << 20;

/// The location of the superblock: two sectors under one checksum, without which no image can be
/// opened.
const SUPERBLOCK: Range<u64> = 1024..2048;

/// An image whose writes are recorded, and the files for the commands.
struct Bench {
    tape: Arc<Tape>,
    mount: Served,
    dir: TempDir,
    /// The image's contents when the recording began.
    image: Arc<Memory>,
    entries: Vec<Entry>,
}

impl Bench {
    /// Makes a new filesystem, with these options for mke2fs. With a journal of 16 MiB, a
    /// transaction can have 4 MiB.
    fn new(words: &[&str]) -> Option<Self> {
        can_mount()?;
        require("mke2fs")?;
        let dir = TempDir::new().expect("create a directory");
        let made = dir.path().join(IMAGE);
        File::create(&made).unwrap().set_len(IMAGE_BYTES).unwrap();
        let words = [&["-q", "-t", "ext4", "-b", "4096", "-J", "size=16"], words].concat();
        let words: Vec<_> = words.iter().map(AsRef::as_ref).collect();
        run("mke2fs", &[&words[..], &[made.as_os_str()]].concat());
        let bytes = fs::read(&made).unwrap();
        let tape = Arc::new(Tape::default());
        let served = Arc::clone(&tape);
        let mount = Served::start(|at| mount_writable(served, at, &Options::default()));
        let file = File::create(mount.join(IMAGE)).unwrap();
        (&file).write_all(&bytes).unwrap();
        file.sync_all().unwrap();
        drop(file);
        tape.start(&bytes);
        let image = Arc::new(Memory::new(bytes));
        let entries = entries(image.clone());
        Some(Self {
            tape,
            mount,
            dir,
            image,
            entries,
        })
    }

    fn host(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs a command, in whose words `IMG` stands for the image and `HOST` for the directory
    /// beside it, and simulates a power cut at every moment of it.
    fn command(&mut self, line: &str, input: &[u8]) {
        let place = |path: PathBuf| path.into_os_string().into_string().unwrap();
        let words = line.split(' ').map(|word| {
            word.replace("IMG", &place(self.mount.join(IMAGE)))
                .replace("HOST", &place(self.dir.path().to_owned()))
        });
        run_with_input(words.map(OsString::from), input);
        let log = self.tape.take();
        let count = log.events().len();
        // The state that the command made durable.
        let after = self.entries_after(&log.crash_after(count), |_, _| Fate::Lost);
        assert!(after != self.entries, "{line}: nothing changed");
        let mut seen = [false; 2];
        for (moment, crash) in log.crashes().enumerate() {
            for (how, found) in self.crashes(&crash, moment) {
                let states = [found == self.entries, found == after];
                assert!(
                    states[0] || states[1],
                    "{line}: power failed after {moment} of {count} events, {how}: not as before: \
                     {}; not as after: {}",
                    missing(&self.entries, &found),
                    missing(&after, &found),
                );
                seen = [seen[0] || states[0], seen[1] || states[1]];
            }
        }
        assert_eq!(seen, [true; 2], "{line}: {count} events");
        for event in log.events() {
            event.replay(&*self.image, Fate::Kept).unwrap();
        }
        self.entries = after;
    }

    /// Returns the trees after a crash in which open writes are kept, lost, or partly kept.
    fn crashes(&self, crash: &Crash<'_>, moment: usize) -> Vec<(&'static str, Vec<Entry>)> {
        let mut left = vec![("all kept", self.entries_after(crash, |_, _| Fate::Kept))];
        if !crash.open().is_empty() {
            left.push(("all lost", self.entries_after(crash, |_, _| Fate::Lost)));
            let mut fate = Fate::by_chance(moment as u64);
            let some = self.entries_after(crash, |at, event| whole(event, fate(at, event)));
            left.push(("some lost", some));
        }
        left
    }

    fn entries_after(
        &self,
        crash: &Crash<'_>,
        fate: impl FnMut(usize, &Event) -> Fate,
    ) -> Vec<Entry> {
        let image = Overlay::in_memory(self.image.clone(), IMAGE_BYTES);
        crash.replay(&image, fate).unwrap();
        entries(Arc::new(image))
    }
}

/// Returns the tree after the journal's replay.
fn entries(image: Arc<dyn BlockRead>) -> Vec<Entry> {
    let fs = Ext4::open(image, &diskfs_ext4::Options::default()).expect("open the image");
    Tree::of_filesystem(&fs).expect("read the tree").entries
}

/// Keeps a write of the superblock from being torn, because no disk may tear it.
fn whole(event: &Event, fate: Fate) -> Fate {
    let touches = |offset: u64| {
        offset < SUPERBLOCK.end && SUPERBLOCK.start < offset.saturating_add(event.len_bytes())
    };
    match (event, fate) {
        (Event::Write { offset, .. }, Fate::Torn { .. }) if touches(*offset) => Fate::Lost,
        _ => fate,
    }
}

/// Lists the first files that differ between `found` and `expected`.
fn missing(expected: &[Entry], found: &[Entry]) -> String {
    let missing = expected.iter().filter(|entry| !found.contains(entry));
    let paths: Vec<_> = missing.map(|entry| entry.path.as_str()).take(5).collect();
    paths.join(", ")
}

fn run_with_input(words: impl Iterator<Item = OsString>, input: &[u8]) {
    let mut command = Command::new(DISKFS);
    command
        .args(words)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", stderr(&output));
}

/// Makes a tree of small files, some larger ones, links, and a file with holes.
fn make_tree(root: &Path) {
    for dir in 0..5 {
        let dir = root.join(format!("dir{dir}"));
        fs::create_dir_all(&dir).unwrap();
        for n in 0..15_usize {
            fs::write(dir.join(format!("file{n}")), vec![b'a'; n * n * 30]).unwrap();
        }
        fs::hard_link(dir.join("file3"), dir.join("link")).unwrap();
        std::os::unix::fs::symlink("file3", dir.join("symlink")).unwrap();
    }
    let sparse = File::create(root.join("sparse")).unwrap();
    sparse.set_len(300_000).unwrap();
    fs::write(root.join("large"), vec![b'l'; 400_000]).unwrap();
}

#[test]
fn a_command_happened_or_it_did_not() {
    let Some(mut bench) = Bench::new(&[]) else {
        return;
    };
    make_tree(&bench.host("tree"));
    let archive = bench.host("tree.tar");
    let words = ["-C".as_ref(), bench.dir.path().as_os_str(), "-cf".as_ref()];
    run(
        "tar",
        &[&words[..], &[archive.as_os_str(), "tree".as_ref()]].concat(),
    );
    let new = vec![b'n'; 100_000];
    let commands: [(&str, &[u8]); 20] = [
        ("mkdir -p IMG:/a/b/c", b""),
        ("cp -r HOST/tree IMG:/a", b""),
        ("tar-in -f HOST/tree.tar IMG:/a/b", b""),
        ("write IMG:/a/tree/dir1/file10", &new),
        ("write --append IMG:/a/tree/dir1/file10", &new[..5000]),
        ("cp HOST/tree/dir2/file14 IMG:/a/tree/large", b""),
        ("mv IMG:/a/tree/dir2 IMG:/a/b/c/moved", b""),
        ("mv IMG:/a/tree/dir3/file1 IMG:/a/tree/dir3/file2", b""),
        ("ln -s target IMG:/a/symlink", b""),
        ("ln IMG:/a/tree/large IMG:/a/hard", b""),
        ("truncate -s 5000 IMG:/a/hard", b""),
        ("truncate -s 4321 IMG:/a/hard", b""),
        ("truncate -s 7000 IMG:/a/hard", b""),
        ("touch IMG:/a/touched IMG:/a/tree/sparse", b""),
        ("chmod -R go-rwx IMG:/a", b""),
        ("chown -R 1000:1000 IMG:/a/b", b""),
        (
            "xattr set user.comment some-value IMG:/a/tree/dir4/file4",
            b"",
        ),
        ("xattr remove user.comment IMG:/a/tree/dir4/file4", b""),
        ("rm -r IMG:/a/b", b""),
        ("rm -r IMG:/a", b""),
    ];
    for (line, input) in commands {
        bench.command(line, input);
    }
}

/// The removed data covers a part of a block, or with bigalloc of a cluster; the rest of it is
/// kept.
#[test]
fn a_file_is_cut_or_it_is_not() {
    let large = vec![b'l'; 100_000];
    let zeroes_first = [vec![0; 3000], vec![b'z'; 1000]].concat();
    let commands: [(&str, &[u8]); 8] = [
        ("write IMG:/large", &large),
        ("truncate -s 90000 IMG:/large", b""),
        ("truncate -s 81920 IMG:/large", b""),
        ("truncate -s 66000 IMG:/large", b""),
        ("truncate -s 65900 IMG:/large", b""),
        ("truncate -s 100 IMG:/large", b""),
        ("write IMG:/zeroes-first", &zeroes_first),
        ("truncate -s 2000 IMG:/zeroes-first", b""),
    ];
    let bigalloc = ["-O", "bigalloc", "-C", "65536"];
    for words in [&[][..], &bigalloc[..]] {
        let Some(mut bench) = Bench::new(words) else {
            return;
        };
        for (line, input) in commands {
            bench.command(line, input);
        }
    }
}
