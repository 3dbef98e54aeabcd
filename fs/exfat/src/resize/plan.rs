//! The places to which clusters move.

use diskfs_clusters::resize::{Move, Renumbering, Space};
use diskfs_clusters::{Chain, Cluster, Run};

use crate::error::Result;

use super::OldVolume;
use super::layout::NewLayout;
use super::scan::Scan;

/// The places to which clusters move, and the space that is left.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) renumbering: Renumbering,
    /// The new clusters of the bitmap.
    pub(super) bitmap: Run,
    pub(super) space: Space,
}

impl Plan {
    /// Chooses the places.
    ///
    /// # Errors
    /// `NoSpace` if too few clusters are free.
    pub(super) fn of(old: &OldVolume, scan: &Scan, layout: &NewLayout) -> Result<Self> {
        let geometry = &old.boot.geometry;
        let mut renumbering = Renumbering::new(layout.shift, geometry.clusters, layout.clusters);
        let mut space = Space::new(&scan.used, &renumbering);
        let (bitmap, _) = &old.bitmap;
        let bitmap_bytes = u64::from(layout.clusters.div_ceil(8));
        let bitmap_count = geometry.clusters_for(bitmap_bytes);
        let first = match in_place(bitmap, bitmap_count, &renumbering) {
            Some(first) => first,
            None => space.take_contiguous(bitmap_count)?,
        };
        let upcase_count = old.upcase.clusters();
        if in_place(&old.upcase, upcase_count, &renumbering).is_none() {
            let first = space.take_contiguous(upcase_count)?;
            for run in old.upcase.runs() {
                renumbering.add(Move {
                    from: run.first,
                    to: first.plus(run.at),
                    count: run.count,
                });
            }
        }
        let is_bitmap = |cluster| contains(bitmap, cluster);
        space.evacuate(&scan.used, &mut renumbering, is_bitmap)?;
        Ok(Self {
            renumbering,
            bitmap: Run {
                at: 0,
                first,
                count: bitmap_count,
            },
            space,
        })
    }
}

/// Returns true if a chain has this cluster.
pub(super) fn contains(chain: &Chain, cluster: Cluster) -> bool {
    let mut runs = chain.runs().iter();
    runs.any(|run| (run.first..=run.last()).contains(&cluster))
}

/// Returns the new number of the first cluster, if the first `count` clusters of the chain can stay
/// in their place and are consecutive.
fn in_place(chain: &Chain, count: u32, renumbering: &Renumbering) -> Option<Cluster> {
    let run = chain.run_from(0).filter(|run| run.count >= count)?;
    let last = run.first.plus(count.saturating_sub(1));
    renumbering.in_place(last)?;
    renumbering.in_place(run.first)
}
