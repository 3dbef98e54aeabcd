//! The pointer to the LUKS header of an encrypted image: specification, section "Full disk
//! encryption header pointer".

use std::sync::Arc;

use diskfs_block::{BlockRead, Error, Result, Slice};
use zerocopy::byteorder::big_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::numbers::to_u64;
use crate::qcow2::units::{Geometry, HostOffset};

/// The `crypt_method` of an image that is not encrypted.
const NONE: u32 = 0;
/// The method AES-CBC with a passphrase as the key; QEMU itself only converts such images.
const AES: u32 = 1;
const LUKS: u32 = 2;
/// The offset of the header field `crypt_method`.
const METHOD_AT: u64 = 32;

#[derive(Debug, Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawEncryptionHeader {
    offset: U64,
    length: U64,
}

/// The location of the LUKS header with its key slots, from the header extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EncryptionHeader {
    pub(crate) at: HostOffset,
    pub(crate) size_bytes: u64,
}

/// Returns the encryption method of an image.
pub(crate) const fn method_of(encryption: Option<EncryptionHeader>) -> u32 {
    match encryption {
        Some(_) => LUKS,
        None => NONE,
    }
}

impl EncryptionHeader {
    /// Returns the bytes of the extension.
    pub(crate) fn encode(self) -> Vec<u8> {
        let raw = RawEncryptionHeader {
            offset: self.at.0.into(),
            length: self.size_bytes.into(),
        };
        raw.as_bytes().to_vec()
    }

    /// Parses the extension's bytes, which are at offset `at` of the file.
    pub(crate) fn parse(data: &[u8], at: usize) -> Result<Self> {
        let raw = RawEncryptionHeader::read_from_bytes(data).map_err(|_| {
            let reason = format!(
                "invalid encryption header extension: {} bytes, not 16",
                data.len()
            );
            Error::corrupt(reason).at(to_u64(at))
        })?;
        Ok(Self {
            at: HostOffset(raw.offset.get()),
            size_bytes: raw.length.get(),
        })
    }

    /// Returns the location of the LUKS header if the encryption method uses one.
    pub(crate) fn of_method(
        method: u32,
        extension: Option<Self>,
        file: &dyn BlockRead,
        geometry: Geometry,
    ) -> Result<Option<Self>> {
        match (method, extension) {
            (NONE, None) => Ok(None),
            (AES, _) => Err(Error::unsupported(
                "unsupported encryption method AES-CBC, which is obsolete and insecure",
            )
            .at(METHOD_AT)
            .with_hint(
                "convert it with `qemu-img convert` and its key to `-O qcow2 -o \
                 encrypt.format=luks`",
            )),
            (LUKS, Some(header)) => header.check(file, geometry).map(Some),
            (LUKS, None) => {
                let reason = "missing encryption header extension: the image is encrypted with \
                     LUKS";
                Err(Error::corrupt(reason).at(METHOD_AT))
            }
            (NONE, Some(header)) => {
                let reason = "the image has a LUKS header, but is not encrypted";
                Err(Error::corrupt(reason).at(header.at.0))
            }
            (other, _) => {
                let reason = format!("unknown encryption method {other}");
                Err(Error::corrupt(reason).at(METHOD_AT))
            }
        }
    }

    fn check(self, file: &dyn BlockRead, geometry: Geometry) -> Result<Self> {
        let at = self.at.0;
        if at == 0 || !geometry.is_cluster_aligned(at) {
            let reason =
                format!("invalid LUKS header offset {at:#x}: not at the start of a cluster");
            return Err(Error::corrupt(reason).at(at));
        }
        let end = at.checked_add(self.size_bytes);
        if end.is_none_or(|end| end > file.size_bytes()) {
            let reason = format!(
                "LUKS header of {} bytes extends past the end of the file",
                self.size_bytes
            );
            return Err(Error::corrupt(reason).at(at));
        }
        Ok(self)
    }

    /// Returns the LUKS header as a device of its own.
    pub(crate) fn device(self, file: Arc<dyn BlockRead>) -> Result<Slice> {
        Slice::new(file, self.at.0, self.size_bytes)
    }
}
