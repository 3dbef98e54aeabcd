//! The jobs of creating, filling, growing and checking a filesystem, each as one command of a
//! contender.

use std::path::Path;

/// A job on an image file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Making<'a> {
    /// Creates an empty ext4 filesystem in a sparse file that exists.
    Empty { image: &'a Path },
    /// Creates an image with an ext4 filesystem that contains a tree, no larger than needed.
    Filled {
        image: &'a Path,
        /// The tree, for programs that read a directory.
        directory: &'a Path,
        /// An archive of that tree, for programs that read one.
        archive: &'a Path,
    },
    /// Grows an image, its only partition (at 1 MiB) and the ext4 filesystem in it.
    Grown { image: &'a Path, size: &'a str },
    /// Checks a filesystem, and changes nothing.
    Checked { image: &'a Path },
    /// Discards the unused space of a filesystem.
    Sparsified { image: &'a Path },
    /// Unpacks an archive into the root directory of an image.
    Unpacked { image: &'a Path, archive: &'a Path },
    /// Copies the contents of a directory into the root directory of an image.
    Copied {
        image: &'a Path,
        directory: &'a Path,
    },
    /// Removes directories of the root directory of an image.
    Removed {
        image: &'a Path,
        names: &'a [&'a str],
    },
}

impl<'a> Making<'a> {
    /// Returns the image that the job creates, changes or checks.
    pub(crate) fn image(&self) -> &'a Path {
        match self {
            Self::Empty { image }
            | Self::Filled { image, .. }
            | Self::Grown { image, .. }
            | Self::Checked { image }
            | Self::Sparsified { image }
            | Self::Unpacked { image, .. }
            | Self::Copied { image, .. }
            | Self::Removed { image, .. } => image,
        }
    }
}
