//! The payload of an `NBD_CMD_BLOCK_STATUS` request.

use super::fields::Fields;
use super::limits::MAX_QUERIES;
use super::violation::Violation;

/// The payload of an `NBD_CMD_BLOCK_STATUS` request with `NBD_CMD_FLAG_PAYLOAD_LEN`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatusFilter {
    /// The length of the range.
    pub(crate) len_bytes: u64,
    /// The numbers of the metadata contexts; none twice.
    pub(crate) contexts: Vec<u32>,
}

impl StatusFilter {
    /// Encodes the payload.
    #[cfg(test)]
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = self.len_bytes.to_be_bytes().to_vec();
        for context in &self.contexts {
            out.extend(context.to_be_bytes());
        }
        out
    }

    /// Decodes the payload.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Violation> {
        let mut fields = Fields::of(bytes);
        let len_bytes = fields.u64()?;
        let mut contexts = Vec::new();
        for _ in 0..MAX_QUERIES {
            let rest = fields;
            if rest.end().is_ok() {
                break;
            }
            let context = fields.u32()?;
            if contexts.contains(&context) {
                return Err(Violation("a metadata context twice"));
            }
            contexts.push(context);
        }
        fields.end()?;
        Ok(Self {
            len_bytes,
            contexts,
        })
    }
}
