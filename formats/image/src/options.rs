//! The options for opening an image.

use std::sync::Arc;

use diskfs_block::{Error, Result};

use crate::{DirectOpener, FileOpener, Format, Gate, RemoteImages, Unlock};

/// The options for opening an image. Use `..Default::default()` for the rest.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// The image's format; `None` probes it. A given format is not checked: an image given as raw
    /// is raw whatever its content looks like.
    pub format: Option<Format>,
    /// The formats that probing recognises.
    pub probed: ProbedFormats,
    /// The internal snapshot to read, by id or name (an id wins, as in QEMU); `None` reads the
    /// disk's current state.
    pub snapshot: Option<String>,
    /// The disk of a package (OVA, OVF) to open, by the name of its file or its identifier; `None`
    /// opens the only one.
    pub disk: Option<String>,
    /// The format of a backing file if the image does not name it. `None` means raw, because
    /// probing would let a guest that writes to a raw disk choose which files are opened.
    pub backing_format: Option<Format>,
    /// The policy for the files that the image may name.
    pub gate: Gate,
    /// The opener of the image's files. [`DirectOpener`] opens them in this process.
    pub files: Arc<dyn FileOpener>,
    /// The opener of images on other machines. Without it, they are refused.
    pub remote: Option<Arc<dyn RemoteImages>>,
    /// The URI of the image on another machine that is the backing file of the image: no other is
    /// opened. The image has its URI without what may be secret.
    pub remote_base: Option<String>,
    /// The policy for concurrent use of the image.
    pub share: Share,
    /// The policy for an overlay whose backing file has changed.
    pub stale_base: StaleBase,
    /// The unlocker of encrypted images. Without it they open, but their data cannot be read.
    pub unlock: Option<Arc<dyn Unlock>>,
    /// The cache size in bytes, for tables and decompressed clusters of the whole chain.
    pub cache_bytes: u64,
    /// True if the host writes changes to its disk while more are made
    /// ([`File::written_back_early`](diskfs_block::File::written_back_early)): for changes that are
    /// flushed soon.
    pub early_write_back: bool,
}

impl OpenOptions {
    /// The default cache size: half for tables (16 MiB of L2 tables map 128 GiB at QEMU's default
    /// cluster size), half for decompressed clusters.
    pub const DEFAULT_CACHE_BYTES: u64 = 32 << 20;
}

impl OpenOptions {
    /// Refuses the name of a disk for an image that is not a package.
    pub(crate) fn check_disk(&self, format: Format) -> Result<()> {
        let Some(name) = self.disk.as_ref().filter(|_| format != Format::Ova) else {
            return Ok(());
        };
        let reason = format!(
            "no such disk: `{}`; a {format} image is one disk, and only packages (OVA, OVF) have \
             names for theirs",
            name.escape_debug()
        );
        Err(Error::invalid(reason))
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            format: None,
            probed: ProbedFormats::default(),
            snapshot: None,
            disk: None,
            backing_format: None,
            gate: Gate::default(),
            files: Arc::new(DirectOpener),
            remote: None,
            remote_base: None,
            share: Share::default(),
            stale_base: StaleBase::default(),
            unlock: None,
            cache_bytes: Self::DEFAULT_CACHE_BYTES,
            early_write_back: false,
        }
    }
}

/// The formats that probing recognises. Images of the others are raw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProbedFormats {
    /// All formats.
    #[default]
    All,
    /// The formats that QEMU has.
    OnlyQemus,
}

/// The policy for concurrent use of an image by other processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Share {
    /// Other readers are allowed. QEMU's image locks are taken and respected, so writers are
    /// refused on either side.
    #[default]
    Readers,
    /// Any use is allowed: locks are neither taken nor checked. Data that another process changes
    /// meanwhile may be read half old, half new.
    Force,
}

/// The policy for an overlay whose backing file was changed after the overlay was created. The
/// change is detected if the overlay records the state of its backing file, as overlays that we
/// create do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StaleBase {
    /// Refuse the overlay: its disk would be a mix of two states, which is a damaged one.
    #[default]
    Refuse,
    /// Open the overlay with a warning.
    Open,
}
