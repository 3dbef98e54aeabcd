//! Cursors compared with a map, with changes and without.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use proptest::prelude::*;

use super::*;
use crate::tree_root::tree;
use crate::volume::Volume;

type Model = BTreeMap<Key, Vec<u8>>;

/// Returns a filesystem with small nodes.
fn volume() -> &'static Volume {
    static OPEN: OnceLock<(diskfs_fixtures::TempImage, Volume)> = OnceLock::new();
    let (_, volume) = OPEN.get_or_init(|| {
        let image = diskfs_fixtures::image("btrfs-node-4k");
        let device = Arc::new(diskfs_block::File::open(image.path()).unwrap());
        (image, Volume::open(vec![device], 1 << 20).unwrap())
    });
    volume
}

fn tree(volume: &Volume) -> Tree {
    volume.existing_tree(tree::FS, "file").unwrap()
}

/// Returns all items from the one at or after `key` on.
fn items_from(volume: &Volume, tree: &Tree, key: Key) -> Model {
    let mut cursor = volume.at_or_after(tree, key).unwrap();
    let mut items = Model::new();
    while let Some(item) = cursor.item() {
        let old = items.insert(item.key, item.bytes().to_vec());
        assert!(old.is_none(), "no key comes twice");
        cursor.advance().unwrap();
    }
    // The end stays the end.
    cursor.advance().unwrap();
    assert!(cursor.item().is_none());
    items
}

fn check(volume: &Volume, tree: &Tree, model: &Model, key: Key) {
    let expected: Model = model
        .range(key..)
        .map(|(key, value)| (*key, value.clone()))
        .collect();
    assert_eq!(items_from(volume, tree, key), expected);
    let mut cursor = volume.at_or_before(tree, key).unwrap();
    let found = |cursor: &Cursor<'_>| cursor.item().map(|item| item.key);
    assert_eq!(
        found(&cursor),
        model.range(..=key).next_back().map(|(key, _)| *key)
    );
    cursor.advance().unwrap();
    let after = (std::ops::Bound::Excluded(key), std::ops::Bound::Unbounded);
    assert_eq!(
        found(&cursor),
        model.range(after).next().map(|(key, _)| *key)
    );
    let exact = volume.find(tree, key).unwrap();
    assert_eq!(
        exact.map(|item| item.bytes().to_vec()),
        model.get(&key).cloned()
    );
}

/// Returns the key of an item, or one beside it.
fn key_of(keys: &[Key], nth: prop::sample::Index, beside: u8) -> Key {
    let mut key = *nth.get(keys);
    match beside {
        0 => key.offset = key.offset.wrapping_add(1),
        1 => key.offset = key.offset.wrapping_sub(1),
        2 => key.object_id += 1,
        _ => {}
    }
    key
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn changes_are_merged(
        cases in prop::collection::vec(
            (any::<prop::sample::Index>(), 0..8_u8, any::<Option<u8>>()),
            0..60,
        ),
        runs in prop::collection::vec((any::<prop::sample::Index>(), 0..40_usize), 0..3),
        sought in prop::collection::vec((any::<prop::sample::Index>(), 0..8_u8), 6),
    ) {
        let volume = volume();
        let mut tree = tree(volume);
        let mut model = items_from(volume, &tree, Key::default());
        let keys: Vec<_> = model.keys().copied().collect();
        let mut changes = TreeChanges::default();
        for (nth, beside, value) in cases {
            let key = key_of(&keys, nth, beside);
            if let Some(value) = value {
                changes.set(key, vec![value]);
                model.insert(key, vec![value]);
            } else {
                changes.remove(key);
                model.remove(&key);
            }
        }
        // Removals of neighbours, up to whole leaves.
        for (first, len) in runs {
            for key in keys.iter().skip(first.index(keys.len())).take(len) {
                changes.remove(*key);
                model.remove(key);
            }
        }
        tree.changes = Some(Arc::new(changes));
        check(volume, &tree, &model, Key::default());
        check(volume, &tree, &model, Key::new(u64::MAX, u8::MAX, u64::MAX));
        for (nth, beside) in sought {
            check(volume, &tree, &model, key_of(&keys, nth, beside));
        }
    }
}

#[test]
fn unchanged_items_are_found() {
    let volume = volume();
    let tree = tree(volume);
    let model = items_from(volume, &tree, Key::default());
    assert!(model.len() > 100 && tree.root.level > 0);
    for key in model.keys().step_by(model.len() / 20) {
        check(volume, &tree, &model, *key);
    }
}
