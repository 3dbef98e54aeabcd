//! Items of trees that differ from those on the device: the result of replaying the log.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use crate::key::Key;

/// The changed items of all trees, by the object ID of the tree.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changes {
    trees: HashMap<u64, Arc<TreeChanges>>,
}

impl Changes {
    /// Returns the changes of one tree, if there are any.
    pub(crate) fn of_tree(&self, owner: u64) -> Option<Arc<TreeChanges>> {
        self.trees.get(&owner).cloned()
    }

    /// Returns the changes of one tree, to add some.
    #[allow(dead_code, reason = "the replay of the log uses it")]
    pub(crate) fn of_tree_mut(&mut self, owner: u64) -> &mut TreeChanges {
        Arc::make_mut(self.trees.entry(owner).or_default())
    }
}

/// The changed items of a tree: each key with its new value, or `None` if the item is removed.
#[derive(Debug, Clone, Default)]
pub(crate) struct TreeChanges {
    items: BTreeMap<Key, Option<Arc<[u8]>>>,
}

impl TreeChanges {
    /// Sets the value of an item. Returns the length of the value of an earlier change of it.
    pub(crate) fn set(&mut self, key: Key, value: impl Into<Arc<[u8]>>) -> Option<usize> {
        let replaced = self.items.insert(key, Some(value.into()))?;
        Some(replaced.map_or(0, |value| value.len()))
    }

    /// Removes an item. Returns the length of the value of an earlier change of it.
    pub(crate) fn remove(&mut self, key: Key) -> Option<usize> {
        let replaced = self.items.insert(key, None)?;
        Some(replaced.map_or(0, |value| value.len()))
    }

    /// Returns true if the item on the device is replaced or removed.
    pub(crate) fn overrides(&self, key: Key) -> bool {
        self.items.contains_key(&key)
    }

    /// Returns the last set item with a key of at most `key`.
    pub(crate) fn last_up_to(&self, key: Key) -> Option<(Key, Arc<[u8]>)> {
        set(self.items.range(..=key).rev())
    }

    /// Returns the first set item after `key`.
    pub(crate) fn first_after(&self, key: Key) -> Option<(Key, Arc<[u8]>)> {
        set(self.items.range((Bound::Excluded(key), Bound::Unbounded)))
    }
}

fn set<'a>(
    mut items: impl Iterator<Item = (&'a Key, &'a Option<Arc<[u8]>>)>,
) -> Option<(Key, Arc<[u8]>)> {
    items.find_map(|(key, value)| Some((*key, value.clone()?)))
}
