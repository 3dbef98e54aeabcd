//! Opening an image and all that it names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs_block::{BlockRead, Error, File, Result};
use rustix::fs::fstat;

use crate::description::Description;
use crate::lock::{Locked, lock_for_reading};
use crate::node::Node;
use crate::probe::probe;
use crate::qcow2::cache::{Caches, LayerId};
use crate::qcow2::workers::Workers;
use crate::qcow2::{Surroundings, Unopened};
use crate::raw::Raw;
use crate::{Format, OpenOptions};

/// Images in a chain, the first included. QEMU has no limit; deeper chains are not made on
/// purpose, and each image costs a descriptor and a stack frame.
const CHAIN_MAX: u32 = 64;

/// A file of the chain as its device and inode.
type FileId = (u64, u64);

/// Opens a chain, top first.
pub(crate) struct Opener<'a> {
    options: &'a OpenOptions,
    caches: Arc<Caches>,
    workers: Arc<Workers>,
    /// Every file opened so far.
    seen: Vec<FileId>,
    layers: u32,
}

/// A file to be opened as an image, and what is known of it.
pub(crate) struct Source {
    /// For messages, and to resolve the names that the image holds.
    pub(crate) path: PathBuf,
    pub(crate) device: Arc<dyn BlockRead>,
    pub(crate) allocated_bytes: Option<u64>,
    pub(crate) warnings: Vec<String>,
}

/// Which state of an image is wanted.
#[derive(Clone, Copy)]
enum State<'a> {
    Current,
    Snapshot(&'a str),
}

impl<'a> Opener<'a> {
    pub(crate) fn new(options: &'a OpenOptions) -> Result<Self> {
        Ok(Self {
            options,
            caches: Arc::new(Caches::new(options.cache_bytes)?),
            workers: Arc::new(Workers::new()),
            seen: Vec::new(),
            layers: 0,
        })
    }

    /// Opens the file that the user named.
    pub(crate) fn open_top(&mut self, path: &Path) -> Result<(Node, Description)> {
        let source = self.source(File::open(path)?)?;
        self.open_source(&source)
    }

    /// Opens what the user gave, as the top of a chain.
    pub(crate) fn open_source(&mut self, source: &Source) -> Result<(Node, Description)> {
        let probed = self.options.format.is_none();
        let format = match self.options.format {
            Some(format) => format,
            None => probe(source.device.as_ref()).map_err(|e| e.in_file(&source.path))?,
        };
        let state = match &self.options.snapshot {
            Some(name) => State::Snapshot(name),
            None => State::Current,
        };
        let (node, mut description) = self.layer(source, format, state)?;
        description.probed = probed;
        Ok((node, description))
    }

    /// Takes an open file into the chain: once, and locked.
    fn source(&mut self, file: File) -> Result<Source> {
        let path = file.path().to_owned();
        let stat = fstat(&file).map_err(|e| Error::from(e).in_file(&path))?;
        let id = (stat.st_dev, stat.st_ino);
        if self.seen.contains(&id) {
            return Err(
                Error::corrupt("backing chain loops: the file is in it twice").in_file(&path),
            );
        }
        self.seen.push(id);
        let mut warnings = Vec::new();
        if lock_for_reading(&file, &path, self.options.share)? == Locked::NotPossible {
            warnings.push(
                "the host's filesystem has no locks: a virtual machine that writes to it would not be noticed".to_owned(),
            );
        }
        Ok(Source {
            allocated_bytes: Some(file.allocated_bytes()?),
            path,
            device: Arc::new(file),
            warnings,
        })
    }

    /// Opens one image and, before that, what is behind it.
    fn layer(
        &mut self,
        source: &Source,
        format: Format,
        state: State<'_>,
    ) -> Result<(Node, Description)> {
        self.layers = self.layers.saturating_add(1);
        if self.layers > CHAIN_MAX {
            let reason = format!("backing chain is longer than {CHAIN_MAX} images");
            return Err(Error::unsupported(reason).in_file(&source.path));
        }
        match format {
            Format::Raw => raw(source, state),
            Format::Qcow2 => self.qcow2(source, state),
        }
    }

    fn qcow2(&mut self, source: &Source, state: State<'_>) -> Result<(Node, Description)> {
        let path = source.path.clone();
        let layer = LayerId(self.layers);
        let snapshot = match state {
            State::Current => None,
            State::Snapshot(name) => Some(name),
        };
        let mut image =
            Unopened::read(Arc::clone(&source.device), snapshot).map_err(|e| e.in_file(&path))?;
        let mut description = describe(source, Format::Qcow2);
        description.warnings.append(&mut image.warnings);
        let mut details = image.details();
        let data_file = self.data_file(&image, &path)?;
        if let Some(data_file) = &data_file {
            details.data_file = Some(data_file.path.clone());
            description
                .warnings
                .extend(data_file.warnings.iter().cloned());
        }
        let backing = self.backing(&image, &path, &mut description.warnings)?;
        let (backing, backing_description) = backing.unzip();
        let around = Surroundings {
            backing: backing.map(Arc::new),
            data_file: data_file.map(|file| file.device),
            caches: Arc::clone(&self.caches),
            workers: Arc::clone(&self.workers),
            layer,
            allocated_bytes: source.allocated_bytes,
        };
        let node = image
            .open(path.clone(), around)
            .map_err(|e| e.in_file(&path))?;
        description.virtual_size_bytes = node.size_bytes();
        description.qcow2 = Some(details);
        description.backing = backing_description.map(Box::new);
        Ok((Node::Qcow2(node), description))
    }

    fn data_file(&mut self, image: &Unopened, path: &Path) -> Result<Option<Source>> {
        let Some(name) = image.data_file_name().map_err(|e| e.in_file(path))? else {
            return Ok(None);
        };
        let file = self.options.gate.open(path, name, "data file")?;
        self.source(file).map(Some)
    }

    fn backing(
        &mut self,
        image: &Unopened,
        path: &Path,
        warnings: &mut Vec<String>,
    ) -> Result<Option<(Node, Description)>> {
        let Some(name) = image.backing_name() else {
            return Ok(None);
        };
        let file = self.options.gate.open(path, name, "backing file")?;
        let format = match image.backing_format_name() {
            Some(name) => named_format(name).map_err(|e| e.in_file(path))?,
            None => self.unnamed_format(name, warnings),
        };
        let source = self.source(file)?;
        self.layer(&source, format, State::Current).map(Some)
    }

    /// What to take a backing file for whose image does not say: what the user says, or raw.
    /// Probing would let a guest that writes a qcow2 header to its raw disk read other files.
    fn unnamed_format(&self, name: &[u8], warnings: &mut Vec<String>) -> Format {
        if let Some(format) = self.options.backing_format {
            return format;
        }
        let name = String::from_utf8_lossy(name);
        warnings.push(format!(
            "does not name the format of its backing file `{}`, which is read as raw; \
             if it is qcow2, open the image with `,backing.format=qcow2` behind its name",
            name.escape_debug()
        ));
        Format::Raw
    }
}

fn named_format(name: &str) -> Result<Format> {
    name.parse().map_err(|_| {
        let reason = format!("backing file has format `{}`", name.escape_debug());
        Error::unsupported(reason)
            .hint("raw and qcow2 are read; convert it with `qemu-img convert -O qcow2`")
    })
}

fn raw(source: &Source, state: State<'_>) -> Result<(Node, Description)> {
    if let State::Snapshot(name) = state {
        let reason = format!(
            "no snapshot `{}`: a raw image has none",
            name.escape_debug()
        );
        return Err(Error::invalid(reason).in_file(&source.path));
    }
    let description = describe(source, Format::Raw);
    Ok((Node::Raw(Raw::new(Arc::clone(&source.device))), description))
}

fn describe(source: &Source, format: Format) -> Description {
    Description {
        path: source.path.clone(),
        format: Some(format),
        virtual_size_bytes: source.device.size_bytes(),
        file_size_bytes: source.device.size_bytes(),
        allocated_bytes: source
            .allocated_bytes
            .unwrap_or_else(|| source.device.size_bytes()),
        warnings: source.warnings.clone(),
        ..Description::default()
    }
}
