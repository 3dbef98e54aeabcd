//! Snapshots of the old style. A hidden volume of the type `snapshot` joins an origin and the store
//! of what was overwritten in it; both look like linear volumes by themselves. LVM2,
//! `lib/snapshot/snapshot.c`.

use super::logical_volume::{LogicalVolume, Problem};
use super::text::Section;
use super::volume_group::VolumeGroup;

/// Marks what can't be read, or not be written, by itself.
pub(super) fn mark(group: &mut VolumeGroup, section: &Section<'_>) {
    let Some(volumes) = section.section("logical_volumes") else {
        return;
    };
    let segments = volumes.sections.iter();
    let segments = segments.flat_map(|(name, lv)| lv.sections.iter().map(move |it| (name, &it.1)));
    for (name, segment) in segments {
        if segment.text("type").as_deref() != Ok("snapshot") {
            continue;
        }
        // Marked as visible, and yet no tool shows it: what users see is the store.
        edit(group, &name.plain(), |joint| joint.visible = false);
        let origin = segment.text("origin").unwrap_or_default();
        if let Ok(store) = segment.text("cow_store") {
            let reason = format!(
                "is a snapshot of {}, which is not read",
                origin.escape_debug()
            );
            edit(group, &store, |store| {
                store.visible = true;
                store.set_problem(Problem::Unsupported(reason));
            });
            edit(group, &origin, |origin| origin.has_snapshots = true);
        }
        if let Ok(store) = segment.text("merging_store") {
            for name in [&origin, &store] {
                let reason = "has a snapshot being merged into it, which is not read".to_owned();
                edit(group, name, |lv| {
                    lv.set_problem(Problem::Unsupported(reason));
                });
            }
        }
    }
}

fn edit(group: &mut VolumeGroup, name: &str, change: impl FnOnce(&mut LogicalVolume)) {
    let index = group.lv_by_name.get(name).copied();
    if let Some(volume) = index.and_then(|index| group.logical_volumes.get_mut(index)) {
        change(volume);
    }
}
