//! The document of `diskfs inspect`.

use diskfs_disk::guest::{self, MountedFilesystem, System};
use diskfs_disk::{Disk, Result, Volume};
use diskfs_inspect::{Depth, Report};
use serde_json::{Value, json};

use super::value;

/// The facts about an operating system on a disk.
#[derive(Debug)]
pub struct InspectedSystem {
    /// The volume of its root filesystem.
    pub volume: String,
    /// The filesystems that it mounts.
    pub filesystems: Vec<MountedFilesystem>,
    /// The facts that its files contain.
    pub report: Report,
}

/// The choice whether a document names the source of each fact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sources {
    /// The facts alone.
    #[default]
    Omitted,
    /// The facts, each with its file and line.
    Included,
}

impl InspectedSystem {
    /// Inspects all systems of a disk.
    ///
    /// # Errors
    /// `NotFound` or `Unsupported` without a system, as [`guest::no_system`] says; the errors of
    /// opening filesystems.
    pub fn all(disk: &Disk, depth: Depth) -> Result<Vec<Self>> {
        let systems = guest::systems(disk)?;
        if systems.is_empty() {
            return Err(guest::no_system(disk));
        }
        let systems = systems.iter();
        systems.map(|system| Self::of(system, depth)).collect()
    }

    /// Inspects a system.
    ///
    /// # Errors
    /// The errors of opening its filesystem.
    pub fn of(system: &System, depth: Depth) -> Result<Self> {
        Ok(Self {
            volume: system.volume().name().to_owned(),
            filesystems: system.filesystems(),
            report: Report::of(&system.filesystem()?, depth),
        })
    }

    /// Inspects the files of one volume, whether they are a system or not.
    ///
    /// # Errors
    /// The errors of opening its filesystem.
    pub fn on_volume(volume: &Volume, depth: Depth) -> Result<Self> {
        let tree = volume.filesystem()?;
        Ok(Self {
            volume: volume.name().to_owned(),
            filesystems: vec![guest::mounted("/", volume, tree.statistics())],
            report: Report::of(&tree, depth),
        })
    }

    fn document(&self, sources: Sources) -> Value {
        let mut report = value(&self.report);
        if let Value::Object(fields) = &mut report {
            fields.insert("volume".to_owned(), self.volume.as_str().into());
            fields.insert("filesystems".to_owned(), value(&self.filesystems));
            if sources == Sources::Omitted {
                fields.remove("sources");
            }
        }
        report
    }
}

/// Returns the body of the document: the facts about all systems of an image.
pub fn inspected<'a>(
    systems: impl IntoIterator<Item = &'a InspectedSystem>,
    sources: Sources,
) -> Value {
    let systems = systems.into_iter().map(|system| system.document(sources));
    json!({ "systems": systems.collect::<Vec<_>>() })
}
