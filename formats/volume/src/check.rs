//! Checks that apply to all tables: partitions past the end of the disk, and overlapping
//! partitions.

use diskfs_block::{BlockRead, check_bounds};

use crate::partition::Role;
use crate::warnings::Warnings;
use crate::{Partition, Problem, SectorSize};

/// Marks the partitions that cannot be opened, and adds warnings with their numbers and LBAs.
pub(crate) fn check(
    partitions: &mut [Partition],
    device: &dyn BlockRead,
    sector_size: SectorSize,
    warnings: &mut Warnings,
) {
    mark_out_of_range(partitions, device, sector_size, warnings);
    mark_overlaps(partitions, sector_size, warnings);
    mark_extended(partitions, sector_size, warnings);
}

fn mark_out_of_range(
    partitions: &mut [Partition],
    device: &dyn BlockRead,
    sector_size: SectorSize,
    warnings: &mut Warnings,
) {
    let size_bytes = device.size_bytes();
    for p in partitions {
        if check_bounds(p.start_bytes, p.len_bytes, size_bytes).is_err() {
            p.problem = Some(Problem::OutOfRange);
            warnings.push(format!(
                "partition {} ({}) extends past the end of the disk ({} sectors)",
                p.number,
                lbas(p, sector_size),
                sector_size.count_on(device),
            ));
        }
    }
}

/// Marks overlapping partitions in one sweep in order of start: it compares each partition with the
/// preceding one that ends last. This finds every partition that overlaps any other, with one
/// warning for each and not one for each pair. Containers are skipped, because others lie within
/// them.
fn mark_overlaps(partitions: &mut [Partition], sector_size: SectorSize, warnings: &mut Warnings) {
    let mut order: Vec<usize> = (0..partitions.len()).collect();
    order.retain(|&i| partitions.get(i).is_some_and(|p| !p.is_extended()));
    order.sort_by_key(|&i| partitions.get(i).map(|p| (p.start_bytes, p.number)));
    let end_of = |all: &[Partition], i: usize| all.get(i).map(Partition::end_bytes);
    let mut furthest: Option<usize> = None;
    for i in order {
        if let Some(before) = furthest {
            mark_pair(partitions, [before, i], sector_size, warnings);
        }
        if furthest.is_none_or(|f| end_of(partitions, i) > end_of(partitions, f)) {
            furthest = Some(i);
        }
    }
}

/// Compares extended partitions and slices with the MBR's other entries: at most four in all.
fn mark_extended(partitions: &mut [Partition], sector_size: SectorSize, warnings: &mut Warnings) {
    let primaries = partitions.iter().take_while(|p| p.number <= 4).count();
    for i in 0..primaries {
        for j in i.saturating_add(1)..primaries {
            let pair = || [i, j].map(|k| partitions.get(k));
            let is_whole = |p: Option<&Partition>| p.is_some_and(|p| p.role == Role::Whole);
            let both = pair().map(|p| p.is_some_and(Partition::is_extended));
            if pair().into_iter().any(is_whole) {
                continue;
            }
            if both.contains(&true) {
                mark_pair(partitions, [i, j], sector_size, warnings);
            }
        }
    }
}

/// Marks both partitions if they overlap.
fn mark_pair(
    partitions: &mut [Partition],
    pair: [usize; 2],
    sector_size: SectorSize,
    warnings: &mut Warnings,
) {
    let Ok([a, b]) = partitions.get_disjoint_mut(pair) else {
        return;
    };
    if a.start_bytes >= b.end_bytes() || b.start_bytes >= a.end_bytes() {
        return;
    }
    warnings.push(format!(
        "partitions {} ({}) and {} ({}) overlap",
        a.number,
        lbas(a, sector_size),
        b.number,
        lbas(b, sector_size),
    ));
    let (a_number, b_number) = (a.number, b.number);
    a.problem
        .get_or_insert(Problem::Overlaps { other: b_number });
    b.problem
        .get_or_insert(Problem::Overlaps { other: a_number });
}

/// Formats the sectors of a partition for messages.
fn lbas(p: &Partition, sector_size: SectorSize) -> String {
    let lba = |bytes: u64| bytes.checked_div(sector_size.len_bytes()).unwrap_or(0);
    let last = p.end_bytes().saturating_sub(1);
    format!("LBA {} to {}", lba(p.start_bytes), lba(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PartitionKind;
    use diskfs_block::Memory;
    use proptest::prelude::*;

    fn partition(number: u32, start: u64, len: u64, type_byte: u8) -> Partition {
        Partition {
            number,
            start_bytes: start * 512,
            len_bytes: len * 512,
            kind: PartitionKind::Mbr {
                type_byte,
                active: false,
                logical: false,
            },
            problem: None,
            disk_signature: 0,
            role: Role::Own,
        }
    }

    fn checked(mut partitions: Vec<Partition>) -> (Vec<Option<Problem>>, Vec<String>) {
        let disk = Memory::new(vec![0; 100 * 512]);
        let mut warnings = Warnings::default();
        check(&mut partitions, &disk, SectorSize::B512, &mut warnings);
        (
            partitions.iter().map(|p| p.problem).collect(),
            warnings.into_vec(),
        )
    }

    #[test]
    fn neighbours_do_not_overlap() {
        let (problems, warnings) =
            checked(vec![partition(1, 50, 50, 0x83), partition(2, 1, 49, 0x83)]);
        assert_eq!((problems, warnings.len()), (vec![None, None], 0));
    }

    #[test]
    fn overlaps_are_told_with_numbers_and_lbas() {
        let (problems, warnings) =
            checked(vec![partition(1, 10, 50, 0x83), partition(2, 20, 5, 0x83)]);
        assert_eq!(
            problems,
            [
                Some(Problem::Overlaps { other: 2 }),
                Some(Problem::Overlaps { other: 1 })
            ]
        );
        assert_eq!(
            warnings,
            ["partitions 1 (LBA 10 to 59) and 2 (LBA 20 to 24) overlap"]
        );
    }

    #[test]
    fn the_extended_partition_holds_its_logical_ones() {
        let (problems, _) = checked(vec![partition(1, 10, 50, 0x05), partition(5, 20, 5, 0x83)]);
        assert_eq!(problems, [None, None]);
        let (problems, _) = checked(vec![partition(1, 10, 50, 0x0f), partition(2, 20, 5, 0x83)]);
        assert!(problems.iter().all(Option::is_some));
    }

    #[test]
    fn what_leaves_the_disk_is_told() {
        let (problems, warnings) = checked(vec![
            partition(1, 99, 1, 0x83),
            partition(2, 99, 2, 0x83),
            partition(3, 1 << 40, 1 << 40, 0x83),
        ]);
        assert_eq!(problems[0], Some(Problem::Overlaps { other: 2 }));
        assert_eq!(problems[1..], [Some(Problem::OutOfRange); 2]);
        assert_eq!(
            warnings[0],
            "partition 2 (LBA 99 to 100) extends past the end of the disk (100 sectors)"
        );
    }

    proptest! {
        /// The sweep marks exactly the partitions that a comparison of all pairs marks.
        #[test]
        fn sweep_agrees_with_all_pairs(ranges in prop::collection::vec((0_u64..60, 1_u64..30), 0..12)) {
            let partitions: Vec<Partition> = (1..).zip(&ranges)
                .map(|(n, &(start, len))| partition(n, start, len, 0x83))
                .collect();
            let (problems, _) = checked(partitions);
            for (i, &(start, len)) in ranges.iter().enumerate() {
                let overlaps = ranges.iter().enumerate().any(|(j, &(s, l))| {
                    i != j && s < start + len && start < s + l
                });
                prop_assert_eq!(problems[i].is_some(), overlaps);
            }
        }
    }
}
