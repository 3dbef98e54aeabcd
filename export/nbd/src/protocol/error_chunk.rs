//! The payload of an `NBD_REPLY_TYPE_ERROR` or `NBD_REPLY_TYPE_ERROR_OFFSET` chunk.

use super::chunk_type::ChunkType;
use super::fields::Fields;
use super::limits::MAX_STRING_BYTES;
use super::violation::Violation;

/// The payload of an error chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ErrorChunk {
    /// The number of the error, never 0.
    pub(crate) error: u32,
    /// The text for people, which may be empty.
    pub(crate) message: String,
    /// The byte of the export, for `NBD_REPLY_TYPE_ERROR_OFFSET`.
    pub(crate) offset: Option<u64>,
}

impl ErrorChunk {
    /// The maximum length in bytes that a client accepts, with fields of unknown types.
    pub(crate) const MAX_BYTES: u32 = 8 << 10;

    /// Returns the type of the chunk.
    pub(crate) const fn chunk_type(&self) -> ChunkType {
        match self.offset {
            Some(_) => ChunkType::ErrorOffset,
            None => ChunkType::Error,
        }
    }

    /// Encodes the payload. A longer message than the protocol allows is cut off.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut end = self.message.len().min(MAX_STRING_BYTES);
        while !self.message.is_char_boundary(end) {
            end = end.saturating_sub(1);
        }
        let message = self.message.get(..end).unwrap_or_default();
        let len = u16::try_from(message.len()).unwrap_or(u16::MAX);
        let mut out = self.error.to_be_bytes().to_vec();
        out.extend(len.to_be_bytes());
        out.extend(message.as_bytes());
        out.extend(self.offset.into_iter().flat_map(u64::to_be_bytes));
        out
    }

    /// Decodes the payload of a chunk of any type that is an error. Fields of unknown types are
    /// ignored.
    pub(crate) fn decode(chunk_type: u16, bytes: &[u8]) -> Result<Self, Violation> {
        let mut fields = Fields::of(bytes);
        let error = fields.u32()?;
        let len = fields.u16()?;
        let message = fields.text(usize::from(len))?;
        let offset = if chunk_type == ChunkType::ErrorOffset.number() {
            Some(fields.u64()?)
        } else {
            None
        };
        if error == 0 {
            return Err(Violation("an error without its number"));
        }
        Ok(Self {
            error,
            message,
            offset,
        })
    }
}
