//! Operations that create, rename and remove files.

use diskfs_vfs::{Device, FileType, RenameMode};

use super::Generator;
use crate::operation::{FileId, Operation, Outcome, OwnedNewKind};

impl Generator<'_> {
    pub(super) fn create(&mut self) {
        let dir = self.dir();
        let name = self.name();
        let kind = self.kind();
        let attributes = self.attributes();
        let outcome = self.push(Operation::Create {
            dir,
            name,
            kind: kind.clone(),
            attributes,
        });
        if kind == OwnedNewKind::Regular
            && matches!(outcome, Outcome::Made(_))
            && !self.random.one_in(4)
        {
            let file = FileId::made_by(self.made.len() - 1);
            self.write_to(file);
        }
    }

    pub(super) fn kind(&mut self) -> OwnedNewKind {
        let device = Device {
            major: self.random.pick(&[1, 8, 300]).copied().unwrap_or(1),
            minor: self.random.pick(&[3, 255, 70_000]).copied().unwrap_or(3),
        };
        match self.random.weighted(&[20, 5, 1, 1, 1, 1]) {
            0 => OwnedNewKind::Regular,
            1 => {
                // Up to 59 bytes are stored in the inode, or a few more with inline data.
                let lengths = [1, 20, 58, 59, 60, 61, 100, 150, 1000, 1023, 1500, 4095];
                let len = self.random.pick(&lengths).copied().unwrap_or(1);
                // A target must fit into one block.
                let longest = if self.plan.unit_bytes < 4096 {
                    1000
                } else {
                    1022
                };
                OwnedNewKind::Symlink {
                    len: len.min(longest),
                }
            }
            2 => OwnedNewKind::CharacterDevice(device),
            3 => OwnedNewKind::BlockDevice(device),
            4 => OwnedNewKind::Fifo,
            _ => OwnedNewKind::Socket,
        }
    }

    pub(super) fn make_dir(&mut self) {
        let dir = self.dir();
        let name = self.name();
        let attributes = self.attributes();
        let kind = OwnedNewKind::Directory;
        self.push(Operation::Create {
            dir,
            name,
            kind,
            attributes,
        });
    }

    pub(super) fn create_unnamed(&mut self) {
        let dir = self.dir();
        let attributes = self.attributes();
        let made = self.push(Operation::CreateUnnamed { dir, attributes });
        let file = FileId::made_by(self.made.len() - 1);
        if matches!(made, Outcome::Made(_)) {
            self.write_to(file);
            if self.random.one_in(2) {
                let (dir, name) = (self.dir(), self.name());
                self.push(Operation::Link { file, dir, name });
            }
        }
    }

    pub(super) fn link(&mut self) {
        let file = self.any_file();
        let dir = self.dir();
        let name = self.name();
        if self.types.get(&file) != Some(&FileType::Directory) || self.random.one_in(10) {
            self.push(Operation::Link { file, dir, name });
        }
    }

    pub(super) fn unlink(&mut self) {
        if let Some((dir, name)) = self.entry() {
            let victim = self.files.look_up(self.model, dir, &name);
            if let Some(file) = victim
                && self.types.get(&file) == Some(&FileType::Regular)
                && self.random.one_in(4)
            {
                self.push(Operation::Hold { file });
            }
            self.push(Operation::Unlink { dir, name });
        }
    }

    pub(super) fn rmdir(&mut self) {
        for _ in 0..8 {
            let Some((dir, name)) = self.entry() else {
                return;
            };
            let found = self.files.look_up(self.model, dir, &name);
            if found.is_some_and(|id| self.names.contains_key(&id)) {
                self.push(Operation::Rmdir { dir, name });
                return;
            }
        }
    }

    pub(super) fn rename(&mut self) {
        let Some((dir, name)) = self.entry() else {
            return;
        };
        let modes = [
            RenameMode::Replace,
            RenameMode::Replace,
            RenameMode::NoReplace,
            RenameMode::Exchange,
            RenameMode::Whiteout,
            RenameMode::NoReplaceWhiteout,
        ];
        let mode = self.random.pick(&modes).copied().unwrap_or_default();
        let onto = mode == RenameMode::Exchange || self.random.one_in(2);
        let target = if onto { self.entry() } else { None };
        let (to_dir, to_name) = match target {
            Some(target) => target,
            None => (self.dir(), self.name()),
        };
        self.push(Operation::Rename {
            dir,
            name,
            to_dir,
            to_name,
            mode,
        });
    }
}
