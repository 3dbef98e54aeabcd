//! The seek table at the end of a layer with zstd (Zstandard Seekable Format 0.1.0), by which readers
//! find a frame without reading the headers of those before it.

use std::io;

/// The magic numbers of the skippable frame and of the table.
const FRAME_MAGIC: u32 = 0x184d_2a5e;
const MAGIC: u32 = 0x8f92_eab1;
/// The number of entries, the descriptor, and the magic number of the table.
const FOOTER_BYTES: usize = 9;
const ENTRY_BYTES: usize = 8;
/// The descriptor of a table without checksums: the frames have their own.
const DESCRIPTOR: u8 = 0;

/// The most frames of a table (zstd, `ZSTD_SEEKABLE_MAXFRAMES`): more than any disk needs.
const MAX_ENTRIES: usize = 0x800_0000;

/// The lengths of the frames so far.
#[derive(Debug, Default)]
pub(crate) struct SeekTable(Vec<(u32, u32)>);

impl SeekTable {
    /// Adds a frame: its length in the file, and decompressed.
    ///
    /// # Errors
    /// `InvalidInput` for a frame of 4 GiB; a layer has none.
    pub(crate) fn push(&mut self, stored_bytes: usize, unpacked_bytes: usize) -> io::Result<()> {
        let number = |bytes| u32::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput);
        self.0
            .push((number(stored_bytes)?, number(unpacked_bytes)?));
        Ok(())
    }

    /// Returns the table as a skippable frame; empty if it would be too long.
    pub(crate) fn finish(&self) -> Vec<u8> {
        let count = self.0.len();
        let content = count.saturating_mul(ENTRY_BYTES);
        let content = u32::try_from(content.saturating_add(FOOTER_BYTES));
        let (Ok(content), Ok(entries), true) =
            (content, u32::try_from(count), count <= MAX_ENTRIES)
        else {
            return Vec::new();
        };
        let mut frame = [FRAME_MAGIC, content].map(u32::to_le_bytes).concat();
        for (stored_bytes, unpacked_bytes) in &self.0 {
            frame.extend(stored_bytes.to_le_bytes());
            frame.extend(unpacked_bytes.to_le_bytes());
        }
        frame.extend(entries.to_le_bytes());
        frame.push(DESCRIPTOR);
        frame.extend(MAGIC.to_le_bytes());
        frame
    }
}
