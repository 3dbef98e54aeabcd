//! The conditions for a change of bitmaps, which are checked before anything is changed.

use diskfs_block::{BlockRead, Error, ErrorKind, Result};

use crate::description::BitmapState;
use crate::numbers::to_u64;
use crate::qcow2::bitmap_directory::{
    self, BITMAPS_MAX, BitmapEntry, DIRECTORY_MAX_BYTES, GRANULARITY_BITS, NAME_MAX_BYTES,
};
use crate::qcow2::bitmap_table::{self, BITS_MAX_BYTES, BitmapCluster};
use crate::qcow2::header::Header;
use crate::qcow2::write::bitmap_change::{BitmapChange, Existing};
use crate::qcow2::write::bitmap_edit::Edit;

impl Edit<'_> {
    /// Fails for a change that is impossible, before anything is changed.
    pub(super) fn check(&self, change: BitmapChange<'_>) -> Result<()> {
        match change {
            BitmapChange::Add {
                name,
                granularity_bytes,
                recording,
                existing,
            } => {
                if existing == Existing::KeptIfUnmarked
                    && self.is_unmarked(name, self.granularity(granularity_bytes), recording)?
                {
                    return Ok(());
                }
                self.check_new(name, granularity_bytes)?;
                self.check_space(&[name])
            }
            BitmapChange::Remove { name } => self.tables_of(self.find(name)?).map(|_| ()),
            BitmapChange::Clear { name } | BitmapChange::SetRecording { name, .. } => {
                self.usable(name).map(|_| ())
            }
            BitmapChange::Merge {
                name,
                source,
                image,
            } => {
                self.usable(name)?;
                let (file, header) = self.source(image);
                usable_in(file, header, source)?;
                self.check_sizes(header.size_bytes)
            }
            BitmapChange::Copy(source) => self.check_copy(source),
        }
    }

    /// Returns true if there is a bitmap that could just have been added.
    fn is_unmarked(&self, name: &str, granularity_bytes: u64, recording: bool) -> Result<bool> {
        if !self.bitmaps.iter().any(|it| it.entry.bitmap.name == name) {
            return Ok(false);
        }
        let (entry, clusters) = self.usable(name)?;
        let bitmap = &entry.bitmap;
        Ok(bitmap.granularity_bytes == granularity_bytes
            && bitmap.recording == recording
            && clusters.iter().all(|it| *it == BitmapCluster::Zeroes))
    }

    pub(super) fn check_sizes(&self, source_bytes: u64) -> Result<()> {
        let size_bytes = self.writer.size_bytes;
        if source_bytes == size_bytes {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the bitmaps are of disks of different sizes: {source_bytes} and {size_bytes} bytes"
        )))
    }

    pub(super) fn check_new(&self, name: &str, granularity_bytes: Option<u64>) -> Result<()> {
        if name.is_empty() || name.len() > usize::from(NAME_MAX_BYTES) || name.contains('\0') {
            let reason =
                format!("invalid bitmap name: expected 1 to {NAME_MAX_BYTES} bytes without NUL");
            return Err(Error::invalid(reason));
        }
        if self.bitmaps.iter().any(|it| it.entry.bitmap.name == name) {
            let reason = format!("bitmap `{}` exists already", name.escape_debug());
            return Err(Error::new(ErrorKind::Exists, reason));
        }
        let granularity_bytes = self.granularity(granularity_bytes);
        let bits = granularity_bytes.trailing_zeros();
        if !granularity_bytes.is_power_of_two() || !GRANULARITY_BITS.contains(&bits) {
            let reason = format!("invalid granularity: {granularity_bytes} bytes");
            return Err(Error::invalid(reason).with_hint("use a power of two from 512 to 2G"));
        }
        let bits = self.writer.size_bytes.div_ceil(granularity_bytes);
        if bits.div_ceil(8) > BITS_MAX_BYTES {
            let reason = "the bitmap would be too large";
            return Err(Error::invalid(reason).with_hint("use a larger granularity"));
        }
        if self.writer.size_bytes == 0 {
            return Err(Error::invalid("cannot add a bitmap to an empty disk"));
        }
        Ok(())
    }

    /// Fails if the directory has no space for bitmaps with these names.
    pub(super) fn check_space(&self, names: &[&str]) -> Result<()> {
        /// The largest size of an entry without its name.
        const ENTRY_BYTES: u64 = 32;
        let old = self.bitmaps.iter().map(|it| to_u64(it.raw.len()));
        let new = names.iter().map(|name| to_u64(name.len()));
        let new = new.map(|len| len.saturating_add(ENTRY_BYTES));
        let len_bytes = old.chain(new).fold(0, u64::saturating_add);
        let count = self.bitmaps.len().saturating_add(names.len());
        if to_u64(count) > u64::from(BITMAPS_MAX) || len_bytes > DIRECTORY_MAX_BYTES {
            let reason = format!(
                "too many bitmaps: QEMU's limits are {BITMAPS_MAX} and {DIRECTORY_MAX_BYTES} bytes"
            );
            return Err(Error::unsupported(reason));
        }
        Ok(())
    }

    /// Returns the granularity of a new bitmap. The default is QEMU's: the cluster size, within
    /// limits.
    pub(super) fn granularity(&self, wanted_bytes: Option<u64>) -> u64 {
        let cluster_size = self.writer.geometry().cluster_size();
        wanted_bytes.unwrap_or_else(|| cluster_size.clamp(4 << 10, 64 << 10))
    }

    /// Returns a bitmap whose bits can be used, and its clusters.
    pub(super) fn usable(&self, name: &str) -> Result<(&BitmapEntry, Vec<BitmapCluster>)> {
        let entry = self.find(name)?;
        let header = &self.writer.header;
        check_usable(header, entry)?;
        Ok((entry, self.tables_of(entry)?))
    }
}

/// Finds a bitmap of an image that is read, whose bits can be used.
pub(crate) fn usable_in(file: &dyn BlockRead, header: &Header, name: &str) -> Result<BitmapEntry> {
    let entries = if header.autoclear.bitmaps() {
        bitmap_directory::read(file, header)?
    } else {
        Vec::new()
    };
    let found = entries.iter().find(|entry| entry.bitmap.name == name);
    let entry = found.ok_or_else(|| missing(entries.iter(), name))?;
    if !entry.is_understood {
        return Err(unknown_kind(name));
    }
    check_usable(header, entry)?;
    Ok(entry.clone())
}

/// Fails for a bitmap that was not saved properly, or does not fit the disk.
pub(super) fn check_usable(header: &Header, entry: &BitmapEntry) -> Result<()> {
    let name = entry.bitmap.name.escape_debug();
    if entry.bitmap.state == BitmapState::Inconsistent {
        let reason = format!("bitmap `{name}` was not saved properly, so it can only be removed");
        return Err(Error::invalid(reason).with_hint("use `diskfs bitmap remove`"));
    }
    let granularity_bytes = entry.bitmap.granularity_bytes;
    let is_usual = GRANULARITY_BITS.contains(&granularity_bytes.trailing_zeros());
    let clusters = bitmap_table::clusters_for(header, header.size_bytes, granularity_bytes);
    if !is_usual || clusters != u64::from(entry.table_entries) {
        let reason = format!(
            "invalid bitmap `{name}`: it has {} clusters of bits, its disk needs {clusters}",
            entry.table_entries
        );
        return Err(Error::corrupt(reason).at(entry.at.0));
    }
    Ok(())
}

pub(super) fn unknown_kind(name: &str) -> Error {
    let name = name.escape_debug();
    Error::unsupported(format!("bitmap `{name}` is of an unknown type"))
}

pub(super) fn missing<'a>(entries: impl Iterator<Item = &'a BitmapEntry>, name: &str) -> Error {
    /// The largest number of names to list in the message.
    const LISTED_MAX: usize = 8;
    let reason = format!("no such bitmap: `{}`", name.escape_debug());
    let mut names: Vec<_> = entries
        .take(LISTED_MAX.saturating_add(1))
        .map(|entry| format!("`{}`", entry.bitmap.name.escape_debug()))
        .collect();
    if names.len() > LISTED_MAX {
        names.truncate(LISTED_MAX);
        names.push("...".to_owned());
    }
    let hint = if names.is_empty() {
        "the image has no bitmaps".to_owned()
    } else {
        format!("available: {}", names.join(", "))
    };
    Error::new(ErrorKind::NotFound, reason).with_hint(hint)
}
