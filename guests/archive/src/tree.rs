//! The file tree that layers make together, and its unpacking into a filesystem.
//!
//! [`Tree::plan`] reads the headers of all layers and computes the final tree. [`Tree::write_to`]
//! reads each layer once more, the lowest first, and writes only the files that are in the final
//! tree. Nothing is unpacked on the host.

mod attributes;
mod file;
mod inode;
mod nodes;
mod paths;
mod plan;
mod remove;
mod resolve;
mod sealed;
mod write;

use std::ops::ControlFlow;

use diskfs_disk::{Error, ErrorKind, Result};
use diskfs_vfs::{InodeNumber, check_cancelled};

use crate::Archive;
use crate::layer::{Layer, Verify};
use plan::Plan;
use sealed::Sealed;

pub use inode::XattrSize;
pub use nodes::{Named, Names, Node, Nodes};

/// The limit on the number of layers; Docker allows 127.
const MAX_LAYERS: usize = 1024;

/// The limits on a tree. An image is untrusted: a few kilobytes can decompress to any size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The decompressed size of all layers, in bytes.
    pub unpacked_bytes: u64,
    /// The number of files in all layers, including those that a higher layer replaces.
    pub files: u32,
    /// The memory for the tree in bytes: about 300 bytes for each file.
    pub memory_bytes: u64,
}

impl Default for Limits {
    /// Returns 256 GiB, 10 million files and 1 GiB of memory.
    fn default() -> Self {
        Self {
            unpacked_bytes: 256 << 30,
            files: 10_000_000,
            memory_bytes: 1 << 30,
        }
    }
}

/// The options of [`Tree::write_to`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// The directory to unpack into; the default is the root directory.
    pub into: Option<InodeNumber>,
    /// Skips the extended attributes that the filesystem refuses, and counts them. The default is
    /// to fail.
    pub skip_refused_xattrs: bool,
}

/// The counts of what [`Tree::write_to`] wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// The number of regular files.
    pub regular_files: u64,
    /// The number of directories that were created, without the root directory.
    pub directories: u64,
    /// The number of symlinks.
    pub symlinks: u64,
    /// The number of devices and FIFOs.
    pub special_files: u64,
    /// The number of names besides the first one of each file.
    pub hard_links: u64,
    /// The number of bytes that were written to files, without holes.
    pub content_bytes: u64,
    /// The number of extended attributes that the filesystem refused.
    pub skipped_xattrs: u64,
}

/// The file tree that layers make together.
#[derive(Debug)]
pub struct Tree {
    layers: Vec<Layer>,
    limits: Limits,
    /// The decompressed size of each layer, in bytes.
    layer_bytes: Vec<u64>,
    sealed: Sealed,
}

impl Tree {
    /// Reads all layers, the lowest first, and computes their tree. Verifies the digests of the
    /// layers. Calls `progress` with the number of decompressed bytes of each step.
    ///
    /// Whiteouts, opaque directories and replaced files have the meaning of the OCI image
    /// specification ("Image Layer Filesystem Changeset"). A symlink among the parents of a member
    /// is followed within the tree, as in containerd: `..` and absolute targets stay below the
    /// root.
    ///
    /// # Errors
    /// `Corrupt` for a damaged layer or a wrong digest; `Unsupported` if a limit is exceeded, and
    /// for a member that can't be unpacked; `Denied` for a name that leads out of the tree; `Io`;
    /// `Cancelled` if `progress` returns [`ControlFlow::Break`].
    pub fn plan(
        layers: &[Layer],
        limits: &Limits,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Self> {
        if layers.len() > MAX_LAYERS {
            let reason = format!("too many layers: {}, at most {MAX_LAYERS}", layers.len());
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        let mut plan = Plan::new(*limits);
        let mut layer_bytes = Vec::new();
        let mut left = limits.unpacked_bytes;
        for layer in layers {
            let size_bytes = plan_layer(&mut plan, layer, left, progress);
            let size_bytes = size_bytes.map_err(|error| layer.place(error))?;
            left = left.saturating_sub(size_bytes);
            layer_bytes.push(size_bytes);
        }
        Ok(Self {
            layers: layers.to_vec(),
            limits: *limits,
            layer_bytes,
            sealed: Sealed::new(plan),
        })
    }

    /// Returns the number of decompressed bytes that [`write_to`](Self::write_to) reads: layers
    /// without a file in the final tree are not read again.
    pub fn stream_bytes(&self) -> u64 {
        let layers = (0..).zip(&self.layer_bytes);
        let used = layers.filter(|(layer, _)| self.sealed.uses_layer(*layer));
        used.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }
}

/// Adds a layer to the plan. Returns its decompressed size.
fn plan_layer(
    plan: &mut Plan,
    layer: &Layer,
    limit_bytes: u64,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<u64> {
    plan.begin_layer(layer.placement())?;
    let mut archive = layer.archive(Verify::Both, limit_bytes)?;
    let planned = plan_members(plan, &mut archive, progress);
    finish(&mut archive, planned)?;
    Ok(archive.position())
}

fn plan_members(
    plan: &mut Plan,
    archive: &mut Archive<'_>,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<()> {
    let mut index: u32 = 0;
    let mut reported: u64 = 0;
    while let Some(member) = archive.next()? {
        plan.put(&member, index, archive.unread_bytes())
            .map_err(|error| error.in_path(&member.name))?;
        index = index.saturating_add(1);
        check_cancelled(progress(archive.position().saturating_sub(reported)))?;
        archive.skip(progress)?;
        reported = archive.position();
    }
    Ok(())
}

/// Reads the rest of an archive, so that its digest is verified. A wrong digest is the reason for
/// any other damage.
fn finish(archive: &mut Archive<'_>, result: Result<()>) -> Result<()> {
    match result {
        Ok(()) => archive.finish(),
        Err(error) if error.kind() == ErrorKind::Corrupt => archive.finish().and(Err(error)),
        Err(error) => Err(error),
    }
}
