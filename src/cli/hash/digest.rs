//! The hashes of one file.

use std::cell::RefCell;

use diskfs::vfs::FileType;
use diskfs::{Node, Result, SortedEntry};
use sha2::{Digest, Sha256};

use crate::cli::copy::{self, Buffer};

/// A SHA-256 hash.
pub(super) type Hash = [u8; 32];

/// A file with its hashes.
#[derive(Debug)]
pub(super) struct Hashed {
    pub(super) entry: SortedEntry,
    pub(super) contents: Option<Hash>,
    pub(super) target: Option<Vec<u8>>,
    pub(super) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Hashed {
    /// Returns a hash of all extended attributes, or `None` if there are none. Names and values are
    /// preceded by their lengths, so that different lists never have the same bytes.
    pub(super) fn xattrs_hash(&self) -> Option<Hash> {
        if self.xattrs.is_empty() {
            return None;
        }
        let mut hasher = Sha256::new();
        for part in self.xattrs.iter().flat_map(|(name, value)| [name, value]) {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        Some(hasher.finalize().into())
    }
}

/// Reads and hashes a file.
pub(super) fn hash(start: &Node, entry: SortedEntry) -> Result<Hashed> {
    thread_local! {
        /// The buffer of a thread, for all files that it hashes.
        static BUFFER: RefCell<Buffer> = RefCell::new(Buffer::default());
    }
    let metadata = &entry.metadata;
    let node = start.below(&entry.path, metadata.inode);
    let mut hasher = Sha256::new();
    let contents = match metadata.file_type {
        FileType::Regular => {
            let mut file = node.clone().open_with(metadata)?;
            BUFFER.with_borrow_mut(|buffer| {
                copy::range(&mut file, 0..metadata.size_bytes, buffer, |piece| {
                    hasher.update(piece);
                    Ok(())
                })
            })?;
            Some(hasher.finalize().into())
        }
        _ => None,
    };
    let target = match metadata.file_type {
        FileType::Symlink => Some(node.read_link()?),
        _ => None,
    };
    let xattrs = node.xattrs()?;
    Ok(Hashed {
        entry,
        contents,
        target,
        xattrs,
    })
}

/// Formats a hash as hexadecimal digits.
pub(super) fn hex(hash: &Hash) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |bits: u8| char::from(DIGITS[usize::from(bits)]);
    hash.iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}
