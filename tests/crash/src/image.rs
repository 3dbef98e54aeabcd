//! Images: in memory while operations run on them, in a file for programs that check them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use diskfs_block::{BlockRead, Memory};
use diskfs_ext4::{Ext4, Options};
use tempfile::TempDir;

use crate::feature_set::FeatureSet;

/// The number of bytes to read and write at once.
const CHUNK_BYTES: usize = 1 << 20;

/// The unit in which zeroes are skipped.
const PAGE_BYTES: usize = 4096;

/// A page of zeroes; comparing with it is faster than checking each byte.
const ZEROES: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// Returns a directory for images, in memory if the host has one.
///
/// # Errors
/// The errors of the host.
pub fn directory() -> Result<TempDir> {
    let shared = Path::new("/dev/shm");
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix("diskfs-crash-");
    if shared.is_dir() {
        return builder.tempdir_in(shared).context("/dev/shm");
    }
    Ok(builder.tempdir()?)
}

/// Returns a filesystem made by mke2fs and, for some feature sets, used by the kernel.
///
/// # Errors
/// The errors of these programs.
pub fn make_filesystem(set: &FeatureSet, directory: &Path) -> Result<Vec<u8>> {
    let path = directory.join("fresh.img");
    set.make(&path)?;
    let bytes = std::fs::read(&path)?;
    std::fs::remove_file(&path)?;
    Ok(bytes)
}

/// Writes a device to a file, without its zeroes.
///
/// # Errors
/// The errors of the device and of the host.
pub fn write(device: &dyn BlockRead, path: &Path) -> Result<()> {
    let file = File::create(path)?;
    file.set_len(device.size_bytes())?;
    let mut buf = vec![0; CHUNK_BYTES];
    let mut at = 0;
    while at < device.size_bytes() {
        let left = usize::try_from(device.size_bytes() - at).unwrap_or(CHUNK_BYTES);
        let chunk = &mut buf[..left.min(CHUNK_BYTES)];
        device.read_at(at, chunk)?;
        write_chunk(&file, at, chunk)?;
        at += chunk.len() as u64;
    }
    Ok(())
}

/// Writes the runs of pages that are not all zeroes.
fn write_chunk(file: &File, at: u64, chunk: &[u8]) -> Result<()> {
    let mut start = None;
    let pages = chunk
        .chunks(PAGE_BYTES)
        .map(|page| *page != ZEROES[..page.len()]);
    for (index, stored) in pages.chain([false]).enumerate() {
        let byte = (index * PAGE_BYTES).min(chunk.len());
        match (start, stored) {
            (None, true) => start = Some(byte),
            (Some(from), false) => {
                file.write_all_at(&chunk[from..byte], at + from as u64)?;
                start = None;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Opens the device with our reader, which replays the journal in memory.
///
/// # Errors
/// The errors of the driver.
pub fn read(device: Arc<dyn BlockRead>) -> Result<Ext4> {
    Ext4::open(device, &Options::default()).context("our reader cannot open the image")
}

/// Opens an image file as a device.
///
/// # Errors
/// The errors of the host.
pub fn open(path: &Path) -> Result<Arc<dyn BlockRead>> {
    Ok(Arc::new(diskfs_block::File::open(path)?))
}

/// Returns a copy in memory.
pub fn in_memory(bytes: &[u8]) -> Arc<Memory> {
    Arc::new(Memory::new(bytes))
}

/// Saves an image with a problem, and returns its path.
///
/// # Errors
/// The errors of the host.
pub fn save(device: &dyn BlockRead, name: &str) -> Result<PathBuf> {
    let directory = std::env::temp_dir().join("diskfs-crash");
    std::fs::create_dir_all(&directory)?;
    let path = directory.join(name);
    write(device, &path)?;
    Ok(path)
}
