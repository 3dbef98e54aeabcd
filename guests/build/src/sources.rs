//! The sources of a plan, opened and laid over each other.

use std::ops::ControlFlow;
use std::path::Path;

use diskfs_archive::image::{Image, Selection};
use diskfs_archive::tree::Limits;
use diskfs_archive::{HostOptions, Layer, SmallFile, Tree};
use diskfs_disk::Result;
use diskfs_vfs::Timestamp;

use crate::plan::SourcePlan;
use crate::problem::{at, invalid};

/// The largest archive from a pipe, which is stored in a temporary file because it is read twice.
const PIPE_MAX_BYTES: u64 = 256 << 30;

/// The file tree of all sources.
#[derive(Debug)]
pub struct Sources {
    pub(crate) tree: Option<Tree>,
}

/// The circumstances in which sources are opened.
#[derive(Debug, Clone, Copy)]
pub struct SourceOptions<'a> {
    /// The directory at which relative paths start.
    pub directory: &'a Path,
    /// The newest time of files that come from the host, and the time of texts.
    pub time: Option<Timestamp>,
}

impl Sources {
    /// Opens the sources of a plan, and reads the headers of all archives. Calls `progress` with
    /// the number of bytes of each step.
    ///
    /// # Errors
    /// `Invalid` with the key for a source without or with several kinds; the errors of reading the
    /// sources; `Cancelled`.
    pub fn open(
        plans: &[SourcePlan],
        options: SourceOptions<'_>,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Self> {
        let mut layers = Vec::new();
        for (index, plan) in plans.iter().enumerate() {
            let key = format!("sources[{index}]");
            let opened = open(plan, &key, options).map_err(|error| at(&key, error))?;
            layers.extend(opened);
        }
        if layers.is_empty() {
            return Ok(Self { tree: None });
        }
        let tree = Tree::plan(&layers, &Limits::default(), progress)?;
        Ok(Self { tree: Some(tree) })
    }

    /// Returns the number of bytes that [`write`](crate::Prepared::build) reads from the sources.
    pub fn stream_bytes(&self) -> u64 {
        self.tree.as_ref().map_or(0, Tree::stream_bytes)
    }
}

/// Returns the layers of a source, the lowest first.
fn open(plan: &SourcePlan, key: &str, options: SourceOptions<'_>) -> Result<Vec<Layer>> {
    plan.check()?;
    let to = plan.to.as_deref().unwrap_or_default().as_bytes();
    if let Some(path) = &plan.tar {
        let path = options.directory.join(path);
        return Ok(vec![Layer::open(&path, PIPE_MAX_BYTES)?.below(to)]);
    }
    if let Some(text) = &plan.oci {
        let (path, selection) = Selection::split(text);
        let path = options.directory.join(path);
        let image = Image::open(&path, &selection, PIPE_MAX_BYTES)?;
        let layers = image.layers().iter().cloned();
        return Ok(layers.map(|layer| layer.below(to)).collect());
    }
    let (owner, permissions) = (plan.owner()?, plan.permissions()?);
    if let Some(path) = plan.directory.as_ref().or(plan.file.as_ref()) {
        let path = options.directory.join(path);
        let metadata = path.metadata().map_err(|e| {
            let error: diskfs_disk::Error = e.into();
            error.in_file(&path)
        })?;
        if metadata.is_dir() != plan.directory.is_some() {
            let kind = if metadata.is_dir() { "a" } else { "not a" };
            let error = invalid(key, format!("{kind} directory"));
            return Err(error.in_file(&path));
        }
        let host = HostOptions {
            owner,
            permissions,
            newest_time: options.time,
        };
        return Ok(vec![Layer::of_host(&path, host)?.below(to)]);
    }
    let (uid, gid) = owner.unwrap_or_default();
    let file = SmallFile {
        path: to.to_vec(),
        contents: plan.text.as_ref().map(|text| text.clone().into_bytes()),
        permissions: permissions.unwrap_or(0o644),
        uid,
        gid,
        modified: options.time.unwrap_or_else(Timestamp::now),
    };
    Ok(vec![Layer::of_small_files(Path::new("plan"), &[file])])
}

impl SourcePlan {
    /// Checks that exactly one kind is given, with the keys that it has.
    fn check(&self) -> Result<()> {
        let kinds = [
            self.directory.is_some(),
            self.tar.is_some(),
            self.oci.is_some(),
            self.file.is_some(),
            self.text.is_some(),
        ];
        if kinds.into_iter().filter(|given| *given).count() != 1 {
            let reason =
                "exactly one of `directory`, `tar`, `oci`, `file` and `text` must be given";
            return Err(plain(reason));
        }
        let is_file = self.file.is_some() || self.text.is_some();
        if is_file && self.to.is_none() {
            return Err(plain("missing key `to`: the path of the file in the image"));
        }
        if self.mode.is_some() && !is_file {
            return Err(plain("`mode` requires `file` or `text`"));
        }
        if self.owner.is_some() && (self.tar.is_some() || self.oci.is_some()) {
            return Err(plain("`owner` requires `directory`, `file` or `text`"));
        }
        Ok(())
    }

    fn owner(&self) -> Result<Option<(u32, u32)>> {
        let Some(text) = &self.owner else {
            return Ok(None);
        };
        let parts = text.split_once(':');
        let owner = parts.and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
        let wrong = || plain(format!("invalid owner `{text}`: expected UID:GID"));
        owner.ok_or_else(wrong).map(Some)
    }

    fn permissions(&self) -> Result<Option<u16>> {
        let Some(text) = &self.mode else {
            return Ok(None);
        };
        let mode = u16::from_str_radix(text, 8).ok();
        let mode = mode.filter(|mode| *mode <= 0o7777 && !text.starts_with('+'));
        let wrong = || plain(format!("invalid mode `{text}`: expected octal digits"));
        mode.ok_or_else(wrong).map(Some)
    }
}

fn plain(reason: impl Into<String>) -> diskfs_disk::Error {
    diskfs_disk::Error::new(diskfs_disk::ErrorKind::Invalid, reason.into())
}
