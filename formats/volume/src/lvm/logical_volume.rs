//! Logical volumes in the text metadata.

use std::fmt;

use super::LvmId;
use super::segment::{Segment, SegmentKind};
use super::text::Section;

/// A logical volume of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogicalVolume {
    /// The name within the group: `root`.
    pub name: String,
    /// The UUID; `None` if the metadata has no valid one.
    pub id: Option<LvmId>,
    /// The size in bytes.
    pub size_bytes: u64,
    /// True if the volume is meant for users, and is not a part of another one.
    pub visible: bool,
    /// True if LVM allows writing to it.
    pub writable: bool,
    /// The type in LVM's words: `linear`, `striped`, `thin`; several if the segments differ.
    pub layout: String,
    /// The reason why the volume cannot be opened, whatever disks are given; if any.
    pub problem: Option<Problem>,
    /// True if the volume has snapshots, which writing to it would damage.
    pub has_snapshots: bool,
    /// The origin, if the volume is a snapshot of the old style. Its segments are then the store of
    /// the overwritten chunks, and its size is the snapshot's.
    pub origin: Option<String>,
    pub(super) segments: Vec<Segment>,
}

/// The reason why a logical volume is listed but cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The volume is, or needs, something that is not supported.
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
    /// Parses the volume's section. An error becomes a problem of this volume alone.
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
            Err(reason) => {
                let reason = format!("has invalid metadata: {reason}");
                volume.problem = Some(Problem::Corrupt(reason));
            }
        }
        volume.layout = volume.describe();
        let extents = volume.segments.iter().map(|segment| segment.extent_count);
        let extents = extents.fold(0, u64::saturating_add);
        match extents.checked_mul(extent_bytes) {
            Some(size_bytes) => volume.size_bytes = size_bytes,
            None => volume.set_problem(Problem::Corrupt(format!(
                "has an invalid size: {extents} extents are longer than any device"
            ))),
        }
        let refused = volume
            .segments
            .iter()
            .find_map(|segment| match &segment.kind {
                SegmentKind::Unsupported(reason) => Some(reason.clone()),
                _ => None,
            });
        if let Some(reason) = refused {
            volume.set_problem(Problem::Unsupported(reason));
        }
        if volume.is_pool() {
            volume.visible = false;
            let reason = "is a pool for other volumes and has no contents of its own".to_owned();
            volume.set_problem(Problem::Unsupported(reason));
        }
        volume
    }

    /// Returns true for a pool, which only stores other volumes. `lvs` shows it, but it is not for
    /// users.
    fn is_pool(&self) -> bool {
        let mut kinds = self.segments.iter().map(|segment| &segment.kind);
        kinds.any(|kind| matches!(kind, SegmentKind::ThinPool(_) | SegmentKind::CachePool(_)))
    }

    /// Sets the reason why the volume cannot be opened; the first reason is kept.
    pub(super) fn set_problem(&mut self, problem: Problem) {
        self.problem.get_or_insert(problem);
    }

    fn describe(&self) -> String {
        let mut words: Vec<&str> = Vec::new();
        for segment in &self.segments {
            let word = match segment.kind {
                SegmentKind::Linear(_) if segment.type_name == "striped" => "linear",
                SegmentKind::Cache(_) => "cache",
                _ => &segment.type_name,
            };
            if !words.contains(&word) {
                words.push(word);
            }
        }
        words.join(",")
    }
}

/// Parses all segments in their order, without gaps.
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
            "invalid segments: {count} segments, but `segment_count` is {says}"
        ));
    }
    segments.sort_by_key(|segment| segment.start_extent);
    let mut next = 0_u64;
    for segment in &segments {
        if segment.start_extent != next {
            let start = segment.start_extent;
            return Err(format!(
                "invalid segment: it begins at extent {start}, expected {next}"
            ));
        }
        next = next.saturating_add(segment.extent_count);
    }
    Ok(segments)
}
