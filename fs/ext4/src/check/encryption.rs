//! The encryption contexts of inodes, and the policies that directories require of their entries.
//!
//! Source: kernel documentation, "Filesystem-level encryption (fscrypt)"; Linux,
//! `fs/crypto/fscrypt_private.h`, `fscrypt_context`.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::budget::Budget;
use super::context::Context;
use super::finding::FindingKind;
use crate::block::FsBlock;
use crate::error::{Result, Structure};
use crate::inode::Inode;
use crate::xattr::{BLOCK_HEADER_BYTES, Entries};

/// `EXT4_XATTR_INDEX_ENCRYPTION`, and the name of the attribute with the context.
const ATTRIBUTE: (u8, &[u8]) = (9, b"c");
/// The size of the nonce at the end of a context; the policy is before it.
const NONCE_BYTES: usize = 16;
/// The sizes of the contexts of versions 1 and 2.
const CONTEXT_BYTES: [(u8, usize); 2] = [(1, 28), (2, 40)];
/// The number of the policies of all versions that are unknown here.
const UNKNOWN: u32 = 0;

/// The policies of all encrypted inodes.
#[derive(Debug, Default)]
pub(super) struct Policies {
    known: Mutex<KnownPolicies>,
}

#[derive(Debug, Default)]
struct KnownPolicies {
    numbers: BTreeMap<Box<[u8]>, u32>,
    inodes: BTreeMap<u32, u32>,
}

impl Policies {
    /// Returns the number of an inode's policy, or `None` if the inode is not encrypted.
    pub(super) fn of(&self, inode: u32) -> Option<u32> {
        self.known().inodes.get(&inode).copied()
    }

    /// Notes the policy of an inode. An empty one stands for an unknown version.
    fn insert(&self, inode: u32, policy: &[u8], budget: &Budget) -> Result<()> {
        budget.take::<[u32; 4]>(1)?;
        let mut known = self.known();
        let number = if policy.is_empty() {
            UNKNOWN
        } else if let Some(&number) = known.numbers.get(policy) {
            number
        } else {
            budget.take::<[u64; 8]>(1)?;
            let number = u32::try_from(known.numbers.len()).unwrap_or(u32::MAX);
            let number = number.saturating_add(1);
            known.numbers.insert(policy.into(), number);
            number
        };
        known.inodes.insert(inode, number);
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, KnownPolicies> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks the context of an encrypted inode, and notes its policy.
pub(super) fn check(context: &Context<'_>, inode: &Inode) -> Result<()> {
    let Some(stored) = read(context, inode)? else {
        let detail = "the inode is encrypted, but has no encryption context";
        context.found_in(FindingKind::EncryptionContext, inode.number, detail);
        return Ok(());
    };
    let version = stored.first().copied().unwrap_or(0);
    let expected = CONTEXT_BYTES.iter().find(|(known, _)| *known == version);
    let len = stored.len();
    if version == 0 || expected.is_some_and(|&(_, expected)| expected != len) {
        let detail = format!("the encryption context has version {version} and {len} bytes");
        context.found_in(FindingKind::EncryptionContext, inode.number, detail);
        return Ok(());
    }
    let policy = match expected {
        Some(_) => stored.get(..len.saturating_sub(NONCE_BYTES)),
        None => None,
    };
    let policy = policy.unwrap_or_default();
    context
        .policies
        .insert(inode.number, policy, context.budget)
}

/// Returns the context. Invalid lists of attributes are reported elsewhere.
fn read(context: &Context<'_>, inode: &Inode) -> Result<Option<Box<[u8]>>> {
    let structure = Structure::Inode(inode.number);
    if let Some(value) = value(Entries::new(structure, &inode.xattr_bytes, 0)) {
        return Ok(Some(value));
    }
    let block = FsBlock(inode.xattr_block);
    if block.0 == 0 || !context.superblock().holds(block, 1) {
        return Ok(None);
    }
    let bytes = context.volume.read_blocks(block, 1)?;
    Ok(value(Entries::new(structure, &bytes, BLOCK_HEADER_BYTES)))
}

fn value(entries: Entries<'_>) -> Option<Box<[u8]>> {
    entries
        .map_while(Result::ok)
        .find(|entry| (entry.index, entry.name) == ATTRIBUTE)
        .and_then(|entry| entry.bytes().map(Into::into))
}
