//! The data of `NBD_REP_INFO`.

use super::fields::Fields;
use super::flags::TransmissionFlags;
use super::numbered::numbered;
use super::violation::Violation;

numbered! {
    /// A kind of information about an export (`NBD_INFO_*`).
    enum InfoType: u16 {
        /// `NBD_INFO_EXPORT`
        Export = 0,
        /// `NBD_INFO_NAME`
        Name = 1,
        /// `NBD_INFO_DESCRIPTION`
        Description = 2,
        /// `NBD_INFO_BLOCK_SIZE`
        BlockSize = 3,
    }
}

/// The data of `NBD_REP_INFO`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Info {
    /// The size and the flags.
    Export {
        size_bytes: u64,
        flags: TransmissionFlags,
    },
    /// The canonical name.
    Name(String),
    /// The description for people.
    Description(String),
    /// The size constraints in bytes.
    BlockSize {
        minimum: u32,
        preferred: u32,
        maximum: u32,
    },
}

impl Info {
    /// Encodes the data.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = self.info_type().number().to_be_bytes().to_vec();
        match self {
            Self::Export { size_bytes, flags } => {
                out.extend(size_bytes.to_be_bytes());
                out.extend(flags.bits().to_be_bytes());
            }
            Self::Name(text) | Self::Description(text) => out.extend(text.as_bytes()),
            Self::BlockSize {
                minimum,
                preferred,
                maximum,
            } => {
                for size in [minimum, preferred, maximum] {
                    out.extend(size.to_be_bytes());
                }
            }
        }
        out
    }

    const fn info_type(&self) -> InfoType {
        match self {
            Self::Export { .. } => InfoType::Export,
            Self::Name(_) => InfoType::Name,
            Self::Description(_) => InfoType::Description,
            Self::BlockSize { .. } => InfoType::BlockSize,
        }
    }

    /// Decodes the data. Returns `None` for an unknown kind of information.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Self>, Violation> {
        let mut fields = Fields::of(bytes);
        let Some(info_type) = InfoType::from_number(fields.u16()?) else {
            return Ok(None);
        };
        let info = match info_type {
            InfoType::Name => return Ok(Some(Self::Name(fields.last_text()?))),
            InfoType::Description => return Ok(Some(Self::Description(fields.last_text()?))),
            InfoType::Export => Self::Export {
                size_bytes: fields.u64()?,
                flags: TransmissionFlags::from_bits_retain(fields.u16()?),
            },
            InfoType::BlockSize => Self::BlockSize {
                minimum: fields.u32()?,
                preferred: fields.u32()?,
                maximum: fields.u32()?,
            },
        };
        fields.end()?;
        Ok(Some(info))
    }
}
