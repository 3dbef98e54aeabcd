//! The image of a soak: its random options, and the programs that judge it.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use diskfs_image::{Format, Gate, Image, OpenOptions};

use super::power::Files;
use crate::random::Random;

/// The signal with which abort(3) ends a process: SIGABRT.
const ABORTED: i32 = 6;

/// The name of the external data file.
const DATA: &str = "data.raw";

/// The name of the backing file.
const BACKING: &str = "disk.raw";

/// The other file that an image needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Other {
    None,
    Backing,
    Data,
}

/// A directory with an image.
#[derive(Debug)]
pub(super) struct Sample {
    directory: PathBuf,
    other: Other,
    /// The options, as qemu-img names them.
    pub(super) what: String,
}

impl Sample {
    /// Creates an image with random options, and returns it with the contents of its disk.
    ///
    /// # Errors
    /// The errors of qemu-img.
    pub(super) fn create(directory: &Path, random: &mut Random) -> Result<(Self, Vec<u8>)> {
        let size = (1 << 20) + random.index(1 << 20) / 512 * 512;
        let mut disk = vec![0; size];
        for _ in 0..8 {
            let start = random.index(size);
            let end = (start + random.index(100_000)).min(size);
            disk[start..end].fill(random.any().to_le_bytes()[0]);
        }
        fs::write(directory.join("disk.raw"), &disk)?;
        let extended = random.one_in(3);
        let clusters: &[u32] = if extended {
            &[16384, 65536]
        } else {
            &[512, 4096, 65536]
        };
        let cluster_size = random.pick(clusters).copied().unwrap_or(65536);
        let bits = random.pick(&[16_u32, 16, 8, 64]).copied().unwrap_or(16);
        let extended = if extended { ",extended_l2=on" } else { "" };
        let mut what = format!("cluster_size={cluster_size},refcount_bits={bits}{extended}");
        if random.one_in(3) {
            what.push_str(",lazy_refcounts=on");
        }
        let kind = random.below(6);
        let other = match kind {
            0 => Other::Backing,
            1 => Other::Data,
            _ => Other::None,
        };
        if other == Other::Data {
            what.push_str(",data_file=data.raw");
        }
        let sample = Self {
            directory: directory.to_owned(),
            other,
            what: what.clone(),
        };
        if other == Other::Backing {
            let text = size.to_string();
            let backing = ["-b", "disk.raw", "-F", "raw"];
            let create = ["create", "-q", "-f", "qcow2", "-o", &what];
            sample.judge(&[&create[..], &backing, &["image.qcow2", &text]].concat())?;
        } else {
            let compress: &[&str] = if kind == 2 { &["-c"] } else { &[] };
            let convert = ["convert", "-f", "raw", "-O", "qcow2", "-o", &what];
            let names = ["disk.raw", "image.qcow2"];
            sample.judge(&[&convert[..], compress, &names].concat())?;
        }
        Ok((sample, disk))
    }

    /// Returns the options for opening the image, whose data file may be written.
    pub(super) fn options(&self) -> OpenOptions {
        OpenOptions {
            format: Some(Format::Qcow2),
            gate: Gate::default().allow_data_file(self.directory.join(DATA)),
            ..OpenOptions::default()
        }
    }

    /// Returns true if the image has an external data file.
    pub(super) fn has_data_file(&self) -> bool {
        self.other == Other::Data
    }

    /// Reads the files of the image.
    ///
    /// # Errors
    /// Those of reading.
    pub(super) fn files(&self) -> Result<Files> {
        let read = |other, name| {
            let is_there = self.other == other;
            is_there
                .then(|| fs::read(self.directory.join(name)))
                .transpose()
        };
        Ok(Files {
            image: fs::read(self.path())?,
            data: read(Other::Data, DATA)?,
            backing: read(Other::Backing, BACKING)?,
        })
    }

    /// Writes the files of the image. The backing file has not changed.
    ///
    /// # Errors
    /// Those of writing.
    pub(super) fn write(&self, files: &Files) -> Result<()> {
        fs::write(self.path(), &files.image)?;
        if let Some(data) = &files.data {
            fs::write(self.directory.join(DATA), data)?;
        }
        Ok(())
    }

    /// Lets QEMU write a byte to a range, flush, and die without closing the image.
    ///
    /// # Errors
    /// Fails if QEMU ends before that. What it wrote is checked later.
    pub(super) fn write_and_die(&self, start: usize, len: usize, byte: u8) -> Result<()> {
        let write = format!("write -P {byte} {start} {len}");
        let mut command = Command::new("qemu-io");
        command.args(["-f", "qcow2", "-c", &write, "-c", "flush", "-c", "abort"]);
        let done = command
            .arg("image.qcow2")
            .current_dir(&self.directory)
            .output()?;
        ensure!(
            done.status.signal() == Some(ABORTED),
            "qemu-io {write}: {done:?}"
        );
        Ok(())
    }

    /// Returns the path of the image.
    pub(super) fn path(&self) -> PathBuf {
        self.directory.join("image.qcow2")
    }

    fn judge(&self, words: &[&str]) -> Result<()> {
        let mut command = Command::new("qemu-img");
        let done = command.args(words).current_dir(&self.directory).output()?;
        let is_check = words.first() == Some(&"check");
        // Clusters may be leaked.
        let is_good = done.status.success() || is_check && done.status.code() == Some(3);
        ensure!(is_good, "qemu-img {words:?}: {done:?}");
        Ok(())
    }

    /// Checks the tables of the image.
    ///
    /// # Errors
    /// Fails if qemu-img finds a fault.
    pub(super) fn check(&self) -> Result<()> {
        self.judge(&["check", "-U", "image.qcow2"])
    }

    /// Checks the tables of the image, and that it and its snapshots have these contents.
    ///
    /// # Errors
    /// Fails if qemu-img or our reader finds a fault.
    pub(super) fn check_all(&self, disk: &[u8], snapshots: &[(String, Vec<u8>)]) -> Result<()> {
        self.check()?;
        let raw = self.directory.join("model.raw");
        fs::write(&raw, disk)?;
        let formats = ["compare", "-U", "-f", "qcow2", "-F", "raw"];
        self.judge(&[&formats[..], &["image.qcow2", "model.raw"]].concat())?;
        let image = Image::open(&self.path(), &self.options())?;
        let device = image.device();
        let mut found = vec![0x5a; usize::try_from(device.size_bytes())?];
        device.read_at(0, &mut found)?;
        ensure!(found == disk, "our reader finds other contents");
        for (name, bytes) in snapshots {
            let snapshot = format!("snapshot.name={name}");
            let convert = ["convert", "-U", "-f", "qcow2", "-l", &snapshot, "-O", "raw"];
            self.judge(&[&convert[..], &["image.qcow2", "model.raw"]].concat())?;
            // qemu-img gives a snapshot the present size of the disk.
            let found = fs::read(&raw)?;
            let other = found.iter().zip(bytes).position(|(is, was)| is != was);
            ensure!(
                other.is_none(),
                "snapshot {name} is wrong at byte {other:?}"
            );
        }
        Ok(())
    }
}
