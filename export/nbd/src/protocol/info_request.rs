//! The data of `NBD_OPT_INFO` and `NBD_OPT_GO`.

use super::fields::{Fields, put_string};
use super::info::InfoType;
use super::violation::Violation;

/// The data of `NBD_OPT_INFO` and `NBD_OPT_GO`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InfoRequest {
    /// The name of the export.
    pub(crate) name: String,
    /// The kinds of information that the client asks for, without the unknown ones.
    pub(crate) requests: Vec<InfoType>,
}

impl InfoRequest {
    /// Encodes the data.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_string(&mut out, &self.name);
        let count = u16::try_from(self.requests.len()).unwrap_or(u16::MAX);
        out.extend(count.to_be_bytes());
        for request in &self.requests {
            out.extend(request.number().to_be_bytes());
        }
        out
    }

    /// Decodes the data.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Violation> {
        let mut fields = Fields::of(bytes);
        let name = fields.string()?;
        let mut requests = Vec::new();
        for _ in 0..fields.u16()? {
            requests.extend(InfoType::from_number(fields.u16()?));
        }
        fields.end()?;
        Ok(Self { name, requests })
    }
}
