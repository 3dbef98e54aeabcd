//! Mapping of file owners and groups between the image and the host.

use std::fmt;
use std::str::FromStr;

/// The id that Linux shows for unmapped ids (`overflowuid`).
const OVERFLOW_ID: u32 = 65534;

/// The mappings of owners and groups between image and host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdMap {
    /// The mapping of owners.
    pub uid: IdMapping,
    /// The mapping of groups.
    pub gid: IdMapping,
}

/// A mapping of one kind of ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum IdMapping {
    /// Ids are shown as on the image.
    #[default]
    Identity,
    /// Every id is shown as this one.
    Fixed(u32),
    /// Ids are mapped by ranges; an id outside all ranges is shown as 65534 (nobody).
    Ranges(Vec<IdRange>),
}

/// A range of ids that is shown as another range of the same length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdRange {
    /// The first id on the image.
    pub guest: u32,
    /// The first id on the host.
    pub host: u32,
    /// The number of ids.
    pub count: u32,
}

impl IdRange {
    fn map(&self, id: u32) -> Option<u32> {
        let index = id.checked_sub(self.guest)?;
        (index < self.count).then(|| self.host.checked_add(index))?
    }

    fn map_back(&self, id: u32) -> Option<u32> {
        let index = id.checked_sub(self.host)?;
        (index < self.count).then(|| self.guest.checked_add(index))?
    }
}

impl IdMapping {
    /// Maps an id of the image to the host.
    pub fn map(&self, id: u32) -> u32 {
        match self {
            Self::Identity => id,
            Self::Fixed(host) => *host,
            Self::Ranges(ranges) => ranges
                .iter()
                .find_map(|range| range.map(id))
                .unwrap_or(OVERFLOW_ID),
        }
    }

    /// Returns the id on the image for a file that `host` creates in a directory of `dir`; `None`
    /// if the image has no id for `host`.
    pub(super) fn maker(&self, host: u32, dir: u32) -> Option<u32> {
        match self {
            // All ids are shown as one here, so a new file gets its directory's owner.
            Self::Fixed(_) => Some(dir),
            _ => self.owner(host, dir),
        }
    }

    /// Returns the new id on the image when a file of `now` is given to `host`.
    pub(super) fn owner(&self, host: u32, now: u32) -> Option<u32> {
        match self {
            Self::Identity => Some(host),
            Self::Fixed(all) => (host == *all).then_some(now),
            Self::Ranges(ranges) => ranges.iter().find_map(|range| range.map_back(host)),
        }
    }

    /// Merges the mappings of several options: one id for everything, or any number of ranges.
    ///
    /// # Errors
    /// Fails if one id for everything is combined with another mapping, or if ranges overlap.
    pub fn merge(parts: impl IntoIterator<Item = Self>) -> Result<Self, IdMapError> {
        parts
            .into_iter()
            .try_fold(Self::Identity, |sum, part| match (sum, part) {
                (Self::Identity, part) => Ok(part),
                (Self::Ranges(mut ranges), Self::Ranges(more)) => {
                    ranges.extend(more);
                    check_apart(&ranges)?;
                    Ok(Self::Ranges(ranges))
                }
                _ => Err(IdMapError(
                    "one id for everything cannot be combined with another mapping",
                )),
            })
    }
}

/// Checks that no id of the image is in two ranges.
fn check_apart(ranges: &[IdRange]) -> Result<(), IdMapError> {
    let mut spans: Vec<(u64, u64)> = ranges
        .iter()
        .map(|range| {
            (
                u64::from(range.guest),
                u64::from(range.guest) + u64::from(range.count),
            )
        })
        .collect();
    spans.sort_unstable();
    if spans.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        return Err(IdMapError("two ranges cover the same id of the image"));
    }
    Ok(())
}

/// The reason why an id mapping is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdMapError(&'static str);

impl fmt::Display for IdMapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for IdMapError {}

impl FromStr for IdMapping {
    type Err = IdMapError;

    /// Parses `1000` (every id is shown as 1000) or `GUEST:HOST:COUNT`, podman's order.
    fn from_str(text: &str) -> Result<Self, IdMapError> {
        let wrong = IdMapError("expected an id, or GUEST:HOST:COUNT");
        let number = |part: &str| part.parse::<u32>().map_err(|_| wrong.clone());
        let parts: Vec<&str> = text.split(':').collect();
        match parts.as_slice() {
            [id] => Ok(Self::Fixed(number(id)?)),
            [guest, host, count] => {
                let range = IdRange {
                    guest: number(guest)?,
                    host: number(host)?,
                    count: number(count)?,
                };
                let fits = |first: u32| first.checked_add(range.count.saturating_sub(1)).is_some();
                if range.count == 0 || !fits(range.guest) || !fits(range.host) {
                    return Err(IdMapError("range of ids is empty, or ends past 4294967295"));
                }
                Ok(Self::Ranges(vec![range]))
            }
            _ => Err(wrong),
        }
    }
}

/// `struct posix_acl_xattr_header` and `posix_acl_xattr_entry` of `linux/posix_acl_xattr.h`, little
/// endian: a version, then entries of tag, permissions and id.
const ACL_VERSION: u32 = 2;
const ACL_HEADER_LEN: usize = 4;
const ACL_ENTRY_LEN: usize = 8;
const ACL_TAG_USER: u16 = 0x02;
const ACL_TAG_GROUP: u16 = 0x08;

impl IdMap {
    /// Returns true if neither owners nor groups are changed.
    pub fn is_identity(&self) -> bool {
        *self == Self::default()
    }

    /// Maps the ids within an ACL. A malformed value is left as it is: the kernel itself refuses
    /// it.
    pub(crate) fn map_acl(&self, value: &mut [u8]) {
        let mapped = self.change_acl(value, |mapping, id| Some(mapping.map(id)));
        debug_assert!(mapped, "mapping to the host is total");
    }

    /// Maps the ids within an ACL back to the image before it is set. Returns true if the image has
    /// an id for each.
    pub(super) fn map_acl_back(&self, value: &mut [u8]) -> bool {
        self.change_acl(value, |mapping, id| match mapping {
            // The id stands for all ids of the image, so the original is ambiguous.
            IdMapping::Fixed(_) => None,
            _ => mapping.owner(id, id),
        })
    }

    fn change_acl(
        &self,
        value: &mut [u8],
        change: impl Fn(&IdMapping, u32) -> Option<u32>,
    ) -> bool {
        let Some((header, entries)) = value.split_at_mut_checked(ACL_HEADER_LEN) else {
            return true;
        };
        if *header != ACL_VERSION.to_le_bytes() {
            return true;
        }
        let (entries, _) = entries.as_chunks_mut::<ACL_ENTRY_LEN>();
        entries.iter_mut().all(|entry| {
            let [tag_low, tag_high, _, _, id @ ..] = entry;
            let mapping = match u16::from_le_bytes([*tag_low, *tag_high]) {
                ACL_TAG_USER => &self.uid,
                ACL_TAG_GROUP => &self.gid,
                _ => return true,
            };
            let changed = change(mapping, u32::from_le_bytes(*id));
            *id = changed.map_or(*id, u32::to_le_bytes);
            changed.is_some()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(texts: &[&str]) -> Result<IdMapping, IdMapError> {
        let parts: Result<Vec<IdMapping>, _> = texts.iter().map(|text| text.parse()).collect();
        IdMapping::merge(parts?)
    }

    #[test]
    fn maps_nothing_everything_or_ranges() {
        assert_eq!(parse(&[]).unwrap().map(5), 5);
        assert_eq!(parse(&["1000"]).unwrap().map(5), 1000);
        let ranges = parse(&["0:1000:1", "1:100000:65535"]).unwrap();
        assert_eq!(ranges.map(0), 1000);
        assert_eq!(ranges.map(1), 100_000);
        assert_eq!(ranges.map(65535), 165_534);
        assert_eq!(ranges.map(65536), OVERFLOW_ID);
    }

    #[test]
    fn owners_are_mapped_back() {
        let ranges = parse(&["0:1000:1", "1:100000:65535"]).unwrap();
        assert_eq!(ranges.maker(1000, 5), Some(0));
        assert_eq!(ranges.owner(100_002, 5), Some(3));
        assert_eq!(ranges.owner(OVERFLOW_ID, 5), None);
        let fixed = parse(&["1000"]).unwrap();
        assert_eq!(fixed.maker(0, 5), Some(5), "the directory's owner");
        assert_eq!(fixed.owner(1000, 5), Some(5), "the owner is unchanged");
        assert_eq!(fixed.owner(0, 5), None);
        assert_eq!(IdMapping::Identity.maker(7, 5), Some(7));
    }

    #[test]
    fn the_highest_id_can_be_mapped() {
        let top = parse(&["4294967295:4294967295:1"]).unwrap();
        assert_eq!(top.map(u32::MAX), u32::MAX);
        assert_eq!(top.map(0), OVERFLOW_ID);
    }

    #[test]
    fn nonsense_is_refused() {
        for texts in [
            &["x"][..],
            &["1:2"],
            &["1:2:3:4"],
            &["0:0:0"],
            &["4294967295:0:2"],
            &["0:4294967295:2"],
            &["-1"],
            &["1000", "0:0:1"],
            &["1000", "1001"],
            &["0:0:10", "9:100:1"],
        ] {
            assert!(parse(texts).is_err(), "{texts:?}");
        }
    }

    #[test]
    fn ids_in_an_acl_are_mapped_too() {
        let map = IdMap {
            uid: "0:100000:1000".parse().unwrap(),
            gid: "7".parse().unwrap(),
        };
        let entry =
            |tag: u16, id: u32| [&tag.to_le_bytes()[..], &[7, 0], &id.to_le_bytes()].concat();
        let acl = |user: u32, group: u32| {
            [
                ACL_VERSION.to_le_bytes().to_vec(),
                entry(0x01, u32::MAX),
                entry(ACL_TAG_USER, user),
                entry(ACL_TAG_GROUP, group),
                entry(0x20, u32::MAX),
            ]
            .concat()
        };
        let mut value = acl(5, 50);
        map.map_acl(&mut value);
        assert_eq!(value, acl(100_005, 7));
        assert!(!map.map_acl_back(&mut value), "7 stands for every group");
        let ranges = IdMap {
            gid: "40:7:20".parse().unwrap(),
            ..map.clone()
        };
        let mut value = acl(100_005, 17);
        assert!(ranges.map_acl_back(&mut value));
        assert_eq!(value, acl(5, 50));
        assert!(!ranges.map_acl_back(&mut acl(5, 17)), "5 is unmapped");
        for mut odd in [vec![], vec![1, 2], vec![9; 20], acl(5, 50)[..14].to_vec()] {
            map.map_acl(&mut odd);
        }
    }
}
