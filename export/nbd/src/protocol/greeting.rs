//! The first message of a server in the newstyle handshake.

use zerocopy::big_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::flags::HandshakeFlags;
use super::violation::{TRUNCATED, Violation};

/// `INIT_PASSWD`, "NBDMAGIC"
const INIT_PASSWD: u64 = 0x4e42_444d_4147_4943;
/// "IHAVEOPT", which also begins each option
pub(super) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// `cliserv_magic` of the oldstyle handshake
const OLDSTYLE_MAGIC: u64 = 0x0000_4202_8186_1253;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawGreeting {
    init_passwd: U64,
    magic: U64,
    flags: U16,
}

/// The greeting of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// The handshake flags, with those that are unknown.
    pub(crate) flags: HandshakeFlags,
}

impl Greeting {
    /// The length in bytes.
    pub(crate) const BYTES: usize = size_of::<RawGreeting>();

    /// Encodes the greeting. Only the lower 16 bits of the flags are sent.
    pub(crate) fn encode(self) -> Vec<u8> {
        let raw = RawGreeting {
            init_passwd: INIT_PASSWD.into(),
            magic: OPTION_MAGIC.into(),
            flags: u16::try_from(self.flags.bits()).unwrap_or(u16::MAX).into(),
        };
        raw.as_bytes().to_vec()
    }

    /// Decodes a greeting.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Violation> {
        let raw = RawGreeting::read_from_bytes(bytes).map_err(|_| TRUNCATED)?;
        if raw.init_passwd.get() != INIT_PASSWD {
            return Err(Violation("the peer is not an NBD server"));
        }
        match raw.magic.get() {
            OPTION_MAGIC => Ok(Self {
                flags: HandshakeFlags::from_bits_retain(raw.flags.get().into()),
            }),
            OLDSTYLE_MAGIC => Err(Violation("the server speaks oldstyle NBD only")),
            _ => Err(Violation("invalid magic number in the greeting")),
        }
    }
}
