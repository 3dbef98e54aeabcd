//! Identifiers of an image: derived from a seed, or random.

use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use diskfs_disk::Result;
use diskfs_volume::lvm::LvmId;

/// The source of identifiers that a plan does not give.
#[derive(Debug, Clone)]
pub(crate) struct Ids {
    seed: Option<String>,
}

impl Ids {
    pub(crate) fn new(seed: Option<&str>) -> Self {
        Self {
            seed: seed.map(str::to_owned),
        }
    }

    /// Fills a buffer with the bytes that have this name: always the same for one seed.
    pub(crate) fn fill(&self, name: &str, buffer: &mut [u8]) -> Result<()> {
        match &self.seed {
            Some(seed) => expand(&[seed.as_bytes(), name.as_bytes()], buffer),
            None => fill_random(buffer)?,
        }
        Ok(())
    }

    pub(crate) fn uuid(&self, name: &str) -> Result<Uuid> {
        let mut bytes = [0; 16];
        self.fill(name, &mut bytes)?;
        Ok(uuid::Builder::from_random_bytes(bytes).into_uuid())
    }

    pub(crate) fn number(&self, name: &str) -> Result<u32> {
        let mut bytes = [0; 4];
        self.fill(name, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    pub(crate) fn lvm(&self, name: &str) -> Result<LvmId> {
        let mut bytes = [0; 32];
        self.fill(name, &mut bytes)?;
        Ok(LvmId::from_random(bytes))
    }
}

/// Fills a buffer with hashes of the parts and a counter. The bytes can't be predicted without the
/// parts.
pub(crate) fn expand(parts: &[&[u8]], buffer: &mut [u8]) {
    for (counter, piece) in (0_u64..).zip(buffer.chunks_mut(32)) {
        let mut hash = Sha256::new();
        hash.update(b"diskfs build");
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.update(counter.to_le_bytes());
        for (byte, new) in piece.iter_mut().zip(hash.finalize()) {
            *byte = new;
        }
    }
}

/// Fills a buffer with unpredictable bytes.
pub(crate) fn fill_random(buffer: &mut [u8]) -> Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        let rest = buffer.get_mut(filled..).unwrap_or_default();
        filled += getrandom(rest, GetRandomFlags::empty()).map_err(std::io::Error::from)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_follow_from_the_seed_and_the_name() {
        let ids = Ids::new(Some("a"));
        assert_eq!(
            ids.uuid("x").unwrap(),
            Ids::new(Some("a")).uuid("x").unwrap()
        );
        assert_ne!(ids.uuid("x").unwrap(), ids.uuid("y").unwrap());
        assert_ne!(
            ids.uuid("x").unwrap(),
            Ids::new(Some("b")).uuid("x").unwrap()
        );
        let random = Ids::new(None);
        assert_ne!(random.uuid("x").unwrap(), random.uuid("x").unwrap());
        assert_eq!(ids.uuid("x").unwrap().get_version_num(), 4);
    }
}
