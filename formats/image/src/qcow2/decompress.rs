//! Decompression of one cluster.

use std::sync::Mutex;

use diskfs_block::{Error, Result};
use flate2::{Decompress, FlushDecompress, Status};
use zstd::zstd_safe::{DCtx, InBuffer, OutBuffer, ResetDirective};

use crate::Compression;
use crate::numbers::to_usize;

/// The window that QEMU uses for deflate: 4 KiB, without zlib's header.
const WINDOW_BITS: u8 = 12;

/// A decompressor of clusters. It keeps contexts and input buffers for reuse, so that no cluster
/// needs an allocation. It keeps as many as threads ever decompressed at once.
#[derive(Debug)]
pub(crate) struct Decompressor {
    compression: Compression,
    idle: Mutex<Vec<Workspace>>,
}

/// The context and buffer that one thread uses at a time.
struct Workspace {
    codec: Codec,
    input: Vec<u8>,
}

enum Codec {
    Deflate(Decompress),
    Zstd(DCtx<'static>),
}

impl std::fmt::Debug for Workspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workspace")
            .field("input_len", &self.input.len())
            .finish_non_exhaustive()
    }
}

impl Decompressor {
    pub(crate) const fn new(compression: Compression) -> Self {
        Self {
            compression,
            idle: Mutex::new(Vec::new()),
        }
    }

    /// Fills `output` with the decompressed contents of `len_bytes` of input, which `fill`
    /// provides.
    ///
    /// The input usually extends past the compressed data, which ends when the cluster is full.
    pub(crate) fn run(
        &self,
        len_bytes: u64,
        output: &mut [u8],
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let mut workspace = self.take();
        let result = workspace.run(to_usize(len_bytes), output, fill);
        self.return_workspace(workspace);
        result
    }

    fn take(&self) -> Workspace {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .pop();
        idle.unwrap_or_else(|| Workspace::new(self.compression))
    }

    fn return_workspace(&self, workspace: Workspace) {
        self.idle
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .push(workspace);
    }
}

impl Workspace {
    fn new(compression: Compression) -> Self {
        let codec = match compression {
            Compression::Zlib => {
                Codec::Deflate(Decompress::new_with_window_bits(false, WINDOW_BITS))
            }
            Compression::Zstd => Codec::Zstd(DCtx::create()),
        };
        Self {
            codec,
            input: Vec::new(),
        }
    }

    fn run(
        &mut self,
        len: usize,
        output: &mut [u8],
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        if self.input.len() < len {
            self.input.resize(len, 0);
        }
        let input = self.input.get_mut(..len).unwrap_or_default();
        fill(input)?;
        match &mut self.codec {
            Codec::Deflate(codec) => inflate(codec, input, output),
            Codec::Zstd(codec) => unzstd(codec, input, output),
        }
    }
}

fn inflate(codec: &mut Decompress, input: &[u8], output: &mut [u8]) -> Result<()> {
    codec.reset(false);
    // The status is BufError if the stream continues after a full cluster, which is fine.
    let status = codec
        .decompress(input, output, FlushDecompress::Finish)
        .map_err(|e| broken("deflate").with_source(e))?;
    if codec.total_out() == crate::numbers::to_u64(output.len()) {
        return Ok(());
    }
    let end = match status {
        Status::StreamEnd => "ends",
        Status::Ok | Status::BufError => "is truncated",
    };
    Err(incomplete("deflate", end, codec.total_out(), output.len()))
}

fn unzstd(codec: &mut DCtx<'static>, input: &[u8], output: &mut [u8]) -> Result<()> {
    let failed = |code| {
        broken("zstd").with_source(std::io::Error::other(zstd::zstd_safe::get_error_name(code)))
    };
    codec.reset(ResetDirective::SessionOnly).map_err(failed)?;
    let wanted = output.len();
    let mut input = InBuffer::around(input);
    let mut output = OutBuffer::around(output);
    // Decompress as a stream: there may be several frames, and the bytes after the last one belong
    // to other data.
    while output.pos() < wanted {
        let before = (input.pos(), output.pos());
        codec
            .decompress_stream(&mut output, &mut input)
            .map_err(failed)?;
        if before == (input.pos(), output.pos()) {
            let len = crate::numbers::to_u64(output.pos());
            return Err(incomplete("zstd", "is truncated", len, wanted));
        }
    }
    Ok(())
}

fn broken(codec: &str) -> Error {
    Error::corrupt(format!(
        "invalid compressed cluster: not valid {codec} data"
    ))
}

fn incomplete(codec: &str, end: &str, len: u64, wanted: usize) -> Error {
    Error::corrupt(format!(
        "invalid compressed cluster: {codec} data {end} after {len} of {wanted} bytes"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn deflated(data: &[u8]) -> Vec<u8> {
        let mut e = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        e.write_all(data).unwrap();
        e.finish().unwrap()
    }

    fn run(codec: Compression, stored: &[u8], len: usize) -> Result<Vec<u8>> {
        let d = Decompressor::new(codec);
        let mut out = vec![9; len];
        for _ in 0..2 {
            // Decompress twice to test the reuse of a context.
            d.run(stored.len() as u64, &mut out, |input| {
                input.copy_from_slice(stored);
                Ok(())
            })?;
        }
        Ok(out)
    }

    #[test]
    fn garbage_behind_the_data_does_not_matter() {
        let data: Vec<u8> = (0..4096_u32).map(|i| (i % 7) as u8).collect();
        let mut z = deflated(&data);
        z.extend([0xff; 700]);
        assert_eq!(run(Compression::Zlib, &z, 4096).unwrap(), data);
        let mut z = zstd::bulk::compress(&data, 3).unwrap();
        z.extend([0xff; 700]);
        assert_eq!(run(Compression::Zstd, &z, 4096).unwrap(), data);
    }

    #[test]
    fn more_than_a_cluster_is_cut_and_less_is_corrupt() {
        let data = vec![7; 8192];
        for (codec, z) in [
            (Compression::Zlib, deflated(&data)),
            (Compression::Zstd, zstd::bulk::compress(&data, 3).unwrap()),
        ] {
            assert_eq!(run(codec, &z, 4096).unwrap(), vec![7; 4096]);
            let e = run(codec, &z, 16384).unwrap_err();
            assert_eq!(e.kind(), diskfs_block::ErrorKind::Corrupt);
            assert!(e.to_string().contains("8192 of 16384"), "{e}");
            let e = run(codec, &z[..z.len() / 2], 8192).unwrap_err();
            assert_eq!(e.kind(), diskfs_block::ErrorKind::Corrupt);
            assert!(run(codec, &[0xaa; 100], 8192).is_err());
        }
    }
}
