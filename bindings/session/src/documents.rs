//! The documents about a disk, which are those of the command line's `--json`.

use diskfs::document::{InspectedSystem, Sources, VolumeReport, document, info, inspected};
use diskfs::inspect::Depth;
use diskfs::{Error, Result};
use serde_json::Value;

use crate::Session;

impl Session {
    /// Returns the document of `diskfs info`: the image, its volumes and filesystems. What could
    /// not be read is a warning in it.
    ///
    /// # Errors
    /// `Corrupt` for an invalid partition table; `Io`.
    pub fn info(&self) -> Result<Value> {
        self.with_disk(|open| {
            open.trees().sync()?;
            let mut failed = Vec::new();
            let mut note = |error: &Error| failed.push(error.to_string().into());
            let volumes = open.disk.volumes()?.iter().cloned();
            let volumes: Vec<_> = volumes
                .map(|volume| VolumeReport::of(volume, &mut note))
                .collect();
            let mut body = info(&open.disk, &volumes);
            if let Some(Value::Array(warnings)) = body.get_mut("warnings") {
                warnings.append(&mut failed);
            }
            Ok(Value::Object(document("info", body)))
        })
    }

    /// Returns the document of `diskfs inspect`: the facts about the operating systems. Changes so
    /// far are synced first.
    ///
    /// # Errors
    /// `NotFound` without an operating system; the errors of opening filesystems. Files that can't
    /// be read are problems in the document.
    pub fn inspect(&self, depth: Depth, sources: Sources) -> Result<Value> {
        self.with_disk(|open| {
            open.trees().sync()?;
            let systems = InspectedSystem::all(&open.disk, depth)?;
            let body = inspected(&systems, sources);
            Ok(Value::Object(document("inspect", body)))
        })
    }
}
