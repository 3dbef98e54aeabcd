//! Kills at random moments, of the machine or of diskfs: what was synced is there, and after the
//! replay of its log the filesystem is sound.
//!
//! NTFS has no journal in the machine (see vm/DESIGN.md): its root directory only gets directories,
//! because a directory that gets files meanwhile can be unreadable after a kill.
//!
//! Each method and kind runs twice; `DISKFS_KILLS=50` sets another number.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use diskfs::vfs::{FsWrite, NewAttributes, NewKind, SyncFile};
use diskfs::{Disk, WriteOptions};
use diskfs_fixtures::{Workshop, pattern, run};
use rustix::process::{Signal, kill_process};

use super::endings::{machines, own_appliance};
use super::{appliance, at, check, command, diskfs, micro_vm, open, require_all};

/// Returns the number of kills of each method and kind.
fn kills() -> usize {
    let said = std::env::var("DISKFS_KILLS");
    said.map_or(2, |said| said.parse().expect("DISKFS_KILLS is a number"))
}

/// The kinds: the command that makes the filesystem, its size, and the command that checks it.
const KINDS: [(&[&str], u64, &[&str]); 4] = [
    (&["mkfs.xfs", "-q"], 320 << 20, &["xfs_repair", "-n"]),
    (&["mkfs.btrfs", "-q"], 256 << 20, &["btrfs", "check"]),
    (&["mkfs.f2fs", "-q"], 128 << 20, &["fsck.f2fs", "--dry-run"]),
    (&["mkfs.ntfs", "-qfF"], 512 << 20, &["ntfsfix", "-n"]),
];

/// An image that is killed again and again.
struct Victim {
    appliance: PathBuf,
    /// The appliance of this victim, so that the machines of other tests are not killed.
    own: PathBuf,
    image: PathBuf,
    checker: &'static [&'static str],
    _shop: Workshop,
}

impl Victim {
    fn new((mkfs, size_bytes, checker): (&[&str], u64, &'static [&'static str])) -> Option<Self> {
        let appliance = appliance()?;
        require_all(&[mkfs[0], checker[0]])?;
        let shop = Workshop::new().unwrap();
        let image = shop.sparse_file("disk.img", size_bytes).unwrap();
        let words = mkfs[1..].iter().map(Path::new);
        run(mkfs[0], words.chain([image.as_path()])).unwrap();
        Some(Self {
            own: own_appliance(&shop, &appliance),
            appliance,
            image,
            checker,
            _shop: shop,
        })
    }

    /// Writes a file by a command that ends, and returns its name and content.
    fn put_file(&self, name: &str) -> (String, Vec<u8>) {
        let content = pattern(name, 100_000);
        let source = self.own.join(name);
        fs::write(&source, &content).unwrap();
        let target = at(&self.image, &format!("/{name}"));
        diskfs(
            &self.appliance,
            &["cp".as_ref(), source.as_os_str(), &target],
        );
        (name.to_owned(), content)
    }

    /// Repairs the copy of the first records of `$MFT` if only that differs: the kernel's driver
    /// writes it some time after the records, and NTFS has no journal there that would update it
    /// after a kill.
    fn mend_mirror(&self) {
        let looked = std::process::Command::new("ntfsfix")
            .args(["-n".as_ref(), self.image.as_os_str()])
            .output()
            .unwrap();
        if String::from_utf8_lossy(&looked.stdout).contains("Comparing $MFTMirr to $MFT... FAILED")
        {
            run("ntfsfix", [self.image.as_path()]).unwrap();
        }
    }

    fn kill_machine(&self) {
        for machine in machines(&self.own) {
            let _ = kill_process(machine, Signal::KILL);
        }
    }

    /// Checks that the next mount, which replays the log, finds these files with their contents.
    fn verify(&self, synced: &[(String, Vec<u8>)]) {
        assert_eq!(machines(&self.own), []);
        diskfs(
            &self.appliance,
            &["touch".as_ref(), &at(&self.image, "/mounted")],
        );
        if self.checker[0] == "ntfsfix" {
            self.mend_mirror();
        }
        check(self.checker[0], &self.checker[1..], &self.image);
        let disk = open(&self.appliance, &self.image);
        let filesystem = disk.filesystem().unwrap();
        for (name, content) in synced {
            let found = filesystem.read(format!("/{name}")).unwrap();
            assert!(found == *content, "{name} is not what was synced");
        }
    }
}

/// Returns a moment for the kill, a different one each time.
fn moment(n: usize) -> Duration {
    let milliseconds = u64::try_from(n)
        .unwrap()
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        >> 56;
    Duration::from_millis(milliseconds)
}

#[test]
fn the_machine_is_killed() {
    let (mut rounds, mut files) = (0, 0);
    for kind in KINDS {
        let Some(victim) = Victim::new(kind) else {
            continue;
        };
        for n in 0..kills() {
            let synced = write_until_killed(&victim, n);
            victim.verify(&synced);
            rounds += 1;
            files += synced.len();
        }
    }
    assert!(
        rounds == 0 || files > rounds,
        "{files} files in {rounds} rounds"
    );
}

/// Writes and syncs files until the machine is killed, and returns the synced ones.
fn write_until_killed(victim: &Victim, n: usize) -> Vec<(String, Vec<u8>)> {
    let disk = Disk::options()
        .read_only(false)
        .fallback(Arc::new(micro_vm(&victim.own)))
        .always_fallback()
        .open(&victim.image)
        .unwrap();
    let filesystem = disk.writable_filesystem(&WriteOptions::default()).unwrap();
    let synced = Mutex::default();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_files(filesystem.as_fs(), n, &synced));
        // Not before there is data that could be lost.
        while synced.lock().unwrap().is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(moment(n));
        victim.kill_machine();
        let error = writer.join().unwrap();
        assert!(error.to_string().contains("signal 9"), "{error}");
    });
    assert!(filesystem.close().is_err());
    drop(filesystem);
    disk.close().unwrap();
    synced.into_inner().unwrap()
}

fn write_files(
    fs: &dyn FsWrite,
    round: usize,
    synced: &Mutex<Vec<(String, Vec<u8>)>>,
) -> diskfs::vfs::Error {
    let attributes = NewAttributes::for_root(0o644);
    for n in 0..200 {
        let name = format!("{round}-{n}");
        let content = pattern(&name, n * 977 % 70_000);
        let written = fs
            .create(fs.root(), name.as_bytes(), NewKind::Regular, &attributes)
            .and_then(|file| {
                fs.write_at(file, 0, &content)?;
                fs.sync_file(file, SyncFile::All)
            });
        match written {
            Ok(()) => synced.lock().unwrap().push((name, content)),
            Err(error) => return error,
        }
    }
    // More files would fill the disk; the kill comes soon.
    loop {
        if let Err(error) = fs.sync() {
            return error;
        }
    }
}

#[test]
fn diskfs_is_killed() {
    for kind in KINDS {
        let Some(victim) = Victim::new(kind) else {
            continue;
        };
        let kept = victim.put_file("kept");
        for n in 0..kills() {
            tar_in_until_killed(&victim, n);
            victim.verify(std::slice::from_ref(&kept));
        }
    }
}

/// Unpacks many files into a new directory, and kills diskfs meanwhile.
fn tar_in_until_killed(victim: &Victim, n: usize) {
    let target = at(&victim.image, &format!("/{n}"));
    diskfs(&victim.appliance, &["mkdir".as_ref(), &target]);
    let source = victim.own.join("source");
    fs::create_dir_all(&source).unwrap();
    for n in 0..300 {
        let name = n.to_string();
        fs::write(source.join(&name), pattern(&name, n * 331)).unwrap();
    }
    let archive = victim.own.join("source.tar");
    let words = [
        "-cf",
        archive.to_str().unwrap(),
        "-C",
        source.to_str().unwrap(),
        ".",
    ];
    run("tar", words).unwrap();
    let mut child = command(&victim.own, ["tar-in".as_ref(), target.as_os_str()])
        .stdin(fs::File::open(&archive).unwrap())
        // NTFS has no journal there: names that a kill has left without a file are reported, more in
        // each round.
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(200) + moment(n));
    child.kill().unwrap();
    child.wait().unwrap();
    // The kernel kills the machine together with its parent.
    for _ in 0..1000 {
        if machines(&victim.own).is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("the machine is still running");
}
