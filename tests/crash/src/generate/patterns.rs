//! Sequences of operations that belong together.

use diskfs_vfs::{Fallocate, FileType, NewAttributes, SetXattr, SyncFile};

use super::{Generator, ORDINARY_BYTES, long_name};
use crate::operation::{Bytes, FileId, Operation, OwnedNewKind};

impl Generator<'_> {
    /// Adds long names to one directory, until it gets an index with several levels.
    pub(super) fn grow_a_directory(&mut self) {
        let dir = self.dir();
        let many = if self.random.one_in(3) { 300 } else { 60 };
        let kinds = [
            OwnedNewKind::Regular,
            OwnedNewKind::Regular,
            OwnedNewKind::Regular,
            OwnedNewKind::Directory,
        ];
        for _ in 0..self.random.between(10, many) {
            let number = self.random.any() >> 20;
            let len = self.random.between(100, 255);
            let kind = self
                .random
                .pick(&kinds)
                .cloned()
                .unwrap_or(OwnedNewKind::Fifo);
            let attributes = NewAttributes::for_root(0o755);
            self.push(Operation::Create {
                dir,
                name: long_name(number, usize::try_from(len).unwrap_or(200)),
                kind,
                attributes,
            });
        }
    }

    pub(super) fn empty_a_directory(&mut self) {
        let dir = self.dir();
        let names = self.names.get(&dir).cloned().unwrap_or_default();
        for name in names {
            if self.random.one_in(10) || name == b"lost+found" {
                continue;
            }
            let found = self.files.look_up(self.model, dir, &name);
            let name = Bytes(name);
            if found.is_some_and(|id| self.names.contains_key(&id)) {
                self.push(Operation::Rmdir { dir, name });
            } else {
                self.push(Operation::Unlink { dir, name });
            }
        }
    }

    /// Grows two files alternately, or one with a hole after each block.
    pub(super) fn fragment(&mut self) {
        let Some(file) = self.of_type(FileType::Regular) else {
            return;
        };
        let other = self.of_type(FileType::Regular).unwrap_or(file);
        let step = self.plan.unit_bytes;
        let len = usize::try_from(step).unwrap_or(4096);
        let sparse = self.random.one_in(2);
        for round in 0..self.random.between(10, 120) {
            let file = if round % 2 == 0 || sparse {
                file
            } else {
                other
            };
            let offset = if sparse {
                round * step * 2
            } else {
                self.size(file).min(ORDINARY_BYTES * 4)
            };
            self.push(Operation::Write { file, offset, len });
            if !sparse && self.random.one_in(3) {
                let what = SyncFile::Data;
                self.push(Operation::SyncFile { file, what });
            }
        }
    }

    /// Sets the same attribute value on several files, so that they share the block that contains
    /// it.
    pub(super) fn share_attributes(&mut self) {
        let value = vec![b'S'; usize::try_from(self.random.between(200, 600)).unwrap_or(300)];
        for _ in 0..self.random.between(3, 12) {
            let file = self.of_type(FileType::Regular);
            // Setting an attribute to the value that it has does not count as a change in the
            // kernel.
            let has = |file: &FileId| {
                let inode = self.files.number(*file)?;
                self.model.xattr(inode, b"user.shared").ok()?
            };
            let has = file.as_ref().and_then(has);
            if let Some(file) = file
                && has.is_none_or(|known| known != value)
            {
                self.push(Operation::SetXattr {
                    file,
                    name: Bytes(b"user.shared".to_vec()),
                    value: Bytes(value.clone()),
                    how: SetXattr::Any,
                });
            }
        }
    }

    /// Allocates nearly all free space, or frees it.
    pub(super) fn fill(&mut self) {
        let dir = FileId::ROOT;
        if let Some(name) = self.ballast.take() {
            self.push(Operation::Unlink { dir, name });
            return;
        }
        let name = self.name();
        self.ballast = Some(name.clone());
        let attributes = NewAttributes::for_root(0o600);
        let kind = OwnedNewKind::Regular;
        self.push(Operation::Create {
            dir,
            name,
            kind,
            attributes,
        });
        let file = FileId::made_by(self.made.len() - 1);
        let mut offset = 0;
        for divisor in [2, 4, 6, 8, 10, 12, 16, 24, 32, 48, 64, 100, 200] {
            let len_bytes = self.plan.size_bytes / divisor;
            let what = Fallocate::AllocateKeepSize;
            self.push(Operation::Fallocate {
                file,
                offset,
                len_bytes,
                what,
            });
            offset += len_bytes;
        }
        for _ in 0..self.random.between(5, 30) {
            self.next();
        }
        if let Some(name) = self.ballast.take_if(|_| !self.random.one_in(4)) {
            self.push(Operation::Unlink { dir, name });
        }
    }
}
