//! Random bytes and UUIDs of the host.

use diskfs::Result;
use rustix::rand::{GetRandomFlags, getrandom};
use uuid::Uuid;

/// Fills a buffer with random bytes.
pub(super) fn fill(mut buf: &mut [u8]) -> std::io::Result<()> {
    while !buf.is_empty() {
        let filled = getrandom(&mut *buf, GetRandomFlags::empty())?;
        buf = buf.get_mut(filled..).unwrap_or_default();
    }
    Ok(())
}

/// Returns random bytes.
pub(super) fn bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    fill(&mut bytes)?;
    Ok(bytes)
}

/// Returns a random UUID.
pub(super) fn uuid() -> Result<Uuid> {
    Ok(uuid::Builder::from_random_bytes(bytes()?).into_uuid())
}
