//! Snapshots of the old style. A hidden volume of the type `snapshot` joins an origin and the store
//! of what was overwritten in it; both look like linear volumes by themselves. The store has the name
//! that users know, so it becomes the snapshot here. LVM2, `lib/snapshot/snapshot.c`.

use super::logical_volume::{LogicalVolume, Problem};
use super::text::Section;
use super::volume_group::VolumeGroup;

/// Joins them, and marks what can't be read, or not be written, by itself.
pub(super) fn mark(group: &mut VolumeGroup, section: &Section<'_>) {
    let Some(volumes) = section.section("logical_volumes") else {
        return;
    };
    let segments = volumes.sections.iter();
    let segments = segments.flat_map(|(name, lv)| lv.sections.iter().map(move |it| (name, &it.1)));
    for (name, segment) in segments {
        if let (Ok("thin"), Ok(origin)) = (segment.text("type").as_deref(), segment.text("merge")) {
            refuse_merging(group, &[&origin, &name.plain()]);
        }
        if segment.text("type").as_deref() != Ok("snapshot") {
            continue;
        }
        // Marked as visible, and yet no tool shows it: what users see is the store.
        edit(group, &name.plain(), |joint| joint.visible = false);
        let origin = segment.text("origin").unwrap_or_default();
        if let Ok(store) = segment.text("cow_store") {
            let joint = group.logical_volume(&name.plain());
            let size_bytes = joint.map_or(0, |joint| joint.size_bytes);
            edit(group, &store, |store| {
                store.visible = true;
                "snapshot".clone_into(&mut store.layout);
                store.size_bytes = size_bytes;
                store.origin = Some(origin.clone().into_owned());
            });
            edit(group, &origin, |origin| origin.has_snapshots = true);
        }
        if let Ok(store) = segment.text("merging_store") {
            refuse_merging(group, &[&origin, &store]);
        }
    }
}

fn refuse_merging(group: &mut VolumeGroup, names: &[&str]) {
    for name in names {
        let reason = "has a snapshot being merged into it, which is not read".to_owned();
        edit(group, name, |lv| {
            lv.set_problem(Problem::Unsupported(reason));
        });
    }
}

fn edit(group: &mut VolumeGroup, name: &str, change: impl FnOnce(&mut LogicalVolume)) {
    let index = group.lv_by_name.get(name).copied();
    if let Some(volume) = index.and_then(|index| group.logical_volumes.get_mut(index)) {
        change(volume);
    }
}
