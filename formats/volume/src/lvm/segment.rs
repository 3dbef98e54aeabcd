//! Segments of logical volumes in the text metadata. LVM2, `lib/striped/striped.c`,
//! `lib/raid/raid.c`.

use std::borrow::Cow;
use std::num::{NonZeroU64, NonZeroUsize};

use super::raid_type;
use super::text::{Section, Value};
use super::volume_group::SECTOR_BYTES;
use crate::map::Geometry;

/// The largest number of members of a segment. LVM makes at most 128 stripes (`MAX_STRIPES`) and
/// 253 images.
const MAX_MEMBERS: usize = 256;

/// A run of a logical volume's extents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) start_extent: u64,
    pub(super) extent_count: u64,
    /// The type as the text spells it.
    pub(super) type_name: String,
    pub(super) kind: SegmentKind,
}

/// The type of a segment with its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SegmentKind {
    /// A linear segment on a single area.
    Linear(AreaRef),
    /// Areas to which stripes are assigned in turn.
    Stripes {
        chunk_bytes: NonZeroU64,
        areas: Vec<AreaRef>,
    },
    /// Images with parity, or copies.
    Raid {
        geometry: Geometry,
        images: Vec<Image>,
    },
    /// Copies in a mirror of the old style.
    Mirror(Mirror),
    /// A volume of a thin pool.
    Thin(Thin),
    /// The thin pool itself, which has no contents of its own.
    ThinPool(Pool),
    /// A volume with a cache.
    Cache(Cache),
    /// The pool for a cache.
    CachePool(Pool),
    /// A segment that reads as zeroes.
    Zeroes,
    /// A segment that fails all reads and writes.
    Error,
    /// An unsupported segment, with the reason.
    Unsupported(String),
}

/// A member of a RAID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Image {
    /// The logical volume with the metadata, which tells whether the image is up to date.
    pub(super) metadata: String,
    /// The logical volume with the data.
    pub(super) data: String,
}

/// A mirror of the old style. LVM2, `lib/mirror/mirrored.c`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mirror {
    /// The legs; never empty. Regions that are out of sync are valid on the first leg.
    pub(super) legs: Vec<AreaRef>,
    /// The log of the regions in sync. Without it the kernel copies the whole first leg to the
    /// others at each start.
    pub(super) log: Option<MirrorLog>,
}

/// A logical volume with a mirror's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MirrorLog {
    pub(super) name: String,
    pub(super) region_bytes: NonZeroU64,
}

/// A volume of a thin pool. LVM2, `lib/thin/thin.c`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Thin {
    pub(super) pool: String,
    /// The device id in the pool.
    pub(super) device_id: u64,
    /// The volume that is read where the pool has no block.
    pub(super) external_origin: Option<String>,
}

/// A volume with a cache. LVM2, `lib/cache_segtype/cache.c`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cache {
    pub(super) origin: String,
    /// The cache pool, or the single volume (cachevol) with all of the cache.
    pub(super) pool: String,
    /// The locations of metadata and data in the cachevol.
    pub(super) inside: Option<CacheVolume>,
    /// True if reads and writes bypass the cache (passthrough).
    pub(super) passes: bool,
}

/// The offset and length of metadata and data in a cachevol, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CacheVolume {
    pub(super) metadata: (u64, u64),
    pub(super) data: (u64, u64),
}

/// The logical volumes with the metadata and data of a thin pool or a cache pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pool {
    pub(super) metadata: String,
    pub(super) data: String,
}

/// A part of a physical volume or of another logical volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AreaRef {
    /// The physical volume's name in the text (`pv0`), or else the logical volume's.
    pub(super) name: String,
    /// The first extent of the part.
    pub(super) extent: u64,
}

impl Segment {
    /// Parses the segment's section.
    ///
    /// # Errors
    /// Missing or invalid fields.
    pub(super) fn from_section(section: &Section<'_>) -> Result<Self, String> {
        let extent_count = section.number("extent_count")?;
        if extent_count == 0 {
            return Err("invalid segment: it has no extents".to_owned());
        }
        let type_name = section.text("type")?.into_owned();
        Ok(Self {
            start_extent: section.number("start_extent")?,
            extent_count,
            kind: SegmentKind::from_section(section, &type_name)?,
            type_name,
        })
    }

    /// Returns the areas that the segment uses, each with its length in extents.
    pub(super) fn areas(&self) -> impl Iterator<Item = (&AreaRef, u64)> {
        let (areas, share) = match &self.kind {
            SegmentKind::Linear(area) => (std::slice::from_ref(area), 1),
            SegmentKind::Stripes { areas, .. } => (areas.as_slice(), areas.len()),
            SegmentKind::Mirror(mirror) => (mirror.legs.as_slice(), 1),
            // No areas, or logical volumes of their own.
            _ => (&[][..], 1),
        };
        let each = u64::try_from(share)
            .ok()
            .and_then(|share| self.extent_count.checked_div(share));
        areas.iter().map(move |area| (area, each.unwrap_or(0)))
    }

    /// Returns the logical volumes that the segment needs as a whole, except for the images of a
    /// RAID.
    pub(super) fn needs(&self) -> impl Iterator<Item = &str> {
        let (both, one) = match &self.kind {
            SegmentKind::Thin(thin) => ([Some(&thin.pool), None], thin.external_origin.as_ref()),
            SegmentKind::Cache(cache) => ([Some(&cache.origin), Some(&cache.pool)], None),
            SegmentKind::ThinPool(pool) | SegmentKind::CachePool(pool) => {
                ([Some(&pool.metadata), Some(&pool.data)], None)
            }
            _ => ([None, None], None),
        };
        both.into_iter().flatten().chain(one).map(String::as_str)
    }
}

impl SegmentKind {
    fn from_section(section: &Section<'_>, type_name: &str) -> Result<Self, String> {
        match type_name {
            "striped" | "linear" => {
                let areas = section.value("stripes").ok_or("missing `stripes`")?;
                Self::striped(section, area_pairs(areas.list())?)
            }
            "raid0" => {
                let areas = section.value("raid0_lvs").ok_or("missing `raid0_lvs`")?;
                Self::striped(section, area_names(areas.list())?)
            }
            "raid0_meta" => {
                // The metadata images contain nothing that the group's metadata does not.
                let images = section.value("raids").ok_or("missing `raids`")?;
                let images = area_names(images.list())?.into_iter();
                Self::striped(section, images.skip(1).step_by(2).collect())
            }
            "mirror" => Self::mirror(section),
            "thin" => Self::thin(section),
            "thin-pool" => Ok(Self::ThinPool(Pool {
                metadata: section.text("metadata")?.into_owned(),
                data: section.text("pool")?.into_owned(),
            })),
            "cache" => Self::cache(section, None),
            "cache+CACHE_USES_CACHEVOL" => Self::cache(section, Some(cache_volume(section)?)),
            "cache-pool" => Ok(Self::CachePool(Pool {
                metadata: section.text("metadata")?.into_owned(),
                data: section.text("data")?.into_owned(),
            })),
            "zero" => Ok(Self::Zeroes),
            "error" => Ok(Self::Error),
            _ => Self::raid(section, type_name),
        }
    }

    fn thin(section: &Section<'_>) -> Result<Self, String> {
        if section.number("start_extent")? != 0 {
            return Err("invalid thin volume: its segment is not the first one".to_owned());
        }
        let origin = section.value("external_origin");
        let origin = origin.map(|name| {
            name.text()
                .ok_or("invalid external origin: expected a name")
        });
        Ok(Self::Thin(Thin {
            pool: section.text("thin_pool")?.into_owned(),
            device_id: section.number("device_id")?,
            external_origin: origin.transpose()?.map(Cow::into_owned),
        }))
    }

    fn cache(section: &Section<'_>, inside: Option<CacheVolume>) -> Result<Self, String> {
        if section.number("start_extent")? != 0 {
            return Err("invalid cached volume: its segment is not the first one".to_owned());
        }
        Ok(Self::Cache(Cache {
            origin: section.text("origin")?.into_owned(),
            pool: section.text("cache_pool")?.into_owned(),
            inside,
            passes: section.text("cache_mode").as_deref() == Ok("passthrough"),
        }))
    }

    fn mirror(section: &Section<'_>) -> Result<Self, String> {
        let legs = section.value("mirrors").ok_or("missing `mirrors`")?;
        let legs = area_pairs(legs.list())?;
        if legs.is_empty() || legs.len() > MAX_MEMBERS {
            return Err(format!("invalid mirror: {} legs", legs.len()));
        }
        let log = section.value("mirror_log").map(|name| {
            let name = name
                .text()
                .ok_or("invalid mirror log: expected a name")?
                .into_owned();
            let sectors = section.number("region_size")?;
            let bytes = sectors.checked_mul(SECTOR_BYTES).and_then(NonZeroU64::new);
            let region_bytes =
                bytes.ok_or_else(|| format!("invalid region size: {sectors} sectors"))?;
            Ok::<_, String>(MirrorLog { name, region_bytes })
        });
        let log = log.transpose()?;
        Ok(Self::Mirror(Mirror { legs, log }))
    }

    fn raid(section: &Section<'_>, type_name: &str) -> Result<Self, String> {
        let copies = section.number("data_copies").unwrap_or(2);
        let copies = usize::try_from(copies).ok().and_then(NonZeroUsize::new);
        let chunk_bytes = match type_name {
            "raid1" => Ok(NonZeroU64::MIN), // raid1 has no stripes.
            _ => stripe_bytes(section),
        };
        let geometry = match (&chunk_bytes, copies) {
            (Ok(chunk_bytes), Some(copies)) => raid_type::geometry(type_name, *chunk_bytes, copies),
            _ => None,
        };
        let Some(geometry) = geometry else {
            let reason = format!("is of type `{type_name}`, which is not supported");
            return Ok(Self::Unsupported(reason));
        };
        // The kernel relocates the data during and after a reshape.
        if section.value("data_offset").is_some() || section.value("reshape_count").is_some() {
            return Ok(Self::Unsupported(
                "is a RAID with a reshape, which is not supported".to_owned(),
            ));
        }
        let names = section.value("raids").ok_or("missing `raids`")?;
        let names = area_names(names.list())?;
        let images = names.chunks(2).map(|pair| match pair {
            [metadata, data] => Ok(Image {
                metadata: metadata.name.clone(),
                data: data.name.clone(),
            }),
            _ => Err("invalid RAID: an image has no metadata".to_owned()),
        });
        let images = images.collect::<Result<Vec<_>, _>>()?;
        let (count, says) = (images.len(), section.number("device_count")?);
        let fits = u64::try_from(count) == Ok(says)
            && count <= MAX_MEMBERS
            && count >= geometry.least_members();
        if !fits {
            return Err(format!(
                "invalid RAID: {count} images, but `device_count` is {says}"
            ));
        }
        Ok(Self::Raid { geometry, images })
    }

    fn striped(section: &Section<'_>, mut areas: Vec<AreaRef>) -> Result<Self, String> {
        let says = section.number("stripe_count")?;
        let count = areas.len();
        if u64::try_from(count) != Ok(says) || count > MAX_MEMBERS {
            return Err(format!(
                "invalid stripes: {count} areas, but `stripe_count` is {says}"
            ));
        }
        if count == 1 {
            return areas.pop().map(Self::Linear).ok_or(String::new());
        }
        let even = section
            .number("extent_count")?
            .checked_rem(says)
            .is_some_and(|rest| rest == 0);
        if !even {
            return Err(format!(
                "invalid stripes: the extents cannot be divided into {says} stripes"
            ));
        }
        Ok(Self::Stripes {
            chunk_bytes: stripe_bytes(section)?,
            areas,
        })
    }
}

fn cache_volume(section: &Section<'_>) -> Result<CacheVolume, String> {
    let bytes = |name: &str| {
        let bytes = section.number(name)?.checked_mul(SECTOR_BYTES);
        bytes.ok_or_else(|| format!("invalid `{name}`: it is past the end of any device"))
    };
    Ok(CacheVolume {
        metadata: (bytes("metadata_start")?, bytes("metadata_len")?),
        data: (bytes("data_start")?, bytes("data_len")?),
    })
}

/// Returns the stripe size, which the text gives in sectors.
fn stripe_bytes(section: &Section<'_>) -> Result<NonZeroU64, String> {
    let sectors = section.number("stripe_size")?;
    let bytes = sectors.checked_mul(SECTOR_BYTES).and_then(NonZeroU64::new);
    bytes.ok_or_else(|| format!("invalid stripe size: {sectors} sectors"))
}

/// Parses names with extents: `["pv0", 0, "pv1", 5]`.
fn area_pairs(list: &[Value<'_>]) -> Result<Vec<AreaRef>, String> {
    list.chunks(2)
        .map(|pair| match pair {
            [name, extent] => {
                let (name, extent) = (name.text(), extent.number());
                let area = name.zip(extent).map(|(name, extent)| AreaRef {
                    name: name.into_owned(),
                    extent,
                });
                area.ok_or_else(|| "invalid area: expected a name and a number".to_owned())
            }
            _ => Err("invalid area: missing extent".to_owned()),
        })
        .collect()
}

/// Parses names of logical volumes that are used as a whole.
fn area_names(list: &[Value<'_>]) -> Result<Vec<AreaRef>, String> {
    list.iter()
        .map(|name| {
            let name = name.text().ok_or("invalid area: expected a name")?;
            Ok(AreaRef {
                name: name.into_owned(),
                extent: 0,
            })
        })
        .collect()
}
