//! The pointers of a node (`struct btrfs_key_ptr`).

use super::{Expected, HEADER_BYTES, KeyPointer, TreeBlock};
use crate::bytes::le64;
use crate::error::Result;
use crate::key::{KEY_BYTES, Key};
use crate::logical::Logical;

/// The length of a pointer: a key, the address of a block, and its generation.
pub(super) const POINTER_BYTES: usize = KEY_BYTES + 16;

impl TreeBlock {
    /// Checks the keys of all pointers. A node without pointers leads nowhere.
    pub(super) fn check_pointers(&self) -> Result<()> {
        if self.len() == 0 {
            return Err(self.invalid("a node without pointers"));
        }
        let mut previous = None;
        for nth in 0..self.len() {
            let Some(pointer) = self.pointer(nth) else {
                return Err(self.invalid("a pointer is outside of it"));
            };
            self.check_order(previous, pointer.key)?;
            previous = Some(pointer.key);
        }
        Ok(())
    }

    /// Returns a pointer of a node; `None` if there are fewer, or if the block is a leaf.
    pub(crate) fn pointer(&self, nth: usize) -> Option<KeyPointer> {
        if nth >= self.len() || self.is_leaf() {
            return None;
        }
        let at = nth.checked_mul(POINTER_BYTES)?.checked_add(HEADER_BYTES)?;
        let address = at.checked_add(KEY_BYTES)?;
        Some(KeyPointer {
            key: Key::parse(&self.bytes, at)?,
            logical: Logical(le64(&self.bytes, address)?),
            generation: le64(&self.bytes, address.checked_add(8)?)?,
        })
    }

    /// Returns what a pointer says about the block that it leads to. Levels decrease by one, so
    /// pointers cannot form a circle.
    pub(crate) fn expected(&self, nth: usize, owner: u64) -> Result<Expected> {
        let (Some(pointer), Some(level)) = (self.pointer(nth), self.header.level.checked_sub(1))
        else {
            return Err(self.invalid(&format!("missing pointer {nth}")));
        };
        Ok(Expected {
            logical: pointer.logical,
            level,
            generation: pointer.generation,
            owner,
            first_key: Some(pointer.key),
        })
    }
}
