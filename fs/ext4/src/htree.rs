//! Hash tree directories: finding a name in a large directory without reading all of it.
//!
//! Block 0 of an indexed directory is the root ([`dx_root`]); below it stand at most one level of
//! index blocks ([`dx_node`]), or two with the feature `large_dir`, and below those the ordinary
//! directory blocks. Each index block holds a table sorted by hash ([`dx_entry`]) and, with
//! `metadata_csum`, a checksum ([`dx_tail`]).
//!
//! Names whose hashes are equal may go on from one leaf into the next: the entry of the next then
//! has the low bit of its hash set, and a look-up follows it.
//!
//! In casefolded directories the hash is of the folded name. Not done here: directories whose index is
//! sorted by `SipHash` (encrypted and casefolded), because the hash depends on a key that is not
//! there. They are searched block by block instead.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Hash Tree
//! Directories".

mod change;
mod dx_entry;
mod dx_node;
mod dx_root;
mod dx_tail;
mod hash;
mod leaves;
mod lookup;
mod path;

pub(crate) use change::{Next, Step, Way, reaches};
pub(crate) use hash::{Algorithm, HashSeed, HashSignedness, Hasher, NameHash};
pub(crate) use leaves::Leaves;
pub(crate) use lookup::{Blocks, Directory, Outcome, is_index_block, lookup, verify};
