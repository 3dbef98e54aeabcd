//! Checking a whole filesystem, as `e2fsck -fn` does. Nothing is repaired.
//!
//! The phases are those of e2fsck: superblock and descriptors; inodes with everything that they
//! refer to; directories; connectivity; link counts; bitmaps and counts. Each is linear in the
//! metadata. Inode tables, directories and bitmaps are read in the order of the disk, by several
//! threads.

mod attributes;
mod block_set;
mod budget;
mod claims;
mod connectivity;
mod context;
mod defective;
mod directories;
mod directory_entries;
mod encryption;
mod extent_walk;
mod fields;
mod finding;
mod group_set;
mod groups;
mod htree;
mod inode_states;
mod inode_tables;
mod links;
mod map_walk;
mod mmp;
mod orphans;
mod owners;
mod paths;
mod quota;
mod report;
mod rounds;
mod scan;
mod special;
mod summaries;
mod superblock;
mod threads;
mod tree;
mod window;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use diskfs_block::{BlockRead, processors};

use crate::allocator::Geometry;
use crate::block::FsBlock;
use crate::bytes::{index, len_u64};
use crate::error::{ErrorKind, Result};
use crate::features::{Incompatible, ReadOnlyCompatible};
use crate::recovery::{Recovered, recover};
use crate::superblock::{RawSuperblock, Superblock};
use crate::volume::Volume;

use block_set::BlockSet;
use budget::Budget;
use context::{Context, References};
use directories::DirectoryPass;
use inode_states::InodeStates;
use report::Findings;
use scan::{Scan, ScanResult};
use special::HiddenInodes;
use summaries::SummaryPass;
use superblock::SuperblockBytes;
use threads::Threads;

pub use finding::{CheckPhase, Finding, FindingKind, FindingPlace};
pub use report::{CheckOptions, CheckProgress, CheckReport, CheckStatistics};

/// The memory for caches of blocks that are read more than once.
const CACHE_BYTES: u64 = 4 << 20;
/// The maximum number of threads that are used by default.
const THREADS_MAX: usize = 4;

/// Checks a filesystem. The device is only read; if the journal needs recovery, it is replayed in
/// memory first, and the result is checked.
///
/// `progress` is called at the start of each phase and about every 50 ms. If it returns `Break`,
/// the check stops.
///
/// # Errors
/// `Io` if the device fails; `Unsupported` for features that cannot be read; `Cancelled` if
/// `progress` stopped the check; `Invalid` if the memory limit is too small. Inconsistencies are
/// not errors but findings, even if the superblock cannot be used.
pub fn check(
    device: Arc<dyn BlockRead>,
    options: &CheckOptions,
    progress: &mut dyn FnMut(CheckProgress) -> ControlFlow<()>,
) -> Result<CheckReport> {
    let findings = Findings::new(options.max_findings);
    let mut report = CheckReport::default();
    let superblock = match Superblock::read(&*device) {
        Ok(superblock) => superblock,
        Err(e) if e.kind() == ErrorKind::Corrupt => {
            let place = FindingPlace::filesystem();
            findings.add(FindingKind::Superblock, place, e.to_string());
            (report.findings, report.total_findings) = findings.finish();
            return Ok(report);
        }
        Err(e) => return Err(e),
    };
    let recovered = replay(device, superblock, &findings, &mut report)?;
    let was_recovered = recovered
        .superblock
        .features
        .has(Incompatible::NEEDS_RECOVERY);
    let volume = Volume {
        journal_view: recovered.view,
        ..Volume::new(recovered.device, recovered.superblock, CACHE_BYTES)
    };
    let mut threads = Threads {
        count: thread_count(options),
        progress,
    };
    let budget = Budget::new(options.memory_bytes);
    let bytes = SuperblockBytes::read(&*volume.device)?;
    let raw = bytes.raw()?;
    superblock::check(&volume.superblock, raw, &findings);
    report
        .notes
        .extend(superblock::notes(&volume.superblock, raw));
    if !was_recovered {
        superblock::check_journal(&volume.device, &volume.superblock, &findings)?;
    }
    report.notes.extend(mmp::check(&volume, raw, &findings)?);
    let context = prepare(&volume, raw, &findings, &budget, &mut report)?;
    run(&context, raw, was_recovered, &mut threads, &mut report)?;
    drop(context);
    (report.findings, report.total_findings) = findings.finish();
    paths::add(&volume, &mut report.findings);
    Ok(report)
}

fn thread_count(options: &CheckOptions) -> usize {
    match options.threads {
        0 => processors().get().min(THREADS_MAX),
        count => count,
    }
}

/// Replays the journal in memory. An invalid journal is a finding, and is not replayed.
fn replay(
    device: Arc<dyn BlockRead>,
    superblock: Superblock,
    findings: &Findings,
    report: &mut CheckReport,
) -> Result<Recovered> {
    let unchanged = Recovered {
        device: Arc::clone(&device),
        view: None,
        superblock: superblock.clone(),
        fast_commits: None,
        notes: Vec::new(),
    };
    match recover(device, superblock) {
        Ok(recovered) => {
            report.notes.extend(recovered.notes.iter().cloned());
            if recovered.fast_commits.is_some() {
                let note = "the changes of fast commits are not checked";
                report.notes.push(note.to_owned());
            }
            Ok(recovered)
        }
        Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported) => {
            let place = FindingPlace::filesystem();
            findings.add(FindingKind::Journal, place, e.to_string());
            Ok(unchanged)
        }
        Err(e) => Err(e),
    }
}

/// Reads the group descriptors and the orphans, and creates the sets.
fn prepare<'a>(
    volume: &'a Volume,
    raw: &RawSuperblock,
    findings: &'a Findings,
    budget: &'a Budget,
    report: &mut CheckReport,
) -> Result<Context<'a>> {
    let geometry = Geometry::new(&volume.superblock);
    budget.take::<groups::Group>(index(geometry.groups))?;
    let groups = groups::read(volume, findings)?;
    let orphans = orphans::read(volume, findings, budget)?;
    if !orphans.is_empty() {
        let count = orphans.len();
        let note = format!("orphans that wait for their deletion or truncation: {count}");
        report.notes.push(note);
    }
    Ok(Context {
        volume,
        geometry,
        groups,
        budget,
        findings,
        inodes: InodeStates::new(geometry, budget)?,
        claimed: BlockSet::windowed(geometry, budget)?,
        twice: BlockSet::new(geometry, budget)?,
        trees: BlockSet::new(geometry, budget)?,
        orphans,
        references: References::default(),
        defective: std::sync::OnceLock::new(),
        quota: quota::Quota::new(&volume.superblock, raw),
        policies: encryption::Policies::default(),
        progress: context::Progress::default(),
    })
}

/// Runs all phases.
fn run(
    context: &Context<'_>,
    raw: &RawSuperblock,
    was_recovered: bool,
    threads: &mut Threads<'_>,
    report: &mut CheckReport,
) -> Result<()> {
    check_overlaps(context)?;
    claim_metadata(context)?;
    let mut summaries = SummaryPass::new(context)?;
    summaries.count_metadata();
    claim_mmp(context, raw)?;
    defective::claim(context)?;
    let hidden = HiddenInodes::new(context.superblock(), raw);
    let scan = Scan {
        context,
        hidden,
        result: std::sync::Mutex::default(),
    };
    let groups = context.geometry.groups;
    threads.run(context, CheckPhase::Inodes, groups, &|group| {
        scan.group(group)
    })?;
    scan.check_root();
    summaries.first_unchecked = rounds::run(context, raw, hidden, &summaries, threads)?;
    let shares_blocks = context
        .superblock()
        .features
        .has(ReadOnlyCompatible::SHARED_BLOCKS);
    if !context.twice.is_empty() && !shares_blocks {
        find_owners(context, threads)?;
    }
    let scanned = scan
        .result
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    report.statistics = scanned.statistics;
    check_names(context, scanned, threads)?;
    attributes::compare_references(context);
    threads.run(context, CheckPhase::Summaries, groups, &|group| {
        summaries.check(group)
    })?;
    if !was_recovered {
        summaries.check_totals(raw);
    }
    context.quota.compare(context)?;
    let superblock = context.superblock();
    let free = summaries.free_clusters.load(Ordering::Relaxed);
    // Like e2fsck this counts a block before the first group.
    report.statistics.used_blocks = superblock
        .blocks_count
        .saturating_sub(free.wrapping_shl(superblock.cluster_ratio_bits));
    Ok(())
}

/// Reports metadata at fixed places that overlaps.
fn check_overlaps(context: &Context<'_>) -> Result<()> {
    /// The ranges of a group: superblock and descriptors, two bitmaps, the inode table.
    const RANGES: u64 = 4;
    let range_bytes = len_u64(size_of::<groups::MetadataRange>());
    let bytes =
        range_bytes.saturating_mul(u64::from(context.geometry.groups).saturating_mul(RANGES));
    context.budget.take_bytes(bytes)?;
    let mut ranges: Vec<_> = groups::metadata(context.volume, &context.groups).collect();
    groups::check_overlaps(context.findings, &mut ranges);
    drop(ranges);
    context.budget.give_back(bytes);
    Ok(())
}

/// Claims the metadata at fixed places.
fn claim_metadata(context: &Context<'_>) -> Result<()> {
    for range in groups::metadata(context.volume, &context.groups) {
        let first = FsBlock(range.first);
        context
            .claimed
            .insert(first, range.len_blocks, context.budget, None)?;
    }
    Ok(())
}

/// Claims the block of multiple mount protection.
fn claim_mmp(context: &Context<'_>, raw: &RawSuperblock) -> Result<()> {
    let superblock = context.superblock();
    let mmp = FsBlock(raw.s_mmp_block.get());
    if superblock.features.has(Incompatible::MMP) && superblock.holds(mmp, 1) {
        let twice = Some(&context.twice);
        context.claimed.insert(mmp, 1, context.budget, twice)?;
    }
    Ok(())
}

/// Looks for all owners of the blocks that have more than one.
fn find_owners(context: &Context<'_>, threads: &mut Threads<'_>) -> Result<()> {
    context.trees.clear(context.budget);
    let groups = context.geometry.groups;
    threads.run(context, CheckPhase::Inodes, groups, &|group| {
        owners::report(context, group)
    })
}

/// Checks the directories, their connections and the link counts.
fn check_names(
    context: &Context<'_>,
    scanned: ScanResult,
    threads: &mut Threads<'_>,
) -> Result<()> {
    let mut directories = scanned.directories;
    directories.sort_unstable_by_key(|directory| directory.inode);
    let pass = DirectoryPass::new(context, &directories)?;
    context.budget.take::<u32>(directories.len())?;
    let order = directories::in_disk_order(&directories);
    let total = u32::try_from(order.len()).unwrap_or(u32::MAX);
    threads.run(context, CheckPhase::Directories, total, &|nth| {
        let position = order.get(index(nth)).copied();
        position.map_or(Ok(()), |position| {
            directory_entries::check(&pass, index(position))
        })
    })?;
    connectivity::check(&pass)?;
    let groups = context.geometry.groups;
    threads.run(context, CheckPhase::References, groups, &|group| {
        links::check(&pass, group)
    })
}
