//! Modes and types as letters and words.

use diskfs::vfs::{FileType, Metadata};

/// Returns type and mode as letters, such as `drwxr-sr-t`.
pub(crate) fn letters(metadata: &Metadata) -> String {
    let mode = metadata.permissions;
    let special = [(0o4000, 's', 'S'), (0o2000, 's', 'S'), (0o1000, 't', 'T')];
    let mut text = String::from(metadata.file_type.letter());
    for (shift, (bit, with_x, without)) in [6, 3, 0].into_iter().zip(special) {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & bit != 0, bits & 1 != 0) {
            (true, true) => with_x,
            (true, false) => without,
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// Returns the type in the words of stat(1).
pub(crate) fn words(metadata: &Metadata) -> &'static str {
    match metadata.file_type {
        FileType::Regular if metadata.size_bytes == 0 => "regular empty file",
        FileType::Regular => "regular file",
        FileType::Directory => "directory",
        FileType::Symlink => "symbolic link",
        FileType::CharacterDevice => "character special file",
        FileType::BlockDevice => "block special file",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
    }
}

/// Returns the type's name in JSON.
pub(crate) const fn name(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Regular => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "symlink",
        FileType::CharacterDevice => "character_device",
        FileType::BlockDevice => "block_device",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
    }
}

/// Returns the letter of `find -type`.
pub(crate) const fn find_letter(file_type: FileType) -> char {
    match file_type {
        FileType::Regular => 'f',
        other => other.letter(),
    }
}
