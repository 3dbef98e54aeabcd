//! The layer of a new image: a tar archive of one disk, compressed in parts.
//!
//! A reader that knows where the parts begin reads the disk at any place; others decompress all.

use std::io::{self, Read, Write};

use diskfs_block::bytes::len_u64;
use diskfs_block::{Error, Result};

use crate::digest::Hasher;
use crate::document::NewLayer;
use crate::seek_table::SeekTable;
use crate::tar_header::TarMember;

/// The length of a frame of zstd, decompressed. Smaller ones compress worse; of larger ones, reading
/// a cluster would decompress more.
const ZSTD_UNIT_BYTES: usize = 1 << 20;
/// The level of zstd: its default.
const ZSTD_LEVEL: i32 = 3;
/// The length of a member of BGZF, decompressed: as `bgzip` has it, so that incompressible data
/// still fits into 64 KiB.
const GZIP_UNIT_BYTES: usize = 0xff00;
/// The level of gzip: its default.
const GZIP_LEVEL: u32 = 6;
/// The number of bytes to read at once.
const PIECE_BYTES: usize = 1 << 20;

/// The mode of the directories of the disk.
const DIRECTORY_MODE: u32 = 0o755;
/// The mode of the disk: KubeVirt makes an overlay, so that nobody writes it.
const DISK_MODE: u32 = 0o440;

/// The compression of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerCompression {
    /// No compression.
    None,
    /// gzip, in members of BGZF (SAM format specification, section 4.1).
    Gzip,
    /// zstd, in frames of 1 MiB with a seek table.
    Zstd,
}

impl LayerCompression {
    /// Returns the suffix of the media type.
    const fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip => "+gzip",
            Self::Zstd => "+zstd",
        }
    }

    const fn unit_bytes(self) -> usize {
        match self {
            Self::None | Self::Zstd => ZSTD_UNIT_BYTES,
            Self::Gzip => GZIP_UNIT_BYTES,
        }
    }

    fn compress(self, unit: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::None => Ok(unit.to_vec()),
            Self::Gzip => bgzf_member(unit),
            Self::Zstd => {
                let mut compressor = zstd::bulk::Compressor::new(ZSTD_LEVEL)?;
                compressor.include_checksum(true)?;
                compressor.compress(unit)
            }
        }
    }
}

/// The disk of a new image.
#[derive(Debug, Clone)]
pub struct NewDisk {
    /// The path in the image.
    pub path: String,
    /// The size of the file in bytes.
    pub size_bytes: u64,
    /// The numbers of the owner and of the group.
    pub owner: (u32, u32),
    /// The time of the last change in seconds since 1970.
    pub seconds: u32,
}

impl NewDisk {
    /// Returns the members of the archive: the directories, and the disk.
    fn members(&self) -> Result<Vec<TarMember>> {
        let invalid = || {
            let shown = self.path.escape_debug();
            let error = Error::invalid(format!("invalid path in an image: `{shown}`"));
            error.with_hint("expected a path such as /disk/disk.qcow2")
        };
        let parts: Vec<_> = self
            .path
            .split('/')
            .filter(|part| !part.is_empty())
            .collect();
        let is_bad = |part: &&str| [".", ".."].contains(part) || part.starts_with(".wh.");
        let (name, directories) = parts.split_last().ok_or_else(invalid)?;
        if parts.iter().any(is_bad) || self.path.ends_with('/') || self.path.contains('\0') {
            return Err(invalid());
        }
        let mut prefix = String::new();
        let mut members = Vec::new();
        for directory in directories {
            prefix = format!("{prefix}{directory}/");
            members.push(self.member(prefix.clone(), DIRECTORY_MODE, 0));
        }
        members.push(self.member(format!("{prefix}{name}"), DISK_MODE, self.size_bytes));
        Ok(members)
    }

    const fn member(&self, name: String, mode: u32, size_bytes: u64) -> TarMember {
        TarMember {
            name,
            mode,
            owner: self.owner,
            seconds: self.seconds,
            size_bytes,
        }
    }
}

/// Writes a layer with one disk, and returns its digests. The same contents always make the same
/// bytes. `advance` is called with the length of each piece of the disk.
///
/// # Errors
/// `Invalid` for a path that cannot be in an image; `Io` if `contents` has another size; the errors
/// of both.
pub fn write_layer(
    out: impl Write,
    compression: LayerCompression,
    disk: &NewDisk,
    contents: &mut dyn Read,
    advance: &mut dyn FnMut(u64),
) -> Result<NewLayer> {
    let mut layer = LayerWriter::new(out, compression);
    let members = disk.members()?;
    for member in &members {
        layer.write_all(&member.header()?)?;
    }
    // The disk begins with a unit, so that its clusters don't cross two of them.
    layer.end_unit()?;
    copy(contents, disk.size_bytes, &mut layer, advance)?;
    let padding = members.last().map_or(0, TarMember::padding_bytes);
    layer.write_all(&vec![0; padding])?;
    layer.write_all(TarMember::end())?;
    Ok(layer.finish()?)
}

/// Copies exactly the contents of the disk.
fn copy(
    contents: &mut dyn Read,
    size_bytes: u64,
    out: &mut dyn Write,
    advance: &mut dyn FnMut(u64),
) -> Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut left = size_bytes;
    while left > 0 {
        let len = usize::try_from(left).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
        let piece = piece.get_mut(..len).unwrap_or_default();
        contents.read_exact(piece)?;
        out.write_all(piece)?;
        left = left.saturating_sub(len_u64(len));
        advance(len_u64(len));
    }
    Ok(())
}

/// A layer that is written.
struct LayerWriter<W> {
    out: W,
    compression: LayerCompression,
    plain: Hasher,
    packed: Hasher,
    packed_bytes: u64,
    /// The bytes that are not compressed yet.
    unit: Vec<u8>,
    /// The frames of zstd so far.
    frames: SeekTable,
}

impl<W: Write> LayerWriter<W> {
    fn new(out: W, compression: LayerCompression) -> Self {
        Self {
            out,
            compression,
            plain: Hasher::default(),
            packed: Hasher::default(),
            packed_bytes: 0,
            unit: Vec::with_capacity(compression.unit_bytes()),
            frames: SeekTable::default(),
        }
    }

    /// Compresses what was written since the last unit.
    fn end_unit(&mut self) -> io::Result<()> {
        if self.unit.is_empty() {
            return Ok(());
        }
        let packed = self.compression.compress(&self.unit)?;
        if self.compression == LayerCompression::Zstd {
            self.frames.push(packed.len(), self.unit.len())?;
        }
        self.unit.clear();
        self.put(&packed)
    }

    fn put(&mut self, packed: &[u8]) -> io::Result<()> {
        self.packed.update(packed);
        self.packed_bytes = self.packed_bytes.saturating_add(len_u64(packed.len()));
        self.out.write_all(packed)
    }

    fn finish(mut self) -> io::Result<NewLayer> {
        self.end_unit()?;
        let end = match self.compression {
            LayerCompression::None => Vec::new(),
            // An empty member ends a file of BGZF.
            LayerCompression::Gzip => bgzf_member(&[])?,
            LayerCompression::Zstd => self.frames.finish(),
        };
        self.put(&end)?;
        self.out.flush()?;
        Ok(NewLayer {
            suffix: self.compression.suffix(),
            digest: self.packed.finish(),
            size_bytes: self.packed_bytes,
            diff_id: self.plain.finish(),
        })
    }
}

impl<W: Write> Write for LayerWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self
            .compression
            .unit_bytes()
            .saturating_sub(self.unit.len());
        let taken = bytes.get(..room).unwrap_or(bytes);
        self.plain.update(taken);
        self.unit.extend_from_slice(taken);
        if self.unit.len() >= self.compression.unit_bytes() {
            self.end_unit()?;
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Returns a member of gzip that says its length.
fn bgzf_member(unit: &[u8]) -> io::Result<Vec<u8>> {
    const HEADER: [u8; 16] = [
        0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff, 6, 0, b'B', b'C', 2, 0,
    ];
    /// The length of the header with that of the member, and of the trailer.
    const AROUND_BYTES: usize = 26;
    let too_long = |_| io::Error::other("a member of BGZF is too long");
    let mut sum = flate2::Crc::new();
    sum.update(unit);
    let mut deflated = deflate(unit, GZIP_LEVEL)?;
    if deflated.len().saturating_add(AROUND_BYTES) > 1 << 16 {
        deflated = deflate(unit, 0)?;
    }
    let size = deflated
        .len()
        .saturating_add(AROUND_BYTES)
        .saturating_sub(1);
    let mut member = HEADER.to_vec();
    member.extend(u16::try_from(size).map_err(too_long)?.to_le_bytes());
    member.extend(deflated);
    member.extend(sum.sum().to_le_bytes());
    member.extend(u32::try_from(unit.len()).map_err(too_long)?.to_le_bytes());
    Ok(member)
}

fn deflate(unit: &[u8], level: u32) -> io::Result<Vec<u8>> {
    let level = flate2::Compression::new(level);
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), level);
    encoder.write_all(unit)?;
    encoder.finish()
}
