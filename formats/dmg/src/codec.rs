//! The compressions of chunks.

use std::io::Read;
use std::sync::Arc;

use bzip2::bufread::BzDecoder;
use diskfs_block::{Error, Result, bytes};
use flate2::{Decompress, FlushDecompress, Status};
use lzma_rust2::XzReader;

/// The memory for a decoder of xz, mostly its dictionary, which is no larger than a chunk.
const XZ_MEMORY_KIB: u32 = 80 << 10;

/// A supported compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    /// zlib, in images of the type UDZO.
    Zlib,
    /// bzip2, in images of the type UDBZ.
    Bzip2,
    /// xz, in images of the type ULMO.
    Xz,
}

impl Codec {
    /// Returns the compression for the type of a chunk.
    pub(crate) fn of(kind: u32) -> Result<Self> {
        let name = match kind {
            0x8000_0005 => return Ok(Self::Zlib),
            0x8000_0006 => return Ok(Self::Bzip2),
            0x8000_0008 => return Ok(Self::Xz),
            0x8000_0004 => "ADC (UDCO)".to_owned(),
            0x8000_0007 => "LZFSE (ULFO)".to_owned(),
            other => format!("of type {other:#x}"),
        };
        let reason = format!("unsupported compression of a DMG: {name}");
        Err(Error::unsupported(reason)
            .with_hint("convert it with `hdiutil convert -format UDZO` or `qemu-img convert`"))
    }

    /// Decompresses `stored` to exactly `len` bytes.
    pub(crate) fn decompress(self, stored: &[u8], len: usize) -> Result<Arc<[u8]>> {
        let mut unpacked = vec![0; len];
        match self {
            Self::Zlib => unzlib(stored, &mut unpacked)?,
            Self::Bzip2 => BzDecoder::new(stored)
                .read_exact(&mut unpacked)
                .map_err(|e| Error::corrupt("invalid bzip2 data in a chunk").with_source(e))?,
            Self::Xz => XzReader::new_mem_limit(stored, false, XZ_MEMORY_KIB)
                .read_exact(&mut unpacked)
                .map_err(|e| Error::corrupt("invalid xz data in a chunk").with_source(e))?,
        }
        Ok(unpacked.into())
    }
}

fn unzlib(stored: &[u8], unpacked: &mut [u8]) -> Result<()> {
    let mut codec = Decompress::new(true);
    let status = codec
        .decompress(stored, unpacked, FlushDecompress::Finish)
        .map_err(|e| Error::corrupt("invalid zlib data in a chunk").with_source(e))?;
    let (made, len) = (codec.total_out(), bytes::len_u64(unpacked.len()));
    if made == len && status == Status::StreamEnd {
        return Ok(());
    }
    let reason = format!("zlib data of a chunk does not end after {len} bytes");
    Err(Error::corrupt(reason))
}
