//! The filesystems of a disk that are open.

use std::collections::BTreeSet;

use diskfs::guest::{self, System, Verdict};
use diskfs::{Commits, Disk, Result, RootReserve, Volume, WriteOptions};

use crate::Tree;

/// The open trees of a disk. A volume is in at most one of those that are open for writing.
#[derive(Debug, Default)]
pub(crate) struct Trees {
    open: Vec<OpenTree>,
}

/// A tree with its place, and the names by which it was asked for.
#[derive(Debug)]
struct OpenTree {
    /// The names of volumes; `None` is the default tree.
    names: Vec<Option<String>>,
    place: TreePlace,
    tree: Tree,
}

/// The place of a tree on a disk.
#[derive(Debug, PartialEq, Eq)]
struct TreePlace {
    is_system: bool,
    volumes: BTreeSet<String>,
}

/// A tree that was found, and not yet opened.
#[derive(Debug)]
enum FoundTree {
    System(Box<System>),
    Volume(Box<Volume>),
}

impl Trees {
    /// Returns the tree on a volume; without a name the tree of the operating system, else the only
    /// filesystem. A tree for writing is closed first if it has a volume in common with it.
    ///
    /// # Errors
    /// `NotFound`, `Ambiguous`; the errors of opening a filesystem, and of closing one.
    pub(crate) fn tree(
        &mut self,
        disk: &Disk,
        volume: Option<&str>,
        is_writable: bool,
    ) -> Result<Tree> {
        let name = volume.map(str::to_owned);
        if let Some(open) = self.open.iter().find(|open| open.names.contains(&name)) {
            return Ok(open.tree.clone());
        }
        let found = FoundTree::find(disk, volume)?;
        let place = found.place();
        if let Some(open) = self.open.iter_mut().find(|open| open.place == place) {
            open.names.push(name);
            return Ok(open.tree.clone());
        }
        if is_writable {
            self.close_those_that_share(&place)?;
        }
        let tree = found.open(is_writable)?;
        self.open.push(OpenTree {
            names: vec![name],
            place,
            tree: tree.clone(),
        });
        Ok(tree)
    }

    /// Makes the changes of all trees durable.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(crate) fn sync(&self) -> Result<()> {
        self.open.iter().try_for_each(|open| open.tree.sync())
    }

    /// Closes all trees, also after an error, which is the first one.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(crate) fn close(&mut self) -> Result<()> {
        let closed = self.open.drain(..).map(|open| open.tree.close());
        closed.fold(Ok(()), Result::and)
    }

    fn close_those_that_share(&mut self, place: &TreePlace) -> Result<()> {
        let shares = |open: &mut OpenTree| !open.place.volumes.is_disjoint(&place.volumes);
        let closed = self.open.extract_if(.., shares);
        let closed = closed.map(|open| open.tree.close());
        closed.fold(Ok(()), Result::and)
    }
}

impl FoundTree {
    fn find(disk: &Disk, volume: Option<&str>) -> Result<Self> {
        Ok(match volume {
            Some(name) => Self::Volume(Box::new(disk.volume(name)?)),
            None => match guest::select_system(disk, None)? {
                Some(system) => Self::System(Box::new(system)),
                None => Self::Volume(Box::new(disk.default_volume()?)),
            },
        })
    }

    fn place(&self) -> TreePlace {
        let (is_system, volumes) = match self {
            Self::Volume(volume) => (false, [volume.name().to_owned()].into()),
            Self::System(system) => (true, volumes_of(system)),
        };
        TreePlace { is_system, volumes }
    }

    fn open(&self, is_writable: bool) -> Result<Tree> {
        let options = write_options();
        Ok(match self {
            Self::Volume(volume) if is_writable => {
                Tree::Writer(volume.writable_filesystem(&options)?)
            }
            Self::Volume(volume) => Tree::Reader(volume.filesystem()?),
            Self::System(system) if is_writable => {
                Tree::Writer(system.writable_filesystem(&options)?)
            }
            Self::System(system) => Tree::Reader(system.filesystem()?),
        })
    }
}

/// Returns the names of the volumes that a system mounts.
fn volumes_of(system: &System) -> BTreeSet<String> {
    let mounted = system.planned().iter().filter_map(|planned| {
        let Verdict::Mount { volume, .. } = &planned.verdict else {
            return None;
        };
        Some(volume.name())
    });
    let all = std::iter::once(system.volume().name()).chain(mounted);
    all.map(str::to_owned).collect()
}

/// Returns the options of trees for writing: a program decides when its changes are durable.
fn write_options() -> WriteOptions {
    WriteOptions {
        commits: Commits::OnSync,
        // The guest's root could make the same changes.
        root_reserve: RootReserve::Use,
        ..WriteOptions::default()
    }
}
