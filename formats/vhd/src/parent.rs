//! The parent of a differencing disk, as the disk names it.

use diskfs_block::{BlockRead, Error, Result};
use uuid::Uuid;

use crate::dynamic_header::DynamicHeader;
use crate::parent_locator::LocatorKind;

/// Seconds from 1970-01-01 to 2000-01-01, where the times of the format begin.
const EPOCH: i64 = 946_684_800;

/// The parent of a differencing disk.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parent {
    /// The name as the image spells it: a Windows path, relative to the image if it stores such
    /// one.
    pub name: String,
    /// The unique identifier of the parent.
    pub id: Uuid,
    /// The time at which the parent was last modified, in seconds since 1970; `None` if unknown.
    pub modified: Option<i64>,
}

impl Parent {
    /// Reads the name of the parent: the relative one, else the absolute one, else the one in the
    /// header.
    pub(crate) fn read(file: &dyn BlockRead, header: &DynamicHeader) -> Result<Self> {
        let locator = |kind| {
            let mut locators = header.parent_locators.iter();
            locators.find(|locator| locator.kind() == Some(kind))
        };
        let locator = locator(LocatorKind::Relative).or_else(|| locator(LocatorKind::Absolute));
        let name = match locator {
            Some(locator) => locator.name(file)?,
            None => header.parent_name.clone(),
        };
        if name.is_empty() {
            return Err(Error::corrupt("differencing disk does not name its parent"));
        }
        let modified = i64::from(header.parent_time);
        Ok(Self {
            name,
            id: header.parent_id,
            modified: (modified != 0).then(|| EPOCH.saturating_add(modified)),
        })
    }
}
