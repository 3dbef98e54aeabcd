//! Host failures during a command: whichever write, flush or allocation fails, the image shows the
//! old tree or the new one, and the exit code and the message say which.
//!
//! `DISKFS_FAULTS=N` tries N places of each command instead of a few, `DISKFS_FAULTS=all` tries
//! every one; `DISKFS_FAULT_SEED` selects others.

mod injector;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use diskfs::OpenOptions;
use diskfs::image::Image;
use diskfs_ext4::Ext4;
use diskfs_fixtures::{Tree, require};
use tempfile::TempDir;

use crate::DISKFS;
use injector::Fault;

/// The default number of places that are tried in each command, for each error.
const PLACES: usize = 1;

/// The form of the image on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Raw,
    Qcow2,
    /// A raw image, with all changes in an existing overlay.
    Overlay,
    /// A raw image, with an overlay that the command creates.
    NewOverlay,
}

/// A state of an image, and beside it the directory in which commands work on copies of it.
struct Bench {
    dir: TempDir,
    form: Form,
}

/// The state after a run.
#[derive(Debug, PartialEq, Eq)]
struct Left(Tree);

impl Bench {
    fn new(form: Form) -> Option<Self> {
        for program in ["mke2fs", "e2fsck", "qemu-img"] {
            require(program)?;
        }
        let bench = Self {
            dir: TempDir::new().unwrap(),
            form,
        };
        bench.make_source();
        let raw = bench.state("base.img");
        fs::create_dir_all(raw.parent().unwrap()).unwrap();
        fs::create_dir_all(bench.work("")).unwrap();
        File::create(&raw).unwrap().set_len(24 << 20).unwrap();
        let words = "-q -t ext4 -b 1024 -J size=2 -N 1000";
        let mut mke2fs = diskfs_fixtures::command("mke2fs");
        succeed(mke2fs.args(words.split(' ')).arg(&raw));
        for (line, input) in SETUP {
            let mut command = bench.command(line, &raw);
            let (output, _) =
                injector::run(command_ref(&mut command), input, &bench.work(""), None);
            assert!(output.status.success(), "{line}: {output:?}");
        }
        if form == Form::Qcow2 {
            let mut convert = Command::new("qemu-img");
            convert.args(["convert", "-O", "qcow2", "-o", "cluster_size=4k"]);
            succeed(convert.arg(&raw).arg(bench.state("disk.qcow2")));
        }
        if form == Form::Overlay {
            let mut create = Command::new("qemu-img");
            create.args(["create", "-f", "qcow2", "-F", "raw", "-b"]);
            succeed(create.arg(&raw).arg(bench.state("o.qcow2")));
        }
        Some(bench)
    }

    fn state(&self, name: &str) -> PathBuf {
        self.dir.path().join("state").join(name)
    }

    fn work(&self, name: &str) -> PathBuf {
        self.dir.path().join("work").join(name)
    }

    /// Makes the files that are copied into images.
    fn make_source(&self) {
        let tree = self.dir.path().join("tree");
        for dir in ["a", "b"] {
            fs::create_dir_all(tree.join(dir)).unwrap();
            for n in 0..6_usize {
                fs::write(tree.join(dir).join(format!("f{n}")), vec![b'f'; n * 700]).unwrap();
            }
        }
        fs::write(self.dir.path().join("large"), vec![b'l'; 300_000]).unwrap();
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(self.dir.path());
        succeed(
            tar.args(["-cf"])
                .arg(self.dir.path().join("tree.tar"))
                .arg("tree"),
        );
    }

    /// Returns the image that commands name.
    fn image(&self) -> PathBuf {
        self.work(match self.form {
            Form::Qcow2 => "disk.qcow2",
            _ => "base.img",
        })
    }

    /// Restores the image.
    fn reset(&self) {
        for entry in fs::read_dir(self.work("")).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        let names: &[&str] = match self.form {
            Form::Raw | Form::NewOverlay => &["base.img"],
            Form::Qcow2 => &["disk.qcow2"],
            Form::Overlay => &["base.img", "o.qcow2"],
        };
        for name in names {
            let mut cp = Command::new("cp");
            succeed(
                cp.arg("--sparse=always")
                    .args([self.state(name), self.work(name)]),
            );
        }
        if self.form == Form::Overlay {
            let mut rebase = Command::new("qemu-img");
            rebase.args(["rebase", "-u", "-F", "raw", "-b"]);
            succeed(rebase.arg(self.work("base.img")).arg(self.work("o.qcow2")));
        }
    }

    fn command(&self, line: &str, image: &Path) -> Command {
        let mut command = Command::new(DISKFS);
        let mut words = line.split(' ');
        command.args(words.next());
        let host = self.dir.path().display().to_string();
        let place = |word: &str| {
            word.replace("IMG", &image.display().to_string())
                .replace("HOST", &host)
        };
        command.args(words.map(place));
        if matches!(self.form, Form::Overlay | Form::NewOverlay) && image == self.image() {
            command.arg("--overlay").arg(self.work("o.qcow2"));
        }
        command.env("DISKFS_VM", "none").env_remove("RUST_LOG");
        command.env("EDITOR", "sh -c 'echo edited >> \"$1\"' --");
        command.env_remove("VISUAL");
        command
    }

    fn run(
        &self,
        (line, input): (&str, &[u8]),
        fault: Option<Fault>,
    ) -> (Output, Vec<&'static str>) {
        self.reset();
        let mut command = self.command(line, &self.image());
        injector::run(command_ref(&mut command), input, &self.work(""), fault)
    }

    /// Returns the tree in the image, which must be sound.
    fn left(&self) -> Left {
        let overlay = self.work("o.qcow2");
        let image = if overlay.exists() {
            overlay
        } else {
            self.image()
        };
        if image.extension().is_some_and(|name| name == "qcow2") {
            let check = Command::new("qemu-img").arg("check").arg(&image).output();
            let code = check.as_ref().unwrap().status.code();
            // 3: leaked clusters, which a failure may leave.
            assert!(matches!(code, Some(0 | 3)), "{check:?}");
        }
        // Flattened, so that the filesystem's own tools can read it.
        let flat = self.dir.path().join("flat.img");
        let mut convert = Command::new("qemu-img");
        succeed(
            convert
                .args(["convert", "-U", "-O", "raw"])
                .arg(&image)
                .arg(&flat),
        );
        let replay = diskfs_fixtures::command("e2fsck")
            .args(["-E", "journal_only", "-y"])
            .arg(&flat)
            .output();
        assert!(
            replay.as_ref().unwrap().status.code() < Some(4),
            "{replay:?}"
        );
        succeed(diskfs_fixtures::command("e2fsck").arg("-fn").arg(&flat));
        let image = Image::open(&flat, &OpenOptions::default()).unwrap();
        let fs = Ext4::open(image.device(), &diskfs_ext4::Options::default()).unwrap();
        let mut tree = Tree::of_filesystem(&fs).unwrap();
        tree.statfs = None;
        // A file of the same name is a new one then. The locks of this one can outlive it: a program
        // that another test starts just now has them until its exec.
        fs::remove_file(&flat).unwrap();
        for entry in &mut tree.entries {
            (entry.inode, entry.allocated) = (0, 0);
            entry.atime.clear();
            entry.mtime.clear();
            entry.ctime.clear();
            (entry.btime, entry.holes) = (None, None);
        }
        Left(tree)
    }

    /// Lets places of a command fail, each in a separate run.
    fn try_places(&self, command: (&str, &[u8])) {
        let (line, _) = command;
        self.reset();
        let before = self.left();
        let (output, requests) = self.run(command, None);
        assert!(output.status.success(), "{line}: {output:?}");
        let after = self.left();
        assert_ne!(before, after, "{line}");
        for (errno, lasting) in [
            (libc::EIO, false),
            (libc::ENOSPC, false),
            (libc::ENOSPC, true),
        ] {
            for nth in places(requests.len(), line) {
                let fault = Fault {
                    nth,
                    errno,
                    lasting,
                };
                let (output, asked) = self.run(command, Some(fault));
                let told = String::from_utf8_lossy(&output.stderr).into_owned();
                let what = format!(
                    "DISKFS_FAULT_SEED={} {:?}, {line}, {fault:?} of {}, {:?}: {:?}, {told}",
                    seed(),
                    self.form,
                    requests.len(),
                    asked.get(nth),
                    output.status.code()
                );
                let left = self.left();
                let (old, new) = (left == before, left == after);
                assert!(
                    old || new,
                    "a third state: {what}\n{:#?}",
                    left.0.differences(&before.0)
                );
                match output.status.code() {
                    Some(0) => assert!(new, "reported as done: {what}"),
                    Some(1..=6) if new => assert!(says_new(&told), "reported as failed: {what}"),
                    Some(1..=6) => assert!(!told.contains("all the same"), "{what}"),
                    _ => panic!("{what}"),
                }
                assert!(!told.contains("nothing was changed") || old, "{what}");
                if self.form == Form::NewOverlay && output.status.code() != Some(0) {
                    assert!(!self.work("o.qcow2").exists() || new, "{what}");
                }
            }
        }
    }
}

fn says_new(told: &str) -> bool {
    told.contains("the changes were made") || told.contains("may have been made")
}

fn command_ref(command: &mut Command) -> Command {
    std::mem::replace(command, Command::new("true"))
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

fn seed() -> u64 {
    let seed = std::env::var("DISKFS_FAULT_SEED").ok();
    seed.map_or_else(
        || std::process::id().into(),
        |seed| seed.parse().expect("DISKFS_FAULT_SEED is a number"),
    )
}

/// Selects the places: all, or some at random, and always the last one.
fn places(count: usize, line: &str) -> Vec<usize> {
    let wanted = match std::env::var("DISKFS_FAULTS").as_deref() {
        Ok("all") => count,
        Ok(number) => number.parse().expect("DISKFS_FAULTS is a number or `all`"),
        Err(_) => PLACES,
    };
    if wanted >= count {
        return (0..count).collect();
    }
    let mut state = line.bytes().fold(seed(), |state: u64, byte| {
        (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let by_chance = std::iter::repeat_with(|| {
        // xorshift64* (Vigna).
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        usize::try_from(state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33).unwrap() % count
    });
    by_chance.take(wanted).collect()
}

const LARGE: &[u8] = &[b'n'; 700_000];

const SETUP: &[(&str, &[u8])] = &[
    ("mkdir -p IMG:/etc /srv/in", b""),
    ("write IMG:/etc/passwd", b"root:x:0:0::/:/bin/sh\n"),
    ("cp HOST/large IMG:/large", b""),
    ("cp -r HOST/tree IMG:/tree", b""),
];

const COMMANDS: &[(&str, &[u8])] = &[
    ("write IMG:/etc/passwd", LARGE),
    ("write IMG:/etc/hostname", b"web1\n"),
    ("write --append IMG:/large", LARGE),
    ("edit IMG:/etc/passwd", b""),
    ("cp HOST/large IMG:/etc/passwd", b""),
    ("cp -r HOST/tree IMG:/srv", b""),
    ("tar-in -f HOST/tree.tar IMG:/srv/in", b""),
    ("mv IMG:/tree/a IMG:/srv/in/moved", b""),
    ("mv IMG:/large IMG:/etc/passwd", b""),
    ("ln IMG:/large /etc/large", b""),
    ("ln -s passwd IMG:/etc/link", b""),
    ("mkdir -p IMG:/x/y/z", b""),
    ("touch IMG:/new", b""),
    ("truncate -s 1234 IMG:/large", b""),
    ("truncate -s 900000 IMG:/large", b""),
    ("chmod -R go-rwx IMG:/tree", b""),
    ("chown -R 7:8 IMG:/tree", b""),
    ("xattr set user.a value IMG:/large", b""),
    ("rm -r IMG:/tree", b""),
    ("rm IMG:/large", b""),
    ("deploy --volume disk --write /etc/motd:hello IMG", b""),
];

fn try_all(form: Form) {
    let Some(bench) = Bench::new(form) else {
        return;
    };
    for command in COMMANDS {
        bench.try_places(*command);
    }
}

#[test]
fn a_raw_image_shows_the_old_or_the_new_tree() {
    try_all(Form::Raw);
}

#[test]
fn a_qcow2_image_shows_the_old_or_the_new_tree() {
    try_all(Form::Qcow2);
}

#[test]
fn an_overlay_shows_the_old_or_the_new_tree() {
    try_all(Form::Overlay);
}

#[test]
fn a_new_overlay_shows_the_new_tree_or_is_gone() {
    try_all(Form::NewOverlay);
}
