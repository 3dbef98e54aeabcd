//! The first frame of each end.

use serde::{Deserialize, Serialize};

use super::{Checked, MAX_REASON, Moment, Violation, decode};

/// The host's first frame, with request number 0: what a machine does not know that was made from the memory
/// of another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// What time it is.
    pub now: Moment,
    /// Random bytes.
    pub seed: [u8; 32],
}

impl Greeting {
    /// Reads one.
    ///
    /// # Errors
    /// When it is none.
    pub fn decode(message: &[u8]) -> Checked<Self> {
        decode(message).map_err(|_| Violation("the host did not greet"))
    }
}

/// What the agent is and runs on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The agent's version.
    pub agent: String,
    /// The kernel's release, as `uname -r` prints it.
    pub kernel: String,
    /// The architecture, as `uname -m` prints it.
    pub architecture: String,
}

/// The agent's first frame, in answer to the [`Greeting`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hello {
    /// The version of the protocol, [`Hello::VERSION`].
    pub version: u32,
    /// What the agent is.
    pub about: About,
    /// Whether it sees the [area](super::BULK_AREA_BYTES).
    pub has_area: bool,
}

impl Hello {
    /// The protocol's version: whoever has another one can't be spoken with.
    pub const VERSION: u32 = 6;

    /// That of this version.
    pub fn new(about: About, has_area: bool) -> Self {
        Self {
            version: Self::VERSION,
            about,
            has_area,
        }
    }

    /// Reads one. What follows the version may be anything in another version.
    ///
    /// # Errors
    /// When it is none, or of another version.
    pub fn decode(message: &[u8]) -> Checked<Self> {
        const NONE: Violation = Violation("the agent did not introduce itself");
        let (version, rest) = postcard::take_from_bytes(message).map_err(|_| NONE)?;
        if version != Self::VERSION {
            return Err(Violation(
                "the agent speaks another version of the protocol",
            ));
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
