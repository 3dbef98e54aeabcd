//! The file tree that a new filesystem is filled with.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::Args;

use diskfs::archive::image::{Image, Selection};
use diskfs::archive::{Layer, Tree, tree};
use diskfs::vfs::copy_in::{CopyInOptions, CopyTo};
use diskfs::vfs::copy_out::{OnError, Preserve};
use diskfs::vfs::{FsWrite, Timestamp, copy_in};
use diskfs::{
    Commits, Error, ErrorKind, NewFilesystem, Result, RootReserve, TreeUsage, Volume, WriteOptions,
};

use super::manifest::Manifest;
use super::owner_map::OwnerMap;
use super::{Maker, usage};

use crate::cli::ProgressMode;
use crate::cli::out_file::is_standard;
use crate::cli::progress::Progress;
use crate::cli::session::Session;
use crate::cli::show::size::units;

/// The largest archive from a pipe, which is stored in a temporary file because it is read twice.
const PIPE_MAX_BYTES: u64 = 256 << 30;

#[derive(Debug, Args)]
pub(super) struct SourceTree {
    /// Fill the filesystem with the contents of directory DIR of the host
    #[arg(long, value_name = "DIR", group = "tree")]
    from_dir: Option<PathBuf>,

    /// Fill the filesystem with a tar archive, plain or compressed; - reads standard input
    #[arg(long, value_name = "FILE", group = "tree")]
    from_tar: Option<PathBuf>,

    /// Fill the filesystem with the layers of an OCI image layout or of an archive of `docker save`
    #[arg(long, value_name = "IMAGE[:TAG]", group = "tree")]
    from_oci: Option<String>,

    /// With --from-dir, give all files to this user and group
    #[arg(long, value_name = "UID:GID", requires = "from_dir", value_parser = owner)]
    owner: Option<(u32, u32)>,

    /// With --from-dir, change the owners as the lines of FILE say: HOST-UID[:GID]
    /// GUEST-UID[:GID] [COUNT]. A line without groups applies to users and groups alike, and one
    /// with a COUNT to a range of IDs; an owner without a line is an error
    #[arg(
        long,
        value_name = "FILE",
        requires = "from_dir",
        conflicts_with = "owner"
    )]
    owner_map: Option<PathBuf>,

    /// With --from-dir, take owners and modes from FILE, a manifest in the format of mtree(5), as
    /// `bsdtar --format=mtree` writes it: the keywords type, uid, gid, mode, device and link. Device
    /// nodes, FIFOs, directories and symlinks that the directory lacks are created
    #[arg(long, value_name = "FILE", requires = "from_dir")]
    manifest: Option<PathBuf>,
}

/// The tree, opened and, if it consists of archives, read once.
#[derive(Debug)]
pub(super) enum Opened {
    Directory {
        path: PathBuf,
        owner: Option<(u32, u32)>,
        map: Option<OwnerMap>,
        manifest: Option<Manifest>,
    },
    Archives(Box<Tree>),
}

/// The number of files and bytes that were written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Written {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

impl SourceTree {
    /// Returns true if the options name a tree.
    #[cfg(feature = "microvm")]
    pub(super) fn is_given(&self) -> bool {
        self.from_dir.is_some() || self.from_tar.is_some() || self.from_oci.is_some()
    }

    /// Opens the tree, if the options name one. Reads the headers of archives, and verifies the
    /// digests of an image.
    ///
    /// # Errors
    /// `Invalid` if the image is inside the directory: it would be copied into itself.
    pub(super) fn open(&self, image: &Path, session: &Session) -> Result<Option<Opened>> {
        if let Some(path) = &self.from_dir {
            refuse_inside(image, path)?;
            let metadata = path.metadata().map_err(|e| Error::from(e).in_file(path))?;
            if !metadata.is_dir() {
                return Err(Error::new(ErrorKind::NotADirectory, "not a directory").in_file(path));
            }
            return self.directory(path).map(Some);
        }
        let layers = if let Some(path) = &self.from_tar {
            vec![layer(path)?]
        } else if let Some(text) = &self.from_oci {
            let (path, selection) = Selection::split(text);
            let image = Image::open(&path, &selection, PIPE_MAX_BYTES)?;
            image.layers().to_vec()
        } else {
            return Ok(None);
        };
        let mut progress = Progress::new(session.progress(), None);
        let tree = Tree::plan(&layers, &tree::Limits::default(), &mut |bytes| {
            progress.advance(bytes);
            ControlFlow::Continue(())
        });
        progress.finish();
        Ok(Some(Opened::Archives(Box::new(tree?))))
    }
}

impl SourceTree {
    /// Reads the files that say more about a directory of the host, and checks them against it.
    fn directory(&self, path: &Path) -> Result<Opened> {
        let map = self.owner_map.as_deref().map(OwnerMap::read).transpose()?;
        let manifest = self.manifest.as_deref().map(Manifest::read).transpose()?;
        if let Some(map) = &map {
            map.check(path)?;
        }
        if let Some(manifest) = &manifest {
            manifest.check(path)?;
        }
        Ok(Opened::Directory {
            path: path.to_owned(),
            owner: self.owner,
            map,
            manifest,
        })
    }
}

fn refuse_inside(image: &Path, directory: &Path) -> Result<()> {
    let parent = image
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new(".")).canonicalize();
    let (Ok(parent), Ok(directory)) = (parent, directory.canonicalize()) else {
        return Ok(());
    };
    if !parent.starts_with(directory) {
        return Ok(());
    }
    let reason = "the image is inside the directory that it would be filled with";
    Err(Error::new(ErrorKind::Invalid, reason).in_file(image))
}

fn layer(path: &Path) -> Result<Layer> {
    if is_standard(path) {
        return Layer::from_stream(io::stdin().lock(), Path::new("-"), PIPE_MAX_BYTES);
    }
    Layer::open(path, PIPE_MAX_BYTES)
}

impl Opened {
    /// Returns the space that the tree needs.
    pub(super) fn usage(&self) -> Result<TreeUsage> {
        match self {
            Self::Directory { path, manifest, .. } => {
                let mut usage = usage::of_directory(path)?;
                if let Some(manifest) = manifest {
                    manifest.add_to(&mut usage, path);
                }
                Ok(usage)
            }
            Self::Archives(tree) => Ok(usage::of_archives(tree)),
        }
    }

    /// Fails if files of the tree can't be read, or certainly don't fit in the volume.
    pub(super) fn check_fits(&self, volume: &Volume, maker: &Maker) -> Result<()> {
        /// The share of the computed size that a tree may need less, in percent.
        const TOLERANCE: u64 = 5;
        if let Self::Directory { path, .. } = self {
            usage::check_readable(path)?;
        }
        let Maker::Native(NewFilesystem::Ext(options)) = maker else {
            return Ok(());
        };
        let usage = self.usage()?;
        let mut options = options.clone();
        options.inodes = options.inodes.or(Some(usage.inodes()));
        let needed = diskfs::fitting_size(&options, &usage)?;
        let least = needed.saturating_sub(needed / 100 * TOLERANCE);
        if least <= volume.size_bytes() {
            return Ok(());
        }
        let reason = format!(
            "the tree needs a filesystem of about {}, and volume {} has {}",
            units(needed),
            volume.name(),
            units(volume.size_bytes())
        );
        let error = Error::new(ErrorKind::NoSpace, reason);
        Err(error.with_hint("nothing was changed; use a larger volume, or a smaller tree"))
    }

    /// Fills the new filesystem of a volume. With a `time`, no file is newer, and the same tree
    /// always makes the same bytes.
    pub(super) fn fill(
        &self,
        volume: &Volume,
        time: Option<Timestamp>,
        mode: ProgressMode,
    ) -> Result<Written> {
        let options = WriteOptions {
            commits: Commits::OnSync,
            root_reserve: RootReserve::UseAll,
            fixed_time: time,
            write_behind: true,
        };
        let fs = volume.writable_filesystem(&options)?;
        let written = match self {
            Self::Directory {
                path,
                owner,
                map,
                manifest,
            } => copy(fs.as_fs(), path, *owner, time, mode).and_then(|written| {
                if let Some(map) = map {
                    map.apply(fs.as_fs())?;
                }
                if let Some(manifest) = manifest {
                    manifest.apply(fs.as_fs())?;
                }
                Ok(written)
            }),
            Self::Archives(tree) => unpack(fs.as_fs(), tree, mode),
        };
        let written = written.inspect_err(|_| {
            // The caller removes the filesystem.
            let _ = fs.abandon();
        })?;
        fs.close()?;
        Ok(written)
    }
}

fn copy(
    fs: &dyn FsWrite,
    from: &Path,
    owner: Option<(u32, u32)>,
    newest_time: Option<Timestamp>,
    mode: ProgressMode,
) -> Result<Written> {
    let (uid, gid) = owner.unwrap_or_default();
    let options = CopyInOptions {
        preserve: Preserve {
            owner: owner.is_none(),
            ..Preserve::ALL
        },
        uid,
        gid,
        on_error: OnError::Stop,
        newest_time,
        ..CopyInOptions::default()
    };
    let mut progress = Progress::new(mode, None);
    let to = CopyTo::Directory(fs.root());
    let copied = copy_in(fs, from, to, &options, &mut |_, summary| {
        progress.set(summary.files, summary.bytes);
        ControlFlow::Continue(())
    });
    progress.finish();
    let summary = copied.map_err(|e| Error::from(e).in_file(from))?;
    Ok(Written {
        files: summary.files,
        bytes: summary.bytes,
    })
}

fn unpack(fs: &dyn FsWrite, tree: &Tree, mode: ProgressMode) -> Result<Written> {
    let mut progress = Progress::new(mode, Some(tree.stream_bytes()));
    let written = tree.write_to(fs, &tree::WriteOptions::default(), &mut |bytes| {
        progress.advance(bytes);
        ControlFlow::Continue(())
    });
    progress.finish();
    let written = written?;
    let kinds = [
        written.regular_files,
        written.directories,
        written.symlinks,
        written.special_files,
    ];
    Ok(Written {
        files: kinds.into_iter().fold(0, u64::saturating_add),
        bytes: written.content_bytes,
    })
}

/// Parses an owner: `1000:1000`.
pub(in crate::cli) fn owner(text: &str) -> std::result::Result<(u32, u32), String> {
    let parts = text.split_once(':');
    let owner = parts.and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
    owner.ok_or_else(|| format!("invalid owner `{text}`: expected UID:GID"))
}
