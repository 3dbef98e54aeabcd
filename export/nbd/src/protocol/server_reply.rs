//! The data of `NBD_REP_SERVER`.

#[cfg(test)]
use super::fields::Fields;
use super::fields::put_string;
#[cfg(test)]
use super::violation::Violation;

/// The data of `NBD_REP_SERVER`: one export of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerReply {
    pub(crate) name: String,
    pub(crate) description: String,
}

impl ServerReply {
    /// Encodes the data.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_string(&mut out, &self.name);
        out.extend(self.description.as_bytes());
        out
    }

    /// Decodes the data.
    #[cfg(test)]
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Violation> {
        let mut fields = Fields::of(bytes);
        Ok(Self {
            name: fields.string()?,
            description: fields.last_text()?,
        })
    }
}
