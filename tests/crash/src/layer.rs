//! The layer between the filesystem and the device that loses power: none, or a qcow2 image.

use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use diskfs_block::{BlockRead, BlockWrite, Memory};
use diskfs_fixtures::run;
use diskfs_image::{Format, Image, OpenOptions, WritableImage};

use crate::image;

/// The range of the ext4 superblock on its disk.
const SUPERBLOCK: Range<u64> = 1024..2048;

/// The space that is added to a crashed image, so that it can be written.
const ROOM_BYTES: usize = 16 << 20;

/// The type of image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// No layer: the filesystem is on the device itself.
    Raw,
    /// A qcow2 image.
    Qcow2 {
        /// The cluster size in bytes.
        cluster_size: u32,
    },
}

/// The guest's disk, with the image to close after it.
#[derive(Debug)]
pub struct Guest {
    /// The guest's disk as a device.
    pub disk: Arc<dyn BlockWrite>,
    image: Option<WritableImage>,
}

impl Guest {
    /// Closes the image, after the filesystem has been closed.
    ///
    /// # Errors
    /// The errors of the image.
    pub fn close(self) -> Result<()> {
        match self.image {
            Some(image) => image.close().context("cannot close the image"),
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
    /// Returns an image whose disk contains `bytes`.
    ///
    /// # Errors
    /// The errors of qemu-img.
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
    /// The errors of the image.
    pub fn open_writable(self, device: Arc<dyn BlockWrite>) -> Result<Guest> {
        if self == Self::Raw {
            return Ok(Guest {
                disk: device,
                image: None,
            });
        }
        let image = WritableImage::from_device(device, &options())
            .context("cannot open the image for writing")?;
        Ok(Guest {
            disk: image.device(),
            image: Some(image),
        })
    }

    /// Opens the disk of an image for reading.
    ///
    /// # Errors
    /// The errors of the image.
    pub fn open(self, device: Arc<dyn BlockRead>) -> Result<Arc<dyn BlockRead>> {
        match self {
            Self::Raw => Ok(device),
            Self::Qcow2 { .. } => {
                let image =
                    Image::from_device(device, &options()).context("cannot open the image")?;
                Ok(image.device())
            }
        }
    }

    /// Returns the range of the filesystem's superblock on the device of the image. It does not
    /// move: the cluster is not shared, and never discarded.
    ///
    /// # Errors
    /// The errors of the image; a superblock that is not contiguous.
    pub fn superblock(self, image: &Arc<Memory>) -> Result<Range<u64>> {
        if self == Self::Raw {
            return Ok(SUPERBLOCK);
        }
        for run in Image::from_device(image.clone(), &options())?.map() {
            let run = run?;
            let bytes = run.start..run.start + run.len_bytes;
            if let (true, Some(host)) = (bytes.contains(&SUPERBLOCK.start), run.host_offset) {
                ensure!(
                    bytes.end >= SUPERBLOCK.end,
                    "the superblock is not contiguous"
                );
                let start = host + (SUPERBLOCK.start - bytes.start);
                return Ok(start..start + (SUPERBLOCK.end - SUPERBLOCK.start));
            }
        }
        bail!("missing cluster of the superblock")
    }

    /// Returns the old image, extended to the new length and some space.
    pub fn long_enough(self, before: Vec<u8>, after: usize) -> Vec<u8> {
        if self == Self::Raw {
            return before;
        }
        // `resize` would write each zero by itself in a build that isn't optimised.
        let mut longer = vec![0; before.len().max(after) + ROOM_BYTES];
        longer[..before.len()].copy_from_slice(&before);
        longer
    }

    /// Checks an image with `qemu-img check`. After a crash, clusters may be leaked.
    ///
    /// # Errors
    /// A problem that it finds, with its output.
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
        // Exit code 3 means only leaked clusters.
        let fine = code == 0 || code == 3 && crashed == Crashed::Yes;
        ensure!(fine, "qemu-img check: exit code {code}\n{text}");
        Ok(())
    }
}

/// The end of an image: closed or crashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crashed {
    /// The power failed.
    Yes,
    /// The image was closed.
    No,
}
