//! The layout of a new volume: descriptors, path tables, directories, files, padding.

use crate::error::Result;
use crate::volume_descriptor::FIRST_SECTOR;

use super::date::Date;
use super::descriptor::{Descriptor, terminator};
use super::directory::{self, Places};
use super::identifier::Names;
use super::path_table::{Order, PathRecord, table};
use super::record::{Extent, Record};
use super::tree::{Child, Tree};
use super::{BLOCK_BYTES, NewFile, NewVolume, invalid};

/// The number of descriptors: primary, Joliet, terminator.
const DESCRIPTORS: u32 = 3;

/// The places of one tree of the volume.
#[derive(Debug)]
struct TreePlaces {
    names: Names,
    path_tables: [Extent; 2],
    directories: Vec<Extent>,
    /// The numbers of the directories in the order of the path table.
    order: Vec<usize>,
}

/// The places of everything in the volume.
#[derive(Debug)]
pub(super) struct Layout {
    date: Date,
    trees: [TreePlaces; 2],
    files: Vec<Extent>,
    blocks: u32,
}

/// The places of one tree, and of the files that both trees share.
struct Shared<'a> {
    directories: &'a [Extent],
    files: &'a [Extent],
}

impl Places for Shared<'_> {
    fn of(&self, child: Child) -> Extent {
        let place = match child {
            Child::Directory(number) => self.directories.get(number),
            Child::File(number) => self.files.get(number),
        };
        place.copied().unwrap_or_default()
    }
}

/// The next free block.
struct Cursor(u32);

impl Cursor {
    fn take(&mut self, len_bytes: usize) -> Result<Extent> {
        let too_large = || invalid("the volume is too large");
        let blocks = u32::try_from(len_bytes.div_ceil(BLOCK_BYTES)).map_err(|_| too_large())?;
        let block = self.0;
        self.0 = block.checked_add(blocks).ok_or_else(too_large)?;
        Ok(Extent {
            block,
            len_bytes: u32::try_from(len_bytes).map_err(|_| too_large())?,
        })
    }
}

impl Layout {
    /// Places everything in the volume.
    pub(super) fn of(tree: &Tree, volume: &NewVolume) -> Result<Self> {
        let date = Date::of(volume.time_seconds)?;
        let first = u32::try_from(FIRST_SECTOR).unwrap_or_default();
        let mut cursor = Cursor(first.saturating_add(DESCRIPTORS));
        let plain = TreePlaces::of(tree, Names::Plain, date, &mut cursor)?;
        let joliet = TreePlaces::of(tree, Names::Joliet, date, &mut cursor)?;
        let place = |file: &NewFile| cursor.take(file.contents.len());
        let files = volume.files.iter().map(place).collect::<Result<_>>()?;
        let used = index(cursor.0).saturating_mul(BLOCK_BYTES);
        let align = volume.align_bytes.max(BLOCK_BYTES);
        let too_large = || invalid("the volume is too large");
        let bytes = used.checked_next_multiple_of(align).ok_or_else(too_large)?;
        let blocks = bytes.div_ceil(BLOCK_BYTES);
        Ok(Self {
            date,
            trees: [plain, joliet],
            files,
            blocks: u32::try_from(blocks).map_err(|_| too_large())?,
        })
    }

    /// Returns the image.
    pub(super) fn image(&self, tree: &Tree, volume: &NewVolume) -> Result<Vec<u8>> {
        let mut image = Image(vec![0; index(self.blocks).saturating_mul(BLOCK_BYTES)]);
        let mut descriptor_block = u32::try_from(FIRST_SECTOR).unwrap_or_default();
        for places in &self.trees {
            let bytes = self.descriptor(places, volume);
            image.put(descriptor_block, &bytes)?;
            descriptor_block = descriptor_block.saturating_add(1);
            let records = places.path_records(tree);
            for (extent, order) in places.path_tables.iter().zip([Order::Little, Order::Big]) {
                image.put(extent.block, &table(&records, order))?;
            }
            let shared = Shared {
                directories: &places.directories,
                files: &self.files,
            };
            for (number, extent) in places.directories.iter().enumerate() {
                let bytes = directory::contents(tree, number, places.names, self.date, &shared);
                image.put(extent.block, &bytes)?;
            }
        }
        image.put(descriptor_block, &terminator())?;
        for (file, extent) in volume.files.iter().zip(&self.files) {
            image.put(extent.block, &file.contents)?;
        }
        Ok(image.0)
    }

    fn descriptor(&self, places: &TreePlaces, volume: &NewVolume) -> Vec<u8> {
        let root = Record {
            identifier: &[0],
            extent: places.directories.first().copied().unwrap_or_default(),
            time: self.date.short,
            is_directory: true,
            system_use: &[],
        };
        let [little, big] = places.path_tables;
        let descriptor = Descriptor {
            names: places.names,
            identifier: &volume.identifier,
            blocks: self.blocks,
            path_table_bytes: little.len_bytes,
            path_tables: [little.block, big.block],
            root: &root.bytes(),
            date: self.date,
        };
        descriptor.bytes()
    }
}

impl TreePlaces {
    fn of(tree: &Tree, names: Names, date: Date, cursor: &mut Cursor) -> Result<Self> {
        let mut places = Self {
            names,
            path_tables: <[Extent; 2]>::default(),
            directories: vec![Extent::default(); tree.directories.len()],
            order: path_order(tree, names),
        };
        // The lengths of tables and directories don't depend on the places in them.
        let len_bytes = table(&places.path_records(tree), Order::Little).len();
        for extent in &mut places.path_tables {
            *extent = cursor.take(len_bytes)?;
        }
        let nowhere = Shared {
            directories: &[],
            files: &[],
        };
        for number in 0..tree.directories.len() {
            let len_bytes = directory::contents(tree, number, names, date, &nowhere).len();
            let extent = cursor.take(len_bytes)?;
            if let Some(place) = places.directories.get_mut(number) {
                *place = extent;
            }
        }
        Ok(places)
    }

    fn path_records(&self, tree: &Tree) -> Vec<PathRecord> {
        let position = |number: usize| {
            let found = self.order.iter().position(|other| *other == number);
            let position = found.unwrap_or_default().saturating_add(1);
            u16::try_from(position).unwrap_or(u16::MAX)
        };
        let record = |number: &usize| {
            let directory = tree.directories.get(*number)?;
            Some(PathRecord {
                identifier: path_identifier(tree, *number, self.names),
                block: self.directories.get(*number)?.block,
                parent: position(directory.parent),
            })
        };
        self.order.iter().filter_map(record).collect()
    }
}

/// Returns the numbers of all directories by level, and in a level by parent and identifier (6.9.1).
fn path_order(tree: &Tree, names: Names) -> Vec<usize> {
    let mut order = vec![0];
    let mut at = 0;
    while let Some(directory) = order
        .get(at)
        .and_then(|number| tree.directories.get(*number))
    {
        let entries = names.entries(directory);
        order.extend(entries.values().filter_map(|(_, child)| match child {
            Child::Directory(number) => Some(*number),
            Child::File(_) => None,
        }));
        at = at.saturating_add(1);
    }
    order
}

/// Returns the identifier of a directory; that of the root is a zero.
fn path_identifier(tree: &Tree, number: usize, names: Names) -> Vec<u8> {
    let parent = tree
        .directories
        .get(number)
        .map(|directory| directory.parent);
    let parent = parent.filter(|_| number != 0);
    let parent = parent.and_then(|parent| tree.directories.get(parent));
    let entries = parent.map(|parent| names.entries(parent));
    let is_own = |child: &Child| *child == Child::Directory(number);
    let own = entries.and_then(|entries| {
        let mut entries = entries.into_iter();
        entries.find(|(_, (_, child))| is_own(child))
    });
    own.map_or_else(|| vec![0], |(identifier, _)| identifier)
}

/// The image in memory.
struct Image(Vec<u8>);

impl Image {
    /// Writes bytes at the start of a block.
    fn put(&mut self, block: u32, bytes: &[u8]) -> Result<()> {
        let start = index(block).saturating_mul(BLOCK_BYTES);
        let end = start.saturating_add(bytes.len());
        let place = self.0.get_mut(start..end);
        let place = place.ok_or_else(|| invalid("the volume is too large"))?;
        place.copy_from_slice(bytes);
        Ok(())
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
