//! Random sequences of changes, checked with all tools.

use diskfs_block::Result;
use diskfs_volume::edit::{Flag, NewPartition, NewSize, PartitionType, TableEditor};
use proptest::prelude::*;

use crate::rig::{MIB, Rig, gpt, guid, has_tools, mbr};

/// A change with numbers that may fit or not.
#[derive(Debug, Clone)]
enum Change {
    Add {
        start: Option<u64>,
        size: Option<u64>,
        kind: usize,
    },
    Delete(usize),
    Grow(usize, Option<u64>),
    Shrink(usize, u64),
    Type(usize, usize),
    Flag(usize, usize, bool),
    Enlarge(u64),
}

const TYPES: [&str; 4] = ["linux", "swap", "esp", "extended"];
const FLAGS: [Flag; 3] = [Flag::Active, Flag::LegacyBoot, Flag::NoAuto];

fn change() -> impl Strategy<Value = Change> {
    let sectors = || 1_u64..20_000;
    prop_oneof![
        4 => (prop::option::weighted(0.3, 0_u64..60_000), prop::option::weighted(0.8, sectors()), 0..4_usize)
            .prop_map(|(start, size, kind)| Change::Add { start, size, kind }),
        1 => (0..8_usize).prop_map(Change::Delete),
        1 => (0..8_usize, prop::option::of(sectors())).prop_map(|(n, size)| Change::Grow(n, size)),
        1 => (0..8_usize, sectors()).prop_map(|(n, size)| Change::Shrink(n, size)),
        1 => (0..8_usize, 0..4_usize).prop_map(|(n, kind)| Change::Type(n, kind)),
        1 => (0..8_usize, 0..3_usize, any::<bool>()).prop_map(|(n, flag, set)| Change::Flag(n, flag, set)),
        1 => (1_u64..6000).prop_map(Change::Enlarge),
    ]
}

/// Applies a change; the number of a partition is one of those that exist, if any.
fn apply(editor: &mut TableEditor, change: &Change, numbers: &[u32], nth: u64) -> Result<()> {
    let typed = |kind: usize| TYPES[kind].parse::<PartitionType>().unwrap();
    let number = |n: usize| numbers.get(n % numbers.len().max(1)).copied().unwrap_or(9);
    match *change {
        Change::Add { start, size, kind } => {
            let new = NewPartition {
                number: None,
                start_bytes: start.map(|sectors| sectors * 512),
                size_bytes: size.map(|sectors| sectors * 512),
                partition_type: typed(kind),
                name: String::new(),
                guid: guid(nth),
                flags: Vec::new(),
                role: None,
            };
            editor.add(&new).map(|_| ())
        }
        Change::Delete(n) => editor.delete(number(n)),
        Change::Grow(n, size) => {
            let size = size.map_or(NewSize::Largest, |sectors| NewSize::More(sectors * 512));
            editor.grow(number(n), size).map(|_| ())
        }
        Change::Shrink(n, size) => editor.shrink(number(n), size * 512).map(|_| ()),
        Change::Type(n, kind) => editor.set_type(number(n), typed(kind)),
        Change::Flag(n, flag, set) => editor.set_flag(number(n), FLAGS[flag], set),
        Change::Enlarge(_) => Ok(()),
    }
}

fn cases() -> u32 {
    let cases = std::env::var("DISKFS_CASES")
        .ok()
        .and_then(|text| text.parse().ok());
    cases.unwrap_or(6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn sequences_of_changes_leave_a_valid_table(
        is_gpt in any::<bool>(),
        changes in prop::collection::vec(change(), 1..25),
    ) {
        if !has_tools() {
            return Ok(());
        }
        let rig = Rig::new(32 * MIB);
        rig.create(if is_gpt { gpt() } else { mbr() });
        for (nth, change) in (1..).zip(&changes) {
            let table = rig.table();
            let numbers: Vec<u32> = table.partitions.iter().map(|p| p.number).collect();
            let before = rig.bytes();
            let done = match change {
                Change::Enlarge(sectors) => {
                    rig.set_len(before.len() as u64 + sectors * 512);
                    rig.edit(|editor| editor.move_backup().or(Ok(())))
                }
                change => rig.edit(|editor| apply(editor, change, &numbers, nth)),
            };
            if done.is_err() {
                prop_assert!(rig.bytes() == before, "a refused change wrote something");
            }
            rig.check();
        }
    }
}
