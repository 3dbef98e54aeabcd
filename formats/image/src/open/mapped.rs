//! Opening an image of a format that only maps, and the files that it names.

use std::path::Path;
use std::sync::Arc;

use diskfs_block::{BlockRead, Error, ErrorKind, Result};
use diskfs_vdi::DiskIds;

use super::{ImageState, Opened, Opener, describe, refuse_snapshot};
use crate::Format;
use crate::description::Description;
use crate::disguise;
use crate::gate::{Access, NamedFor, Namer};
use crate::layer::Layer;
use crate::mapped::{
    MapImage, Mapped, MappedParts, ParentFormat, ParentLink, open_compressed, refuse_other_formats,
};
use crate::node::Node;
use crate::probe::probe;
use crate::source::Source;

/// The difference between the stored and the actual time of a parent that is ignored: filesystems
/// of other systems store even seconds.
const TIME_LEEWAY_SECONDS: i64 = 2;

/// The hint for an image whose parent has changed.
const STALE_HINT: &str =
    "restore the backing file, or use --force-stale to open the overlay anyway";

impl Opener<'_> {
    /// Opens an image in steps, to use little stack for each image of a chain.
    pub(super) fn mapped(
        &mut self,
        source: &Source,
        format: Format,
        state: ImageState<'_>,
    ) -> Result<Opened> {
        refuse_snapshot(source, format, state)?;
        refuse_writing(source, format)?;
        let image = begin(source, format, self.options.disk.as_deref())?;
        let mut description = Box::new(describe(source, format));
        description
            .warnings
            .extend(disguise::warning(source, format));
        let layer = self.layers;
        let extents = self.extents(&image, source.namer())?;
        let warnings = &mut description.warnings;
        let parent = match &image.parent {
            Some(link) => Some(self.parent(link, source.namer(), warnings)?),
            None => None,
        };
        self.finish_mapped(source, (image, layer), extents, (description, parent))
    }

    /// Opens the files with parts of the disk.
    fn extents(&mut self, image: &MapImage, namer: Namer<'_>) -> Result<Vec<Arc<dyn BlockRead>>> {
        let mut files = Vec::new();
        for name in &image.extents {
            let file = self.open_named(namer, name, NamedFor::Extent, Access::Read)?;
            files.push(self.source(file, Access::Read)?.device);
        }
        Ok(files)
    }

    fn parent(
        &mut self,
        link: &ParentLink,
        namer: Namer<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Opened> {
        let named_for = match link.format {
            ParentFormat::Fixed(Format::Vdi) => NamedFor::ParentByIds,
            ParentFormat::Fixed(format) if format != Format::Raw => NamedFor::Parent,
            ParentFormat::Fixed(_) | ParentFormat::Unnamed => NamedFor::Backing,
        };
        let file = self.open_named(namer, &link.name, named_for, Access::Read)?;
        let format = match link.format {
            ParentFormat::Fixed(format) => format,
            ParentFormat::Unnamed => self.unnamed_format(&link.name, warnings),
        };
        let source = self.source(file, Access::Read)?;
        let change = match named_for {
            NamedFor::ParentByIds => new_contents(link, &source)?,
            _ => modification(link, &source),
        };
        if let Some(change) = change {
            self.refuse_stale((&source.path, namer.path), &change, STALE_HINT, warnings)?;
        }
        let opened = self.layer(&source, format, ImageState::Current)?;
        if let Some(change) = replacement(link, &opened.1) {
            self.refuse_stale((&source.path, namer.path), &change, STALE_HINT, warnings)?;
        }
        Ok(opened)
    }

    #[inline(never)]
    fn finish_mapped(
        &self,
        source: &Source,
        (image, layer): (Box<MapImage>, u32),
        extents: Vec<Arc<dyn BlockRead>>,
        (mut description, parent): (Box<Description>, Option<Opened>),
    ) -> Result<Opened> {
        let (parent, parent_description) = parent.map(|parent| *parent).unzip();
        let parent = parent.map(Arc::new);
        let mut image = *image;
        let map = image.map(&extents).map_err(|e| e.in_file(&source.path))?;
        description.virtual_size_bytes = map.size_bytes();
        description.mapped = Some(image.details);
        description.warnings.extend(image.warnings);
        description.backing = parent_description.map(Box::new);
        let mapped = Mapped::new(MappedParts {
            path: source.path.clone(),
            map,
            files: std::iter::once(image.file).chain(extents).collect(),
            rules: image.rules,
            tables: image.tables,
            parent: parent.clone().map(|parent| -> Arc<dyn Layer> { parent }),
            units: Arc::clone(&self.units),
            layer,
        });
        let node = Node::Mapped(mapped, parent);
        if description.format == Some(Format::Compressed) {
            refuse_other_formats(probe(&node)).map_err(|e| e.in_file(&source.path))?;
        }
        Ok(Box::new((node, *description)))
    }
}

#[inline(never)]
fn begin(source: &Source, format: Format, disk: Option<&str>) -> Result<Box<MapImage>> {
    let device = Arc::clone(&source.device);
    let image = match format {
        Format::Compressed => open_compressed(device, &source.path),
        _ => MapImage::open(format, device, disk),
    };
    let image = image.map_err(|e| e.in_file(&source.path))?;
    if source.probed && image.names_files() {
        disguise::refuse(format, &source.path)?;
    }
    Ok(Box::new(image))
}

/// Refuses to write to an image of a format that is only read.
fn refuse_writing(source: &Source, format: Format) -> Result<()> {
    if source.writable.is_none() {
        return Ok(());
    }
    let reason = format!("cannot write to a {format} image: the format is only read");
    Err(Error::new(ErrorKind::ReadOnly, reason)
        .in_file(&source.path)
        .with_hint(write_hint(format, &source.path)))
}

fn write_hint(format: Format, path: &Path) -> String {
    let convert = "copy it with `diskfs convert IMG new.qcow2`";
    if !format.can_back() {
        return convert.to_owned();
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!(
        "write to an overlay (--overlay FILE, or `diskfs create -b {} -F {format} FILE`), or \
         {convert}",
        name.escape_debug()
    )
}

/// Describes the change of a parent by its modification time, if the image stores it.
fn modification(link: &ParentLink, parent: &Source) -> Option<String> {
    let (then, now) = link.modified.zip(parent.identity)?;
    let latest = then.saturating_add(TIME_LEEWAY_SECONDS);
    (now.seconds > latest).then(|| "it was modified later".to_owned())
}

/// Describes the change of the parent of a VDI by the identifier of its contents.
fn new_contents(link: &ParentLink, parent: &Source) -> Result<Option<String>> {
    let then = DiskIds::from_bytes(&link.name);
    let now = DiskIds::read(parent.device.as_ref()).map_err(|e| e.in_file(&parent.path))?;
    let change = then
        .zip(now)
        .filter(|(then, now)| then.contents_id != now.contents_id);
    Ok(change.map(|(then, now)| {
        let (then, now) = (then.contents_id, now.contents_id);
        format!("its modification UUID is {now} and was {then}")
    }))
}

/// Describes the change of a parent by its identifier, if the image stores it.
fn replacement(link: &ParentLink, parent: &Description) -> Option<String> {
    let id = parent.mapped.as_ref()?.id.as_ref()?;
    let then = link.ids.first()?;
    (!link.ids.contains(id)).then(|| format!("its identifier is {id} and was {then}"))
}
