//! The payload of an `NBD_REPLY_TYPE_BLOCK_STATUS` or `NBD_REPLY_TYPE_BLOCK_STATUS_EXT` chunk.

use zerocopy::{FromBytes, IntoBytes};

use super::block_descriptor::{BlockDescriptor, RawBlockDescriptor, RawExtendedBlockDescriptor};
use super::fields::Fields;
use super::reply_header::Headers;
use super::violation::Violation;

/// The status of consecutive runs in one metadata context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockStatus {
    /// The number of the metadata context.
    pub(crate) context: u32,
    /// The runs; at least one.
    pub(crate) runs: Vec<BlockDescriptor>,
}

impl BlockStatus {
    /// Returns the length of the payload of `runs` runs.
    pub(crate) fn bytes(headers: Headers, runs: usize) -> usize {
        let (head, run) = match headers {
            Headers::Extended => (8, size_of::<RawExtendedBlockDescriptor>()),
            Headers::Simple | Headers::Structured => (4, size_of::<RawBlockDescriptor>()),
        };
        runs.saturating_mul(run).saturating_add(head)
    }

    /// Encodes the payload.
    pub(crate) fn encode(&self, headers: Headers) -> Vec<u8> {
        let mut out = self.context.to_be_bytes().to_vec();
        if headers == Headers::Extended {
            let count = u32::try_from(self.runs.len()).unwrap_or(u32::MAX);
            out.extend(count.to_be_bytes());
        }
        for run in &self.runs {
            if headers == Headers::Extended {
                out.extend(RawExtendedBlockDescriptor::from(*run).as_bytes());
            } else {
                out.extend(RawBlockDescriptor::from(*run).as_bytes());
            }
        }
        out
    }

    /// Decodes the payload.
    pub(crate) fn decode(headers: Headers, bytes: &[u8]) -> Result<Self, Violation> {
        let mut fields = Fields::of(bytes);
        let context = fields.u32()?;
        let runs = if headers == Headers::Extended {
            extended(fields.u32()?, bytes.get(8..).unwrap_or_default())?
        } else {
            compact(bytes.get(4..).unwrap_or_default())?
        };
        if runs.is_empty() || runs.iter().any(|run| run.len_bytes == 0) {
            return Err(Violation("a block status without bytes"));
        }
        Ok(Self { context, runs })
    }
}

const BAD_LENGTH: Violation = Violation("invalid length of a block status");

fn compact(bytes: &[u8]) -> Result<Vec<BlockDescriptor>, Violation> {
    let raw = <[RawBlockDescriptor]>::ref_from_bytes(bytes).map_err(|_| BAD_LENGTH)?;
    Ok(raw.iter().map(|run| (*run).into()).collect())
}

fn extended(count: u32, bytes: &[u8]) -> Result<Vec<BlockDescriptor>, Violation> {
    let raw = <[RawExtendedBlockDescriptor]>::ref_from_bytes(bytes).map_err(|_| BAD_LENGTH)?;
    if u32::try_from(raw.len()) != Ok(count) {
        return Err(Violation("invalid number of descriptors in a block status"));
    }
    Ok(raw.iter().map(|run| (*run).into()).collect())
}
