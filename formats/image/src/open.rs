//! Opening an image and all files that it names.

mod describe;
mod mapped;
mod oci;
mod oci_images;
mod oci_store;
mod remote;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use diskfs_block::{BlockWrite, Error, ErrorKind, File, Result, Slice};
use rustix::fs::fstat;

use crate::base::{FileId, Identity, overlays_warning};
use crate::description::Description;
use crate::disguise;
use crate::encryption::Decrypt;
use crate::gate::{Access, Gate, NamedFor, Namer};
use crate::layer::Layer;
use crate::lock::{Locked, lock_for_reading, lock_for_writing};
use crate::mapped::UnitCache;
use crate::node::Node;
use crate::oci::OciName;
use crate::probe::probe;
use crate::qcow2::cache::{Caches, LayerId};
use crate::qcow2::workers::Workers;
use crate::qcow2::{Surroundings, Unopened, WritableFiles};
use crate::raw::{Raw, RawWriter};
use crate::source::Source;
use crate::{Format, OpenOptions, ProbedFormats, Share, StaleBase};

pub use oci_images::{LayoutImage, RegistryDisk};

/// The largest number of images in a chain, the first included. QEMU has no limit; longer chains
/// are not made on purpose, and each image costs a descriptor and a stack frame.
const CHAIN_MAX: u32 = 64;

/// The hint for an overlay whose backing file has changed.
const STALE_HINT: &str = "restore the backing file; or use --force-stale to open the overlay \
     anyway, or `diskfs rebase -u` with the same name if the change is known to be harmless";

/// An opened image and its description.
pub(crate) type Opened = Box<(Node, Description)>;

/// A qcow2 image of which everything but the backing file is open.
struct OpenedQcow2 {
    image: Unopened,
    description: Description,
    encryption: Option<Arc<dyn Decrypt>>,
    data_file: Option<Source>,
    layer: LayerId,
}

/// The state for opening a chain, top first.
pub(crate) struct Opener<'a> {
    options: &'a OpenOptions,
    /// The access mode of the top of the chain and its data file. Backing files are only read.
    access: Access,
    caches: Arc<Caches>,
    /// The decompressed units of all images that are neither raw nor qcow2.
    units: Arc<UnitCache>,
    workers: Arc<Workers>,
    /// Every file opened so far.
    seen: Vec<FileId>,
    layers: u32,
    /// True if the top is a disk in an OCI image, which must not name files.
    is_in_oci: bool,
    /// The policy for the files that images name.
    gate: Gate,
}

/// The state of an image to open.
#[derive(Clone, Copy)]
enum ImageState<'a> {
    Current,
    Snapshot(&'a str),
}

impl<'a> Opener<'a> {
    /// Creates an opener for reading.
    pub(crate) fn new(options: &'a OpenOptions) -> Result<Self> {
        Self::with_access(options, Access::Read)
    }

    /// Creates an opener for writing.
    pub(crate) fn for_writing(options: &'a OpenOptions) -> Result<Self> {
        if let Some(name) = &options.snapshot {
            let reason = format!(
                "cannot write to snapshot `{}`: snapshots are read-only",
                name.escape_debug()
            );
            return Err(Error::new(ErrorKind::ReadOnly, reason)
                .with_hint("apply the snapshot first, or write to an overlay of a copy"));
        }
        if options.share == Share::Force {
            return Err(
                Error::invalid("cannot share an image that is opened for writing")
                    .with_hint("omit --force-share"),
            );
        }
        Self::with_access(options, Access::ReadWrite)
    }

    fn with_access(options: &'a OpenOptions, access: Access) -> Result<Self> {
        Ok(Self {
            options,
            access,
            caches: Arc::new(Caches::new(options.cache_bytes)?),
            units: Arc::new(UnitCache::new(options.cache_bytes)),
            workers: Arc::new(Workers::new()),
            seen: Vec::new(),
            layers: 0,
            is_in_oci: false,
            gate: options.gate.clone(),
        })
    }

    /// Opens the file that the user named.
    pub(crate) fn open_top(&mut self, path: &Path) -> Result<Opened> {
        let mut source = self.top(path)?;
        if let (Access::ReadWrite, Some(file)) = (self.access, &source.host) {
            let overlays = self.options.files.overlays_of(path, file);
            source.warnings.extend(overlays_warning(overlays));
        }
        self.open_source(source)
    }

    /// Opens what the user named, without a look at its contents: a file, a disk in an OCI image, or
    /// an image on another machine.
    pub(crate) fn top(&mut self, path: &Path) -> Result<Source> {
        if let Some(name) = OciName::parse(path) {
            return self.oci_source(&name?, path);
        }
        if let Some(source) = self.remote_source(path, self.access)? {
            return Ok(source);
        }
        let file = self.options.files.open(path, self.access)?;
        self.source(file, self.access)
    }

    /// Changes the tables of the qcow2 image at `path`, with exclusive access.
    ///
    /// The image is opened for writing before the change, so that an image that cannot be written
    /// is refused, and one that was not closed properly is repaired. It is opened for writing again
    /// after the change, which completes the work that `change` left. `what` begins the message for
    /// a raw image, such as `snapshots are`.
    pub(crate) fn edit_tables<T>(
        mut self,
        path: &Path,
        what: &str,
        change: impl FnOnce(&dyn BlockWrite) -> Result<T>,
    ) -> Result<T> {
        let source = self.top(path)?;
        let options = self.options;
        let (Some(file), is_qcow2) = (source.writable.clone(), {
            let (node, _) = *self.open_source(source.clone())?;
            node.close()?;
            matches!(node, Node::Qcow2(..))
        }) else {
            return Err(Error::new(
                ErrorKind::ReadOnly,
                "the image is open read-only",
            ));
        };
        if !is_qcow2 {
            let reason = format!("{what} not supported for raw images, only for qcow2");
            return Err(Error::unsupported(reason));
        }
        drop(self);
        let changed = change(file.as_ref())?;
        let (node, _) = *Self::for_writing(options)?.open_source(source)?;
        node.close()?;
        Ok(changed)
    }

    /// Changes the LUKS header of the image at `path`, with exclusive access: that of a qcow2 image
    /// whose data is encrypted, or the start of a raw image.
    ///
    /// The image is opened for writing before the change, so that an image that cannot be written
    /// is refused, and one that was not closed properly is repaired.
    pub(crate) fn edit_luks_header<T>(
        mut self,
        path: &Path,
        change: impl FnOnce(&dyn BlockWrite) -> Result<T>,
    ) -> Result<T> {
        let source = self.top(path)?;
        let read_only = || Error::new(ErrorKind::ReadOnly, "the image is open read-only");
        let file = source.writable.clone().ok_or_else(read_only)?;
        let (node, description) = *self.open_source(source)?;
        node.close()?;
        let Some(qcow2) = description.qcow2 else {
            return change(file.as_ref());
        };
        let header = qcow2.encryption.ok_or_else(|| {
            Error::invalid("the image is not encrypted")
                .with_hint("make an encrypted copy with `diskfs convert --encrypt`")
        })?;
        let (start, len_bytes) = (header.header_offset_bytes, header.header_len_bytes);
        change(&Slice::new(file, start, len_bytes)?)
    }

    /// Changes the file at `path`, locked as for writing, without opening it as an image.
    pub(crate) fn edit_file<T>(
        mut self,
        path: &Path,
        change: impl FnOnce(&dyn BlockWrite) -> Result<T>,
    ) -> Result<T> {
        let file = self
            .top(path)?
            .writable
            .ok_or_else(|| Error::new(ErrorKind::ReadOnly, "the image is open read-only"))?;
        change(file.as_ref())
    }

    /// Opens a file as the backing file of `image`.
    pub(crate) fn open_as_backing(
        &mut self,
        image: Namer<'_>,
        name: &[u8],
        format: Format,
    ) -> Result<Opened> {
        if !format.can_back() {
            return Err(unsupported_base(format.name()).in_file(image.path));
        }
        let file = self.open_named(image, name, NamedFor::Backing, Access::Read)?;
        let source = self.source(file, Access::Read)?;
        self.layer(&source, format, ImageState::Current)
    }

    /// Opens a file from the user as the top of a chain.
    pub(crate) fn open_source(&mut self, mut source: Source) -> Result<Opened> {
        let format = self.options.format.or(source.format);
        source.probed = format.is_none();
        let format = match format {
            Some(format) => format,
            None => self.probed(&source).map_err(|e| e.in_file(&source.path))?,
        };
        let fits = self.options.check_disk(format);
        fits.map_err(|e| e.in_file(&source.path))?;
        let state = match &self.options.snapshot {
            Some(name) => ImageState::Snapshot(name),
            None => ImageState::Current,
        };
        let mut opened = self.layer(&source, format, state)?;
        opened.1.probed = source.probed;
        Ok(opened)
    }

    /// Returns the format of a file from the user, by its contents.
    fn probed(&self, source: &Source) -> Result<Format> {
        let format = probe(source.device.as_ref())?;
        if format != Format::Raw {
            return Ok(format);
        }
        let is_wanted = |format: &Format| match self.options.probed {
            ProbedFormats::All => true,
            ProbedFormats::OnlyQemus => format.is_qemus(),
        };
        let by_name = disguise::named_by_extension(source)?.filter(is_wanted);
        Ok(by_name.unwrap_or(Format::Raw))
    }

    /// Opens a file that an image names, as far as the gate allows it.
    fn open_named(
        &self,
        image: Namer<'_>,
        name: &[u8],
        named_for: NamedFor,
        access: Access,
    ) -> Result<File> {
        if self.is_in_oci {
            return Err(refused_in_oci(image, name, named_for));
        }
        let named = image.file(name, named_for, access);
        self.options.files.open_named(&named, &self.gate)
    }

    /// Adds a file that an image names to the chain, or the device that takes its place.
    fn named_source(
        &mut self,
        image: Namer<'_>,
        name: &[u8],
        named_for: NamedFor,
        access: Access,
    ) -> Result<Source> {
        let named = image.file(name, named_for, access);
        let Some(device) = self.options.files.named_device(&named) else {
            let file = self.open_named(image, name, named_for, access)?;
            return self.source(file, access);
        };
        let writable = (access == Access::ReadWrite).then(|| Arc::clone(&device));
        let path = Path::new(OsStr::from_bytes(name));
        Ok(Source::of_device(path, device, writable))
    }

    /// Adds an open file to the chain: at most once, and locked.
    fn source(&mut self, file: File, access: Access) -> Result<Source> {
        let path = file.path().to_owned();
        let stat = fstat(&file).map_err(|e| Error::from(e).in_file(&path))?;
        let id = (stat.st_dev, stat.st_ino);
        if self.seen.contains(&id) {
            return Err(
                Error::corrupt("the backing chain has a loop: this file is in it twice")
                    .in_file(&path),
            );
        }
        self.seen.push(id);
        // The user chose the first file of a chain, so its other names do not matter, unless it is
        // written.
        let is_named = self.seen.len() > 1;
        let mut warnings = Vec::new();
        if is_named || access == Access::ReadWrite {
            warnings.extend(disguise::links_warning(&stat, &path, is_named));
        }
        let locked = match access {
            Access::Read => lock_for_reading(&file, &path, self.options.share)?,
            Access::ReadWrite => lock_for_writing(&file, &path)?,
        };
        if locked == Locked::NotPossible {
            warnings.push(
                "the host's filesystem has no locks; other writers of the image are not \
                 detected"
                    .to_owned(),
            );
        }
        let identity = Identity::of(&fstat(&file).map_err(|e| Error::from(e).in_file(&path))?);
        let allocated_bytes = Some(file.allocated_bytes()?);
        let file = Arc::new(if self.options.early_write_back {
            file.written_back_early()
        } else {
            file
        });
        let writable: Option<Arc<dyn BlockWrite>> = match access {
            Access::Read => None,
            Access::ReadWrite => Some(file.clone()),
        };
        Ok(Source {
            path,
            id: Some(id),
            owner: Some(stat.st_uid),
            identity: Some(identity),
            version: None,
            device: file.clone(),
            host: Some(file),
            format: None,
            writable,
            probed: false,
            allocated_bytes,
            warnings,
        })
    }

    /// Opens one image and, before that, its backing file.
    fn layer(&mut self, source: &Source, format: Format, state: ImageState<'_>) -> Result<Opened> {
        self.layers = self.layers.saturating_add(1);
        if self.layers > CHAIN_MAX {
            let reason = format!("the backing chain is too long: at most {CHAIN_MAX} images");
            return Err(Error::unsupported(reason).in_file(&source.path));
        }
        match format {
            Format::Raw => raw(source, state),
            Format::Qcow2 => self.qcow2(source, state),
            other => self.mapped(source, other, state),
        }
    }

    /// Opens a qcow2 image in three steps, to use little stack for each image of a chain.
    fn qcow2(&mut self, source: &Source, state: ImageState<'_>) -> Result<Opened> {
        let mut begun = self.begin_qcow2(source, state)?;
        let warnings = &mut begun.description.warnings;
        let backing = self.backing(&begun.image, source.namer(), warnings)?;
        self.finish_qcow2(source, begun, backing)
    }

    #[inline(never)]
    fn begin_qcow2(&mut self, source: &Source, state: ImageState<'_>) -> Result<Box<OpenedQcow2>> {
        let path = &source.path;
        let snapshot = match state {
            ImageState::Current => None,
            ImageState::Snapshot(name) => Some(name),
        };
        let mut image =
            Unopened::read(Arc::clone(&source.device), snapshot).map_err(|e| e.in_file(path))?;
        if source.probed && image.names_files() {
            disguise::refuse(Format::Qcow2, path)?;
        }
        let mut description = describe(source, Format::Qcow2);
        description
            .warnings
            .extend(disguise::warning(source, Format::Qcow2));
        description.warnings.append(&mut image.warnings);
        let mut details = image.details();
        let access = match source.writable {
            Some(_) => Access::ReadWrite,
            None => Access::Read,
        };
        let data_file = self.data_file(&image, source.namer(), access)?;
        if let Some(data_file) = &data_file {
            details.data_file = Some(data_file.path.clone());
            description
                .warnings
                .extend(data_file.warnings.iter().cloned());
        }
        let encryption = image
            .encryption(path, self.options.unlock.as_deref())
            .map_err(|e| e.in_file(path))?;
        if let Some(told) = &mut details.encryption {
            told.is_unlocked = encryption.is_some();
        }
        description.qcow2 = Some(details);
        Ok(Box::new(OpenedQcow2 {
            image,
            description,
            encryption,
            data_file,
            layer: LayerId(self.layers),
        }))
    }

    #[inline(never)]
    fn finish_qcow2(
        &self,
        source: &Source,
        begun: Box<OpenedQcow2>,
        backing: Option<Opened>,
    ) -> Result<Opened> {
        let OpenedQcow2 {
            image,
            mut description,
            encryption,
            data_file,
            layer,
        } = *begun;
        let (backing, backing_description) = backing.map(|backing| *backing).unzip();
        let (data_file, writable_data) = data_file.map(|file| (file.device, file.writable)).unzip();
        let writable = source.writable.clone().map(|image| WritableFiles {
            image,
            data: writable_data.flatten(),
        });
        let backing = backing.map(Arc::new);
        let around = Surroundings {
            backing: backing.clone().map(|backing| -> Arc<dyn Layer> { backing }),
            data_file,
            encryption,
            writable,
            caches: Arc::clone(&self.caches),
            workers: Arc::clone(&self.workers),
            layer,
            allocated_bytes: source.allocated_bytes,
        };
        let path = source.path.clone();
        let node = image
            .open(path, around)
            .map_err(|e| e.in_file(&source.path))?;
        description.virtual_size_bytes = node.size_bytes();
        description.backing = backing_description.map(Box::new);
        Ok(Box::new((Node::Qcow2(node, backing), description)))
    }

    fn data_file(
        &mut self,
        image: &Unopened,
        namer: Namer<'_>,
        access: Access,
    ) -> Result<Option<Source>> {
        let name = image.data_file_name().map_err(|e| e.in_file(namer.path))?;
        let Some(name) = name else {
            return Ok(None);
        };
        let source = self.named_source(namer, name, NamedFor::Data, access)?;
        if access == Access::ReadWrite {
            disguise::refuse_image_as_data(&source, namer.path)?;
        }
        Ok(Some(source))
    }

    fn backing(
        &mut self,
        image: &Unopened,
        namer: Namer<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Opened>> {
        let Some(name) = image.backing_name() else {
            return Ok(None);
        };
        let format = match image.backing_format_name() {
            Some(name) => named_format(name).map_err(|e| e.in_file(namer.path))?,
            None => self.unnamed_format(name, warnings),
        };
        let source = if let Some(source) = self.remote_base(name)? {
            source
        } else {
            self.named_source(namer, name, NamedFor::Backing, Access::Read)?
        };
        self.check_base(image.expected_base(), &source, namer.path, warnings)?;
        self.layer(&source, format, ImageState::Current).map(Some)
    }

    /// Refuses an overlay whose backing file has changed, before anything is read from the backing
    /// file.
    fn check_base(
        &self,
        expected: Option<Identity>,
        base: &Source,
        overlay: &Path,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let changed = base.identity.zip(expected);
        let Some(change) = changed.and_then(|(now, then)| now.change_since(&then)) else {
            return Ok(());
        };
        self.refuse_stale((&base.path, overlay), &change, STALE_HINT, warnings)
    }

    /// Refuses an image whose backing file or parent has changed since the image was created, or
    /// only warns if the user wants that.
    fn refuse_stale(
        &self,
        (base, overlay): (&Path, &Path),
        change: &str,
        hint: &'static str,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let base = base.display();
        let what = format!("the overlay is stale: its backing file {base} has changed ({change})");
        if self.options.stale_base == StaleBase::Open {
            warnings.push(format!("{what}; its disk may be damaged"));
            return Ok(());
        }
        Err(Error::new(ErrorKind::Denied, what)
            .in_file(overlay)
            .with_hint(hint))
    }

    /// Returns the format for a backing file whose image does not name it: the format that the user
    /// gave, or raw. Probing would let a guest that writes a qcow2 header to its raw disk read
    /// other files.
    fn unnamed_format(&self, name: &[u8], warnings: &mut Vec<String>) -> Format {
        if let Some(format) = self.options.backing_format {
            return format;
        }
        let name = String::from_utf8_lossy(name);
        warnings.push(format!(
            "does not name the format of its backing file `{}`, which is read as raw; \
             if it is qcow2, append `,backing.format=qcow2` to the image's name",
            name.escape_debug()
        ));
        Format::Raw
    }
}

/// Returns the error for a file that an image in an OCI image names.
fn refused_in_oci(image: Namer<'_>, name: &[u8], named_for: NamedFor) -> Error {
    let reason = format!(
        "refusing to open {} `{}`: a disk in an OCI image must not refer to other files",
        named_for.noun(),
        named_for.shown(name)
    );
    Error::new(ErrorKind::Denied, reason)
        .in_file(image.path)
        .with_hint("build the OCI image again from a complete disk")
}

fn named_format(name: &str) -> Result<Format> {
    let format = name
        .parse()
        .ok()
        .filter(|format: &Format| format.can_back());
    format.ok_or_else(|| unsupported_base(name))
}

fn unsupported_base(name: &str) -> Error {
    let reason = format!(
        "unsupported format of the backing file: `{}`",
        name.escape_debug()
    );
    Error::unsupported(reason).with_hint(
        "supported: raw, qcow2, vdi, vhd (vpc), vhdx, vmdk, qed, parallels, qcow; convert others \
         with `qemu-img convert -O qcow2`",
    )
}

/// Refuses a snapshot of a format that has none.
fn refuse_snapshot(source: &Source, format: Format, state: ImageState<'_>) -> Result<()> {
    let ImageState::Snapshot(name) = state else {
        return Ok(());
    };
    let reason = format!(
        "no such snapshot: `{}`; {format} images have no snapshots",
        name.escape_debug()
    );
    Err(Error::invalid(reason).in_file(&source.path))
}

fn raw(source: &Source, state: ImageState<'_>) -> Result<Opened> {
    refuse_snapshot(source, Format::Raw, state)?;
    let mut description = describe(source, Format::Raw);
    let warning = disguise::vhd_warning(source).map_err(|e| e.in_file(&source.path))?;
    description.warnings.extend(warning);
    let writer = source
        .writable
        .clone()
        .map(|file| RawWriter::new(file, source.probed));
    let raw = Raw::new(Arc::clone(&source.device), source.host.clone(), writer);
    Ok(Box::new((Node::Raw(raw), description)))
}

fn describe(source: &Source, format: Format) -> Description {
    Description {
        path: source.path.clone(),
        file_id: source.id,
        version: source.version.clone(),
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
