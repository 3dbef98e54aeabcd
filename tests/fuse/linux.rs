//! Linux-specific requests beyond POSIX, on a mount of a real ext4: the results are those of the
//! kernel's own ext4.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use diskfs_fixtures::require;
use tempfile::TempDir;

use super::{Mountpoint, can_mount, diskfs, run, stderr};

/// A new ext4 filesystem in a file, mounted writable.
struct Written {
    at: Mountpoint,
    dir: TempDir,
}

impl Written {
    fn new(words: &[&str], size_bytes: u64) -> Option<Self> {
        can_mount()?;
        for tool in ["mke2fs", "e2fsck", "debugfs", "chattr", "lsattr"] {
            require(tool)?;
        }
        let dir = TempDir::new().expect("create a directory");
        let written = Self {
            at: Mountpoint::new(),
            dir,
        };
        let image = written.image();
        File::create(&image).unwrap().set_len(size_bytes).unwrap();
        let words = ["-q", "-t", "ext4"].iter().chain(words).map(OsStr::new);
        run(
            "mke2fs",
            &words.chain([image.as_os_str()]).collect::<Vec<_>>(),
        );
        written.mount();
        Some(written)
    }

    fn image(&self) -> PathBuf {
        self.dir.path().join("disk.img")
    }

    fn mount(&self) {
        let image = self.image();
        let words = ["mount".as_ref(), "--rw".as_ref(), image.as_os_str()];
        let mounted = diskfs(words.into_iter().chain([self.at.as_os_str()]));
        assert!(mounted.status.success(), "{}", stderr(&mounted));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.at.join(name)
    }

    fn unmount(&self) {
        let unmounted = diskfs(["umount".as_ref(), self.at.as_os_str()]);
        assert!(unmounted.status.success(), "{}", stderr(&unmounted));
        let image = self.image();
        run("e2fsck", &["-fn".as_ref(), image.as_os_str()]);
    }

    /// Returns debugfs' output for a file after the unmount.
    fn debugfs(&self, command: &str) -> String {
        let image = self.image();
        let words = ["-R".as_ref(), command.as_ref(), image.as_os_str()];
        run("debugfs", &words)
    }
}

/// Runs a program on a file, and returns its output, or its error output if it fails.
fn on(program: &str, words: &[&str], path: &Path) -> Result<String, String> {
    let output = diskfs_fixtures::command(program)
        .args(words)
        .arg(path)
        .output();
    let output = output.expect(program);
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(stderr(&output))
    }
}

/// Returns the letters of `lsattr -d`.
fn letters(path: &Path) -> String {
    let shown = on("lsattr", &["-d"], path).unwrap();
    let word = shown.split(' ').next().unwrap_or_default();
    word.chars().filter(|letter| *letter != '-').collect()
}

#[test]
fn a_file_without_a_name_is_made_and_can_be_given_one() {
    let Some(fs) = Written::new(&[], 32 << 20) else {
        return;
    };
    let unnamed = || {
        let mut options = File::options();
        options.read(true).write(true).custom_flags(libc::O_TMPFILE);
        options.mode(0o640).open(&*fs.at).expect("O_TMPFILE")
    };
    let mut kept = unnamed();
    kept.write_all(b"contents").unwrap();
    assert_eq!(kept.metadata().unwrap().nlink(), 0);
    let mut dropped = unnamed();
    dropped.write_all(&vec![1; 100_000]).unwrap();
    drop(dropped);
    let path = format!("/proc/self/fd/{}", kept.as_raw_fd());
    let follow = rustix::fs::AtFlags::SYMLINK_FOLLOW;
    let cwd = rustix::fs::CWD;
    rustix::fs::linkat(cwd, path, cwd, fs.path("named"), follow).unwrap();
    assert_eq!(kept.metadata().unwrap().nlink(), 1);
    assert_eq!(fs::read_dir(&*fs.at).unwrap().count(), 2, "with lost+found");
    drop(kept);
    fs.unmount();
    assert_eq!(fs.debugfs("cat /named"), "contents");
    assert!(fs.debugfs("stat /named").contains("Mode:  0640"));
}

#[test]
fn times_before_1970_keep_their_fraction() {
    let Some(fs) = Written::new(&[], 32 << 20) else {
        return;
    };
    let times = [
        ("-4.999999993", (-5, 7)),
        ("-0.5", (-1, 500_000_000)),
        ("-7", (-7, 0)),
    ];
    for (time, expected) in times {
        let path = fs.path(time);
        let date = format!("@{time}");
        on("touch", &["-d", &date], &path).unwrap();
        let told = fs::metadata(&path).unwrap();
        assert_eq!((told.mtime(), told.mtime_nsec()), expected, "{time}");
    }
    fs.unmount();
    fs.mount();
    for (time, expected) in times {
        let told = fs::metadata(fs.path(time)).unwrap();
        assert_eq!((told.mtime(), told.mtime_nsec()), expected, "{time}");
        assert_eq!((told.atime(), told.atime_nsec()), expected, "{time}");
    }
    fs.unmount();
    // The seconds, and the nanoseconds in the upper 30 bits.
    let stat = fs.debugfs("stat /-4.999999993");
    assert!(stat.contains("mtime: 0xfffffffb:0000001c"), "{stat}");
}

#[test]
fn small_inodes_show_the_times_that_they_store() {
    let Some(fs) = Written::new(&["-I", "128"], 32 << 20) else {
        return;
    };
    let file = fs.path("file");
    let shown = |path: &Path| {
        let told = fs::metadata(path).unwrap();
        [told.mtime(), told.mtime_nsec(), told.ctime_nsec()]
    };
    fs::write(&file, "now").unwrap();
    assert_eq!(shown(&file)[1..], [0, 0]);
    on("touch", &["-d", "@1000.123456789"], &file).unwrap();
    let before = shown(&file);
    assert_eq!(before, [1000, 0, 0]);
    fs.unmount();
    fs.mount();
    assert_eq!(shown(&file), before);
    fs.unmount();
}

#[test]
fn a_full_filesystem_is_no_io_error_for_direct_writes() {
    let Some(fs) = Written::new(&["-m", "0"], 32 << 20) else {
        return;
    };
    let mut options = File::options();
    options
        .write(true)
        .create(true)
        .custom_flags(libc::O_DIRECT);
    let file = options.open(fs.path("file")).unwrap();
    let (layout, chunk) = aligned(3 << 20);
    let mut at = 0;
    let told = loop {
        match file.write_at(&chunk[layout..layout + (3 << 20)], at) {
            Ok(written) => at += written as u64,
            Err(error) => break error,
        }
    };
    assert_eq!(told.raw_os_error(), Some(libc::ENOSPC));
    assert_eq!(file.metadata().unwrap().len(), at);
    drop(file);
    fs.unmount();
}

/// Returns a buffer of this size for `O_DIRECT`, and the offset where it is aligned.
fn aligned(len: usize) -> (usize, Vec<u8>) {
    let bytes = vec![7; len + 4096];
    (bytes.as_ptr().align_offset(4096), bytes)
}

#[test]
fn an_append_only_file_can_be_touched() {
    let Some(fs) = Written::new(&[], 32 << 20) else {
        return;
    };
    let path = fs.path("log");
    fs::write(&path, "line\n").unwrap();
    on("touch", &["-d", "@1000"], &path).unwrap();
    on("chattr", &["+a"], &path).unwrap();
    on("touch", &[], &path).unwrap();
    let touched = fs::metadata(&path).unwrap();
    assert!(touched.mtime() > 1_600_000_000 && touched.atime() > 1_600_000_000);
    assert!(on("touch", &["-d", "@1000"], &path).is_err());
    on("chattr", &["-a"], &path).unwrap();
    fs.unmount();
}

/// Test generic/277 of xfstests.
#[test]
fn changed_attributes_show_in_the_time_of_change() {
    let Some(fs) = Written::new(&[], 32 << 20) else {
        return;
    };
    let path = fs.path("file");
    fs::write(&path, "contents").unwrap();
    let changed = || {
        let found = fs::metadata(&path).unwrap();
        (found.ctime(), found.ctime_nsec())
    };
    for letter in ["+d", "+a", "-a", "+i", "-i"] {
        let before = changed();
        std::thread::sleep(std::time::Duration::from_millis(20));
        on("chattr", &[letter], &path).unwrap();
        assert!(changed() > before, "{letter}");
    }
    fs.unmount();
}

#[test]
fn attributes_are_those_of_the_kernels_ext4() {
    let words = ["-O", "casefold,project", "-E", "encoding=utf8"];
    let Some(fs) = Written::new(&words, 32 << 20) else {
        return;
    };
    let (file, dir) = (fs.path("file"), fs.path("dir"));
    fs::write(&file, "contents").unwrap();
    fs::create_dir(&dir).unwrap();
    assert_eq!(letters(&file), "e");
    // chattr writes back the flags that it has read.
    on("chattr", &["+d"], &file).unwrap();
    assert_eq!(letters(&file), "de");
    on("chattr", &["+e"], &file).unwrap();
    let refused = on("chattr", &["-e"], &file).unwrap_err();
    assert!(refused.contains("not supported"), "{refused}");
    assert_eq!(letters(&file), "de");
    let refused = on("chattr", &["+F"], &file).unwrap_err();
    assert!(refused.contains("not supported"), "{refused}");

    on("chattr", &["+F"], &dir).unwrap();
    fs::write(dir.join("Name"), "folded").unwrap();
    assert_eq!(fs::read(dir.join("nAME")).unwrap(), b"folded");
    let refused = on("chattr", &["-F"], &dir).unwrap_err();
    assert!(refused.contains("not empty"), "{refused}");

    on("chattr", &["-p", "42"], &file).unwrap();
    let shown = on("lsattr", &["-pd"], &file).unwrap();
    assert_eq!(shown.split_whitespace().next(), Some("42"));
    let projects = fs.path("projects");
    fs::create_dir(&projects).unwrap();
    on("chattr", &["+P", "-p", "7"], &projects).unwrap();
    fs::write(projects.join("of"), "").unwrap();
    let shown = on("lsattr", &["-pd"], &projects.join("of")).unwrap();
    assert_eq!(shown.split_whitespace().next(), Some("7"));
    fs.unmount();
    assert!(fs.debugfs("stat /file").contains("Project:    42"));
    fs.mount();
    assert_eq!((letters(&file), letters(&dir)), ("de".into(), "eF".into()));
    fs.unmount();
}

#[test]
fn a_project_without_the_feature_is_refused() {
    let Some(fs) = Written::new(&[], 32 << 20) else {
        return;
    };
    fs::write(fs.path("file"), "contents").unwrap();
    let refused = on("chattr", &["-p", "42"], &fs.path("file")).unwrap_err();
    assert!(refused.contains("not supported"), "{refused}");
    fs::create_dir(fs.path("dir")).unwrap();
    let refused = on("chattr", &["+F"], &fs.path("dir")).unwrap_err();
    assert!(refused.contains("not supported"), "{refused}");
    fs.unmount();
}

#[test]
fn a_mount_that_records_no_access_times_says_so() {
    let Some(fs) = Written::new(&[], 32 << 20) else {
        return;
    };
    let flags = rustix::fs::statvfs(&*fs.at).unwrap().f_flag;
    assert!(flags.contains(rustix::fs::StatVfsMountFlags::NOATIME));
    fs.unmount();
}

#[test]
fn trees_deeper_than_paths_are_found_and_removed() {
    const DEPTH: usize = 2500;
    let Some(fs) = Written::new(&[], 64 << 20) else {
        return;
    };
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
    let mode = rustix::fs::Mode::from(0o755);
    let mut dir = rustix::fs::open(&*fs.at, flags, mode).unwrap();
    for _ in 0..DEPTH {
        rustix::fs::mkdirat(&dir, "d", mode).unwrap();
        dir = rustix::fs::openat(&dir, "d", flags, mode).unwrap();
    }
    drop(dir);
    // By the host's programs, on the mount.
    let found = on("find", &["-P"], &fs.path("d")).unwrap();
    assert_eq!(found.lines().count(), DEPTH);
    fs.unmount();
    let mut operand = fs.image().into_os_string();
    operand.push(":/d");
    for (words, lines) in [(&["find"][..], DEPTH), (&["du"], DEPTH)] {
        let told = diskfs(words.iter().map(OsStr::new).chain([operand.as_os_str()]));
        assert!(told.status.success(), "{}", stderr(&told));
        assert_eq!(told.stdout.split(|byte| *byte == b'\n').count(), lines + 1);
    }
    let packed = diskfs(["tar".as_ref(), operand.as_os_str()]);
    assert!(packed.status.success(), "{}", stderr(&packed));
    assert!(packed.stdout.len() > DEPTH * 512);
    let removed = diskfs(["rm".as_ref(), "-r".as_ref(), operand.as_os_str()]);
    assert!(removed.status.success(), "{}", stderr(&removed));
    let image = fs.image();
    run("e2fsck", &["-fn".as_ref(), image.as_os_str()]);
    fs.mount();
    assert_eq!(fs::read_dir(&*fs.at).unwrap().count(), 1, "lost+found");
    fs.unmount();
}
