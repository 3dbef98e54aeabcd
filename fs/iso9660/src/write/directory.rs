//! The contents of directories: their records.

use super::BLOCK_BYTES;
use super::date::Date;
use super::identifier::Names;
use super::record::{Extent, Record};
use super::system_use::{Posix, declarations};
use super::tree::{Child, Directory, Tree};

/// The places of directories and files.
pub(super) trait Places {
    fn of(&self, child: Child) -> Extent;
}

/// Returns the bytes of the directory with this number in a tree.
pub(super) fn contents(
    tree: &Tree,
    number: usize,
    names: Names,
    date: Date,
    places: &dyn Places,
) -> Vec<u8> {
    let Some(directory) = tree.directories.get(number) else {
        return Vec::new();
    };
    let mut bytes = Vec::new();
    for (identifier, at) in [([0], number), ([1], directory.parent)] {
        let own = Record {
            identifier: &identifier,
            extent: places.of(Child::Directory(at)),
            time: date.short,
            is_directory: true,
            system_use: &dot_entries(tree, at, identifier == [0] && number == 0, names, date),
        };
        push(&mut bytes, &own.bytes());
    }
    for (identifier, (name, child)) in names.entries(directory) {
        let is_directory = matches!(child, Child::Directory(_));
        let posix = Posix {
            name: Some(name),
            is_directory,
            links: links(tree, child),
            time: date.short,
        };
        let record = Record {
            identifier: &identifier,
            extent: places.of(child),
            time: date.short,
            is_directory,
            system_use: &entries(names, &posix),
        };
        push(&mut bytes, &record.bytes());
    }
    bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
    bytes
}

/// Returns the entries of a directory's record in itself, or in a child.
fn dot_entries(tree: &Tree, number: usize, is_first: bool, names: Names, date: Date) -> Vec<u8> {
    let posix = Posix {
        name: None,
        is_directory: true,
        links: links(tree, Child::Directory(number)),
        time: date.short,
    };
    let own = entries(names, &posix);
    if !is_first || names == Names::Joliet {
        return own;
    }
    let [sp, er] = declarations();
    [sp, own, er].concat()
}

/// Returns the Rock Ridge entries, which only the plain tree has.
fn entries(names: Names, posix: &Posix<'_>) -> Vec<u8> {
    match names {
        Names::Plain => posix.entries(),
        Names::Joliet => Vec::new(),
    }
}

/// Returns the number of links: a directory has those of its name, itself and its subdirectories.
fn links(tree: &Tree, child: Child) -> u32 {
    let Child::Directory(number) = child else {
        return 1;
    };
    let is_directory = |child: &&Child| matches!(child, Child::Directory(_));
    let count = |directory: &Directory| directory.children.values().filter(is_directory).count();
    let below = tree.directories.get(number).map_or(0, count);
    u32::try_from(below).unwrap_or(u32::MAX).saturating_add(2)
}

/// Appends a record, which must not cross the end of a sector (6.8.1.1).
fn push(bytes: &mut Vec<u8>, record: &[u8]) {
    let left = BLOCK_BYTES.saturating_sub(bytes.len() % BLOCK_BYTES);
    if record.len() > left {
        bytes.resize(bytes.len().saturating_add(left), 0);
    }
    bytes.extend_from_slice(record);
}
