//! The contents of a partition or a volume.

use super::{FilesystemPlan, LuksPlan, LvmPlan};

/// The contents of a partition, a logical volume or an encrypted volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentsPlan {
    /// No contents: the space stays zero.
    Empty,
    /// A filesystem or a swap area.
    Filesystem(FilesystemPlan),
    /// An encrypted volume.
    Luks(Box<LuksPlan>),
    /// An LVM physical volume with a group of its own.
    Lvm(LvmPlan),
}

/// The keys of a partition or a volume that name its contents; at most one is given.
pub(crate) type Given<'a> = (
    &'a Option<FilesystemPlan>,
    &'a Option<Box<LuksPlan>>,
    &'a Option<LvmPlan>,
);

impl ContentsPlan {
    /// Returns the contents of which at most one kind is given.
    ///
    /// # Errors
    /// A text for the user.
    pub(crate) fn of(given: Given<'_>) -> Result<Self, &'static str> {
        Ok(match given {
            (None, None, None) => Self::Empty,
            (Some(filesystem), None, None) => Self::Filesystem(filesystem.clone()),
            (None, Some(luks), None) => Self::Luks(luks.clone()),
            (None, None, Some(lvm)) => Self::Lvm(lvm.clone()),
            _ => return Err("more than one of `filesystem`, `luks` and `lvm` is given"),
        })
    }
}
