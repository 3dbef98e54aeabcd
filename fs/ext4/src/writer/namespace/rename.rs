//! Renaming files, also with replacement, exchange and whiteouts.

use std::sync::PoisonError;

use diskfs_vfs::{Device, FileType, NewAttributes, NewKind, RenameMode};

use crate::directory;
use crate::error::{Error, ErrorKind, InInode, Result};
use crate::handle::Handle;
use crate::inode::{Inode, InodeFlags, ROOT};
use crate::writer::{Core, Orphans};

use super::evict::RemainingWork;
use super::{
    CREDITS_BASE, CREDITS_INSERT, changeable_dir, check_name, check_removable, count_subdirectory,
    discount_subdirectory, entry, evict, new_inode, touch,
};

/// A source or destination of a rename: a name in a directory.
#[derive(Debug, Clone, Copy)]
struct Name<'a> {
    dir: u32,
    name: &'a [u8],
}

/// The inodes at the source and the destination.
#[derive(Debug, Clone, Copy)]
struct RenamedInodes {
    source: u32,
    target: Option<u32>,
}

/// The result of a try.
enum RenameOutcome {
    Done {
        /// The replaced file, which must be evicted.
        gone: Option<u32>,
    },
    /// Another inode was found, so the rename must be tried again.
    Again,
}

impl Core {
    /// Renames a file in one transaction.
    pub(crate) fn rename(
        &self,
        from: (u32, &[u8]),
        to: (u32, &[u8]),
        mode: RenameMode,
    ) -> Result<()> {
        let from = Name {
            dir: from.0,
            name: from.1,
        };
        let to = Name {
            dir: to.0,
            name: to.1,
        };
        check_name(from.dir, from.name)?;
        check_name(to.dir, to.name)?;
        // No other thread makes one directory the ancestor of another meanwhile.
        let _alone = (from.dir != to.dir)
            .then(|| self.renames.lock().unwrap_or_else(PoisonError::into_inner));
        loop {
            let found = RenamedInodes {
                source: self.find_existing(from.dir, from.name)?,
                target: self.find(to.dir, to.name)?,
            };
            if from.dir != to.dir {
                self.check_ancestry(from, to, found, mode)?;
            }
            if found.target.is_some() {
                // After a crash, a file that replaced another must not be empty if that one was
                // not; so delayed contents are written back first.
                self.write_back(found.source)?;
            }
            let mut inodes = vec![from.dir, to.dir, found.source];
            inodes.extend(found.target);
            let credits = CREDITS_BASE
                .saturating_add(CREDITS_INSERT)
                .saturating_add(evict::CREDITS_SMALL);
            let outcome = self.update(&inodes, credits, |handle| {
                Rename {
                    handle,
                    orphans: &self.orphans,
                    from,
                    to,
                    found,
                    mode,
                }
                .run()
            })?;
            match outcome {
                RenameOutcome::Again => {}
                RenameOutcome::Done { gone: None } => return Ok(()),
                RenameOutcome::Done { gone: Some(gone) } => return self.evict(gone),
            }
        }
    }

    /// Fails if a directory would be moved below itself.
    fn check_ancestry(
        &self,
        from: Name<'_>,
        to: Name<'_>,
        found: RenamedInodes,
        mode: RenameMode,
    ) -> Result<()> {
        if found.target.is_some()
            && matches!(mode, RenameMode::NoReplace | RenameMode::NoReplaceWhiteout)
        {
            // An existing name is reported first, as in the kernel.
            return Ok(());
        }
        let below = |dir, ancestor| {
            let reason = "cannot move a directory below itself";
            let e = Error::new(ErrorKind::Invalid, reason);
            if self.is_below(dir, ancestor)? {
                return Err(e).in_inode(ancestor);
            }
            Ok(())
        };
        below(to.dir, found.source)?;
        match found.target {
            // In an exchange, the target moves in the other direction.
            Some(target) if mode == RenameMode::Exchange => below(from.dir, target),
            // The target contains the file that would replace it, so it is not empty.
            Some(target) if self.is_below(from.dir, target)? => {
                let reason = "the directory is not empty";
                Err(Error::new(ErrorKind::NotEmpty, reason)).in_inode(target)
            }
            _ => Ok(()),
        }
    }

    /// Returns true if `dir` is `ancestor` or below it.
    fn is_below(&self, dir: u32, ancestor: u32) -> Result<bool> {
        let mut at = dir;
        // No path is deeper than the number of inodes; a loop of directories is corrupt.
        for _ in 0..self.volume().superblock.inodes_count {
            if at == ancestor {
                return Ok(true);
            }
            if at == ROOT {
                return Ok(false);
            }
            at = self.find_existing(at, b"..")?;
        }
        let reason = "its parent directories form a loop";
        Err(Error::new(ErrorKind::Corrupt, reason)).in_inode(dir)
    }
}

struct Rename<'a> {
    handle: &'a Handle<'a>,
    orphans: &'a Orphans,
    from: Name<'a>,
    to: Name<'a>,
    found: RenamedInodes,
    mode: RenameMode,
}

/// The inodes of a rename. Two of them may be the same, so each is stored before the next one is
/// read.
impl Rename<'_> {
    fn run(&self) -> Result<RenameOutcome> {
        let from_dir = changeable_dir(self.handle, self.from.dir)?;
        let to_dir = changeable_dir(self.handle, self.to.dir)?;
        let source = entry(self.handle, &from_dir, self.from.name)?;
        let target = entry(self.handle, &to_dir, self.to.name)?;
        if source != Some(self.found.source) || target != self.found.target {
            return Ok(RenameOutcome::Again);
        }
        let source = self.handle.inode(self.found.source)?;
        check_removable(&from_dir, &source)?;
        check_project(&to_dir, &source)?;
        match (target, self.mode) {
            (Some(_), RenameMode::NoReplace | RenameMode::NoReplaceWhiteout) => {
                let reason = "the name is taken";
                Err(Error::new(ErrorKind::Exists, reason)).in_inode(self.to.dir)
            }
            (None, RenameMode::Exchange) => {
                let reason = "no such file to exchange it with";
                Err(Error::new(ErrorKind::NotFound, reason)).in_inode(self.to.dir)
            }
            // Two names of one file: POSIX requires that nothing happens.
            (Some(target), _) if target == source.number => Ok(RenameOutcome::Done { gone: None }),
            (Some(target), RenameMode::Exchange) => {
                let target = self.handle.inode(target)?;
                self.exchange(&from_dir, &to_dir, source, target)
            }
            (Some(target), _) => {
                let target = self.handle.inode(target)?;
                self.replace(&to_dir, source, target)
            }
            (None, _) => self.to_new_name(source),
        }
    }

    fn to_new_name(&self, source: Inode) -> Result<RenameOutcome> {
        let is_dir = source.is(FileType::Directory);
        let file_type = type_of(&source);
        let whiteout = self.make_whiteout()?;
        self.in_dir(self.to, |dir| {
            if is_dir && self.from.dir != self.to.dir {
                count_subdirectory(&self.handle.volume().superblock, dir)?;
            }
            directory::insert(self.handle, dir, self.to.name, source.number, file_type)
        })
        .or_else(|e| self.undo_whiteout(whiteout.as_ref(), e))?;
        self.remove_old_name(whiteout.as_ref(), is_dir && self.from.dir != self.to.dir)?;
        self.moved(source)?;
        Ok(RenameOutcome::Done { gone: None })
    }

    fn replace(&self, to_dir: &Inode, source: Inode, mut target: Inode) -> Result<RenameOutcome> {
        check_removable(to_dir, &target)?;
        let is_dir = source.is(FileType::Directory);
        self.check_replaceable(is_dir, &target)?;
        let file_type = type_of(&source);
        let whiteout = self.make_whiteout()?;
        self.in_dir(self.to, |dir| {
            directory::replace(self.handle, dir, self.to.name, source.number, file_type)
        })?;
        // If directories are replaced, `to` gains one and loses one; `from` loses one in any case.
        self.remove_old_name(whiteout.as_ref(), is_dir)?;
        let left = evict::drop_link(self.handle, self.orphans, &mut target)?;
        self.moved(source)?;
        Ok(RenameOutcome::Done {
            gone: (left == RemainingWork::Eviction).then_some(target.number),
        })
    }

    fn check_replaceable(&self, is_dir: bool, target: &Inode) -> Result<()> {
        let target_is_dir = target.is(FileType::Directory);
        let error = match (is_dir, target_is_dir) {
            (true, false) => Error::new(ErrorKind::NotADirectory, "not a directory"),
            (false, true) => Error::new(ErrorKind::IsADirectory, "is a directory"),
            (true, true) if !directory::is_empty(self.handle.volume(), target)? => {
                Error::new(ErrorKind::NotEmpty, "the directory is not empty")
            }
            _ => return Ok(()),
        };
        Err(error).in_inode(target.number)
    }

    fn exchange(
        &self,
        from_dir: &Inode,
        to_dir: &Inode,
        source: Inode,
        target: Inode,
    ) -> Result<RenameOutcome> {
        check_removable(to_dir, &target)?;
        check_project(from_dir, &target)?;
        let comes = |inode: &Inode| inode.is(FileType::Directory);
        let changes_count = self.from.dir != self.to.dir && comes(&source) != comes(&target);
        let swap = |at: Name<'_>, new: &Inode| {
            self.in_dir(at, |dir| {
                if changes_count && comes(new) {
                    count_subdirectory(&self.handle.volume().superblock, dir)?;
                } else if changes_count {
                    discount_subdirectory(dir);
                }
                directory::replace(self.handle, dir, at.name, new.number, type_of(new))
            })
        };
        // The step that can fail because of the link count comes first, while nothing is changed.
        if comes(&source) {
            swap(self.to, &source)?;
            swap(self.from, &target)?;
        } else {
            swap(self.from, &target)?;
            swap(self.to, &source)?;
        }
        self.moved_to(source, self.to.dir)?;
        self.moved_to(target, self.from.dir)?;
        Ok(RenameOutcome::Done { gone: None })
    }

    /// Changes the directory of one name, and stores it even if the change failed: the changes made
    /// by an insertion until then are consistent.
    fn in_dir(&self, at: Name<'_>, change: impl FnOnce(&mut Inode) -> Result<()>) -> Result<()> {
        let mut dir = self.handle.inode(at.dir)?;
        let before = dir.links;
        let changed = change(&mut dir);
        match changed {
            Ok(()) => touch(self.handle, &mut dir),
            Err(_) => dir.links = before,
        }
        self.handle.store(&dir)?;
        changed
    }

    /// Removes the old name, or makes it refer to the whiteout.
    fn remove_old_name(&self, whiteout: Option<&Inode>, one_directory_less: bool) -> Result<()> {
        self.in_dir(self.from, |dir| {
            if one_directory_less {
                discount_subdirectory(dir);
            }
            match whiteout {
                Some(inode) => {
                    let number = inode.number;
                    directory::replace(self.handle, dir, self.from.name, number, type_of(inode))
                }
                None => directory::remove(self.handle, dir, self.from.name).map(|_| ()),
            }
        })
    }

    fn make_whiteout(&self) -> Result<Option<Inode>> {
        let wanted = matches!(
            self.mode,
            RenameMode::Whiteout | RenameMode::NoReplaceWhiteout
        );
        if !wanted {
            return Ok(None);
        }
        let dir = self.handle.inode(self.from.dir)?;
        let kind = NewKind::CharacterDevice(Device { major: 0, minor: 0 });
        new_inode::make(self.handle, &dir, kind, &NewAttributes::for_root(0)).map(Some)
    }

    fn undo_whiteout(&self, whiteout: Option<&Inode>, e: Error) -> Result<()> {
        if let Some(inode) = whiteout {
            evict::undo_new(self.handle, &mut inode.clone())?;
        }
        Err(e)
    }

    fn moved(&self, source: Inode) -> Result<()> {
        self.moved_to(source, self.to.dir)
    }

    /// Updates the inode of a file that was moved to another directory.
    fn moved_to(&self, mut inode: Inode, dir: u32) -> Result<()> {
        if inode.is(FileType::Directory) && self.from.dir != self.to.dir {
            directory::set_parent(self.handle, &mut inode, dir)?;
        }
        inode.changed = self.handle.now();
        self.handle.store(&inode)
    }
}

fn type_of(inode: &Inode) -> FileType {
    inode.file_type.unwrap_or(FileType::Regular)
}

fn check_project(dir: &Inode, inode: &Inode) -> Result<()> {
    if dir.has(InodeFlags::PROJECT_INHERIT) && dir.project != inode.project {
        let reason = "the file and the directory belong to different projects";
        return Err(Error::new(ErrorKind::CrossesDevices, reason)).in_inode(inode.number);
    }
    Ok(())
}
