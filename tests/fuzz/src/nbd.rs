//! Sessions of NBD with peers that send arbitrary bytes.

use std::sync::Arc;

use diskfs_block::{BlockRead, read_within};
use diskfs_nbd::testing::{self, Sessions};

use crate::Sparse;

/// The maximum length of an input. No seed is longer.
const MAX_BYTES: u64 = 64 << 10;

/// Serves a client that sends the input.
pub(crate) fn serve(device: &Arc<dyn BlockRead>) {
    with_input(device, Sessions::serve);
}

/// Reads the replies of a server that sends the input.
pub(crate) fn connect(device: &Arc<dyn BlockRead>) {
    with_input(device, Sessions::connect);
}

fn with_input(device: &Arc<dyn BlockRead>, session: fn(&Sessions, &[u8]) -> bool) {
    let len = usize::try_from(device.size_bytes().min(MAX_BYTES)).unwrap_or(0);
    if let Ok(Some(bytes)) = read_within(&**device, 0, len)
        && let Ok(sessions) = Sessions::new()
    {
        session(&sessions, &bytes);
    }
}

/// Returns what clients send in whole sessions.
pub(crate) fn clients() -> [(&'static str, Sparse); 3] {
    testing::clients().map(|(name, bytes)| (name, sparse(&bytes)))
}

/// Returns what servers send in whole sessions.
pub(crate) fn servers() -> [(&'static str, Sparse); 2] {
    testing::servers().map(|(name, bytes)| (name, sparse(&bytes)))
}

fn sparse(bytes: &[u8]) -> Sparse {
    let mut sparse = Sparse::zeroes(bytes.len() as u64);
    sparse.write(0, bytes);
    sparse
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_whole_sessions() {
        let sessions = Sessions::new().unwrap();
        for (name, bytes) in testing::clients() {
            assert!(sessions.serve(&bytes), "{name}");
            assert!(!sessions.serve(&bytes[..bytes.len() - 1]), "{name}");
        }
        for (name, bytes) in testing::servers() {
            assert!(sessions.connect(&bytes), "{name}");
        }
        assert!(!sessions.connect(b"NBDMAGIC"));
    }
}
