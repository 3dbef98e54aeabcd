//! Random operations. They are made up beforehand, on a model of their own, so that a part of them
//! can be left out and the rest stays the same.

use std::collections::BTreeMap;

use diskfs_vfs::{
    Device, Fallocate, FileFlags, FileType, FsWrite, NewAttributes, RenameMode, SetMetadata,
    SetTime, SetXattr, SyncFile, Timestamp,
};

use crate::chance::Chance;
use crate::files::Files;
use crate::operation::{Bytes, FileId, Kind, Operation, Outcome};

/// What the operations are made for.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// How many operations.
    pub operations: usize,
    /// The filesystem's size, so that it is filled sometimes.
    pub size_bytes: u64,
    /// What ranges are aligned to, when they have to be.
    pub unit_bytes: u64,
    /// Whether attributes are made that need inodes of their own.
    pub large_values: bool,
}

/// The largest offset of an ordinary write. Files of this size have a tree of extents.
const ORDINARY_BYTES: u64 = 200 << 10;

/// Where sparse files have their last bytes: every level of a block map, and beyond 4 GiB.
const FAR: [u64; 5] = [1 << 20, 20 << 20, 300 << 20, 5 << 30, 60 << 30];

/// Makes up operations for `model`, which is changed by them.
///
/// `files` are those that are there at the beginning.
pub fn generate(plan: Plan, chance: Chance, model: &dyn FsWrite, files: Files) -> Vec<Operation> {
    let mut generator = Generator::new(plan, chance, model, files);
    while generator.made.len() < plan.operations {
        generator.next();
    }
    generator.made.truncate(plan.operations);
    generator.made
}

struct Generator<'a> {
    plan: Plan,
    chance: Chance,
    model: &'a dyn FsWrite,
    files: Files,
    types: BTreeMap<FileId, FileType>,
    names: BTreeMap<FileId, Vec<Vec<u8>>>,
    holds: Vec<FileId>,
    /// The file that fills the filesystem, until it is removed.
    ballast: Option<Bytes>,
    made: Vec<Operation>,
}

impl<'a> Generator<'a> {
    fn new(plan: Plan, chance: Chance, model: &'a dyn FsWrite, files: Files) -> Self {
        let mut generator = Self {
            plan,
            chance,
            model,
            types: BTreeMap::new(),
            names: BTreeMap::new(),
            holds: Vec::new(),
            ballast: None,
            made: Vec::new(),
            files,
        };
        let ids: Vec<_> = generator.files.ids().collect();
        for id in ids {
            generator.meet(id);
        }
        generator
    }

    /// Learns what a file is.
    fn meet(&mut self, id: FileId) {
        let Some(inode) = self.files.number(id) else {
            return;
        };
        let Ok(metadata) = self.model.metadata(inode) else {
            return;
        };
        self.types.insert(id, metadata.file_type);
        if metadata.is_dir() {
            let entries = self.model.read_dir(inode, 0).into_iter().flatten();
            let names = entries.flatten().map(|entry| entry.name);
            let names = names.filter(|name| name != b"." && name != b"..");
            self.names.insert(id, names.collect());
        }
    }

    /// Does an operation on the model, and remembers what came of it.
    fn push(&mut self, operation: Operation) -> Outcome {
        let number = self.made.len();
        let touched = self.files.touched(self.model, &operation);
        let numbers = self.files.clone();
        let inode = |id| numbers.number(id).unwrap_or(self.model.root());
        let outcome = operation.perform(number, self.model, inode);
        if let Outcome::Made(inode) = outcome {
            self.files.add(FileId::made_by(number), inode);
            self.meet(FileId::made_by(number));
        }
        if !matches!(outcome, Outcome::Failed(_)) {
            self.note_holds(number, &operation);
            self.note_whiteout(number, &operation);
        }
        for gone in self.files.forget_gone(self.model, &touched) {
            self.types.remove(&gone);
            self.names.remove(&gone);
            self.holds.retain(|held| *held != gone);
        }
        for (dir, name) in operation.names() {
            self.note_name(dir, name);
        }
        self.made.push(operation);
        outcome
    }

    fn note_holds(&mut self, number: usize, operation: &Operation) {
        match operation {
            Operation::CreateUnnamed { .. } => self.holds.push(FileId::made_by(number)),
            Operation::Hold { file } => self.holds.push(*file),
            Operation::Release { file } => {
                if let Some(at) = self.holds.iter().position(|held| held == file) {
                    self.holds.swap_remove(at);
                }
            }
            _ => {}
        }
    }

    fn note_whiteout(&mut self, number: usize, operation: &Operation) {
        let Some((dir, name)) = operation.whiteout() else {
            return;
        };
        let dir = self.files.number(dir);
        if let Some(Ok(made)) = dir.map(|dir| self.model.lookup(dir, name))
            && self.files.id(made).is_none()
        {
            self.files.add(FileId::made_by(number), made);
            self.meet(FileId::made_by(number));
        }
    }

    fn note_name(&mut self, dir: FileId, name: &[u8]) {
        let there = self
            .files
            .number(dir)
            .is_some_and(|inode| self.model.lookup(inode, name).is_ok());
        let Some(names) = self.names.get_mut(&dir) else {
            return;
        };
        let known = names.iter().position(|known| known == name);
        match (known, there) {
            (None, true) => names.push(name.to_vec()),
            (Some(at), false) => {
                names.swap_remove(at);
            }
            _ => {}
        }
    }

    fn of_type(&mut self, wanted: FileType) -> Option<FileId> {
        let ids: Vec<_> = self
            .types
            .iter()
            .filter(|(_, found)| **found == wanted)
            .map(|(id, _)| *id)
            .collect();
        self.chance.pick(&ids).copied()
    }

    fn any_file(&mut self) -> FileId {
        let ids: Vec<_> = self.types.keys().copied().collect();
        self.chance.pick(&ids).copied().unwrap_or(FileId::ROOT)
    }

    /// A directory; those with many names more often, so that they grow.
    fn dir(&mut self) -> FileId {
        let mut best = self.of_type(FileType::Directory).unwrap_or(FileId::ROOT);
        if self.chance.one_in(2) {
            let other = self.of_type(FileType::Directory).unwrap_or(FileId::ROOT);
            if self.count(other) > self.count(best) {
                best = other;
            }
        }
        best
    }

    fn count(&self, dir: FileId) -> usize {
        self.names.get(&dir).map_or(0, Vec::len)
    }

    /// A name that is there.
    fn entry(&mut self) -> Option<(FileId, Bytes)> {
        for _ in 0..4 {
            let dir = self.dir();
            let names = self.names.get(&dir)?;
            if let Some(name) = self.chance.pick(names)
                && name != b"lost+found"
            {
                return Some((dir, Bytes(name.clone())));
            }
        }
        None
    }

    /// A name that is not there, most likely. In lower case, so that folding makes no two alike.
    fn name(&mut self) -> Bytes {
        let number = self.chance.below(1_000_000);
        let len = match self.chance.weighted(&[10, 3, 3, 1]) {
            0 => return Bytes(format!("n{number}").into_bytes()),
            1 => self.chance.between(20, 80),
            2 => self.chance.between(180, 254),
            _ => 255,
        };
        long_name(number, usize::try_from(len).unwrap_or(255))
    }

    fn attributes(&mut self) -> NewAttributes {
        let owners = [0, 0, 1000, 70_000, 4_000_000_000];
        let id = |chance: &mut Chance| chance.pick(&owners).copied().unwrap_or(0);
        let modes = [0o644, 0o600, 0o755, 0o777, 0o2755, 0o4755, 0o1777, 0];
        NewAttributes {
            permissions: self.chance.pick(&modes).copied().unwrap_or(0o644),
            umask: if self.chance.one_in(2) { 0o022 } else { 0 },
            uid: id(&mut self.chance),
            gid: id(&mut self.chance),
        }
    }

    fn next(&mut self) {
        match self.chance.weighted(&[
            160, 60, 40, 60, 20, 60, 160, 50, 60, 60, 50, 20, 20, 30, 20, 6, 8, 6, 3, 4, 6, 4,
        ]) {
            0 => self.create(),
            1 => self.make_dir(),
            2 => self.link(),
            3 => self.unlink(),
            4 => self.rmdir(),
            5 => self.rename(),
            6 => self.write(),
            7 => self.set_len(),
            8 => self.fallocate(),
            9 => self.set_metadata(),
            10 => self.set_xattr(),
            11 => self.remove_xattr(),
            12 => self.hold(),
            13 => self.release(),
            14 => self.sync_file(),
            15 => {
                self.push(Operation::Sync);
            }
            16 => self.create_unnamed(),
            17 => self.grow_a_directory(),
            18 => self.empty_a_directory(),
            19 => self.fragment(),
            20 => self.share_attributes(),
            _ => self.fill(),
        }
    }

    fn create(&mut self) {
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
        if kind == Kind::Regular && matches!(outcome, Outcome::Made(_)) && !self.chance.one_in(4) {
            let file = FileId::made_by(self.made.len() - 1);
            self.write_to(file);
        }
    }

    fn kind(&mut self) -> Kind {
        let device = Device {
            major: self.chance.pick(&[1, 8, 300]).copied().unwrap_or(1),
            minor: self.chance.pick(&[3, 255, 70_000]).copied().unwrap_or(3),
        };
        match self.chance.weighted(&[20, 5, 1, 1, 1, 1]) {
            0 => Kind::Regular,
            1 => {
                // Up to 59 bytes lie in the inode, or a few more with inline data.
                let lengths = [1, 20, 58, 59, 60, 61, 100, 150, 1000, 1023, 1500, 4095];
                let len = self.chance.pick(&lengths).copied().unwrap_or(1);
                // A target lies in one block.
                let longest = if self.plan.unit_bytes < 4096 {
                    1000
                } else {
                    1022
                };
                Kind::Symlink {
                    len: len.min(longest),
                }
            }
            2 => Kind::CharacterDevice(device),
            3 => Kind::BlockDevice(device),
            4 => Kind::Fifo,
            _ => Kind::Socket,
        }
    }

    fn make_dir(&mut self) {
        let dir = self.dir();
        let name = self.name();
        let attributes = self.attributes();
        let kind = Kind::Directory;
        self.push(Operation::Create {
            dir,
            name,
            kind,
            attributes,
        });
    }

    fn create_unnamed(&mut self) {
        let dir = self.dir();
        let attributes = self.attributes();
        let made = self.push(Operation::CreateUnnamed { dir, attributes });
        let file = FileId::made_by(self.made.len() - 1);
        if matches!(made, Outcome::Made(_)) {
            self.write_to(file);
            if self.chance.one_in(2) {
                let (dir, name) = (self.dir(), self.name());
                self.push(Operation::Link { file, dir, name });
            }
        }
    }

    fn link(&mut self) {
        let file = self.any_file();
        let dir = self.dir();
        let name = self.name();
        if self.types.get(&file) != Some(&FileType::Directory) || self.chance.one_in(10) {
            self.push(Operation::Link { file, dir, name });
        }
    }

    fn unlink(&mut self) {
        if let Some((dir, name)) = self.entry() {
            let victim = self.files.look_up(self.model, dir, &name);
            if let Some(file) = victim
                && self.types.get(&file) == Some(&FileType::Regular)
                && self.chance.one_in(4)
            {
                self.push(Operation::Hold { file });
            }
            self.push(Operation::Unlink { dir, name });
        }
    }

    fn rmdir(&mut self) {
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

    fn rename(&mut self) {
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
        let mode = self.chance.pick(&modes).copied().unwrap_or_default();
        let onto = mode == RenameMode::Exchange || self.chance.one_in(2);
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

    fn write(&mut self) {
        if let Some(file) = self.of_type(FileType::Regular) {
            self.write_to(file);
        }
    }

    fn write_to(&mut self, file: FileId) {
        let len = match self.chance.weighted(&[6, 6, 3, 1]) {
            0 => self.chance.between(1, 200),
            1 => self.chance.between(200, 5000),
            2 => self.chance.between(5000, 70_000),
            _ => self.chance.between(70_000, 400_000),
        };
        let size = self.size(file);
        let offset = match self.chance.weighted(&[4, 6, 4, 1]) {
            0 => 0,
            1 => size,
            2 => self.chance.below(size.clamp(1, ORDINARY_BYTES)),
            _ => self.far(),
        };
        let len = usize::try_from(len).unwrap_or(1);
        self.push(Operation::Write { file, offset, len });
    }

    fn size(&self, file: FileId) -> u64 {
        let inode = self.files.number(file).unwrap_or(self.model.root());
        self.model
            .metadata(inode)
            .map_or(0, |metadata| metadata.size_bytes)
    }

    fn far(&mut self) -> u64 {
        let base = self.chance.pick(&FAR).copied().unwrap_or(0);
        base + self.chance.below(100_000)
    }

    fn set_len(&mut self) {
        let Some(file) = self.of_type(FileType::Regular) else {
            return;
        };
        let size = self.size(file);
        let size_bytes = match self.chance.weighted(&[3, 6, 4, 1]) {
            0 => 0,
            1 => self.chance.below(size + 1),
            2 => size + self.chance.below(50_000),
            _ => self.far(),
        };
        self.push(Operation::SetLen { file, size_bytes });
    }

    fn fallocate(&mut self) {
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
        let what = self.chance.pick(&all).copied().unwrap_or(all[0]);
        let unit = self.plan.unit_bytes;
        let size = self.size(file).min(ORDINARY_BYTES * 2);
        let mut offset = self.chance.below(size + 1);
        let mut len_bytes = self.chance.between(1, 60_000);
        if !self.chance.one_in(3) || moves(what) && !self.chance.one_in(5) {
            offset = offset / unit * unit;
            len_bytes = len_bytes.next_multiple_of(unit);
        } else {
            // Aligned to nothing at all: what is a block here may not be one in the model.
            offset |= 1;
        }
        self.push(Operation::Fallocate {
            file,
            offset,
            len_bytes,
            what,
        });
    }

    fn set_metadata(&mut self) {
        let file = self.any_file();
        let mut change = SetMetadata::default();
        match self.chance.weighted(&[4, 4, 6, 2]) {
            0 => change.permissions = Some(self.attributes().permissions),
            1 => {
                let attributes = self.attributes();
                change.uid = Some(attributes.uid);
                change.gid = self.chance.one_in(2).then_some(attributes.gid);
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

    fn time(&mut self) -> Option<SetTime> {
        // Nearly the first and last that 32 bits hold, those that need the extra bits, and nearly the
        // last of all: at the ends themselves the kernel leaves out the nanoseconds.
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
        match self.chance.below(4) {
            0 => None,
            1 => Some(SetTime::Now),
            _ => Some(SetTime::At(Timestamp {
                seconds: self.chance.pick(&seconds).copied().unwrap_or(0),
                nanoseconds: u32::try_from(self.chance.below(1_000_000_000)).unwrap_or(0),
            })),
        }
    }

    /// Sets a flag, does something that it may forbid, and takes it away again.
    fn set_flags(&mut self, file: FileId) {
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
        match self.chance.below(3) {
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
        match (kind, self.chance.below(4)) {
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
                    kind: Kind::Regular,
                    attributes,
                });
            }
            _ => {}
        }
        let change = set(current);
        self.push(Operation::SetMetadata { file, change });
    }

    fn set_xattr(&mut self) {
        let file = self.any_file();
        let (name, value) = self.attribute(file);
        let how = [
            SetXattr::Any,
            SetXattr::Any,
            SetXattr::Create,
            SetXattr::Replace,
        ];
        let mut how = self.chance.pick(&how).copied().unwrap_or_default();
        if name.starts_with(b"system.") {
            // The kernel sets an ACL whether there is one or not.
            how = SetXattr::Any;
        }
        self.push(Operation::SetXattr {
            file,
            name,
            value,
            how,
        });
    }

    fn attribute(&mut self, file: FileId) -> (Bytes, Bytes) {
        let kind = self.types.get(&file).copied();
        let user = matches!(kind, Some(FileType::Regular | FileType::Directory));
        if user && self.chance.one_in(4) {
            let default = kind == Some(FileType::Directory) && self.chance.one_in(2);
            let name: &[u8] = if default {
                b"system.posix_acl_default"
            } else {
                b"system.posix_acl_access"
            };
            return (Bytes(name.to_vec()), Bytes(self.acl()));
        }
        let number = self.chance.below(8);
        let space = if user { "user" } else { "trusted" };
        let len = match self.chance.weighted(&[6, 4, 2, 1]) {
            0 => self.chance.below(20),
            1 => self.chance.between(20, 100),
            2 => self.chance.between(100, 700),
            _ if self.plan.large_values => self.chance.between(5000, 20_000),
            _ => self.chance.between(700, 900),
        };
        let byte = b'a' + u8::try_from(number).unwrap_or(0);
        let value = vec![byte; usize::try_from(len).unwrap_or(0)];
        let name = format!("{space}.attribute-{number}");
        (Bytes(name.into_bytes()), Bytes(value))
    }

    /// acl(5) in the form of setxattr(2): version 2, then tag, permissions and id of each entry.
    fn acl(&mut self) -> Vec<u8> {
        let any = u32::MAX;
        let mut perm = || u16::try_from(self.chance.below(8)).unwrap_or(0);
        let mut entries = vec![(1_u16, perm(), any), (2, perm(), 1000), (2, perm(), 70_000)];
        entries.extend([
            (4, perm(), any),
            (8, perm(), 50),
            (16, perm(), any),
            (32, perm(), any),
        ]);
        let minimal = self.chance.one_in(6);
        entries.retain(|(tag, ..)| !minimal || matches!(tag, 1 | 4 | 32));
        let mut value = 2_u32.to_le_bytes().to_vec();
        for (tag, perm, id) in entries {
            value.extend_from_slice(&tag.to_le_bytes());
            value.extend_from_slice(&perm.to_le_bytes());
            value.extend_from_slice(&id.to_le_bytes());
        }
        value
    }

    fn remove_xattr(&mut self) {
        let file = self.any_file();
        let inode = self.files.number(file).unwrap_or(self.model.root());
        let names = self.model.list_xattrs(inode).unwrap_or_default();
        let name = match self.chance.pick(&names) {
            Some(name) => Bytes(name.clone()),
            None if self.chance.one_in(4) => Bytes(b"user.none".to_vec()),
            None => return,
        };
        self.push(Operation::RemoveXattr { file, name });
    }

    fn hold(&mut self) {
        if let Some(file) = self.of_type(FileType::Regular) {
            self.push(Operation::Hold { file });
        }
    }

    fn release(&mut self) {
        if let Some(file) = self.chance.pick(&self.holds).copied() {
            self.push(Operation::Release { file });
        }
    }

    fn sync_file(&mut self) {
        let recent: Vec<_> = self
            .types
            .keys()
            .rev()
            .filter(|id| id.is_made())
            .take(10)
            .copied()
            .collect();
        let file = self.chance.pick(&recent).copied().unwrap_or(FileId::ROOT);
        let what = if self.chance.one_in(2) {
            SyncFile::All
        } else {
            SyncFile::Data
        };
        self.push(Operation::SyncFile { file, what });
    }

    /// Long names in one directory: it gets an index, and the index levels.
    fn grow_a_directory(&mut self) {
        let dir = self.dir();
        let many = if self.chance.one_in(3) { 300 } else { 60 };
        let kinds = [Kind::Regular, Kind::Regular, Kind::Regular, Kind::Directory];
        for _ in 0..self.chance.between(10, many) {
            let number = self.chance.any() >> 20;
            let len = self.chance.between(100, 255);
            let kind = self.chance.pick(&kinds).cloned().unwrap_or(Kind::Fifo);
            let attributes = NewAttributes::for_root(0o755);
            self.push(Operation::Create {
                dir,
                name: long_name(number, usize::try_from(len).unwrap_or(200)),
                kind,
                attributes,
            });
        }
    }

    fn empty_a_directory(&mut self) {
        let dir = self.dir();
        let names = self.names.get(&dir).cloned().unwrap_or_default();
        for name in names {
            if self.chance.one_in(10) || name == b"lost+found" {
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

    /// Two files that grow in turns, or one with a hole after each block.
    fn fragment(&mut self) {
        let Some(file) = self.of_type(FileType::Regular) else {
            return;
        };
        let other = self.of_type(FileType::Regular).unwrap_or(file);
        let step = self.plan.unit_bytes;
        let len = usize::try_from(step).unwrap_or(4096);
        let sparse = self.chance.one_in(2);
        for round in 0..self.chance.between(10, 120) {
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
            if !sparse && self.chance.one_in(3) {
                let what = SyncFile::Data;
                self.push(Operation::SyncFile { file, what });
            }
        }
    }

    /// One value on several files: they share the block that it lies in.
    fn share_attributes(&mut self) {
        let value = vec![b'S'; usize::try_from(self.chance.between(200, 600)).unwrap_or(300)];
        for _ in 0..self.chance.between(3, 12) {
            let file = self.of_type(FileType::Regular);
            // The kernel does not count it as a change when an attribute has that value already.
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

    /// Takes nearly all room, or gives it back.
    fn fill(&mut self) {
        let dir = FileId::ROOT;
        if let Some(name) = self.ballast.take() {
            self.push(Operation::Unlink { dir, name });
            return;
        }
        let name = self.name();
        self.ballast = Some(name.clone());
        let attributes = NewAttributes::for_root(0o600);
        let kind = Kind::Regular;
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
        for _ in 0..self.chance.between(5, 30) {
            self.next();
        }
        if let Some(name) = self.ballast.take_if(|_| !self.chance.one_in(4)) {
            self.push(Operation::Unlink { dir, name });
        }
    }
}

const fn moves(what: Fallocate) -> bool {
    matches!(what, Fallocate::CollapseRange | Fallocate::InsertRange)
}

fn long_name(number: u64, len: usize) -> Bytes {
    let mut name = format!("long-{number:x}-").into_bytes();
    name.resize(len.max(name.len()), b'x');
    Bytes(name)
}
