//! The runs of an array on its members.

use std::num::{NonZeroU64, NonZeroUsize};

use diskfs_block::ErrorKind;

use super::superblock::Member;
use crate::map::{Far, Geometry, Parity, Rotation, Sums};

/// A run of an array on some of its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) len_bytes: u64,
    pub(super) geometry: Geometry,
    /// The slots of those members, in their order.
    pub(super) slots: Vec<usize>,
    /// The offset in each member's data at which the run begins, in bytes.
    pub(super) start_bytes: u64,
    /// The number of bytes that the run uses of each member.
    pub(super) each_bytes: u64,
}

/// The reason why an array has no runs.
pub(super) type Problem = (ErrorKind, String);

/// The layouts of RAID0: `RAID0_ORIG_LAYOUT` and `RAID0_ALT_MULTIZONE_LAYOUT`.
const RAID0_ORIGINAL: u32 = 1;
const RAID0_ALTERNATE: u32 = 2;

/// Returns an array's runs. `data` is the size of each slot's data; zero for a missing member.
pub(super) fn runs(newest: &Member, data: &[u64]) -> Result<Vec<Run>, Problem> {
    match newest.level {
        -1 => Ok(concatenated(newest, data)),
        0 => zones(newest, data),
        1 | 4 | 5 | 6 | 10 => Ok(vec![redundant(newest)?]),
        level => {
            let reason = format!("is of level {level}, which is not supported");
            Err((ErrorKind::Unsupported, reason))
        }
    }
}

fn whole(bytes: u64, chunk_bytes: u64) -> u64 {
    let rest = bytes.checked_rem(chunk_bytes).unwrap_or(0);
    bytes.saturating_sub(rest)
}

/// Returns the runs of `linear`: one member after the other.
fn concatenated(newest: &Member, data: &[u64]) -> Vec<Run> {
    let member = |(slot, bytes): (usize, &u64)| {
        let each_bytes = whole(*bytes, newest.chunk_bytes);
        Run {
            len_bytes: each_bytes,
            geometry: Geometry::Mirror,
            slots: vec![slot],
            start_bytes: 0,
            each_bytes,
        }
    };
    let runs = data.iter().enumerate().map(member);
    runs.filter(|run| run.len_bytes > 0).collect()
}

/// Returns the zones of RAID0 as in `create_strip_zones`, Linux, `drivers/md/raid0.c`: stripes over
/// all members up to the end of the smallest, then over the remaining ones.
fn zones(newest: &Member, data: &[u64]) -> Result<Vec<Run>, Problem> {
    let chunk_bytes = chunk_of(newest)?;
    let sizes: Vec<u64> = data
        .iter()
        .map(|bytes| whole(*bytes, chunk_bytes.get()))
        .collect();
    let (mut runs, mut start_bytes, mut chunks) = (Vec::new(), 0, 0_u64);
    loop {
        let left = sizes
            .iter()
            .enumerate()
            .filter(|(_, size)| **size > start_bytes);
        let (mut slots, left): (Vec<usize>, Vec<u64>) = left.unzip();
        let Some(end_bytes) = left.into_iter().min() else {
            return Ok(runs);
        };
        if !runs.is_empty() && slots.len() > 1 {
            match newest.layout {
                RAID0_ALTERNATE => {}
                // The original layout continues to count where the previous zone ended.
                RAID0_ORIGINAL => {
                    let count = u64::try_from(slots.len()).unwrap_or(u64::MAX);
                    let first = chunks.checked_rem(count).unwrap_or(0);
                    slots.rotate_left(usize::try_from(first).unwrap_or(0));
                }
                _ => {
                    let reason = "is raid0 with members of different sizes, and its superblock does not say which \
                                  of two layouts it has";
                    return Err((ErrorKind::Unsupported, reason.to_owned()));
                }
            }
        }
        let each_bytes = end_bytes.saturating_sub(start_bytes);
        let count = u64::try_from(slots.len()).unwrap_or(u64::MAX);
        let len_bytes = each_bytes.saturating_mul(count);
        chunks = chunks.saturating_add(len_bytes / chunk_bytes);
        runs.push(Run {
            len_bytes,
            geometry: Geometry::Stripes { chunk_bytes },
            slots,
            start_bytes,
            each_bytes,
        });
        start_bytes = end_bytes;
    }
}

fn redundant(newest: &Member) -> Result<Run, Problem> {
    let members = usize::try_from(newest.members).unwrap_or(usize::MAX);
    let (geometry, each_bytes) = if newest.level == 1 {
        (Geometry::Mirror, newest.used_bytes)
    } else {
        let chunk_bytes = chunk_of(newest)?;
        let each_bytes = whole(newest.used_bytes, chunk_bytes.get());
        let geometry = match newest.level {
            10 => raid10(newest, members, chunk_bytes, each_bytes),
            _ => parity(newest, chunk_bytes),
        };
        let (level, layout) = (newest.level, newest.layout);
        let reason = || format!("is raid{level} of layout {layout:#x}, which is not supported");
        (
            geometry.ok_or_else(|| (ErrorKind::Unsupported, reason()))?,
            each_bytes,
        )
    };
    if members < geometry.least_members() {
        let reason = format!(
            "is raid{} with an invalid number of members: {members}",
            newest.level
        );
        return Err((ErrorKind::Corrupt, reason));
    }
    let len_bytes = geometry.size_bytes(each_bytes, members, newest.chunk_bytes.max(1));
    Ok(Run {
        len_bytes: len_bytes.unwrap_or(0),
        geometry,
        slots: (0..members).collect(),
        start_bytes: 0,
        each_bytes,
    })
}

fn chunk_of(newest: &Member) -> Result<NonZeroU64, Problem> {
    let no_chunks = || {
        (
            ErrorKind::Corrupt,
            "has an invalid chunk size: 0".to_owned(),
        )
    };
    NonZeroU64::new(newest.chunk_bytes).ok_or_else(no_chunks)
}

/// Returns the geometry of RAID10 as in `setup_geo` and `calc_sectors`, Linux,
/// `drivers/md/raid10.c`.
fn raid10(
    newest: &Member,
    members: usize,
    chunk_bytes: NonZeroU64,
    each_bytes: u64,
) -> Option<Geometry> {
    let layout = newest.layout;
    let [near, far] = [layout & 0xff, layout >> 8 & 0xff].map(usize::try_from);
    let (near, far) = (
        NonZeroUsize::new(near.ok()?)?,
        NonZeroUsize::new(far.ok()?)?,
    );
    let copies = near.checked_mul(far)?;
    let set = match layout >> 17 {
        0 => members,
        // The first version with sets computes their size wrongly, which is kept for compatibility.
        1 => members.checked_div(far.get())?,
        2 => copies.get(),
        _ => return None,
    };
    let wide = |number: usize| u64::try_from(number).ok();
    let [near_count, far_count, all] = [near.get(), far.get(), members].map(wide);
    let chunks = (each_bytes / chunk_bytes).checked_div(far_count?)?;
    let chunks = chunks.checked_mul(all?)?.checked_div(near_count?)?;
    let used = chunks.checked_mul(wide(copies.get())?)?;
    let used = used.checked_next_multiple_of(all?)?.checked_div(all?)?;
    let is_offset = layout & 1 << 16 != 0;
    let stride = if is_offset {
        1
    } else {
        used.checked_div(far_count?)?
    };
    Some(Geometry::Raid10 {
        chunk_bytes,
        copies: near,
        far: Far {
            copies: far,
            stride_bytes: stride.checked_mul(chunk_bytes.get())?,
            is_offset,
            set: NonZeroUsize::new(set)?,
        },
    })
}

fn parity(member: &Member, chunk_bytes: NonZeroU64) -> Option<Geometry> {
    use Rotation::{
        First, Last, LeftAsymmetric, LeftSymmetric, NContinue, NRestart, RightAsymmetric,
        RightSymmetric, ZeroRestart,
    };
    // The numbers of `ALGORITHM_*`, Linux, `drivers/md/raid5.h`.
    let rotation = match member.layout & 0xf {
        0 => LeftAsymmetric,
        1 => RightAsymmetric,
        2 => LeftSymmetric,
        3 => RightSymmetric,
        5 => Last,
        8 => ZeroRestart,
        9 => NRestart,
        10 => NContinue,
        _ => First, // 4; unknown layouts are refused below.
    };
    let (rotation, sums) = match (member.level, member.layout) {
        (4, _) => (Last, Sums::P),
        (5, 0..=5) => (rotation, Sums::P),
        (6, 0..=5 | 8..=10) => (rotation, Sums::PAndQ),
        (6, 16..=20) => (rotation, Sums::PAndLastQ),
        _ => return None,
    };
    Some(Geometry::Parity {
        chunk_bytes,
        parity: Parity { rotation, sums },
    })
}
