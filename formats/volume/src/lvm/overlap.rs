//! Detection of extents that belong to two logical volumes.

use super::logical_volume::Problem;
use super::segment::Segment;
use super::volume_group::VolumeGroup;

/// A range of extents of a physical volume, and the logical volume that uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    pv: usize,
    start: u64,
    end: u64,
    lv: usize,
}

/// Marks all logical volumes that share extents, because their owner is ambiguous, and those whose
/// extents are past the end of their physical volume.
pub(super) fn mark(group: &mut VolumeGroup) {
    let mut claims = claims(group);
    claims.sort_unstable();
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut furthest: Option<Claim> = None;
    for claim in claims {
        let pv = group.physical_volumes.get(claim.pv);
        let (key, extents) = pv.map_or(("", 0), |pv| (pv.key.as_str(), pv.extents));
        if claim.end > extents {
            let reason = format!("uses extents of {key} past its {extents}");
            found.push((claim.lv, reason));
        }
        match furthest {
            Some(before) if before.pv == claim.pv && before.end > claim.start => {
                for (one, other) in [(before.lv, claim.lv), (claim.lv, before.lv)] {
                    let other = group.logical_volumes.get(other);
                    let other = other.map_or("", |lv| lv.name.as_str());
                    let reason = format!("shares extents of {key} with {other}");
                    found.push((one, reason));
                }
                if claim.end > before.end {
                    furthest = Some(claim);
                }
            }
            _ => furthest = Some(claim),
        }
    }
    for (lv, reason) in found {
        if let Some(volume) = group.logical_volumes.get_mut(lv) {
            volume.set_problem(Problem::Corrupt(reason));
        }
    }
}

fn claims(group: &VolumeGroup) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (lv, volume) in group.logical_volumes.iter().enumerate() {
        for (area, extents) in volume.segments.iter().flat_map(Segment::areas) {
            if let Some(&pv) = group.pv_by_key.get(&area.name) {
                claims.push(Claim {
                    pv,
                    start: area.extent,
                    end: area.extent.saturating_add(extents),
                    lv,
                });
            }
        }
    }
    claims
}
