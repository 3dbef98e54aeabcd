//! Tests of edits on many stores, also when they are interrupted.

mod common;

use std::collections::BTreeMap;

use common::{empty, interrupted, sata, template};
use diskfs_block::ErrorKind;
use diskfs_varstore::{Attributes, Edit, FaultTolerantWrite, Guid, VariableStore};
use proptest::prelude::*;

const VENDOR: Guid = Guid::EFI_GLOBAL_VARIABLE;

fn put(bytes: &mut [u8], edit: &Edit) {
    for write in &edit.writes {
        let at = usize::try_from(write.offset).unwrap();
        bytes[at..at + write.bytes.len()].copy_from_slice(&write.bytes);
    }
}

fn set(store: &mut VariableStore, name: &str, data: &[u8]) -> Edit {
    store.set(name, VENDOR, Attributes::DEFAULT, data).unwrap()
}

/// Returns each state that a file can have while the writes of an edit reach it, byte by byte.
fn prefixes(before: &[u8], edit: &Edit) -> Vec<Vec<u8>> {
    let (mut bytes, mut states) = (before.to_vec(), vec![before.to_vec()]);
    for write in &edit.writes {
        let at = usize::try_from(write.offset).unwrap();
        for (at, byte) in (at..).zip(&write.bytes) {
            bytes[at] = *byte;
            states.push(bytes.clone());
        }
    }
    states
}

fn all(store: &VariableStore) -> BTreeMap<(String, Guid), Vec<u8>> {
    let variables = store.variables().into_iter();
    variables
        .map(|variable| ((variable.name, variable.vendor), variable.data.to_vec()))
        .collect()
}

/// Interrupts an edit at every byte, and edits each resulting store again.
fn cut_everywhere(before: &VariableStore, name: &str, new: Option<&[u8]>) {
    let mut after = before.clone();
    let edit = match new {
        Some(data) => set(&mut after, name, data),
        None => after.delete(name, VENDOR).unwrap(),
    };
    assert!(!edit.reclaimed);
    let (old, new) = (all(before), all(&after));
    let states = prefixes(before.bytes(), &edit);
    assert_eq!(states.last().unwrap(), after.bytes());
    let mut seen = [0, 0];
    for state in states {
        let mut cut = VariableStore::open(state).unwrap();
        let found = all(&cut);
        assert!(found == old || found == new, "{found:?}");
        seen[usize::from(found == new)] += 1;
        set(&mut cut, name, b"the third");
        set(&mut cut, "Another", b"one");
        let cut = VariableStore::open(cut.into_bytes()).unwrap();
        assert_eq!(cut.variable(name, VENDOR).unwrap().data, b"the third");
        assert_eq!(cut.variable("Another", VENDOR).unwrap().data, b"one");
        let others = all(&cut)
            .into_iter()
            .filter(|((key, _), _)| key != name && key != "Another");
        let kept = old.iter().filter(|((key, _), _)| key != name);
        assert!(others.eq(kept.map(|(key, data)| (key.clone(), data.clone()))));
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

#[test]
fn an_edit_may_be_cut_off_anywhere() {
    let mut store = empty(1);
    set(&mut store, "Kept", b"kept");
    cut_everywhere(&store, "New", Some(b"first"));
    set(&mut store, "Lang", b"old");
    cut_everywhere(&store, "Lang", Some(b"the new one"));
    cut_everywhere(&store, "Lang", None);
    // Interrupt a second edit: after the first interruption, the old record is being deleted.
    let mut after = store.clone();
    let edit = set(&mut after, "Lang", b"the new one");
    for state in prefixes(store.bytes(), &edit) {
        let mut cut = VariableStore::open(state).unwrap();
        let start = cut.clone();
        let again = set(&mut cut, "Lang", b"once more");
        if again.reclaimed {
            continue;
        }
        for state in prefixes(start.bytes(), &again) {
            let data = VariableStore::open(state).unwrap();
            let data = data
                .variable("Lang", VENDOR)
                .expect("one of them")
                .data
                .to_vec();
            let possible = [&b"old"[..], b"the new one", b"once more"];
            assert!(possible.contains(&&*data), "{data:?}");
        }
    }
}

#[test]
fn states_change_in_the_order_of_the_firmware() {
    let mut store = empty(1);
    set(&mut store, "Lang", b"old");
    let edit = set(&mut store, "Lang", b"new");
    let first = 0x64;
    let second = first + 60 + 10 + 3 + 3;
    let short: Vec<(u64, &[u8])> = edit
        .writes
        .iter()
        .filter(|write| write.bytes.len() == 1)
        .map(|write| (write.offset, &*write.bytes))
        .collect();
    assert_eq!(
        short,
        [
            (first + 2, &[0x3e][..]),
            (second + 2, &[0x7f]),
            (second + 2, &[0x3f]),
            (first + 2, &[0x3c]),
        ]
    );
    let edit = store.delete("Lang", VENDOR).unwrap();
    assert_eq!(edit.writes.len(), 1);
    assert_eq!(edit.writes[0].bytes, [0x3d]);
    assert!(store.variables().is_empty());
}

#[test]
fn what_is_so_already_is_not_written() {
    let mut store = sata();
    let order = store.boot_order().unwrap();
    assert_eq!(store.set_boot_order(&order).unwrap(), Edit::default());
    let timeout = store.variable("Timeout", VENDOR).unwrap().data.to_vec();
    assert_eq!(set(&mut store, "Timeout", &timeout), Edit::default());
}

#[test]
fn a_full_store_is_reclaimed_and_then_full() {
    let mut store = empty(1);
    let mut reclaimed = 0;
    for number in 0..100_u8 {
        let before = store.bytes().to_vec();
        let edit = set(&mut store, "Lang", &[number; 100]);
        reclaimed += usize::from(edit.reclaimed);
        let mut file = before;
        put(&mut file, &edit);
        assert_eq!(file, store.bytes());
        assert_eq!(store.variables().len(), 1);
    }
    assert_eq!(reclaimed, 4);
    let before = store.bytes().to_vec();
    let error = store
        .set("Big", VENDOR, Attributes::DEFAULT, &[0; 3900])
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    let text = error.to_string();
    assert!(text.contains("Big needs 3968 bytes"), "{text}");
    assert!(text.contains("of 3996 only 3824 are free"), "{text}");
    assert_eq!(store.bytes(), before);
    // Fill it to the last byte.
    let edit = set(&mut store, "Fit", &[7; 3824 - 60 - 8]);
    assert!(edit.reclaimed);
    assert_eq!(store.usage().free_bytes, 0);
    let mut store = VariableStore::open(store.into_bytes()).unwrap();
    assert_eq!(store.variables().len(), 2);
    let error = store
        .set("Fit", VENDOR, Attributes::DEFAULT, &[0; 3825])
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert!(set(&mut store, "Fit", b"small").reclaimed);
}

#[test]
fn what_may_not_be_is_refused() {
    let mut store = sata();
    let before = store.bytes().to_vec();
    let mut kind = |name: &str, attributes: u32, data: &[u8]| {
        let result = store.set(name, VENDOR, Attributes(attributes), data);
        result.unwrap_err().kind()
    };
    assert_eq!(kind("", 7, b"x"), ErrorKind::Invalid);
    assert_eq!(kind("a\0b", 7, b"x"), ErrorKind::Invalid);
    assert_eq!(kind("Lang", 7, b""), ErrorKind::Invalid);
    assert_eq!(kind("Lang", 3, b"x"), ErrorKind::Invalid);
    assert_eq!(kind("New", 6, b"x"), ErrorKind::Invalid);
    assert_eq!(kind("PK", 0x27, b"x"), ErrorKind::Denied);
    assert_eq!(
        store.delete("None", VENDOR).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    let certificates = store
        .variables()
        .into_iter()
        .find(|found| found.name == "certdb");
    let vendor = certificates.unwrap().vendor;
    assert_eq!(
        store.delete("certdb", vendor).unwrap_err().kind(),
        ErrorKind::Denied
    );
    let result = store.set("certdb", vendor, Attributes::DEFAULT, b"x");
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(store.bytes(), before);
}

#[test]
fn nothing_is_edited_while_the_firmware_is_at_it() {
    let mut bytes = template(1);
    // A write that was started, but not completed.
    bytes[4096 + 32] = 0xfc;
    bytes[4096 + 32 + 24..4096 + 32 + 40]
        .copy_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut store = VariableStore::open(bytes.clone()).unwrap();
    let error = store
        .set("Lang", VENDOR, Attributes::DEFAULT, b"eng")
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(
        error.to_string().contains("start the machine once"),
        "{error}"
    );
    assert_eq!(store.bytes(), bytes);
    bytes[4096 + 32] = 0xf8;
    let mut store = VariableStore::open(bytes).unwrap();
    set(&mut store, "Lang", b"eng");
}

#[test]
fn what_the_firmware_did_not_finish_is_reported() {
    let mut store = interrupted();
    assert_eq!(
        store.fault_tolerant_write(),
        FaultTolerantWrite::Interrupted
    );
    let before = store.bytes().to_vec();
    for result in [
        store.set_boot_order(&[3, 1]),
        store.set_boot_next(Some(1)),
        store.delete("Small", VENDOR),
    ] {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Unsupported);
    }
    assert_eq!(store.bytes(), before);
}

#[test]
fn only_variables_are_changed() {
    let mut store = sata();
    let before = store.bytes().to_vec();
    for number in 0..400_u32 {
        set(&mut store, "Lang", &number.to_le_bytes().repeat(200));
        store
            .set_boot_order(&[(number % 7) as u16])
            .unwrap()
            .writes
            .clear();
    }
    let after = store.bytes();
    assert_eq!(after.len(), before.len());
    assert_eq!(after[..0x64], before[..0x64]);
    assert_eq!(after[0x40000..], before[0x40000..]);
    assert_eq!(store.variables().len(), 31);
}

#[derive(Debug, Clone)]
enum Step {
    Set(u8, Vec<u8>),
    Delete(u8),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..8_u8, prop::collection::vec(any::<u8>(), 1..900)).prop_map(|(name, data)| Step::Set(name, data)),
        2 => (0..8_u8).prop_map(Step::Delete),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn edits_are_those_of_a_map(steps in prop::collection::vec(step(), 1..80)) {
        let mut store = empty(1);
        let mut file = store.bytes().to_vec();
        let mut model = BTreeMap::new();
        for step in steps {
            let edit = match step {
                Step::Set(name, data) => {
                    let name = format!("Boot000{name}");
                    match store.set(&name, VENDOR, Attributes::DEFAULT, &data) {
                        Ok(edit) => {
                            model.insert((name, VENDOR), data);
                            edit
                        }
                        Err(error) => {
                            prop_assert_eq!(error.kind(), ErrorKind::NoSpace);
                            // Check that it really does not fit.
                            let mut with = model.clone();
                            with.insert((name, VENDOR), data);
                            let len = |data: &Vec<u8>| (60 + 18 + data.len()).next_multiple_of(4);
                            prop_assert!(with.values().map(len).sum::<usize>() > 3996);
                            Edit::default()
                        }
                    }
                }
                Step::Delete(name) => {
                    let name = format!("Boot000{name}");
                    let deleted = store.delete(&name, VENDOR);
                    let was_there = model.remove(&(name, VENDOR)).is_some();
                    prop_assert_eq!(deleted.is_ok(), was_there);
                    deleted.unwrap_or_default()
                }
                Step::Reopen => {
                    store = VariableStore::open(file.clone()).unwrap();
                    Edit::default()
                }
            };
            put(&mut file, &edit);
            prop_assert_eq!(&file[..], store.bytes());
            prop_assert_eq!(all(&store), model.clone());
        }
    }
}
