//! The bitmaps of an image, to be copied into another one.

use std::fmt;
use std::sync::Arc;

use diskfs_block::{Error, Result};

use super::only_qcow2;
use crate::Image;
use crate::description::BitmapState;
use crate::node::Node;
use crate::qcow2::{BitmapEntry, BitmapSource, Qcow2, read_bitmaps};

/// The treatment of a bitmap that was not saved properly, because its writer was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Inconsistent {
    /// Copying fails.
    #[default]
    Refused,
    /// The bitmap is left out.
    Skipped,
}

/// The bitmaps of an image that are copied into another one. The image stays open.
#[derive(Clone)]
pub struct BitmapSet {
    image: Arc<Node>,
    entries: Vec<BitmapEntry>,
    skipped: Vec<String>,
}

impl fmt::Debug for BitmapSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl BitmapSet {
    /// Returns the bitmaps of an image, to be copied.
    ///
    /// # Errors
    /// * `Unsupported` for a raw image, one of version 2, and a bitmap of an unknown type.
    /// * `Invalid` for a bitmap that was not saved properly, unless it is skipped.
    /// * `Corrupt` for an invalid directory; `Io`.
    pub fn of(image: &Image, inconsistent: Inconsistent) -> Result<Self> {
        let in_image = |e: Error| e.in_file(&image.description().path);
        let entries = entries(image.node()).map_err(in_image)?;
        let (entries, broken): (Vec<_>, Vec<_>) = entries
            .into_iter()
            .partition(|entry| entry.bitmap.state == BitmapState::Consistent);
        if let (Some(first), Inconsistent::Refused) = (broken.first(), inconsistent) {
            let name = first.bitmap.name.escape_debug();
            let reason = format!("bitmap `{name}` was not saved properly, so it cannot be copied");
            return Err(in_image(Error::invalid(reason))
                .with_hint("skip it, or remove it with `diskfs bitmap remove`"));
        }
        Ok(Self {
            image: Arc::clone(image.shared_node()),
            entries,
            skipped: broken.into_iter().map(|entry| entry.bitmap.name).collect(),
        })
    }

    /// Returns the names of the bitmaps.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.bitmap.name.as_str())
    }

    /// Returns the names of the bitmaps that were left out, because they were not saved properly.
    pub fn skipped(&self) -> &[String] {
        &self.skipped
    }

    /// Returns the size of the disk that the bitmaps describe.
    pub(crate) fn disk_bytes(&self) -> Result<u64> {
        Ok(self.source()?.header.size_bytes)
    }

    pub(crate) fn source(&self) -> Result<BitmapSource<'_>> {
        let (file, header) = qcow2(&self.image)?.tables();
        Ok(BitmapSource {
            file,
            header,
            entries: &self.entries,
        })
    }
}

fn qcow2(node: &Node) -> Result<&Qcow2> {
    match node {
        Node::Qcow2(qcow2, _) => Ok(qcow2),
        Node::Raw(_) | Node::Mapped(..) => Err(only_qcow2()),
    }
}

fn entries(node: &Node) -> Result<Vec<BitmapEntry>> {
    let (file, header) = qcow2(node)?.tables();
    if header.version < 3 {
        return Err(Error::unsupported(
            "bitmaps are not supported in a version 2 image",
        ));
    }
    // Without the bit the bitmaps are void, and may have been overwritten.
    if !header.autoclear.bitmaps() {
        return Ok(Vec::new());
    }
    read_bitmaps(file, header)
}
