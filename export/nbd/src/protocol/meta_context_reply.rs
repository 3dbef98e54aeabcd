//! The data of `NBD_REP_META_CONTEXT`.

use super::fields::Fields;
use super::violation::Violation;

/// The data of `NBD_REP_META_CONTEXT`: one metadata context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MetaContextReply {
    /// The number that block statuses have; 0 in a list.
    pub(crate) id: u32,
    pub(crate) name: String,
}

impl MetaContextReply {
    /// Encodes the data.
    pub(crate) fn encode(&self) -> Vec<u8> {
        [&self.id.to_be_bytes(), self.name.as_bytes()].concat()
    }

    /// Decodes the data.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Violation> {
        let mut fields = Fields::of(bytes);
        Ok(Self {
            id: fields.u32()?,
            name: fields.last_text()?,
        })
    }
}
