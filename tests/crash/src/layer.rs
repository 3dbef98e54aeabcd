//! What lies between the filesystem and the device that loses power: nothing, or a qcow2 image.

use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use diskfs_block::{BlockRead, BlockWrite, Memory};
use diskfs_fixtures::run;
use diskfs_image::{Format, Image, OpenOptions, WritableImage};

use crate::image;

/// Where the superblock of ext4 lies on its disk.
const SUPERBLOCK: Range<u64> = 1024..2048;

/// How much longer a crashed image is than the one that was recorded, so that it can be written.
const ROOM_BYTES: usize = 16 << 20;

/// The kind of image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// The filesystem is the device.
    Raw,
    /// qcow2, with clusters of this size.
    Qcow2 {
        /// In bytes.
        cluster_size: u32,
    },
}

/// The guest's disk, and what has to be closed behind it.
#[derive(Debug)]
pub struct Guest {
    /// The disk.
    pub disk: Arc<dyn BlockWrite>,
    image: Option<WritableImage>,
}

impl Guest {
    /// Closes the image, when the filesystem is closed.
    ///
    /// # Errors
    /// Whatever the image answers.
    pub fn close(self) -> Result<()> {
        match self.image {
            Some(image) => image.close().context("closing the image"),
            None => Ok(()),
        }
    }
}

fn options() -> OpenOptions {
    OpenOptions {
        format: Some(Format::Qcow2),
        ..OpenOptions::default()
    }
}

impl Layer {
    /// An image whose disk holds `bytes`.
    ///
    /// # Errors
    /// Whatever qemu-img says.
    pub fn image_of(self, bytes: &[u8], directory: &Path) -> Result<Vec<u8>> {
        let Self::Qcow2 { cluster_size } = self else {
            return Ok(bytes.to_vec());
        };
        let (raw, made) = (directory.join("raw.img"), directory.join("made.qcow2"));
        image::write(&Memory::new(bytes), &raw)?;
        let cluster_size = format!("cluster_size={cluster_size}");
        let words = ["convert", "-f", "raw", "-O", "qcow2", "-o", &cluster_size];
        run(
            "qemu-img",
            words.map(Path::new).into_iter().chain([&*raw, &*made]),
        )?;
        Ok(std::fs::read(made)?)
    }

    /// Opens the disk of an image for writing.
    ///
    /// # Errors
    /// Whatever the image answers.
    pub fn open_writable(self, device: Arc<dyn BlockWrite>) -> Result<Guest> {
        if self == Self::Raw {
            return Ok(Guest {
                disk: device,
                image: None,
            });
        }
        let image = WritableImage::from_device(device, &options()).context("the image")?;
        Ok(Guest {
            disk: image.device(),
            image: Some(image),
        })
    }

    /// The disk of an image.
    ///
    /// # Errors
    /// Whatever the image answers.
    pub fn open(self, device: Arc<dyn BlockRead>) -> Result<Arc<dyn BlockRead>> {
        match self {
            Self::Raw => Ok(device),
            Self::Qcow2 { .. } => {
                let image = Image::from_device(device, &options()).context("the image")?;
                Ok(image.device())
            }
        }
    }

    /// Where the device of an image has the filesystem's superblock. It stays there: nobody shares
    /// the cluster, and nothing discards it.
    ///
    /// # Errors
    /// Whatever the image answers; when it does not lie in one piece.
    pub fn superblock(self, image: &Arc<Memory>) -> Result<Range<u64>> {
        if self == Self::Raw {
            return Ok(SUPERBLOCK);
        }
        for run in Image::from_device(image.clone(), &options())?.map() {
            let run = run?;
            let bytes = run.start..run.start + run.len_bytes;
            if let (true, Some(host)) = (bytes.contains(&SUPERBLOCK.start), run.host_offset) {
                ensure!(bytes.end >= SUPERBLOCK.end, "a superblock in two places");
                let start = host + (SUPERBLOCK.start - bytes.start);
                return Ok(start..start + (SUPERBLOCK.end - SUPERBLOCK.start));
            }
        }
        bail!("no cluster has the superblock")
    }

    /// The image as it was, but as long as it became, and some more.
    pub fn long_enough(self, mut before: Vec<u8>, after: usize) -> Vec<u8> {
        if self != Self::Raw {
            before.resize(before.len().max(after) + ROOM_BYTES, 0);
        }
        before
    }

    /// Lets `qemu-img check` look at an image; of what a crash left, clusters may be lost.
    ///
    /// # Errors
    /// When it finds something wrong; with what it says.
    pub fn check(self, device: &dyn BlockRead, crashed: Crashed, directory: &Path) -> Result<()> {
        if self == Self::Raw {
            return Ok(());
        }
        let path = directory.join("check.qcow2");
        image::write(device, &path)?;
        let output = Command::new("qemu-img")
            .args(["check", "-f", "qcow2"])
            .arg(&path)
            .output()?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        let Some(code) = output.status.code() else {
            bail!("qemu-img was ended by a signal:\n{text}");
        };
        // 3: leaked clusters, and nothing else.
        let fine = code == 0 || code == 3 && crashed == Crashed::Yes;
        ensure!(fine, "qemu-img check: exit code {code}\n{text}");
        Ok(())
    }
}

/// Whether an image was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crashed {
    /// The power failed.
    Yes,
    /// It was closed.
    No,
}
