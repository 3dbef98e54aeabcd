//! A logical volume, as the text metadata has it.

use std::fmt;

use super::LvmId;
use super::segment::{Kind, Segment};
use super::text::Section;

/// A logical volume of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogicalVolume {
    /// Its name within the group: `root`.
    pub name: String,
    /// Its identity; `None` when the metadata gives none that is valid.
    pub id: Option<LvmId>,
    /// Its size.
    pub size_bytes: u64,
    /// Whether it is there for users, and not a part of another one.
    pub visible: bool,
    /// Whether LVM lets it be written.
    pub writable: bool,
    /// What it is, in LVM's words: `linear`, `striped`, `thin`; several when its segments differ.
    pub layout: String,
    /// Why it does not open whatever disks are given, if so.
    pub problem: Option<Problem>,
    /// Another volume keeps what this one was: writing to it would spoil that one.
    pub has_snapshots: bool,
    /// The volume that it is a snapshot of, of the old style: its segments are the store of what was
    /// overwritten, and its size is the snapshot's.
    pub origin: Option<String>,
    pub(super) segments: Vec<Segment>,
}

/// Why a logical volume is listed but does not open.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// It is, or needs, something that is not read.
    Unsupported(String),
    /// The metadata contradicts itself.
    Corrupt(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(reason) | Self::Corrupt(reason) => f.write_str(reason),
        }
    }
}

impl LogicalVolume {
    /// Reads its section. What is wrong with it is a problem of this volume alone.
    pub(super) fn from_section(name: &str, section: &Section<'_>, extent_bytes: u64) -> Self {
        let id = section.text("id").ok();
        let mut volume = Self {
            name: name.to_owned(),
            id: id.and_then(|id| LvmId::parse(&id)),
            size_bytes: 0,
            visible: section.has("status", "VISIBLE"),
            writable: section.has("status", "WRITE"),
            layout: String::new(),
            problem: None,
            has_snapshots: false,
            origin: None,
            segments: Vec::new(),
        };
        match segments(section) {
            Ok(segments) => volume.segments = segments,
            Err(reason) => volume.problem = Some(Problem::Corrupt(reason)),
        }
        volume.layout = volume.describe();
        let extents = volume.segments.iter().map(|segment| segment.extent_count);
        let extents = extents.fold(0, u64::saturating_add);
        match extents.checked_mul(extent_bytes) {
            Some(size_bytes) => volume.size_bytes = size_bytes,
            None => volume.set_problem(Problem::Corrupt(format!(
                "{extents} extents are longer than any device"
            ))),
        }
        let refused = volume
            .segments
            .iter()
            .find_map(|segment| match &segment.kind {
                Kind::Unsupported(reason) => Some(reason.clone()),
                _ => None,
            });
        if let Some(reason) = refused {
            volume.set_problem(Problem::Unsupported(reason));
        }
        if volume.is_pool() {
            volume.visible = false;
            let reason = "is a pool, which holds other volumes and is none itself".to_owned();
            volume.set_problem(Problem::Unsupported(reason));
        }
        volume
    }

    /// Whether it only holds what others are made of. `lvs` shows it; it is nothing for users.
    fn is_pool(&self) -> bool {
        let mut kinds = self.segments.iter().map(|segment| &segment.kind);
        kinds.any(|kind| matches!(kind, Kind::ThinPool(_) | Kind::CachePool(_)))
    }

    /// Notes why it does not open; the first reason stays.
    pub(super) fn set_problem(&mut self, problem: Problem) {
        self.problem.get_or_insert(problem);
    }

    fn describe(&self) -> String {
        let mut words: Vec<&str> = Vec::new();
        for segment in &self.segments {
            let word = match segment.kind {
                Kind::Linear(_) if segment.type_name == "striped" => "linear",
                Kind::Cache(_) => "cache",
                _ => &segment.type_name,
            };
            if !words.contains(&word) {
                words.push(word);
            }
        }
        words.join(",")
    }
}

/// All segments in their order, without gaps.
fn segments(section: &Section<'_>) -> Result<Vec<Segment>, String> {
    let mut segments: Vec<Segment> = section
        .sections
        .iter()
        .filter(|(name, _)| name.plain().starts_with("segment"))
        .map(|(_, inner)| Segment::from_section(inner))
        .collect::<Result<_, _>>()?;
    let says = section.number("segment_count")?;
    if u64::try_from(segments.len()) != Ok(says) {
        let count = segments.len();
        return Err(format!(
            "{count} segments, where `segment_count` says {says}"
        ));
    }
    segments.sort_by_key(|segment| segment.start_extent);
    let mut next = 0_u64;
    for segment in &segments {
        if segment.start_extent != next {
            let start = segment.start_extent;
            return Err(format!("a segment begins at extent {start}, not at {next}"));
        }
        next = next.saturating_add(segment.extent_count);
    }
    Ok(segments)
}
