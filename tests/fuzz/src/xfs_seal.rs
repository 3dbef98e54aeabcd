//! Correction of the checksums of XFS, which a mutation never hits by chance.

use std::sync::Arc;

use diskfs_block::{BlockRead, Result};

use crate::xfs_log::Log;

/// A device whose metadata blocks and inodes have valid checksums, if the filesystem has version 5.
/// So have the records of its log.
#[derive(Debug)]
pub(crate) struct Sealed {
    device: Arc<dyn BlockRead>,
    is_version_5: bool,
    sector_bytes: usize,
    block_bytes: usize,
    directory_block_bytes: usize,
    inode_bytes: usize,
    log: Log,
}

impl Sealed {
    pub(crate) fn new(device: Arc<dyn BlockRead>) -> Self {
        let mut superblock = [0; 512];
        let _ = device.read_at(0, &mut superblock);
        let number = |range: std::ops::Range<usize>| {
            let bytes = superblock[range].iter();
            bytes.fold(0, |number, byte| number << 8 | usize::from(*byte))
        };
        let block_bytes = number(4..8).clamp(512, 65_536);
        Self {
            device,
            is_version_5: number(100..102) & 0xf == 5,
            sector_bytes: number(102..104).max(512),
            block_bytes,
            directory_block_bytes: block_bytes << (superblock[192] & 7),
            inode_bytes: number(104..106).max(256),
            log: Log::of(&superblock),
        }
    }

    /// Returns the place of the checksum and the length of the structure at the start of `bytes`.
    fn structure(&self, bytes: &[u8]) -> Option<(usize, usize)> {
        match bytes.first_chunk::<4>()? {
            b"XFSB" => Some((224, self.sector_bytes)),
            b"XAGF" => Some((216, self.sector_bytes)),
            b"XAGI" => Some((312, self.sector_bytes)),
            b"XAFL" => Some((32, self.sector_bytes)),
            b"AB3B" | b"AB3C" | b"RMB3" | b"R3FC" | b"FIB3" | b"IAB3" => {
                Some((52, self.block_bytes))
            }
            b"BMA3" => Some((64, self.block_bytes)),
            b"XSLM" | b"XARM" => Some((12, self.block_bytes)),
            b"XDB3" | b"XDD3" | b"XDF3" => Some((4, self.directory_block_bytes)),
            [b'I', b'N', _, _] if bytes.get(4) == Some(&3) => Some((100, self.inode_bytes)),
            _ => match bytes.get(8..10)? {
                [0x3d, 0xf1 | 0xff] => Some((12, self.directory_block_bytes)),
                [0x3b, 0xee] => Some((12, self.block_bytes)),
                // A node of either tree: the directory's blocks are at least as long.
                [0x3e, 0xbe] => Some((12, bytes.len().min(self.directory_block_bytes))),
                _ => None,
            },
        }
    }
}

impl BlockRead for Sealed {
    fn size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.device.read_at(offset, buf)?;
        if !self.is_version_5 {
            return Ok(());
        }
        if self.log.contains(offset) {
            self.log.seal(&*self.device, offset, buf);
            return Ok(());
        }
        for at in (0..buf.len()).step_by(self.inode_bytes.min(512)) {
            let rest = &mut buf[at..];
            let Some((crc_at, len)) = self.structure(rest) else {
                continue;
            };
            if let Some(bytes) = rest.get_mut(..len)
                && crc_at + 4 <= len
            {
                bytes[crc_at..crc_at + 4].fill(0);
                let crc = crc32c::crc32c(bytes);
                bytes[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fixtures were sealed by the kernel, so sealing them again changes nothing.
    #[test]
    fn seals_as_the_kernel_does() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/images");
        let mut sealed = 0;
        for name in ["default", "inode-2048", "reflink", "rmapbt", "sector-4096"] {
            let path = format!("{directory}/xfs-{name}.zst");
            let image = crate::seeds::decompress(path.as_ref()).unwrap();
            let device = Sealed::new(Arc::new(image.clone()));
            let equal = device.block_bytes == device.directory_block_bytes;
            assert!(equal, "{name}: nodes of either tree would look alike");
            let (mut before, mut after) = (vec![0; device.block_bytes], Vec::new());
            for offset in image
                .block_offsets()
                .filter(|at| at + 4096 <= image.size_bytes())
            {
                image.read_at(offset, &mut before).unwrap();
                after.clone_from(&before);
                device.read_at(offset, &mut after).unwrap();
                assert!(before == after, "{name}: byte {offset}");
                sealed += u32::from(device.structure(&before).is_some());
            }
        }
        assert!(sealed > 100, "{sealed}");
    }
}
