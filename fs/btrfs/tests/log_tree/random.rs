//! Random changes with an fsync now and then, from a seed.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::Result;
use diskfs_fixtures::{pattern, run};
use rustix::fs::{AtFlags, CWD, FallocateFlags, XattrFlags};

/// Returns options of `mkfs.btrfs` and of the mount, which depend on the seed.
pub(crate) fn options(seed: u64) -> (&'static str, &'static str) {
    match seed % 6 {
        0 => ("-n 4096", ""),
        1 => ("-O ^no-holes", ""),
        2 => ("", "compress=zstd"),
        3 => ("-n 4096 --csum sha256", "compress-force=lzo"),
        4 => ("-O ^no-holes,^extref -n 4096", ""),
        _ => ("", ""),
    }
}

pub(crate) fn base(root: &Path, seed: u64) -> Result<()> {
    for directory in ["0", "1", "1/2", "1/2/3"] {
        fs::create_dir(root.join(directory))?;
    }
    run(
        "btrfs",
        [
            "subvolume".as_ref(),
            "create".as_ref(),
            root.join("s").as_os_str(),
        ],
    )?;
    fs::create_dir(root.join("s/d"))?;
    let mut random = Changes::new(root, seed);
    for _ in 0..60 {
        random.change()?;
    }
    Ok(())
}

pub(crate) fn work(root: &Path, seed: u64) -> Result<()> {
    let mut random = Changes::new(root, seed ^ 0xffff);
    for _ in 0..25 {
        for _ in 0..random.below(6) {
            random.change()?;
        }
        random.sync()?;
    }
    // So that there is a log, whatever came before.
    fs::write(root.join("last"), "last")?;
    File::open(root.join("last"))?.sync_all()?;
    for _ in 0..random.below(10) {
        random.change()?;
    }
    Ok(())
}

const DIRECTORIES: [&str; 7] = [".", "0", "1", "1/2", "1/2/3", "s", "s/d"];

/// The number of names in each directory: few, so that they are used again.
const NAMES: u64 = 12;

struct Changes<'a> {
    root: &'a Path,
    state: u64,
}

impl<'a> Changes<'a> {
    fn new(root: &'a Path, seed: u64) -> Self {
        let state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self { root, state }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 8) % end
    }

    fn directory(&mut self) -> PathBuf {
        let nth = usize::try_from(self.below(DIRECTORIES.len() as u64)).unwrap();
        self.root.join(DIRECTORIES[nth])
    }

    fn path(&mut self) -> PathBuf {
        let long = if self.below(4) == 0 {
            "-with-a-longer-name"
        } else {
            ""
        };
        let name = format!("f{}{long}", self.below(NAMES));
        self.directory().join(name)
    }

    fn change(&mut self) -> Result<()> {
        let done = self.try_change();
        let Err(error) = done else { return Ok(()) };
        let number = match error.downcast_ref::<io::Error>() {
            Some(error) => error.raw_os_error(),
            None => error
                .downcast_ref::<rustix::io::Errno>()
                .map(|errno| errno.raw_os_error()),
        };
        // Missing, existing, not empty, a directory or not, in another subvolume, in itself.
        let refused = [2, 17, 39, 20, 21, 18, 22, 61, 1, 16, 26];
        match number {
            Some(number) if refused.contains(&number) => Ok(()),
            _ => Err(error),
        }
    }

    fn try_change(&mut self) -> Result<()> {
        match self.below(23) {
            0..4 => self.create()?,
            4..6 => fs::remove_file(self.path())?,
            6..9 => fs::rename(self.path(), self.path())?,
            9..11 => fs::hard_link(self.path(), self.path())?,
            11..14 => self.write()?,
            14 => self.open()?.set_len(self.below(60_000))?,
            15 => self.allocate()?,
            16 => self.attribute()?,
            17 => {
                let path = self.path();
                fs::create_dir(&path)?;
                fs::write(path.join("in"), "in")?;
            }
            21 => {
                let path = self.path();
                if path.is_dir() {
                    fs::remove_dir_all(path)?;
                }
            }
            18 => self.exchange()?,
            19 => self.nameless()?,
            20 => self.clone_file()?,
            _ => symlink("target", self.path())?,
        }
        Ok(())
    }

    fn create(&mut self) -> Result<()> {
        let (path, len) = (self.path(), self.len());
        File::create_new(&path)?.write_all_at(&self.bytes(len), 0)?;
        Ok(())
    }

    fn len(&mut self) -> usize {
        let end = [10, 3000, 20_000, 150_000][usize::try_from(self.below(4)).unwrap()];
        usize::try_from(self.below(end)).unwrap()
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let tag = self.below(1 << 30).to_string();
        pattern(&tag, len)
    }

    fn open(&mut self) -> Result<File> {
        let path = self.path();
        Ok(OpenOptions::new().read(true).write(true).open(path)?)
    }

    fn write(&mut self) -> Result<()> {
        let file = self.open()?;
        for _ in 0..=self.below(3) {
            let (len, offset) = (self.len(), self.below(200_000));
            file.write_all_at(&self.bytes(len), offset)?;
        }
        if self.below(3) == 0 {
            file.sync_data()?;
        }
        Ok(())
    }

    fn allocate(&mut self) -> Result<()> {
        let file = self.open()?;
        let flags = match self.below(4) {
            0 => FallocateFlags::empty(),
            1 => FallocateFlags::KEEP_SIZE,
            2 => FallocateFlags::ZERO_RANGE,
            _ => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        };
        let (offset, len) = (self.below(150_000), 1 + self.below(60_000));
        Ok(rustix::fs::fallocate(file, flags, offset, len)?)
    }

    fn exchange(&mut self) -> Result<()> {
        let (from, to) = (self.path(), self.path());
        let flags = rustix::fs::RenameFlags::EXCHANGE;
        Ok(rustix::fs::renameat_with(CWD, from, CWD, to, flags)?)
    }

    /// Makes a file without a name, syncs it, and gives it a name half of the time.
    fn nameless(&mut self) -> Result<()> {
        let (directory, len) = (self.directory(), self.len());
        let mut options = OpenOptions::new();
        let flags = rustix::fs::OFlags::TMPFILE.bits();
        options.write(true).custom_flags(i32::try_from(flags)?);
        let file = options.open(&directory)?;
        file.write_all_at(&self.bytes(len), 0)?;
        if self.below(2) == 0 {
            file.sync_all()?;
        }
        if self.below(2) == 0 {
            let link = format!("/proc/self/fd/{}", file.as_raw_fd());
            let name = directory.join(format!("f{}", self.below(NAMES)));
            rustix::fs::linkat(CWD, link, CWD, name, AtFlags::SYMLINK_FOLLOW)?;
            file.sync_all()?;
        }
        Ok(())
    }

    fn clone_file(&mut self) -> Result<()> {
        let (from, to) = (self.open()?, self.open()?);
        Ok(rustix::fs::ioctl_ficlone(to, from)?)
    }

    fn attribute(&mut self) -> Result<()> {
        let path = if self.below(4) == 0 {
            self.directory()
        } else {
            self.path()
        };
        let name = format!("trusted.name-{}", self.below(4));
        if self.below(3) == 0 {
            return Ok(rustix::fs::lremovexattr(path, name)?);
        }
        let len = self.len() % 500;
        let value = self.bytes(len);
        Ok(rustix::fs::lsetxattr(
            path,
            name,
            &value,
            XattrFlags::empty(),
        )?)
    }

    /// Syncs a file or a directory, if there is one with the name.
    fn sync(&mut self) -> Result<()> {
        for _ in 0..30 {
            let path = if self.below(3) == 0 {
                self.directory()
            } else {
                self.path()
            };
            let kind = path.symlink_metadata().map(|metadata| metadata.file_type());
            if kind.is_ok_and(|kind| kind.is_file() || kind.is_dir()) {
                return Ok(File::open(path)?.sync_all()?);
            }
        }
        Ok(())
    }
}
