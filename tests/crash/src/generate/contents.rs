//! Operations on file contents.

use diskfs_vfs::{Fallocate, FileType};

use super::{FAR, Generator, ORDINARY_BYTES};
use crate::operation::{FileId, Operation};

impl Generator<'_> {
    pub(super) fn write(&mut self) {
        if let Some(file) = self.of_type(FileType::Regular) {
            self.write_to(file);
        }
    }

    pub(super) fn write_to(&mut self, file: FileId) {
        let len = match self.random.weighted(&[6, 6, 3, 1]) {
            0 => self.random.between(1, 200),
            1 => self.random.between(200, 5000),
            2 => self.random.between(5000, 70_000),
            _ => self.random.between(70_000, 400_000),
        };
        let size = self.size(file);
        let offset = match self.random.weighted(&[4, 6, 4, 1]) {
            0 => 0,
            1 => size,
            2 => self.random.below(size.clamp(1, ORDINARY_BYTES)),
            _ => self.far(),
        };
        let len = usize::try_from(len).unwrap_or(1);
        self.push(Operation::Write { file, offset, len });
    }

    pub(super) fn size(&self, file: FileId) -> u64 {
        let inode = self.files.number(file).unwrap_or(self.model.root());
        self.model
            .metadata(inode)
            .map_or(0, |metadata| metadata.size_bytes)
    }

    pub(super) fn far(&mut self) -> u64 {
        let base = self.random.pick(&FAR).copied().unwrap_or(0);
        base + self.random.below(100_000)
    }

    pub(super) fn set_len(&mut self) {
        let Some(file) = self.of_type(FileType::Regular) else {
            return;
        };
        let size = self.size(file);
        let size_bytes = match self.random.weighted(&[3, 6, 4, 1]) {
            0 => 0,
            1 => self.random.below(size + 1),
            2 => size + self.random.below(50_000),
            _ => self.far(),
        };
        self.push(Operation::SetLen { file, size_bytes });
    }

    pub(super) fn fallocate(&mut self) {
        let Some(file) = self.of_type(FileType::Regular) else {
            return;
        };
        let all = [
            Fallocate::Allocate,
            Fallocate::AllocateKeepSize,
            Fallocate::PunchHole,
            Fallocate::ZeroRange,
            Fallocate::ZeroRangeKeepSize,
            Fallocate::CollapseRange,
            Fallocate::InsertRange,
        ];
        let what = self.random.pick(&all).copied().unwrap_or(all[0]);
        let unit = self.plan.unit_bytes;
        let size = self.size(file).min(ORDINARY_BYTES * 2);
        let mut offset = self.random.below(size + 1);
        let mut len_bytes = self.random.between(1, 60_000);
        if !self.random.one_in(3) || moves(what) && !self.random.one_in(5) {
            offset = offset / unit * unit;
            len_bytes = len_bytes.next_multiple_of(unit);
        } else {
            // Unaligned, because the model's block size may differ.
            offset |= 1;
        }
        self.push(Operation::Fallocate {
            file,
            offset,
            len_bytes,
            what,
        });
    }
}

const fn moves(what: Fallocate) -> bool {
    matches!(what, Fallocate::CollapseRange | Fallocate::InsertRange)
}
