//! Snapshots of the old style. A hidden volume of the type `snapshot` connects an origin and the
//! store of its overwritten chunks; both look like linear volumes. Users know the snapshot by the
//! store's name, so here the store becomes the snapshot. LVM2, `lib/snapshot/snapshot.c`.

use super::logical_volume::{LogicalVolume, Problem};
use super::text::Section;
use super::volume_group::VolumeGroup;

/// Connects origins and stores, and marks the volumes that cannot be read or written.
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
        // It is marked as visible, but tools show the store instead.
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
        let reason =
            "has a snapshot that is being merged into it, which is not supported".to_owned();
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
