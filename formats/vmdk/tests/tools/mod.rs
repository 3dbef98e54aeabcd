//! Disks that QEMU makes, and their comparison with ours.

#![allow(dead_code, reason = "each test takes what it needs")]

pub(crate) mod made;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use diskfs_block::{
    BlockRead, CompressedUnit, ErrorKind, ExtentKind, File, ImageMap, Memory, Result, RunStorage,
};
use diskfs_fixtures::{Random, until_measured};
use diskfs_vmdk::{Descriptor, Vmdk};

/// The largest piece that is compared at once.
const PIECE_BYTES: u64 = 1 << 20;

/// A disk with its files, and its parent.
pub(crate) struct Disk {
    pub(crate) map: Vmdk,
    pub(crate) files: Vec<Arc<dyn BlockRead>>,
    pub(crate) parent: Option<Box<Disk>>,
}

pub(crate) fn file(path: &Path) -> Arc<dyn BlockRead> {
    Arc::new(File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
}

pub(crate) fn memory(bytes: impl Into<Vec<u8>>) -> Arc<dyn BlockRead> {
    Arc::new(Memory::new(bytes))
}

impl Disk {
    /// Opens `name` of a directory, with all files and parents that it names.
    pub(crate) fn open(dir: &Path, name: &str) -> Self {
        let image = file(&dir.join(name));
        let descriptor = Descriptor::read(&*image).unwrap();
        let names = descriptor.extent_files().unwrap();
        let extents: Vec<_> = names.iter().map(|it| file(&dir.join(it))).collect();
        let mut disk = Self::new(image, extents).unwrap();
        disk.parent = descriptor.parent.as_ref().map(|parent| {
            let parent = Self::open(dir, &parent.file_name);
            descriptor.check_parent(parent.map.descriptor()).unwrap();
            Box::new(parent)
        });
        disk
    }

    pub(crate) fn new(image: Arc<dyn BlockRead>, extents: Vec<Arc<dyn BlockRead>>) -> Result<Self> {
        let map = Vmdk::open(Arc::clone(&image), &extents)?;
        let mut files = vec![image];
        files.extend(extents);
        Ok(Self {
            map,
            files,
            parent: None,
        })
    }

    /// Reads bytes of the disk, in runs of at most `max_run` bytes.
    pub(crate) fn read(&self, offset: u64, buf: &mut [u8], max_run: u64) -> Result<()> {
        let mut at = 0_usize;
        while at < buf.len() {
            let place = offset + at as u64;
            let left = (buf.len() - at) as u64;
            let run = self.map.run_at(place, left.min(max_run))?;
            assert!(run.len_bytes > 0 && run.len_bytes <= left.min(max_run));
            let len = usize::try_from(run.len_bytes).unwrap();
            let part = &mut buf[at..at + len];
            match run.storage {
                RunStorage::Stored { file, offset } => self.files[file].read_at(offset, part)?,
                RunStorage::Zero => part.fill(0),
                RunStorage::Absent => self.read_parent(place, part, max_run)?,
                RunStorage::Compressed { unit, skip_bytes } => {
                    let skip = usize::try_from(skip_bytes).unwrap();
                    part.copy_from_slice(&self.unit(unit)?[skip..skip + len]);
                }
            }
            at += len;
        }
        Ok(())
    }

    fn unit(&self, unit: CompressedUnit) -> Result<Arc<[u8]>> {
        let bytes = self.map.decompress(unit)?;
        assert_eq!(bytes.len() as u64, unit.unpacked_bytes);
        Ok(bytes)
    }

    fn read_parent(&self, offset: u64, part: &mut [u8], max_run: u64) -> Result<()> {
        part.fill(0);
        if let Some(parent) = &self.parent {
            let there = parent.map.size_bytes().saturating_sub(offset);
            let len = part.len().min(usize::try_from(there).unwrap());
            parent.read(offset, &mut part[..len], max_run)?;
        }
        Ok(())
    }

    pub(crate) fn bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![9; usize::try_from(self.map.size_bytes()).unwrap()];
        self.read(0, &mut bytes, u64::MAX)?;
        Ok(bytes)
    }

    /// Checks that the disk has the same bytes as a raw one, without reading what both leave out.
    pub(crate) fn compare(&self, raw: &Path) {
        let raw = file(raw);
        assert_eq!(self.map.size_bytes(), raw.size_bytes());
        let mut at = 0;
        while at < self.map.size_bytes() {
            let run = self.map.run_at(at, self.map.size_bytes() - at).unwrap();
            if !matches!(run.storage, RunStorage::Zero | RunStorage::Absent) {
                self.compare_range(&*raw, at, run.len_bytes);
            }
            at += run.len_bytes;
        }
        let mut at = 0;
        while at < raw.size_bytes() {
            let extent = raw.extent_at(at).unwrap();
            if extent.kind == ExtentKind::Data {
                self.compare_range(&*raw, at, extent.len_bytes);
            }
            at += extent.len_bytes;
        }
    }

    fn compare_range(&self, raw: &dyn BlockRead, offset: u64, len_bytes: u64) {
        let mut at = offset;
        let end = offset + len_bytes;
        while at < end {
            let len = usize::try_from((end - at).min(PIECE_BYTES)).unwrap();
            let (mut ours, mut theirs) = (vec![1; len], vec![2; len]);
            self.read(at, &mut ours, u64::MAX).unwrap();
            raw.read_at(at, &mut theirs).unwrap();
            assert!(ours == theirs, "other bytes from {at} on");
            at += len as u64;
        }
    }
}

/// Runs a program in `dir` and returns its output, whether or not it failed.
pub(crate) fn try_run(dir: &Path, program: &str, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(args).current_dir(dir).stdin(Stdio::null());
    until_measured(|| command.output()).unwrap()
}

/// Runs a program in `dir`, which must succeed, and returns its standard output.
pub(crate) fn run(dir: &Path, program: &str, args: &[&str]) -> String {
    let output = try_run(dir, program, args);
    assert!(
        output.status.success(),
        "{program} {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Has qemu-img convert `name` to `oracle.raw`, and compares our reader with it.
pub(crate) fn compare(dir: &Path, name: &str) {
    run(
        dir,
        "qemu-img",
        &[
            "convert",
            "-q",
            "-f",
            "vmdk",
            "-O",
            "raw",
            name,
            "oracle.raw",
        ],
    );
    Disk::open(dir, name).compare(&dir.join("oracle.raw"));
}

/// Writes at random places of an image with qemu-io.
pub(crate) fn fill(dir: &Path, name: &str, size: u64, random: &mut Random) {
    let mut args = vec!["-f".to_owned(), "vmdk".to_owned()];
    for _ in 0..20 {
        let at = random.below(size.div_ceil(512)) * 512;
        let longest = (size - at).min(200 << 10);
        let len = ((1 + random.below(longest)).next_multiple_of(512)).min(size - at);
        let command = match random.below(8) {
            0 => format!("write -z {at} {len}"),
            1 => format!("write -z {} 65536", at / 65536 * 65536),
            _ => format!("write -P {} {at} {len}", 1 + random.below(255)),
        };
        args.extend(["-c".to_owned(), command]);
    }
    args.push(name.to_owned());
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    try_run(dir, "qemu-io", &args);
}

/// Returns a disk of grains that are random, repetitive, or zeroes.
pub(crate) fn contents(size: u64, random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < size {
        match random.below(4) {
            0 => bytes.extend(vec![0; 128 << 10]),
            1 => bytes.extend(random.bytes(64 << 10)),
            2 => bytes.extend(random.bytes(300).repeat(100)),
            _ => bytes.extend([*random.pick(b"\x00\x01A\xff"); 5000]),
        }
    }
    bytes.truncate(usize::try_from(size).unwrap());
    bytes
}

/// Returns the kind and the text of the error of opening an image without other files.
pub(crate) fn error(image: impl Into<Vec<u8>>) -> (ErrorKind, String) {
    let e = Disk::new(memory(image), Vec::new())
        .err()
        .expect("an error");
    (e.kind(), e.to_string())
}
