//! The magic numbers of sparse files, and the beginning of descriptor files.

use diskfs_block::{BlockRead, Result, read_within};

/// The kinds of sparse files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Magic {
    /// `KDMV`: sparse files of all products but ESXi, and stream-optimised files.
    Sparse,
    /// `COWD`: sparse files of ESXi before 6.5.
    Cowd,
    /// 0xcafebabe: sparse files of ESXi since 6.5.
    SeSparse,
}

/// The most bytes before the first line of a descriptor that is not a comment.
const MAX_COMMENT_BYTES: usize = 4096;

impl Magic {
    fn of(start: &[u8]) -> Option<Self> {
        match start {
            [b'K', b'D', b'M', b'V', ..] => Some(Self::Sparse),
            [b'C', b'O', b'W', b'D', ..] => Some(Self::Cowd),
            [0xbe, 0xba, 0xfe, 0xca, 0, 0, 0, 0, ..] => Some(Self::SeSparse),
            _ => None,
        }
    }
}

/// Returns the kind of a sparse file; `None` for all other files.
pub(crate) fn magic_of(file: &dyn BlockRead) -> Result<Option<Magic>> {
    let start = read_within(file, 0, 8)?;
    Ok(start.as_deref().and_then(Magic::of))
}

/// Returns true if a file that begins with `start` is a VMDK: a sparse file, or a descriptor, which
/// begins with `# Disk DescriptorFile`, or with a version after comments. 4 KiB are enough.
pub fn is_vmdk(start: &[u8]) -> bool {
    Magic::of(start).is_some() || is_descriptor(start)
}

fn is_descriptor(start: &[u8]) -> bool {
    const SIGNATURE: &[u8] = b"# Disk DescriptorFile";
    let start = start.get(..MAX_COMMENT_BYTES).unwrap_or(start);
    let signature = start.get(..SIGNATURE.len());
    if signature.is_some_and(|it| it.eq_ignore_ascii_case(SIGNATURE)) {
        return true;
    }
    let mut lines = start.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with(b"#"));
    first.is_some_and(|line| matches!(line, b"version=1" | b"version=2" | b"version=3"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_are_recognised() {
        for start in [
            &b"KDMV\x01\0\0\0"[..],
            b"COWD\x01\0\0\0",
            b"\xbe\xba\xfe\xca\0\0\0\0",
            b"# Disk DescriptorFile\nversion=1\n",
            b"# disk descriptorfile",
            b"# a comment\r\n\r\nversion=3\r\n",
        ] {
            assert!(is_vmdk(start), "{start:?}");
        }
        for start in [
            &b""[..],
            b"#!/bin/sh\n",
            b"version=4\n",
            b"version=12\n",
            b"QFI\xfb",
            b"\xbe\xba\xfe\xca",
        ] {
            assert!(!is_vmdk(start), "{start:?}");
        }
    }
}
