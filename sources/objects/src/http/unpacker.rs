//! Decompression of what a server sends (zstd). The server may be hostile.

use bytes::Bytes;
use diskfs_block::{Error, ErrorKind, len_of};
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, get_error_name};

use super::answer::more_bytes;
use crate::object::FetchError;

/// The largest window, 8 MiB: what RFC 9659 demands of encoders for HTTP.
const WINDOW_LOG_MAX: u32 = 23;

/// A decoder of frames whose contents have a known length.
pub(super) struct Unpacker {
    context: DCtx<'static>,
    /// The contents, with room for one byte too many.
    plain: Vec<u8>,
    done: usize,
    is_between_frames: bool,
}

impl Unpacker {
    /// Creates a decoder of `len_bytes`.
    pub(super) fn new(len_bytes: u64) -> Result<Self, FetchError> {
        let mut context = DCtx::create();
        let window = DParameter::WindowLogMax(WINDOW_LOG_MAX);
        context.set_parameter(window).map_err(invalid)?;
        let len = usize::try_from(len_bytes).unwrap_or(usize::MAX);
        Ok(Self {
            context,
            plain: vec![0; len.saturating_add(1)],
            done: 0,
            is_between_frames: true,
        })
    }

    /// Returns the largest number of bytes that contents of `len_bytes` may take. Contents that
    /// cannot be compressed become a little longer, and empty frames would make them endless.
    pub(super) fn most_packed_bytes(len_bytes: u64) -> u64 {
        len_bytes
            .saturating_add(len_bytes.wrapping_div(64))
            .saturating_add(64 << 10)
    }

    /// Decodes a part of the frames.
    pub(super) fn add(&mut self, packed: &[u8]) -> Result<(), FetchError> {
        let mut packed = InBuffer::around(packed);
        while packed.pos() < packed.src.len() {
            let mut plain = OutBuffer::around_pos(self.plain.as_mut_slice(), self.done);
            let left = self.context.decompress_stream(&mut plain, &mut packed);
            self.done = plain.pos();
            self.is_between_frames = left.map_err(invalid)? == 0;
            if self.done == self.plain.len() {
                return Err(more_bytes());
            }
        }
        Ok(())
    }

    /// Returns the contents, or the number of their bytes if they are incomplete.
    pub(super) fn finish(mut self) -> Result<Bytes, u64> {
        let len = self.plain.len().saturating_sub(1);
        if self.done < len || !self.is_between_frames {
            self.plain.truncate(self.done);
            return Err(len_of(&self.plain));
        }
        self.plain.truncate(len);
        Ok(self.plain.into())
    }
}

fn invalid(code: usize) -> FetchError {
    let reason = format!(
        "the server sent invalid zstd data: {}",
        get_error_name(code)
    );
    Error::new(ErrorKind::Io, reason).into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unpack(packed: &[u8], len_bytes: u64, part: usize) -> Result<Bytes, String> {
        let mut unpacker = Unpacker::new(len_bytes).unwrap();
        for part in packed.chunks(part) {
            unpacker.add(part).map_err(|error| format!("{error:?}"))?;
        }
        unpacker.finish().map_err(|done| format!("{done} bytes"))
    }

    #[test]
    fn contents_have_their_length() {
        let frame = |len: usize| zstd::bulk::compress(&vec![7; len], 1).unwrap();
        let two = [frame(300_000), frame(5)].concat();
        for part in [1, 7, 1 << 20] {
            assert_eq!(unpack(&two, 300_005, part).unwrap(), vec![7; 300_005]);
            for len_bytes in [0, 10, 300_004] {
                let failed = unpack(&two, len_bytes, part).unwrap_err();
                assert!(failed.contains("more bytes"), "{failed}");
            }
            assert_eq!(unpack(&two, 300_006, part).unwrap_err(), "300005 bytes");
            assert_eq!(unpack(&frame(5)[..6], 5, part).unwrap_err(), "0 bytes");
            assert_eq!(unpack(&[], 0, part).unwrap(), Bytes::new());
            let invalid = unpack(b"no frame of zstd", 10, part).unwrap_err();
            assert!(
                invalid.contains("invalid zstd data: Unknown frame"),
                "{invalid}"
            );
        }
        // A gibibyte in 32 KiB.
        let bomb = zstd::stream::encode_all(std::io::Read::take(std::io::repeat(0), 1 << 30), 1);
        assert!(
            unpack(&bomb.unwrap(), 4 << 20, 1 << 14)
                .unwrap_err()
                .contains("more bytes")
        );
    }

    #[test]
    fn windows_are_bounded() {
        let frame = |log: u32| {
            let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
            encoder.window_log(log).unwrap();
            std::io::Write::write_all(&mut encoder, b"text").unwrap();
            std::io::Write::flush(&mut encoder).unwrap();
            encoder.finish().unwrap()
        };
        assert_eq!(unpack(&frame(23), 4, 5).unwrap(), "text");
        let failed = unpack(&frame(24), 4, 5).unwrap_err();
        assert!(failed.contains("too much memory"), "{failed}");
    }

    proptest! {
        #[test]
        fn random_bytes_do_no_harm(
            mut packed in prop::collection::vec(any::<u8>(), 0..300),
            is_frame in any::<bool>(),
            len_bytes in 0..100_000_u64,
        ) {
            if is_frame {
                packed.splice(0..0, [0x28, 0xb5, 0x2f, 0xfd]);
            }
            if let Ok(plain) = unpack(&packed, len_bytes, 100) {
                prop_assert_eq!(len_of(&plain), len_bytes);
            }
        }
    }
}
