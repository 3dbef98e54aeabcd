//! How to open an image.

use std::sync::Arc;

use crate::{Format, Gate, Unlock};

/// How to open an image. `..Default::default()` for what does not matter.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// The image's format; `None` probes it. A given format is believed: an image given as raw
    /// stays raw whatever its content looks like.
    pub format: Option<Format>,
    /// The internal snapshot to read, by id or name (an id wins, as in QEMU); `None` reads the disk's current state.
    pub snapshot: Option<String>,
    /// The format of a backing file whose image does not name it; `None` takes it as raw, because
    /// probing would let a guest that writes to a raw disk choose which files are opened.
    pub backing_format: Option<Format>,
    /// Which files the image may name.
    pub gate: Gate,
    /// What to do when others use the image.
    pub share: Share,
    /// What to do with an overlay whose backing file has changed.
    pub stale_base: StaleBase,
    /// What gets at the data of encrypted images; without it they open, and their data can't be
    /// read.
    pub unlock: Option<Arc<dyn Unlock>>,
    /// Memory for caches, in bytes: tables and decompressed clusters, over the whole chain.
    pub cache_bytes: u64,
}

impl OpenOptions {
    /// Half for tables (16 MiB of L2 tables map 128 GiB at QEMU's default cluster size), half for
    /// decompressed clusters.
    pub const DEFAULT_CACHE_BYTES: u64 = 32 << 20;
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            format: None,
            snapshot: None,
            backing_format: None,
            gate: Gate::default(),
            share: Share::default(),
            stale_base: StaleBase::default(),
            unlock: None,
            cache_bytes: Self::DEFAULT_CACHE_BYTES,
        }
    }
}

/// Who else may use the image at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Share {
    /// Other readers; QEMU's image locks are taken and honoured, so a writer is refused on either
    /// side.
    #[default]
    Readers,
    /// Anybody: locks are neither taken nor looked at. What a writer changes meanwhile may be read
    /// half old, half new.
    Force,
}

/// What to do with an overlay whose backing file was changed after the overlay was made, as far as
/// the overlay says what that was like: those that are made here do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StaleBase {
    /// Refuse it: its disk is made of two states, which is a damaged one.
    #[default]
    Refuse,
    /// Open it with a warning.
    Open,
}
