//! An array: members put together.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Error, ErrorKind, Result};
use uuid::Uuid;

use super::plan::{self, Run};
use super::superblock::{self, Member, Written};
use crate::map::{Area, Layout, Mapped, Mark, Members, Source, Writable};

/// Members of an array: more than anyone makes. A superblock has room for 1,920.
const MAX_MEMBERS: u32 = 384;

/// What a bitmap's superblock takes.
const BITMAP_BYTES: u64 = 256;

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
    runs: Vec<Run>,
    /// Why it is only read, if so.
    unwritable: Option<String>,
    /// Where the superblocks are.
    written: Vec<Written>,
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
            let reason = format!("says that it has {} members", newest.members);
            return Err((ErrorKind::Corrupt, reason));
        }
        self.slots = vec![None; self.members];
        self.data = vec![(0, 0); self.members];
        for (index, member) in found {
            self.place(newest, *index, member)?;
        }
        let there: Vec<u64> = self.data.iter().map(|(_, len)| *len).collect();
        let there = match newest.level {
            // What is not there has a place, but nobody knows how long it is.
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
            let reason = format!("misses {missing} of its {} members", self.members);
            return Err((ErrorKind::NotFound, reason));
        }
        if self.size_bytes == 0 {
            return Err((ErrorKind::Corrupt, "has no bytes".to_owned()));
        }
        self.unwritable = self.judge_writing(newest, found).err();
        Ok(())
    }

    /// Whether it can be written, and notes what that needs.
    fn judge_writing(
        &mut self,
        newest: &Member,
        found: &[(usize, &Member)],
    ) -> std::result::Result<(), String> {
        match newest.level {
            // Without copies there is nothing to tell of a write.
            -1 | 0 => return Ok(()),
            1 | 10 => {}
            _ => return Err(format!("is {}, which is not written", self.level)),
        }
        for slot in &self.slots {
            let member = found.iter().find(|(index, _)| Some(*index) == *slot);
            let whole = member.filter(|(_, member)| {
                member.in_sync && newest.in_sync && member.events == newest.events
            });
            let (_, member) = whole.ok_or("has copies that are not all there and in sync")?;
            let written = member.written;
            self.written
                .push(written.ok_or("has superblocks that are not written")?);
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
            return Err(self.error(*kind, reason));
        }
        let layouts = self.runs.iter().map(|run| {
            let areas = run.slots.iter().map(|slot| self.area(run, *slot, find));
            let members = Members::new(run.geometry, areas.collect::<Result<_>>()?);
            let members = members.ok_or_else(|| Error::corrupt("an md array without members"))?;
            Ok((run.len_bytes, Layout::Members(members)))
        });
        Mapped::new(layouts.collect::<Result<_>>()?)
    }

    /// As [`open`](Self::open), to be written, too.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`ErrorKind::Unsupported`] for an array with sums, and for one whose
    /// copies are not all there and in sync.
    pub fn open_writable<D: BlockWrite + ?Sized>(
        &self,
        find: &dyn Fn(usize) -> Result<Arc<D>>,
    ) -> Result<Writable<D>> {
        let volume = self.open(find)?;
        if let Some(reason) = &self.unwritable {
            let reason = format!("{reason}, and is not written");
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

    /// What a run takes of a member; `None` for one that is not there.
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
