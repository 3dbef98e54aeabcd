//! The files to change.

use diskfs_vfs::{FileType, FsRead, InodeNumber};

use crate::random::Random;

/// The maximum number of files to collect.
const MAX_FILES: usize = 60;

/// The maximum number of entries of a directory, so that one large directory does not dominate.
const MAX_ENTRIES: usize = 20;

/// A part of the tree when it was opened, and what was created since.
#[derive(Debug)]
pub(crate) struct Known {
    directories: Vec<InodeNumber>,
    files: Vec<InodeNumber>,
    names: Vec<(InodeNumber, Vec<u8>)>,
}

impl Known {
    pub(crate) fn of(fs: &dyn FsRead) -> Self {
        let mut known = Self {
            directories: vec![fs.root()],
            files: Vec::new(),
            names: Vec::new(),
        };
        let mut next = 0;
        while let Some(&directory) = known.directories.get(next) {
            next += 1;
            known.add_entries(fs, directory);
        }
        known
    }

    fn add_entries(&mut self, fs: &dyn FsRead, directory: InodeNumber) {
        let Ok(entries) = fs.read_dir(directory, 0) else {
            return;
        };
        for entry in entries.take(MAX_ENTRIES).flatten() {
            if self.directories.len() + self.files.len() >= MAX_FILES {
                return;
            }
            if entry.name == b"." || entry.name == b".." {
                continue;
            }
            let is_directory = fs
                .metadata(entry.inode)
                .is_ok_and(|metadata| metadata.file_type == FileType::Directory);
            self.add(directory, entry.name, entry.inode, is_directory);
        }
    }

    pub(super) fn add(
        &mut self,
        parent: InodeNumber,
        name: Vec<u8>,
        inode: InodeNumber,
        is_directory: bool,
    ) {
        self.names.push((parent, name));
        if is_directory {
            self.directories.push(inode);
        } else {
            self.files.push(inode);
        }
    }

    pub(super) fn directory(&self, random: &mut Random) -> InodeNumber {
        inode_of(&self.directories, random)
    }

    pub(super) fn file(&self, random: &mut Random) -> InodeNumber {
        inode_of(&self.files, random)
    }

    /// Returns a directory and usually an existing name in it.
    pub(super) fn name(&self, random: &mut Random) -> (InodeNumber, Vec<u8>) {
        if self.names.is_empty() || random.below(8) == 0 {
            return (self.directory(random), any_name(random));
        }
        random.pick(&self.names).clone()
    }
}

/// Returns one of these inode numbers, or sometimes any number.
fn inode_of(of: &[InodeNumber], random: &mut Random) -> InodeNumber {
    if of.is_empty() || random.below(16) == 0 {
        let end = *random.pick(&[20, 20, 3000, 1 << 32, u64::MAX]);
        return InodeNumber(random.below(end));
    }
    *random.pick(of)
}

/// Returns one of a few names, so that operations collide; some are invalid.
pub(super) fn any_name(random: &mut Random) -> Vec<u8> {
    match random.below(16) {
        0 => vec![b'x'; 255],
        1 => (*random.pick(&[&b"."[..], b"..", b"", b"a/b", &[b'y'; 256], &[0xff; 3]])).to_vec(),
        2 => format!("{}-{}", random.below(40), "long".repeat(40)).into_bytes(),
        _ => format!("new-{}", random.below(40)).into_bytes(),
    }
}
