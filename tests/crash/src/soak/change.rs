//! Changes of the image of a soak as a whole: snapshots, bitmaps, its size, and a crash of QEMU.

use anyhow::Result;
use diskfs_image::bitmaps::{self, NewBitmap};
use diskfs_image::{ResizeOptions, Shrink, WritableImage, resize, snapshots};

use super::State;
use super::marks::Marks;

/// The size from which on a disk does not grow, and the one down to which it shrinks.
const LARGEST_BYTES: usize = 4 << 20;
const SMALLEST_BYTES: usize = 512 << 10;

/// The number of snapshots and of bitmaps.
const SNAPSHOTS: usize = 3;
const BITMAPS: usize = 3;

impl State {
    /// Changes the image as a whole.
    pub(super) fn change(&mut self) -> Result<()> {
        match self.random.below(9) {
            0 | 1 if self.snapshots.len() < SNAPSHOTS && !self.sample.has_data_file() => {
                self.create_snapshot()?;
            }
            2 if !self.snapshots.is_empty() => {
                let at = self.random.index(self.snapshots.len());
                let (name, _) = self.snapshots.remove(at);
                snapshots::delete(&self.sample.path(), &name, &self.sample.options())?;
            }
            3 if self.marks.is_empty() && !self.snapshots.is_empty() => {
                let at = self.random.index(self.snapshots.len());
                let (name, bytes) = &self.snapshots[at];
                snapshots::apply(&self.sample.path(), name, &self.sample.options())?;
                self.disk.clone_from(bytes);
            }
            4 | 5 if self.marks.is_empty() => self.resize()?,
            6 if self.marks.len() < BITMAPS => self.add_bitmap()?,
            7 if !self.marks.is_empty() => {
                let at = self.random.index(self.marks.len());
                let name = self.marks.remove(at).name;
                bitmaps::remove(&self.sample.path(), &name, &self.sample.options())?;
            }
            8 if self.marks.is_empty() => self.crash_qemu()?,
            _ => {}
        }
        self.check()
    }

    fn create_snapshot(&mut self) -> Result<()> {
        let name = format!("s{}", self.random.any());
        snapshots::create(&self.sample.path(), &name, &self.sample.options())?;
        self.snapshots.push((name, self.disk.clone()));
        Ok(())
    }

    fn add_bitmap(&mut self) -> Result<()> {
        let name = format!("b{}", self.random.any());
        let granularities = [None, Some(512), Some(4096), Some(65536), Some(1 << 20)];
        let new = NewBitmap {
            granularity_bytes: self.random.pick(&granularities).copied().flatten(),
            ..NewBitmap::default()
        };
        let options = self.sample.options();
        let added = bitmaps::add(&self.sample.path(), &name, new, &options)?;
        self.marks.push(Marks::new(name, added.granularity_bytes));
        Ok(())
    }

    /// Makes the disk larger or smaller. A new end reads as zeroes.
    fn resize(&mut self) -> Result<()> {
        let by = 512 * (1 + self.random.index(1500));
        let len = if self.random.one_in(2) {
            self.disk.len().saturating_sub(by).max(SMALLEST_BYTES)
        } else {
            (self.disk.len() + by).min(LARGEST_BYTES)
        };
        let how = ResizeOptions {
            shrink: Shrink::Allowed,
            ..ResizeOptions::default()
        };
        resize(&self.sample.path(), len as u64, how, &self.sample.options())?;
        self.disk.resize(len, 0);
        Ok(())
    }

    /// Lets QEMU write, and die without closing the image: with lazy refcounts its counts are then
    /// wrong, and the next program that writes repairs them.
    fn crash_qemu(&mut self) -> Result<()> {
        let len = 512 * (1 + self.random.index(100));
        let start = self.random.index(self.disk.len() - len) / 512 * 512;
        let byte = self.random.any().to_le_bytes()[0];
        self.sample.write_and_die(start, len, byte)?;
        self.disk[start..start + len].fill(byte);
        WritableImage::open(&self.sample.path(), &self.sample.options())?.close()?;
        Ok(())
    }
}
