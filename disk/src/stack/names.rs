//! The names of a volume.

use crate::Result;

use super::Volume;

/// The kind of name by which a volume is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameKind {
    Any,
    Uuid,
    Label,
    PartUuid,
    PartLabel,
}

impl Volume {
    /// Returns true if the volume has this name: its own name, its UUID, `LABEL=...`, as for
    /// [`Disk::volume`](crate::Disk::volume).
    ///
    /// # Errors
    /// As [`content`](Self::content).
    pub fn has_name(&self, name: &str) -> Result<bool> {
        let (key, value) = parse(name);
        Ok(is_named(self, name) || has_identity(self, key, value)?)
    }

    /// Returns true if a path is the device node of the volume in the guest's `/dev`. For a logical
    /// volume that is `/dev/vg0/root` or `/dev/mapper/vg0-root`, in which dashes of the names are
    /// doubled; for an array it is `/dev/md0` or `/dev/md/data`.
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

/// Returns true if `name` is the volume's name, or its device node.
pub(super) fn is_named(volume: &Volume, name: &str) -> bool {
    volume.name() == name || volume.is_node(name)
}

/// Splits a name in the form of fstab(5) into its tag and its value.
pub(super) fn parse(name: &str) -> (NameKind, &str) {
    match name.split_once('=') {
        Some(("UUID", value)) => (NameKind::Uuid, value),
        Some(("LABEL", value)) => (NameKind::Label, value),
        Some(("PARTUUID", value)) => (NameKind::PartUuid, value),
        Some(("PARTLABEL", value)) => (NameKind::PartLabel, value),
        _ => (NameKind::Any, name),
    }
}

/// Returns true if the volume's identity of the kind `key` has this value.
pub(super) fn has_identity(volume: &Volume, key: NameKind, value: &str) -> Result<bool> {
    let wants = |this| key == NameKind::Any || key == this;
    if let Some(entry) = volume.entry() {
        let uuid = entry
            .uuid()
            .is_some_and(|uuid| uuid.eq_ignore_ascii_case(value));
        if wants(NameKind::PartUuid) && uuid
            || wants(NameKind::PartLabel) && entry.name() == Some(value)
        {
            return Ok(true);
        }
    }
    if volume.problem().is_some() {
        return Ok(false); // Unreadable content of one volume must not fail the search.
    }
    if let Some((_, logical)) = volume.logical()
        && key == NameKind::Any
        && logical.id.is_some_and(|id| id.to_string() == value)
    {
        return Ok(true);
    }
    if !wants(NameKind::Uuid) && !wants(NameKind::Label) {
        return Ok(false);
    }
    Ok(volume.content()?.is_some_and(|content| {
        let uuid = content
            .uuid
            .as_deref()
            .is_some_and(|uuid| uuid.eq_ignore_ascii_case(value));
        wants(NameKind::Uuid) && uuid
            || wants(NameKind::Label) && !value.is_empty() && content.label == value.as_bytes()
    }))
}
