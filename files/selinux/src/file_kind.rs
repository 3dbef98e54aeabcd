//! The types of files that specifications distinguish.

/// A file type, as a specification can require it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// `--`: a regular file.
    Regular,
    /// `-d`: a directory.
    Directory,
    /// `-l`: a symbolic link.
    Symlink,
    /// `-c`: a character device.
    CharacterDevice,
    /// `-b`: a block device.
    BlockDevice,
    /// `-p`: a named pipe.
    Fifo,
    /// `-s`: a socket.
    Socket,
}

impl FileKind {
    /// All file types.
    pub const ALL: [Self; 7] = [
        Self::Regular,
        Self::Directory,
        Self::Symlink,
        Self::CharacterDevice,
        Self::BlockDevice,
        Self::Fifo,
        Self::Socket,
    ];

    /// Parses the file type in the second field of a specification.
    pub(crate) const fn from_field(field: &[u8]) -> Option<Self> {
        Some(match field {
            b"--" => Self::Regular,
            b"-d" => Self::Directory,
            b"-l" => Self::Symlink,
            b"-c" => Self::CharacterDevice,
            b"-b" => Self::BlockDevice,
            b"-p" => Self::Fifo,
            b"-s" => Self::Socket,
            _ => return None,
        })
    }
}
