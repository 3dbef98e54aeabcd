//! Intents: operations that a transaction has announced, and that a later one has finished.
//!
//! The kernel finishes the others after the replay. What this means for a driver that only reads
//! depends on the operation, see [`Unfinished`].

use std::collections::HashMap;

use crate::bytes::array;
use crate::error::{Error, Result, unsupported};

use super::item::{Item, ItemType};
use super::mapping_change::MappingChange;

/// The largest number of unfinished intents. The kernel keeps a few for each running operation.
const INTENTS_MAX: usize = 1 << 20;

/// The largest number of changes of mappings that are finished, each by a search of a tree.
const MAPPINGS_MAX: usize = 4096;

/// The offset of an intent's number, in its own format and in that of its done item.
const ID_OFFSET: usize = 8;

/// The operation of an intent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operation {
    FreeExtent,
    ReverseMapping,
    RefCount,
    Mapping,
    Attribute,
    Exchange,
}

/// The unfinished intents of the log.
#[derive(Debug, Default)]
pub(super) struct Intents {
    /// By operation and number: the place in the order of the log, and the change of a mapping if
    /// the operation is a known one.
    open: HashMap<(Operation, u64), (u64, Option<MappingChange>)>,
    /// The number of intents so far.
    count: u64,
}

/// The unfinished intents: the numbers of those that a reader of files can ignore, and the changes
/// of mappings, which must be finished.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Unfinished {
    /// Extents that are no longer used by a file, and not yet free: no tree of files refers to
    /// them. Until they are freed, the free space is a little smaller.
    pub(super) free_extents: usize,
    /// Changes of the trees of reverse mappings and of reference counts, which are not needed to
    /// read a file.
    pub(super) tree_changes: usize,
    /// The changes of files' mappings, in the order of the log.
    pub(super) mappings: Vec<MappingChange>,
}

impl Intents {
    /// Adds an intent, or removes the one that a done item finishes. Returns true if the item is
    /// one of both.
    ///
    /// # Errors
    /// `Unsupported` for too many unfinished intents.
    pub(super) fn add(&mut self, item: &Item) -> Result<bool> {
        let Some((operation, is_done)) = operation(item.item_type()) else {
            return Ok(false);
        };
        let id = array(item.format(), ID_OFFSET).map(u64::from_le_bytes);
        let Some(id) = id else {
            return Ok(false);
        };
        if is_done {
            self.open.remove(&(operation, id));
            return Ok(true);
        }
        if self.open.len() >= INTENTS_MAX {
            let reason = format!("unsupported log: more than {INTENTS_MAX} unfinished intents");
            return Err(unsupported(reason));
        }
        let change = match operation {
            Operation::Mapping => MappingChange::parse(item.format()),
            _ => None,
        };
        self.count = self.count.saturating_add(1);
        self.open.insert((operation, id), (self.count, change));
        Ok(true)
    }

    /// Returns the intents that are left at the end of the log.
    ///
    /// # Errors
    /// `Unsupported` if one of them changes what a reader of files sees, and is not the change of a
    /// mapping of data.
    pub(super) fn finish(&self) -> Result<Unfinished> {
        for (operation, name) in [
            (Operation::Attribute, "an extended attribute (ATTRI)"),
            (Operation::Exchange, "two files' contents (XMI)"),
        ] {
            if self.count_of(operation) > 0 {
                return Err(unfinished(name));
            }
        }
        let trees = [Operation::ReverseMapping, Operation::RefCount];
        let tree_changes = trees.map(|operation| self.count_of(operation));
        Ok(Unfinished {
            free_extents: self.count_of(Operation::FreeExtent),
            tree_changes: tree_changes.into_iter().fold(0, usize::saturating_add),
            mappings: self.mappings()?,
        })
    }

    fn count_of(&self, operation: Operation) -> usize {
        let operations = self.open.keys().filter(|(other, _)| *other == operation);
        operations.count()
    }

    /// Returns the changes of mappings that are left, in the order of the log.
    fn mappings(&self) -> Result<Vec<MappingChange>> {
        let intents = self.open.iter();
        let mut changes: Vec<_> = intents
            .filter(|((operation, _), _)| *operation == Operation::Mapping)
            .map(|(_, change)| *change)
            .collect();
        if changes.len() > MAPPINGS_MAX {
            return Err(unfinished("many files' mappings (BUI)"));
        }
        changes.sort_by_key(|(order, _)| *order);
        let changes = changes.into_iter().map(|(_, change)| change);
        let changes = changes.map(|change| change.ok_or_else(|| unfinished(OTHER_MAPPING)));
        changes.collect()
    }
}

/// The name of a change of a mapping that is not finished.
const OTHER_MAPPING: &str = "the mapping of attributes or of the real-time device (BUI)";

fn unfinished(name: &str) -> Error {
    unsupported(format!(
        "unsupported log: it ends within a change of {name}"
    ))
}

/// Returns the operation of an intent or of a done item, and true for a done item.
fn operation(item_type: ItemType) -> Option<(Operation, bool)> {
    Some(match item_type {
        ItemType::EFI | ItemType::EFI_RT => (Operation::FreeExtent, false),
        ItemType::EFD | ItemType::EFD_RT => (Operation::FreeExtent, true),
        ItemType::RUI | ItemType::RUI_RT => (Operation::ReverseMapping, false),
        ItemType::RUD | ItemType::RUD_RT => (Operation::ReverseMapping, true),
        ItemType::CUI | ItemType::CUI_RT => (Operation::RefCount, false),
        ItemType::CUD | ItemType::CUD_RT => (Operation::RefCount, true),
        ItemType::BUI => (Operation::Mapping, false),
        ItemType::BUD => (Operation::Mapping, true),
        ItemType::ATTRI => (Operation::Attribute, false),
        ItemType::ATTRD => (Operation::Attribute, true),
        ItemType::XMI => (Operation::Exchange, false),
        ItemType::XMD => (Operation::Exchange, true),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskfs_vfs::ErrorKind;

    fn item(item_type: ItemType, id: u64) -> Item {
        let mut format = item_type.0.to_le_bytes().to_vec();
        format.extend([1, 0, 0, 0, 0, 0]);
        format.extend(id.to_le_bytes());
        Item {
            expected: 1,
            regions: vec![format],
        }
    }

    #[test]
    fn a_done_item_finishes_the_intent_of_its_kind() {
        let mut intents = Intents::default();
        for (item_type, id) in [
            (ItemType::EFI, 1),
            (ItemType::EFI, 2),
            (ItemType::BUI, 1),
            (ItemType::EFD, 1),
            (ItemType::CUD, 7),
        ] {
            assert!(intents.add(&item(item_type, id)).unwrap());
        }
        assert_eq!(intents.finish().unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(intents.add(&item(ItemType::BUD, 1)).unwrap());
        let unfinished = intents.finish().unwrap();
        assert_eq!((unfinished.free_extents, unfinished.tree_changes), (1, 0));
        assert!(!intents.add(&item(ItemType::INODE, 1)).unwrap());
    }
}
