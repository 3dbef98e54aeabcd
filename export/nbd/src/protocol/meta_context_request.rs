//! The data of `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`.

use super::fields::{Fields, put_string};
use super::limits::MAX_QUERIES;
use super::violation::Violation;

/// The data of `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MetaContextRequest {
    /// The name of the export.
    pub(crate) name: String,
    /// The names of contexts, or patterns of a namespace.
    pub(crate) queries: Vec<String>,
}

impl MetaContextRequest {
    /// Encodes the data.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_string(&mut out, &self.name);
        let count = u32::try_from(self.queries.len()).unwrap_or(u32::MAX);
        out.extend(count.to_be_bytes());
        for query in &self.queries {
            put_string(&mut out, query);
        }
        out
    }

    /// Decodes the data.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Violation> {
        let mut fields = Fields::of(bytes);
        let name = fields.string()?;
        let count = usize::try_from(fields.u32()?).unwrap_or(usize::MAX);
        if count > MAX_QUERIES {
            return Err(Violation("more than 64 queries of metadata contexts"));
        }
        let queries = (0..count)
            .map(|_| fields.string())
            .collect::<Result<_, _>>()?;
        fields.end()?;
        Ok(Self { name, queries })
    }
}
