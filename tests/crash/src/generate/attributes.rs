//! Operations on metadata and extended attributes.

use diskfs_vfs::{FileFlags, FileType, SetMetadata, SetTime, SetXattr, Timestamp};

use super::Generator;
use crate::operation::{Bytes, FileId, Operation, OwnedNewKind};

impl Generator<'_> {
    pub(super) fn set_metadata(&mut self) {
        let file = self.any_file();
        let mut change = SetMetadata::default();
        match self.random.weighted(&[4, 4, 6, 2]) {
            0 => change.permissions = Some(self.attributes().permissions),
            1 => {
                let attributes = self.attributes();
                change.uid = Some(attributes.uid);
                change.gid = self.random.one_in(2).then_some(attributes.gid);
            }
            2 => {
                change.accessed = self.time();
                change.modified = self.time();
            }
            _ => return self.set_flags(file),
        }
        if self.types.get(&file) == Some(&FileType::Symlink) {
            change.permissions = None;
        }
        if change == SetMetadata::default() {
            return;
        }
        self.push(Operation::SetMetadata { file, change });
    }

    pub(super) fn time(&mut self) -> Option<SetTime> {
        // Values near the first and the last that 32 bits can represent, those that need the extra
        // bits, and one near the last of all. At the limits themselves, the kernel drops the
        // nanoseconds.
        let seconds = [
            -1,
            0,
            1_700_000_000,
            i64::from(i32::MIN) + 1,
            i64::from(i32::MAX) - 1,
            1 << 31,
            1 << 32,
            9_000_000_000,
            15_032_385_534,
        ];
        match self.random.below(4) {
            0 => None,
            1 => Some(SetTime::Now),
            _ => Some(SetTime::At(Timestamp {
                seconds: self.random.pick(&seconds).copied().unwrap_or(0),
                nanoseconds: u32::try_from(self.random.below(1_000_000_000)).unwrap_or(0),
            })),
        }
    }

    /// Sets a flag, tries an operation that it may forbid, and clears it again.
    pub(super) fn set_flags(&mut self, file: FileId) {
        let kind = self.types.get(&file).copied();
        if !matches!(kind, Some(FileType::Regular | FileType::Directory)) || file == FileId::ROOT {
            return;
        }
        let current = self.files.number(file).and_then(|inode| {
            let metadata = self.model.metadata(inode).ok()?;
            Some(metadata.flags)
        });
        let current = current.unwrap_or_default();
        let mut flags = current;
        match self.random.below(3) {
            0 => flags.immutable = true,
            1 => flags.append_only = true,
            _ => flags.no_dump = true,
        }
        let set = |flags: FileFlags| SetMetadata {
            flags: Some(flags),
            ..SetMetadata::default()
        };
        let change = set(flags);
        self.push(Operation::SetMetadata { file, change });
        match (kind, self.random.below(4)) {
            (Some(FileType::Regular), 0) => self.write_to(file),
            (Some(FileType::Regular), 1) => {
                let size_bytes = self.size(file) / 2;
                self.push(Operation::SetLen { file, size_bytes });
            }
            (Some(FileType::Regular), 2) => {
                let (dir, name) = (self.dir(), self.name());
                self.push(Operation::Link { file, dir, name });
            }
            (Some(FileType::Directory), 0 | 1) => {
                let (name, attributes) = (self.name(), self.attributes());
                self.push(Operation::Create {
                    dir: file,
                    name,
                    kind: OwnedNewKind::Regular,
                    attributes,
                });
            }
            _ => {}
        }
        let change = set(current);
        self.push(Operation::SetMetadata { file, change });
    }

    pub(super) fn set_xattr(&mut self) {
        let file = self.any_file();
        let (name, value) = self.attribute(file);
        let how = [
            SetXattr::Any,
            SetXattr::Any,
            SetXattr::Create,
            SetXattr::Replace,
        ];
        let mut how = self.random.pick(&how).copied().unwrap_or_default();
        if name.starts_with(b"system.") {
            // The kernel sets an ACL whether it exists or not.
            how = SetXattr::Any;
        }
        self.push(Operation::SetXattr {
            file,
            name,
            value,
            how,
        });
    }

    pub(super) fn attribute(&mut self, file: FileId) -> (Bytes, Bytes) {
        let kind = self.types.get(&file).copied();
        let user = matches!(kind, Some(FileType::Regular | FileType::Directory));
        if user && self.random.one_in(4) {
            let default = kind == Some(FileType::Directory) && self.random.one_in(2);
            let name: &[u8] = if default {
                b"system.posix_acl_default"
            } else {
                b"system.posix_acl_access"
            };
            return (Bytes(name.to_vec()), Bytes(self.acl()));
        }
        let number = self.random.below(8);
        let space = if user { "user" } else { "trusted" };
        let len = match self.random.weighted(&[6, 4, 2, 1]) {
            0 => self.random.below(20),
            1 => self.random.between(20, 100),
            2 => self.random.between(100, 700),
            _ if self.plan.large_values => self.random.between(5000, 20_000),
            _ => self.random.between(700, 900),
        };
        let byte = b'a' + u8::try_from(number).unwrap_or(0);
        let value = vec![byte; usize::try_from(len).unwrap_or(0)];
        let name = format!("{space}.attribute-{number}");
        (Bytes(name.into_bytes()), Bytes(value))
    }

    /// Returns an ACL (acl(5)) in the format of setxattr(2): version 2, then tag, permissions and
    /// ID of each entry.
    pub(super) fn acl(&mut self) -> Vec<u8> {
        let any = u32::MAX;
        let mut perm = || u16::try_from(self.random.below(8)).unwrap_or(0);
        let mut entries = vec![(1_u16, perm(), any), (2, perm(), 1000), (2, perm(), 70_000)];
        entries.extend([
            (4, perm(), any),
            (8, perm(), 50),
            (16, perm(), any),
            (32, perm(), any),
        ]);
        let minimal = self.random.one_in(6);
        entries.retain(|(tag, ..)| !minimal || matches!(tag, 1 | 4 | 32));
        let mut value = 2_u32.to_le_bytes().to_vec();
        for (tag, perm, id) in entries {
            value.extend_from_slice(&tag.to_le_bytes());
            value.extend_from_slice(&perm.to_le_bytes());
            value.extend_from_slice(&id.to_le_bytes());
        }
        value
    }

    pub(super) fn remove_xattr(&mut self) {
        let file = self.any_file();
        let inode = self.files.number(file).unwrap_or(self.model.root());
        let names = self.model.list_xattrs(inode).unwrap_or_default();
        let name = match self.random.pick(&names) {
            Some(name) => Bytes(name.clone()),
            None if self.random.one_in(4) => Bytes(b"user.none".to_vec()),
            None => return,
        };
        self.push(Operation::RemoveXattr { file, name });
    }
}
