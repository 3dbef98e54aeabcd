//! Unpacking of kernels: extraction of the ELF kernel from a `bzImage`. QEMU enters an ELF kernel at once, while the
//! image would first unpack itself by emulated instructions (`Documentation/arch/x86/boot.rst`,
//! "The Real-Mode Kernel Header").

use std::io::Read;

use crate::architecture::Architecture;
use diskfs_archive::unpack::{self, Streams};
use diskfs_disk::{Error, ErrorKind, Result};

/// The offsets of the header's fields in the image.
const SETUP_SECTS: usize = 0x1f1;
const MAGIC: usize = 0x202;
const VERSION: usize = 0x206;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;

/// The first version whose header has the place of the payload.
const OLDEST: u16 = 0x208;

/// The maximum size of an unpacked kernel: twice that of kernels with everything built in. The file
/// is untrusted.
pub(crate) const MAX_KERNEL_BYTES: u64 = 256 << 20;

/// Returns the kernel as ELF, or a kernel for aarch64 as `Image`, which does not unpack itself;
/// `image` may be that already, also compressed.
///
/// # Errors
/// Fails with `Invalid` if this is not a kernel, with `Unsupported` if its compression is unknown.
pub(crate) fn unpack(image: &[u8]) -> Result<Vec<u8>> {
    if image.starts_with(ELF) || Architecture::of(image).is_some() {
        return Ok(image.to_vec());
    }
    if image.starts_with(GZIP) {
        let kernel = decompress(image, MAX_KERNEL_BYTES)?;
        return match Architecture::of(&kernel) {
            Some(_) => Ok(kernel),
            None => Err(Error::new(ErrorKind::Invalid, "not a kernel")),
        };
    }
    let payload = payload(image).ok_or_else(|| {
        Error::new(
            ErrorKind::Invalid,
            "not a kernel for x86-64 or aarch64: missing header of a bzImage or an Image",
        )
    })?;
    let kernel = decompress(payload, MAX_KERNEL_BYTES)?;
    if !kernel.starts_with(ELF) {
        let reason = "the payload of the bzImage is not an ELF program";
        return Err(Error::new(ErrorKind::Unsupported, reason));
    }
    Ok(kernel)
}

const ELF: &[u8] = b"\x7fELF";

/// The start of a file that is compressed by gzip, as kernels for aarch64 may be (RFC 1952).
const GZIP: &[u8] = &[0x1f, 0x8b];

fn payload(image: &[u8]) -> Option<&[u8]> {
    let u32_at = |at: usize| {
        let bytes = image.get(at..at.checked_add(4)?)?;
        usize::try_from(u32::from_le_bytes(bytes.try_into().ok()?)).ok()
    };
    if image.get(MAGIC..)?.get(..4)? != b"HdrS" {
        return None;
    }
    let version = image
        .get(VERSION..)?
        .first_chunk()
        .copied()
        .map(u16::from_le_bytes)?;
    if version < OLDEST {
        return None;
    }
    // Zero means four, for historical reasons.
    let sectors = match image.get(SETUP_SECTS)? {
        0 => 4,
        sectors => usize::from(*sectors),
    };
    let protected_mode = sectors.checked_add(1)?.checked_mul(512)?;
    let start = protected_mode.checked_add(u32_at(PAYLOAD_OFFSET)?)?;
    image.get(start..)?.get(..u32_at(PAYLOAD_LENGTH)?)
}

/// Unpacks a file by one of the compressions of kernels and modules; an uncompressed file is
/// returned as it is.
///
/// # Errors
/// Fails with `Unsupported` for other compressions and above the size limit, with `Corrupt` for a
/// broken stream.
pub(crate) fn decompress(bytes: &[u8], limit_bytes: u64) -> Result<Vec<u8>> {
    if bytes.starts_with(b"\x7fELF") {
        return Ok(bytes.to_vec());
    }
    // The bytes after the stream (the unpacked size) are ignored.
    let reader = unpack::stream(bytes, Streams::First)?.ok_or_else(unpack::unknown)?;
    let mut unpacked = Vec::new();
    let one_more = limit_bytes.saturating_add(1);
    let read = reader.take(one_more).read_to_end(&mut unpacked);
    read.map_err(|e| Error::new(ErrorKind::Corrupt, format!("cannot unpack: {e}")))?;
    check_len(&unpacked, limit_bytes)?;
    Ok(unpacked)
}

fn check_len(unpacked: &[u8], limit_bytes: u64) -> Result<()> {
    if u64::try_from(unpacked.len()).is_ok_and(|len| len <= limit_bytes) {
        return Ok(());
    }
    let reason = format!(
        "too large: it unpacks to more than {} MiB",
        limit_bytes >> 20
    );
    Err(Error::new(ErrorKind::Unsupported, reason))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 5 * 512 + 64];
        image[MAGIC..MAGIC + 4].copy_from_slice(b"HdrS");
        image[VERSION..VERSION + 2].copy_from_slice(&0x20f_u16.to_le_bytes());
        image[PAYLOAD_OFFSET..PAYLOAD_OFFSET + 4].copy_from_slice(&64_u32.to_le_bytes());
        let len = u32::try_from(payload.len()).unwrap();
        image[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&len.to_le_bytes());
        image.extend_from_slice(payload);
        image.extend_from_slice(b"more");
        image
    }

    #[test]
    fn payloads_are_unpacked() {
        let kernel = [ELF, &[7; 1000]].concat();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&kernel).unwrap();
        let mut gzip = gzip.finish().unwrap();
        gzip.extend_from_slice(&1004_u32.to_le_bytes());
        assert_eq!(unpack(&image(&gzip)).unwrap(), kernel);
        let mut zstd = zstd::encode_all(&kernel[..], 1).unwrap();
        zstd.extend_from_slice(&1004_u32.to_le_bytes());
        assert_eq!(unpack(&image(&zstd)).unwrap(), kernel);
        let block = lz4_flex::block::compress(&kernel);
        let length = u32::try_from(block.len()).unwrap().to_le_bytes();
        let lz4 = [
            &[0x02, 0x21, 0x4c, 0x18][..],
            &length,
            &block,
            &1004_u32.to_le_bytes(),
        ];
        assert_eq!(unpack(&image(&lz4.concat())).unwrap(), kernel);
        assert_eq!(unpack(&kernel).unwrap(), kernel);
    }

    #[test]
    fn kernels_for_aarch64_are_images() {
        let mut kernel = vec![0; 1000];
        kernel[0x38..0x3c].copy_from_slice(b"ARM\x64");
        assert_eq!(unpack(&kernel).unwrap(), kernel);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&kernel).unwrap();
        assert_eq!(unpack(&gzip.finish().unwrap()).unwrap(), kernel);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"no kernel").unwrap();
        let error = unpack(&gzip.finish().unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }

    #[test]
    fn what_is_no_kernel_is_refused() {
        assert_eq!(unpack(b"").unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(unpack(&[0; 4096]).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(
            unpack(&image(b"BZh9")).unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        let mut far = image(b"");
        far[PAYLOAD_OFFSET..PAYLOAD_OFFSET + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(unpack(&far).unwrap_err().kind(), ErrorKind::Invalid);
        let plain = zstd::encode_all(&b"no program"[..], 1).unwrap();
        assert_eq!(
            unpack(&image(&plain)).unwrap_err().kind(),
            ErrorKind::Unsupported
        );
    }

    #[test]
    fn what_unpacks_to_too_much_is_refused() {
        let zeroes = vec![0; 100_000];
        for packed in [zstd::encode_all(&zeroes[..], 1).unwrap(), {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(&zeroes).unwrap();
            gzip.finish().unwrap()
        }] {
            assert_eq!(decompress(&packed, 100_000).unwrap(), zeroes);
            let error = decompress(&packed, 99_999).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
        }
    }
}
