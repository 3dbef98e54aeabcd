//! Hash tree directories (htree): finding a name in a large directory without reading all of it.
//!
//! Block 0 of an indexed directory is the root ([`dx_root`]). Below it is at most one level of
//! index blocks ([`dx_node`]), or two with the feature `large_dir`, and below those are the
//! ordinary directory blocks, the leaves. Each index block contains a table sorted by hash
//! ([`dx_entry`]) and, with `metadata_csum`, a checksum ([`dx_tail`]).
//!
//! Names with equal hashes may continue in the next leaf: then the low bit of the hash in the next
//! leaf's entry is set, and a lookup follows it.
//!
//! In casefolded directories the hash is that of the folded name. Directories whose index is sorted
//! by `SipHash` (encrypted and casefolded) are not supported here, because the hash depends on a
//! missing key. They are searched block by block instead.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Hash Tree
//! Directories".

mod change;
mod dx_entry;
mod dx_node;
mod dx_root;
mod dx_tail;
mod hash;
mod index_block;
mod leaves;
mod lookup;
mod path;

pub(crate) use change::{IndexPath, IndexStep, InsertStep, reaches};
pub(crate) use hash::{Algorithm, HashSeed, HashSignedness, Hasher, NameHash};
pub(crate) use index_block::{IndexRoot, index_block, index_root, is_node};
pub(crate) use leaves::Leaves;
pub(crate) use lookup::{Blocks, Directory, LookupOutcome, is_index_block, lookup, verify};
