//! A regular file of a guest as a block device.

use diskfs_block::{BlockRead, Error, ErrorKind, Result, check_bounds, len_of};

use crate::File;

/// A regular file of a guest as a block device.
#[derive(Debug)]
pub struct FileDevice(pub File);

impl BlockRead for FileDevice {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_bounds(offset, len_of(buf), self.size_bytes())?;
        let mut filled = 0;
        while filled < buf.len() {
            let read = self.0.read_at(offset + filled as u64, &mut buf[filled..]);
            let read = read.map_err(|error| Error::new(ErrorKind::Io, error.to_string()))?;
            if read == 0 {
                return Err(Error::new(ErrorKind::Io, "the file ends before its size").at(offset));
            }
            filled += read;
        }
        Ok(())
    }
}
