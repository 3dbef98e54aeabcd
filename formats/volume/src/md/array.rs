//! An array: members put together.

use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Arc;

use diskfs_block::{BlockRead, Error, ErrorKind, Result};
use uuid::Uuid;

use super::superblock::Member;
use crate::map::{Area, Geometry, Layout, Mapped, Members, Parity, Rotation, Source, Sums};

/// Members of an array: more than anyone makes. A superblock has room for 1,920.
const MAX_MEMBERS: u32 = 384;

/// An array of Linux's md.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Array {
    /// Its identity.
    pub id: Uuid,
    /// Its name, often with the host's before it.
    pub name: String,
    /// Its level as mdadm writes it: `raid1`, `linear`.
    pub level: String,
    /// Its size.
    pub size_bytes: u64,
    /// How many members it has.
    pub members: usize,
    /// For each member its place among what was given to [`arrays`]; `None` for one that is
    /// missing or out of date.
    pub slots: Vec<Option<usize>>,
    /// Why it does not open, if so.
    pub problem: Option<(ErrorKind, String)>,
    geometry: Option<Geometry>,
    /// Start and length of each member's data.
    data: Vec<(u64, u64)>,
}

/// The arrays that some members tell of, in the order of their names and identities.
pub fn arrays(members: &[Member]) -> Vec<Array> {
    let mut ids: Vec<Uuid> = members.iter().map(|member| member.array).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut arrays: Vec<Array> = ids
        .into_iter()
        .filter_map(|id| {
            let of = members.iter().enumerate();
            let of: Vec<_> = of.filter(|(_, member)| member.array == id).collect();
            Array::of(&of)
        })
        .collect();
    arrays.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
    arrays
}

impl Array {
    /// The array of some members, each with its place among what was given.
    fn of(found: &[(usize, &Member)]) -> Option<Self> {
        let newest = found.iter().map(|(_, member)| *member);
        let newest = newest.max_by_key(|member| member.events)?;
        let mut array = Self {
            id: newest.array,
            name: newest.name.clone(),
            level: match newest.level {
                -1 => "linear".to_owned(),
                level => format!("raid{level}"),
            },
            size_bytes: 0,
            members: usize::try_from(newest.members).unwrap_or(usize::MAX),
            slots: Vec::new(),
            problem: None,
            geometry: None,
            data: Vec::new(),
        };
        if let Err((kind, reason)) = array.fill(newest, found) {
            array.problem = Some((kind, reason));
        }
        Some(array)
    }

    fn fill(
        &mut self,
        newest: &Member,
        found: &[(usize, &Member)],
    ) -> std::result::Result<(), (ErrorKind, String)> {
        if newest.members == 0 || newest.members > MAX_MEMBERS {
            let reason = format!("says that it has {} members", newest.members);
            return Err((ErrorKind::Corrupt, reason));
        }
        self.slots = vec![None; self.members];
        self.data = vec![(0, 0); self.members];
        for (index, member) in found {
            self.place(newest, *index, member)?;
        }
        let geometry = geometry(newest).ok_or_else(|| {
            let reason = format!(
                "is {} of layout {:#x}, which is not read",
                self.level, newest.layout
            );
            (ErrorKind::Unsupported, reason)
        })?;
        if self.members < geometry.least_members() {
            let reason = format!("is {} of {} members", self.level, self.members);
            return Err((ErrorKind::Corrupt, reason));
        }
        self.geometry = Some(geometry);
        self.measure(newest, geometry)?;
        let missing = self.slots.iter().filter(|slot| slot.is_none()).count();
        if missing > geometry.spare(self.members, newest.in_sync) {
            let reason = format!("misses {missing} of its {} members", self.members);
            return Err((ErrorKind::NotFound, reason));
        }
        Ok(())
    }

    /// Puts a member into its slot, if it is up to date: as md judges it, one that missed more than
    /// one change, failed, or is not yet filled isn't.
    fn place(
        &mut self,
        newest: &Member,
        index: usize,
        member: &Member,
    ) -> std::result::Result<(), (ErrorKind, String)> {
        let Some(role) = member.role else {
            return Ok(());
        };
        let current = member.events.saturating_add(1) >= newest.events
            && member.recovered
            && newest.roles.get(member.number) == Some(&role);
        let role = usize::from(role);
        let (Some(slot), Some(data)) = (self.slots.get_mut(role), self.data.get_mut(role)) else {
            return Ok(());
        };
        if !current {
            return Ok(());
        }
        if member.features != 0 {
            let reason = format!("has features that are not read ({:#x})", member.features);
            return Err((ErrorKind::Unsupported, reason));
        }
        if slot.is_some() {
            let reason = format!("has two members that say they are number {role}");
            return Err((ErrorKind::Corrupt, reason));
        }
        *slot = Some(index);
        *data = (member.data_start_bytes, member.data_bytes);
        Ok(())
    }

    /// The array's size, and how much of each member it takes.
    fn measure(
        &mut self,
        newest: &Member,
        geometry: Geometry,
    ) -> std::result::Result<(), (ErrorKind, String)> {
        let chunk = newest.chunk_bytes.max(1);
        let whole = |bytes: u64| {
            let rest = bytes.checked_rem(chunk).unwrap_or(0);
            bytes.saturating_sub(rest)
        };
        let each = match geometry {
            Geometry::Mirror => newest.used_bytes,
            Geometry::Stripes { .. } => {
                let there = self.data.iter().zip(&self.slots);
                let there = there.filter(|(_, slot)| slot.is_some());
                let sizes: Vec<u64> = there.map(|((_, len), _)| whole(*len)).collect();
                let first = sizes.first().copied().unwrap_or(0);
                if sizes.iter().any(|size| *size != first) {
                    let reason = "is raid0 of members of different sizes, which is not read";
                    return Err((ErrorKind::Unsupported, reason.to_owned()));
                }
                first
            }
            Geometry::Raid10 { .. } | Geometry::Parity { .. } => whole(newest.used_bytes),
        };
        for (_, len) in &mut self.data {
            *len = each;
        }
        self.size_bytes = geometry
            .size_bytes(each, self.members, chunk)
            .filter(|bytes| *bytes > 0)
            .ok_or_else(|| (ErrorKind::Corrupt, format!("has members of {each} bytes")))?;
        Ok(())
    }

    /// Makes a device of it, to read. `find` gives the device of a member by its place among what was
    /// given to [`arrays`].
    ///
    /// # Errors
    /// As its [`problem`](Self::problem) says; [`ErrorKind::OutOfBounds`] when a member has been cut;
    /// what `find` answers.
    pub fn open<D: BlockRead + ?Sized>(
        &self,
        find: &dyn Fn(usize) -> Result<Arc<D>>,
    ) -> Result<Mapped<D>> {
        if let Some((kind, reason)) = &self.problem {
            return Err(Error::new(
                *kind,
                format!("md array {} {reason}", self.name),
            ));
        }
        let areas = self
            .slots
            .iter()
            .zip(&self.data)
            .map(|(slot, (start, len))| {
                let area = |index| Area::new(Source::Device(find(index)?), *start, *len);
                slot.map(area).transpose()
            });
        let areas = areas.collect::<Result<Vec<_>>>()?;
        let members = self
            .geometry
            .and_then(|geometry| Members::new(geometry, areas));
        let members = members.ok_or_else(|| Error::corrupt("an md array without members"))?;
        Mapped::new(vec![(self.size_bytes, Layout::Members(members))])
    }
}

/// What level and layout come to; `None` for those that are not read.
fn geometry(member: &Member) -> Option<Geometry> {
    use Rotation::{
        First, Last, LeftAsymmetric, LeftSymmetric, NContinue, NRestart, RightAsymmetric,
        RightSymmetric, ZeroRestart,
    };
    if member.level == 1 {
        return Some(Geometry::Mirror);
    }
    let chunk_bytes = NonZeroU64::new(member.chunk_bytes)?;
    let parity = |rotation, sums| {
        Some(Geometry::Parity {
            chunk_bytes,
            parity: Parity { rotation, sums },
        })
    };
    // The numbers of `ALGORITHM_*`, Linux, `drivers/md/raid5.h`.
    let rotation = match member.layout & 0xf {
        0 => LeftAsymmetric,
        1 => RightAsymmetric,
        2 => LeftSymmetric,
        3 => RightSymmetric,
        5 => Last,
        8 => ZeroRestart,
        9 => NRestart,
        10 => NContinue,
        _ => First, // 4; what is not known is refused below.
    };
    match (member.level, member.layout) {
        (0, _) => Some(Geometry::Stripes { chunk_bytes }),
        (4, _) => parity(Last, Sums::P),
        (5, 0..=5) => parity(rotation, Sums::P),
        (6, 0..=5 | 8..=10) => parity(rotation, Sums::PAndQ),
        (6, 16..=20) => parity(rotation, Sums::PAndLastQ),
        // One "far" copy and some near ones.
        (10, layout) if layout >> 8 == 1 => Some(Geometry::Raid10 {
            chunk_bytes,
            copies: NonZeroUsize::new(usize::try_from(layout & 0xff).ok()?)?,
        }),
        _ => None,
    }
}
