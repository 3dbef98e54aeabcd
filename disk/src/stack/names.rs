//! The names of a volume.

use crate::Result;

use super::Volume;

/// The ways in which a volume can be called something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Any,
    Uuid,
    Label,
    PartUuid,
    PartLabel,
}

impl Volume {
    /// Returns true if the volume has this name: its own, its UUID, `LABEL=...`, as for
    /// [`Disk::volume`](crate::Disk::volume).
    ///
    /// # Errors
    /// As [`content`](Self::content).
    pub fn is_called(&self, name: &str) -> Result<bool> {
        let (key, value) = parse(name);
        Ok(is_named(self, name) || is_called(self, key, value)?)
    }

    /// Returns true if a path is the node of the volume in the guest's `/dev`: `/dev/vg0/root` or `/dev/mapper/vg0-root` (in
    /// which dashes of the names themselves are doubled) for a logical volume, `/dev/md0` or `/dev/md/data` for an array.
    pub(crate) fn is_node(&self, path: &str) -> bool {
        if let Some(array) = self.array() {
            let name = &array.metadata().name;
            let own = name.rsplit(':').next().unwrap_or(name);
            let node = path.strip_prefix("/dev/");
            return node == Some(self.name())
                || !own.is_empty() && node.and_then(|node| node.strip_prefix("md/")) == Some(own);
        }
        let Some((group, logical)) = self.logical() else {
            return false;
        };
        let (group, logical) = (&group.metadata().name, &logical.name);
        match path.strip_prefix("/dev/mapper/") {
            Some(node) => {
                let doubled = |name: &str| name.replace('-', "--");
                node == format!("{}-{}", doubled(group), doubled(logical))
            }
            None => path == format!("/dev/{group}/{logical}"),
        }
    }
}

/// Returns true if `name` is the volume's name, or its node in `/dev`.
pub(super) fn is_named(volume: &Volume, name: &str) -> bool {
    volume.name() == name || volume.is_node(name)
}

/// Splits a name as fstab(5) has it: the tag, and its value.
pub(super) fn parse(name: &str) -> (Key, &str) {
    match name.split_once('=') {
        Some(("UUID", value)) => (Key::Uuid, value),
        Some(("LABEL", value)) => (Key::Label, value),
        Some(("PARTUUID", value)) => (Key::PartUuid, value),
        Some(("PARTLABEL", value)) => (Key::PartLabel, value),
        _ => (Key::Any, name),
    }
}

/// Returns true if an identity of the volume that `key` stands for has that value.
pub(super) fn is_called(volume: &Volume, key: Key, value: &str) -> Result<bool> {
    let wants = |this| key == Key::Any || key == this;
    if let Some(entry) = volume.entry() {
        let uuid = entry
            .uuid()
            .is_some_and(|uuid| uuid.eq_ignore_ascii_case(value));
        if wants(Key::PartUuid) && uuid || wants(Key::PartLabel) && entry.name() == Some(value) {
            return Ok(true);
        }
    }
    if volume.problem().is_some() {
        return Ok(false); // What it holds can't be told, and is no reason to fail the others.
    }
    if let Some((_, logical)) = volume.logical()
        && key == Key::Any
        && logical.id.is_some_and(|id| id.to_string() == value)
    {
        return Ok(true);
    }
    if !wants(Key::Uuid) && !wants(Key::Label) {
        return Ok(false);
    }
    Ok(volume.content()?.is_some_and(|content| {
        let uuid = content
            .uuid
            .as_deref()
            .is_some_and(|uuid| uuid.eq_ignore_ascii_case(value));
        wants(Key::Uuid) && uuid
            || wants(Key::Label) && !value.is_empty() && content.label == value.as_bytes()
    }))
}
