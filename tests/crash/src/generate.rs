//! Random operations. They are generated beforehand on a model of their own, so that some can be
//! left out without changing the others.

mod attributes;
mod contents;
mod names;
mod patterns;

use std::collections::BTreeMap;

use diskfs_vfs::{FileType, FsWrite, NewAttributes, SyncFile};

use crate::files::Files;
use crate::operation::{Bytes, FileId, Operation, Outcome};
use crate::random::Random;

/// The parameters of the operations.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The number of operations.
    pub operations: usize,
    /// The size of the filesystem, so that it is sometimes filled.
    pub size_bytes: u64,
    /// The alignment of ranges that must be aligned.
    pub unit_bytes: u64,
    /// True to create attribute values that need inodes of their own.
    pub large_values: bool,
}

/// The largest offset of an ordinary write. Files of this size have a tree of extents.
const ORDINARY_BYTES: u64 = 200 << 10;

/// The offsets of the last bytes of sparse files: every level of a block map, and beyond 4 GiB.
const FAR: [u64; 5] = [1 << 20, 20 << 20, 300 << 20, 5 << 30, 60 << 30];

/// Generates operations for `model`, and applies them to it.
///
/// `files` are the files that exist at the beginning.
pub fn generate(plan: Plan, random: Random, model: &dyn FsWrite, files: Files) -> Vec<Operation> {
    let mut generator = Generator::new(plan, random, model, files);
    while generator.made.len() < plan.operations {
        generator.next();
    }
    generator.made.truncate(plan.operations);
    generator.made
}

struct Generator<'a> {
    plan: Plan,
    random: Random,
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
    fn new(plan: Plan, random: Random, model: &'a dyn FsWrite, files: Files) -> Self {
        let mut generator = Self {
            plan,
            random,
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

    /// Looks up the type and size of a file.
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

    /// Applies an operation to the model, and records the result.
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
        self.random.pick(&ids).copied()
    }

    fn any_file(&mut self) -> FileId {
        let ids: Vec<_> = self.types.keys().copied().collect();
        self.random.pick(&ids).copied().unwrap_or(FileId::ROOT)
    }

    /// Returns a directory. Directories with many names are more likely, so that they grow.
    fn dir(&mut self) -> FileId {
        let mut best = self.of_type(FileType::Directory).unwrap_or(FileId::ROOT);
        if self.random.one_in(2) {
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

    /// Returns an existing name with its directory.
    fn entry(&mut self) -> Option<(FileId, Bytes)> {
        for _ in 0..4 {
            let dir = self.dir();
            let names = self.names.get(&dir)?;
            if let Some(name) = self.random.pick(names)
                && name != b"lost+found"
            {
                return Some((dir, Bytes(name.clone())));
            }
        }
        None
    }

    /// Returns a name that probably does not exist. It is in lower case, so that no two names are
    /// equal after case folding.
    fn name(&mut self) -> Bytes {
        let number = self.random.below(1_000_000);
        let len = match self.random.weighted(&[10, 3, 3, 1]) {
            0 => return Bytes(format!("n{number}").into_bytes()),
            1 => self.random.between(20, 80),
            2 => self.random.between(180, 254),
            _ => 255,
        };
        long_name(number, usize::try_from(len).unwrap_or(255))
    }

    fn attributes(&mut self) -> NewAttributes {
        let owners = [0, 0, 1000, 70_000, 4_000_000_000];
        let id = |random: &mut Random| random.pick(&owners).copied().unwrap_or(0);
        let modes = [0o644, 0o600, 0o755, 0o777, 0o2755, 0o4755, 0o1777, 0];
        NewAttributes {
            permissions: self.random.pick(&modes).copied().unwrap_or(0o644),
            umask: if self.random.one_in(2) { 0o022 } else { 0 },
            uid: id(&mut self.random),
            gid: id(&mut self.random),
        }
    }

    fn next(&mut self) {
        match self.random.weighted(&[
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

    fn hold(&mut self) {
        if let Some(file) = self.of_type(FileType::Regular) {
            self.push(Operation::Hold { file });
        }
    }

    fn release(&mut self) {
        if let Some(file) = self.random.pick(&self.holds).copied() {
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
        let file = self.random.pick(&recent).copied().unwrap_or(FileId::ROOT);
        let what = if self.random.one_in(2) {
            SyncFile::All
        } else {
            SyncFile::Data
        };
        self.push(Operation::SyncFile { file, what });
    }
}

fn long_name(number: u64, len: usize) -> Bytes {
    let mut name = format!("long-{number:x}-").into_bytes();
    name.resize(len.max(name.len()), b'x');
    Bytes(name)
}
