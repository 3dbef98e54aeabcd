//! Snapshots of the old style. A hidden volume of the type `snapshot` joins an origin and the store
//! of what was overwritten in it; both look like linear volumes by themselves. LVM2,
//! `lib/snapshot/snapshot.c`.

use super::logical_volume::Problem;
use super::text::Section;
use super::volume_group::VolumeGroup;

/// Marks what can't be read, or not be written, by itself.
pub(super) fn mark(group: &mut VolumeGroup, section: &Section<'_>) {
    let Some(volumes) = section.section("logical_volumes") else {
        return;
    };
    let segments = volumes.sections.iter().flat_map(|(_, lv)| &lv.sections);
    for (_, segment) in segments {
        if segment.text("type").as_deref() != Ok("snapshot") {
            continue;
        }
        let origin = segment.text("origin").unwrap_or_default();
        if let Ok(store) = segment.text("cow_store") {
            let reason = format!(
                "is a snapshot of {}, which is not read",
                origin.escape_debug()
            );
            group.set_problem(&store, Problem::Unsupported(reason));
            mark_origin(group, &origin);
        }
        if let Ok(store) = segment.text("merging_store") {
            for name in [&origin, &store] {
                let reason = "has a snapshot being merged into it, which is not read".to_owned();
                group.set_problem(name, Problem::Unsupported(reason));
            }
        }
    }
}

fn mark_origin(group: &mut VolumeGroup, name: &str) {
    let index = group.lv_by_name.get(name).copied();
    if let Some(origin) = index.and_then(|index| group.logical_volumes.get_mut(index)) {
        origin.has_snapshots = true;
    }
}
