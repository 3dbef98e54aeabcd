//! The image of a soak: its random options, and the programs that judge it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use diskfs_image::{Format, Gate, Image, OpenOptions};

use crate::random::Random;

/// The options for opening an image in memory.
pub(super) fn options() -> OpenOptions {
    OpenOptions {
        format: Some(Format::Qcow2),
        ..OpenOptions::default()
    }
}

/// A directory with an image.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) directory: PathBuf,
    /// True if the image is one file, so that a device in memory can hold it.
    pub(super) is_alone: bool,
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
        let kind = random.below(6);
        if kind == 1 {
            what.push_str(",data_file=data.raw");
        }
        let sample = Self {
            directory: directory.to_owned(),
            is_alone: kind > 1,
            what: what.clone(),
        };
        if kind == 0 {
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
            gate: Gate::default().allow_data_file(self.directory.join("data.raw")),
            ..options()
        }
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
