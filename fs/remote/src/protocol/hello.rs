//! The handshake: the first frame of each side.

use serde::{Deserialize, Serialize};

use super::{Checked, MAX_REASON, Violation, WireTime, decode};

/// The host's first frame, with request number 0. It brings what a machine that was restored from a
/// saved state lacks: the current time and fresh randomness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostHello {
    /// The current time.
    pub now: WireTime,
    /// Random bytes for the kernel's entropy.
    pub seed: [u8; 32],
}

impl HostHello {
    /// Decodes the host's first frame.
    ///
    /// # Errors
    /// Fails if it is invalid.
    pub fn decode(message: &[u8]) -> Checked<Self> {
        decode(message).map_err(|_| Violation("invalid handshake from the host"))
    }
}

/// A description of the agent and its machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The agent's version.
    pub agent: String,
    /// The kernel's release, as `uname -r` prints it.
    pub kernel: String,
    /// The architecture, as `uname -m` prints it.
    pub architecture: String,
}

/// The agent's first frame, the answer to the [`HostHello`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentHello {
    /// The version of the protocol, [`AgentHello::VERSION`].
    pub version: u32,
    /// The description of the agent.
    pub about: About,
    /// True if the agent sees the [area](super::BULK_AREA_BYTES).
    pub has_area: bool,
}

impl AgentHello {
    /// The version of the protocol; different versions are incompatible.
    pub const VERSION: u32 = 8;

    /// Creates the frame of this version.
    pub fn new(about: About, has_area: bool) -> Self {
        Self {
            version: Self::VERSION,
            about,
            has_area,
        }
    }

    /// Decodes the agent's first frame. In another version, anything may follow the version number.
    ///
    /// # Errors
    /// Fails if the frame is invalid or has another version.
    pub fn decode(message: &[u8]) -> Checked<Self> {
        const NONE: Violation = Violation("invalid handshake from the agent");
        let (version, rest) = postcard::take_from_bytes(message).map_err(|_| NONE)?;
        if version != Self::VERSION {
            return Err(Violation("the agent has another version of the protocol"));
        }
        let (about, has_area): (About, bool) = decode(rest)?;
        let texts = [&about.agent, &about.kernel, &about.architecture];
        if texts.iter().any(|text| text.len() > MAX_REASON) {
            return Err(NONE);
        }
        Ok(Self {
            version,
            about,
            has_area,
        })
    }
}
