//! A segment of a logical volume, as the text metadata has it. LVM2, `lib/striped/striped.c`,
//! `lib/raid/raid.c`.

use std::borrow::Cow;
use std::num::{NonZeroU64, NonZeroUsize};

use super::raid_type;
use super::text::{Section, Value};
use super::volume_group::SECTOR_BYTES;
use crate::map::Geometry;

/// Members of a segment. LVM makes at most 128 stripes (`MAX_STRIPES`) and 253 images.
const MAX_MEMBERS: usize = 256;

/// A run of a logical volume's extents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) start_extent: u64,
    pub(super) extent_count: u64,
    /// Its type as the text has it.
    pub(super) type_name: String,
    pub(super) kind: Kind,
}

/// What a segment is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// One area.
    Linear(AreaRef),
    /// Areas that pieces are dealt out to in turn.
    Stripes {
        chunk_bytes: NonZeroU64,
        areas: Vec<AreaRef>,
    },
    /// Images with redundancy, or copies.
    Raid {
        geometry: Geometry,
        images: Vec<Image>,
    },
    /// Copies of the old style.
    Mirror(Mirror),
    /// A volume of a thin pool.
    Thin(Thin),
    /// The pool itself, which holds nothing for users.
    ThinPool(Pool),
    /// A volume with a cache.
    Cache(Cache),
    /// The pool that a cache is made of.
    CachePool(Pool),
    /// Reads as zeroes.
    Zeroes,
    /// Can't be read.
    Error,
    /// Not read, for that reason.
    Unsupported(String),
}

/// A member of a RAID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Image {
    /// The logical volume that says whether it is up to date.
    pub(super) metadata: String,
    /// The one that has its data.
    pub(super) data: String,
}

/// A mirror of the old style. LVM2, `lib/mirror/mirrored.c`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mirror {
    /// Never empty. What is not in sync is right on the first.
    pub(super) legs: Vec<AreaRef>,
    /// What tells which regions are in sync; without it the kernel copies all to the other legs each
    /// time.
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
    /// Its number in the pool.
    pub(super) device_id: u64,
    /// The volume that is read where the pool has nothing.
    pub(super) external_origin: Option<String>,
}

/// A volume with a cache. LVM2, `lib/cache_segtype/cache.c`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cache {
    pub(super) origin: String,
    /// The pool, or the one volume that has all of the cache.
    pub(super) pool: String,
    /// Where metadata and data are in that one volume.
    pub(super) inside: Option<CacheVolume>,
    /// The cache is there, but reads and writes pass it by.
    pub(super) passes: bool,
}

/// Start and length of what is in a cache's one volume, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CacheVolume {
    pub(super) metadata: (u64, u64),
    pub(super) data: (u64, u64),
}

/// The logical volumes that a thin pool or a cache pool is made of.
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
    /// The first extent of it.
    pub(super) extent: u64,
}

impl Segment {
    /// # Errors
    /// What is missing or makes no sense.
    pub(super) fn from_section(section: &Section<'_>) -> Result<Self, String> {
        let extent_count = section.number("extent_count")?;
        if extent_count == 0 {
            return Err("a segment without extents".to_owned());
        }
        let type_name = section.text("type")?.into_owned();
        Ok(Self {
            start_extent: section.number("start_extent")?,
            extent_count,
            kind: Kind::from_section(section, &type_name)?,
            type_name,
        })
    }

    /// The areas that it takes, each with its length in extents.
    pub(super) fn areas(&self) -> impl Iterator<Item = (&AreaRef, u64)> {
        let (areas, share) = match &self.kind {
            Kind::Linear(area) => (std::slice::from_ref(area), 1),
            Kind::Stripes { areas, .. } => (areas.as_slice(), areas.len()),
            Kind::Mirror(mirror) => (mirror.legs.as_slice(), 1),
            // None, or logical volumes of their own.
            _ => (&[][..], 1),
        };
        let each = u64::try_from(share)
            .ok()
            .and_then(|share| self.extent_count.checked_div(share));
        areas.iter().map(move |area| (area, each.unwrap_or(0)))
    }

    /// The logical volumes that it needs whole, but for the images of a RAID.
    pub(super) fn needs(&self) -> impl Iterator<Item = &str> {
        let (both, one) = match &self.kind {
            Kind::Thin(thin) => ([Some(&thin.pool), None], thin.external_origin.as_ref()),
            Kind::Cache(cache) => ([Some(&cache.origin), Some(&cache.pool)], None),
            Kind::ThinPool(pool) | Kind::CachePool(pool) => {
                ([Some(&pool.metadata), Some(&pool.data)], None)
            }
            _ => ([None, None], None),
        };
        both.into_iter().flatten().chain(one).map(String::as_str)
    }
}

impl Kind {
    fn from_section(section: &Section<'_>, type_name: &str) -> Result<Self, String> {
        match type_name {
            "striped" | "linear" => {
                let areas = section.value("stripes").ok_or("there are no `stripes`")?;
                Self::striped(section, area_pairs(areas.list())?)
            }
            "raid0" => {
                let areas = section
                    .value("raid0_lvs")
                    .ok_or("there are no `raid0_lvs`")?;
                Self::striped(section, area_names(areas.list())?)
            }
            "raid0_meta" => {
                // What is in its metadata images tells nothing that the group doesn't.
                let images = section.value("raids").ok_or("there are no `raids`")?;
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
            return Err("a thin volume begins in another one".to_owned());
        }
        let origin = section.value("external_origin");
        let origin = origin.map(|name| name.text().ok_or("an origin without a name"));
        Ok(Self::Thin(Thin {
            pool: section.text("thin_pool")?.into_owned(),
            device_id: section.number("device_id")?,
            external_origin: origin.transpose()?.map(Cow::into_owned),
        }))
    }

    fn cache(section: &Section<'_>, inside: Option<CacheVolume>) -> Result<Self, String> {
        if section.number("start_extent")? != 0 {
            return Err("a cached volume begins in another one".to_owned());
        }
        Ok(Self::Cache(Cache {
            origin: section.text("origin")?.into_owned(),
            pool: section.text("cache_pool")?.into_owned(),
            inside,
            passes: section.text("cache_mode").as_deref() == Ok("passthrough"),
        }))
    }

    fn mirror(section: &Section<'_>) -> Result<Self, String> {
        let legs = section.value("mirrors").ok_or("there are no `mirrors`")?;
        let legs = area_pairs(legs.list())?;
        if legs.is_empty() || legs.len() > MAX_MEMBERS {
            return Err(format!("a mirror of {} legs", legs.len()));
        }
        let log = section.value("mirror_log").map(|name| {
            let name = name.text().ok_or("a log without a name")?.into_owned();
            let sectors = section.number("region_size")?;
            let bytes = sectors.checked_mul(SECTOR_BYTES).and_then(NonZeroU64::new);
            let region_bytes = bytes.ok_or_else(|| format!("regions of {sectors} sectors"))?;
            Ok::<_, String>(MirrorLog { name, region_bytes })
        });
        let log = log.transpose()?;
        Ok(Self::Mirror(Mirror { legs, log }))
    }

    fn raid(section: &Section<'_>, type_name: &str) -> Result<Self, String> {
        let copies = section.number("data_copies").unwrap_or(2);
        let copies = usize::try_from(copies).ok().and_then(NonZeroUsize::new);
        let chunk_bytes = match type_name {
            "raid1" => Ok(NonZeroU64::MIN), // It has none.
            _ => stripe_bytes(section),
        };
        let geometry = match (&chunk_bytes, copies) {
            (Ok(chunk_bytes), Some(copies)) => raid_type::geometry(type_name, *chunk_bytes, copies),
            _ => None,
        };
        let Some(geometry) = geometry else {
            let reason = format!("is of the type `{type_name}`, which is not read");
            return Ok(Self::Unsupported(reason));
        };
        // The kernel moves its data to and fro while and after it changes its shape.
        if section.value("data_offset").is_some() || section.value("reshape_count").is_some() {
            return Ok(Self::Unsupported("is or was being reshaped".to_owned()));
        }
        let names = section.value("raids").ok_or("there are no `raids`")?;
        let names = area_names(names.list())?;
        let images = names.chunks(2).map(|pair| match pair {
            [metadata, data] => Ok(Image {
                metadata: metadata.name.clone(),
                data: data.name.clone(),
            }),
            _ => Err("an image without its metadata".to_owned()),
        });
        let images = images.collect::<Result<Vec<_>, _>>()?;
        let (count, says) = (images.len(), section.number("device_count")?);
        let fits = u64::try_from(count) == Ok(says)
            && count <= MAX_MEMBERS
            && count >= geometry.least_members();
        if !fits {
            return Err(format!("{count} images, where `device_count` says {says}"));
        }
        Ok(Self::Raid { geometry, images })
    }

    fn striped(section: &Section<'_>, mut areas: Vec<AreaRef>) -> Result<Self, String> {
        let says = section.number("stripe_count")?;
        let count = areas.len();
        if u64::try_from(count) != Ok(says) || count > MAX_MEMBERS {
            return Err(format!("{count} areas, where `stripe_count` says {says}"));
        }
        if count == 1 {
            return areas.pop().map(Self::Linear).ok_or(String::new());
        }
        let even = section
            .number("extent_count")?
            .checked_rem(says)
            .is_some_and(|rest| rest == 0);
        if !even {
            return Err(format!("its extents can't be dealt out to {says} stripes"));
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
        bytes.ok_or_else(|| format!("`{name}` is past the end of any device"))
    };
    Ok(CacheVolume {
        metadata: (bytes("metadata_start")?, bytes("metadata_len")?),
        data: (bytes("data_start")?, bytes("data_len")?),
    })
}

/// The size of a piece, which the text gives in sectors.
fn stripe_bytes(section: &Section<'_>) -> Result<NonZeroU64, String> {
    let sectors = section.number("stripe_size")?;
    let bytes = sectors.checked_mul(SECTOR_BYTES).and_then(NonZeroU64::new);
    bytes.ok_or_else(|| format!("its stripes are of {sectors} sectors"))
}

/// Names with extents: `["pv0", 0, "pv1", 5]`.
fn area_pairs(list: &[Value<'_>]) -> Result<Vec<AreaRef>, String> {
    list.chunks(2)
        .map(|pair| match pair {
            [name, extent] => {
                let (name, extent) = (name.text(), extent.number());
                let area = name.zip(extent).map(|(name, extent)| AreaRef {
                    name: name.into_owned(),
                    extent,
                });
                area.ok_or_else(|| "an area is no name and number".to_owned())
            }
            _ => Err("an area without its extent".to_owned()),
        })
        .collect()
}

/// Names of logical volumes that are taken whole.
fn area_names(list: &[Value<'_>]) -> Result<Vec<AreaRef>, String> {
    list.iter()
        .map(|name| {
            let name = name.text().ok_or("an area is no name")?;
            Ok(AreaRef {
                name: name.into_owned(),
                extent: 0,
            })
        })
        .collect()
}
