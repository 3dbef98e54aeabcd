//! Arrays: assembled members.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Error, ErrorKind, Result};
use uuid::Uuid;

use super::plan::{self, Run};
use super::superblock::{self, Member, Written};
use crate::map::{Area, Layout, Mapped, Mark, Members, Source, Writable};

/// The largest number of members of an array, more than in use anywhere. A superblock has room for
/// 1,920.
const MAX_MEMBERS: u32 = 384;

/// The size of a bitmap's superblock in bytes.
const BITMAP_BYTES: u64 = 256;

/// An array of Linux's md.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Array {
    /// The UUID of the array.
    pub id: Uuid,
    /// The name, often prefixed with the host's.
    pub name: String,
    /// The level as mdadm writes it: `raid1`, `linear`.
    pub level: String,
    /// The size in bytes.
    pub size_bytes: u64,
    /// The number of members.
    pub members: usize,
    /// For each slot, the index of the member in the argument of [`arrays`]; `None` for a member
    /// that is missing or out of date.
    pub slots: Vec<Option<usize>>,
    /// The reason why the array cannot be opened, if any.
    pub problem: Option<(ErrorKind, String)>,
    runs: Vec<Run>,
    /// The reason why the array can only be read, if any.
    unwritable: Option<String>,
    /// The locations of the superblocks.
    written: Vec<Written>,
    /// The offset and length of each member's data.
    data: Vec<(u64, u64)>,
}

/// Assembles arrays from some members, in the order of their names and UUIDs.
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
    /// Assembles one array from its members, each with its index in the argument of [`arrays`].
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
            runs: Vec::new(),
            unwritable: None,
            written: Vec::new(),
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
            let reason = format!("has an invalid number of members: {}", newest.members);
            return Err((ErrorKind::Corrupt, reason));
        }
        self.slots = vec![None; self.members];
        self.data = vec![(0, 0); self.members];
        for (index, member) in found {
            self.place(newest, *index, member)?;
        }
        let there: Vec<u64> = self.data.iter().map(|(_, len)| *len).collect();
        let there = match newest.level {
            // A missing member has a slot, but its length is unknown.
            -1 | 0 if self.slots.contains(&None) => Vec::new(),
            _ => there,
        };
        self.runs = plan::runs(newest, &there)?;
        let lengths = self.runs.iter().map(|run| run.len_bytes);
        self.size_bytes = lengths.fold(0, u64::saturating_add);
        let spare = self.runs.iter();
        let spare = spare.map(|run| run.geometry.spare(run.slots.len(), newest.in_sync));
        let spare = spare.min().unwrap_or(0);
        let missing = self.slots.iter().filter(|slot| slot.is_none()).count();
        if missing > spare {
            let reason = format!("has {missing} of its {} members missing", self.members);
            return Err((ErrorKind::NotFound, reason));
        }
        if self.size_bytes == 0 {
            return Err((
                ErrorKind::Corrupt,
                "has an invalid size: 0 bytes".to_owned(),
            ));
        }
        self.unwritable = self.judge_writing(newest, found).err();
        Ok(())
    }

    /// Checks whether the array can be written, and records what writing needs.
    fn judge_writing(
        &mut self,
        newest: &Member,
        found: &[(usize, &Member)],
    ) -> std::result::Result<(), String> {
        match newest.level {
            // Levels without copies have nothing to mark.
            -1 | 0 => return Ok(()),
            1 | 10 => {}
            _ => {
                return Err(format!(
                    "is {}, for which writing is not supported",
                    self.level
                ));
            }
        }
        for slot in &self.slots {
            let member = found.iter().find(|(index, _)| Some(*index) == *slot);
            let whole = member.filter(|(_, member)| {
                member.in_sync && newest.in_sync && member.events == newest.events
            });
            let (_, member) = whole.ok_or("has copies that are not all present and in sync")?;
            let written = member.written;
            self.written
                .push(written.ok_or("has superblocks for which writing is not supported")?);
        }
        Ok(())
    }

    /// Puts a member into its slot if it is up to date. By md's rules, a member that missed more
    /// than one change, failed, or is not yet filled is out of date.
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
            let reason = format!("has unsupported features ({:#x})", member.features);
            return Err((ErrorKind::Unsupported, reason));
        }
        if slot.is_some() {
            let reason = format!("has two members with the number {role}");
            return Err((ErrorKind::Corrupt, reason));
        }
        *slot = Some(index);
        *data = (member.data_start_bytes, member.data_bytes);
        Ok(())
    }

    /// Opens the array as a device for reading. `find` returns the device of a member by its index
    /// in the argument of [`arrays`].
    ///
    /// # Errors
    /// * According to its [`problem`](Self::problem).
    /// * [`ErrorKind::OutOfBounds`] if a member was truncated.
    /// * Errors of `find`.
    pub fn open<D: BlockRead + ?Sized>(
        &self,
        find: &dyn Fn(usize) -> Result<Arc<D>>,
    ) -> Result<Mapped<D>> {
        if let Some((kind, reason)) = &self.problem {
            return Err(self.error(*kind, reason));
        }
        let layouts = self.runs.iter().map(|run| {
            let areas = run.slots.iter().map(|slot| self.area(run, *slot, find));
            let members = Members::new(run.geometry, areas.collect::<Result<_>>()?);
            let members =
                members.ok_or_else(|| Error::corrupt("missing members of the md array"))?;
            Ok((run.len_bytes, Layout::Members(members)))
        });
        Mapped::new(layouts.collect::<Result<_>>()?)
    }

    /// Opens the array for reading and writing.
    ///
    /// # Errors
    /// As for [`open`](Self::open); [`ErrorKind::Unsupported`] for an array with parity, and for
    /// one whose copies are not all present and in sync.
    pub fn open_writable<D: BlockWrite + ?Sized>(
        &self,
        find: &dyn Fn(usize) -> Result<Arc<D>>,
    ) -> Result<Writable<D>> {
        let volume = self.open(find)?;
        if let Some(reason) = &self.unwritable {
            let reason = format!("{reason}; writing to it is not supported");
            return Err(self.error(ErrorKind::Unsupported, &reason));
        }
        let mut marks = Vec::new();
        for (index, written) in self.slots.iter().flatten().zip(&self.written) {
            let device = find(*index)?;
            let part = |start, len| Area::new(Source::Device(Arc::clone(&device)), start, len);
            let bitmap = written.bitmap.map(|start| part(start, BITMAP_BYTES));
            marks.push(Mark {
                superblock: part(written.start_bytes, written.len_bytes)?,
                bitmap: bitmap.transpose()?,
                change: superblock::CHANGE,
            });
        }
        Writable::new(volume, marks).map_err(|e| self.error(e.kind(), e.reason()))
    }

    fn error(&self, kind: ErrorKind, reason: &str) -> Error {
        Error::new(kind, format!("md array {} {reason}", self.name))
    }

    /// Returns the area of a member that a run uses; `None` for a missing member.
    fn area<D: BlockRead + ?Sized>(
        &self,
        run: &Run,
        slot: usize,
        find: &dyn Fn(usize) -> Result<Arc<D>>,
    ) -> Result<Option<Area<D>>> {
        let index = self.slots.get(slot).copied().flatten();
        let area = |index| {
            let (start, _) = self.data.get(slot).copied().unwrap_or_default();
            let start = start.saturating_add(run.start_bytes);
            Area::new(Source::Device(find(index)?), start, run.each_bytes)
        };
        index.map(area).transpose()
    }
}
