//! The building of an image.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs_archive::tree::Written;
use diskfs_deploy::{Deployment, StepReport};
use diskfs_disk::{
    CancellationToken, Commits, Disk, Error, ErrorKind, Fallback, Format, Keys, Result,
    RootReserve, WriteOptions,
};
use diskfs_image::create::{Existing, NewImage, NewQcow2};
use diskfs_luks::{FormatOptions, Key, NewKdf, Secret};
use diskfs_volume::edit::NewTable;
use diskfs_volume::lvm::{MetadataOrigin, NewGroup, NewVolume};

use crate::filesystem::{FormatByTool, format};
use crate::ids::{expand, fill_random};
use crate::new_image::NewImageFile;
use crate::plan::{ImageFormat, PbkdfPlan};
use crate::prepared::Prepared;
use crate::problem::at;
use crate::secrets::{self, VolumeSecrets};
use crate::slot::{Contents, LuksSlot, LvmSlot, Slot};

/// The options for building an image.
#[derive(Clone)]
pub struct BuildOptions<'a> {
    /// The treatment of an existing file at the path of the image.
    pub existing: Existing,
    /// The directory at which relative paths of key files start.
    pub directory: PathBuf,
    /// Passphrases by the name of the encrypted volume, or for `all`. They take precedence over
    /// those of the plan.
    pub keys: Vec<(String, Secret)>,
    /// The creator of XFS and btrfs.
    pub format_by_tool: Option<FormatByTool<'a>>,
    /// The driver for filling XFS and btrfs.
    pub fallback: Option<Arc<dyn Fallback>>,
    /// The token that stops the building.
    pub cancellation: CancellationToken,
}

impl std::fmt::Debug for BuildOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BuildOptions")
            .field("existing", &self.existing)
            .field("directory", &self.directory)
            .field("fallback", &self.fallback)
            .finish_non_exhaustive()
    }
}

impl Default for BuildOptions<'_> {
    /// Returns options that keep an existing file, without keys and without a microVM.
    fn default() -> Self {
        Self {
            existing: Existing::Keep,
            directory: PathBuf::new(),
            keys: Vec::new(),
            format_by_tool: None,
            fallback: None,
            cancellation: CancellationToken::new(),
        }
    }
}

/// The report of a complete image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Built {
    /// The files and bytes of the sources that were written.
    pub written: Written,
    /// The reports of the steps of the deploy plan.
    pub steps: Vec<StepReport>,
}

type Progress<'p> = &'p mut dyn FnMut(u64) -> ControlFlow<()>;

impl Prepared {
    /// Builds the image. It appears at `path` when it is complete, and not at all after an error.
    /// Calls `progress` with the number of bytes of the sources of each step.
    ///
    /// # Errors
    /// `Exists` if there is a file at `path` that must be kept; `NoSpace` if the files don't fit;
    /// `Unsupported` for XFS and btrfs without a microVM; `Cancelled`; the errors of reading the
    /// sources and of writing the image.
    pub fn build(
        &self,
        path: &Path,
        options: &BuildOptions<'_>,
        progress: Progress<'_>,
    ) -> Result<Built> {
        let secrets = secrets::load(&self.slots, &options.keys, &options.directory)?;
        let format = self.format(path);
        if self.plan.disk.compress && format == ImageFormat::Raw {
            let error = crate::problem::invalid("disk.compress", "a raw image can't be compressed");
            return Err(error);
        }
        let image = match format {
            ImageFormat::Raw => NewImage::Raw,
            ImageFormat::Qcow2 => NewImage::Qcow2(Box::<NewQcow2>::default()),
        };
        let file = NewImageFile::create(path, image, self.disk.disk_bytes, options.existing)?;
        let mut maker = Maker {
            prepared: self,
            options,
            file: &file,
            format,
            secrets: &secrets,
            keys: Keys::default(),
        };
        let built = maker.make(progress)?;
        let file = if self.plan.disk.compress {
            file.compress(&options.cancellation)?
        } else {
            file
        };
        file.finish()?;
        Ok(built)
    }

    /// Returns the format of the image: that of the plan, else by the name.
    fn format(&self, path: &Path) -> ImageFormat {
        let is_qcow2 = path
            .extension()
            .is_some_and(|extension| extension == "qcow2");
        let by_name = if is_qcow2 {
            ImageFormat::Qcow2
        } else {
            ImageFormat::Raw
        };
        self.plan.disk.format.unwrap_or(by_name)
    }

    fn write_options(&self, commits: Commits) -> WriteOptions {
        WriteOptions {
            commits,
            root_reserve: RootReserve::Use,
            fixed_time: self.plan.time.map(|_| self.time),
            write_behind: false,
        }
    }
}

/// The maker of one image.
struct Maker<'a> {
    prepared: &'a Prepared,
    options: &'a BuildOptions<'a>,
    file: &'a NewImageFile,
    format: ImageFormat,
    secrets: &'a BTreeMap<String, VolumeSecrets>,
    /// The keys of the encrypted volumes that exist.
    keys: Keys,
}

impl Maker<'_> {
    fn make(&mut self, progress: Progress<'_>) -> Result<Built> {
        self.make_table()?;
        for slot in &self.prepared.slots {
            self.make_contents(slot)?;
            diskfs_vfs::check_cancelled(progress(0))?;
        }
        let disk = self.open()?;
        let options = WriteOptions {
            // The order in which threads write decides where a qcow2 has its clusters, and the same
            // plan must make the same bytes.
            write_behind: self.format == ImageFormat::Raw,
            ..self.prepared.write_options(Commits::OnSync)
        };
        let written = self.prepared.fill(&disk, &options, progress)?;
        disk.close()?;
        Ok(Built {
            written,
            steps: self.deploy(progress)?,
        })
    }

    /// Opens the image as far as it exists.
    fn open(&self) -> Result<Disk> {
        let mut options = Disk::options()
            .read_only(false)
            .format(match self.format {
                ImageFormat::Raw => Format::Raw,
                ImageFormat::Qcow2 => Format::Qcow2,
            })
            .keys(self.keys.clone())
            .files(self.file.opener())
            .cancellation(self.options.cancellation.clone());
        if let Some(fallback) = &self.options.fallback {
            options = options.fallback(Arc::clone(fallback));
        }
        options.open(self.file.path())
    }

    fn make_table(&self) -> Result<()> {
        let table = &self.prepared.table;
        let Some(new) = table.new else {
            return Ok(());
        };
        let entries = table.entries(&self.prepared.disk, &self.prepared.slots);
        let sector_size = Some(table.sector_size);
        let mut disk = self.open()?;
        disk.create_partition_table(new, Existing::Keep, sector_size)?;
        let sector_size = sector_size.filter(|_| matches!(new, NewTable::Mbr { .. }));
        disk.edit_partitions(sector_size, |editor| {
            entries
                .iter()
                .try_for_each(|entry| editor.add(entry).map(drop))
        })?;
        disk.close()
    }

    /// Makes the contents of a slot, and everything in them. The disk is opened anew for each
    /// level, because its volumes are found when it is opened.
    fn make_contents(&mut self, slot: &Slot) -> Result<()> {
        match &slot.contents {
            Contents::Empty => Ok(()),
            Contents::Filesystem(filesystem) => {
                let disk = self.open()?;
                let details = self.prepared.format_details(slot);
                let tool = self.options.format_by_tool;
                format(
                    filesystem,
                    &slot.key,
                    &disk.volume(&slot.volume)?,
                    details,
                    tool,
                )?;
                disk.close()
            }
            Contents::Luks(luks) => {
                self.make_luks(slot, luks)
                    .map_err(|error| at(&slot.key, error))?;
                self.make_contents(&luks.inner)
            }
            Contents::Lvm(lvm) => {
                self.make_group(slot, lvm)
                    .map_err(|error| at(&slot.key, error))?;
                let mut volumes = lvm.volumes.iter();
                volumes.try_for_each(|(_, _, slot)| self.make_contents(slot))
            }
        }
    }

    fn make_luks(&mut self, slot: &Slot, luks: &LuksSlot) -> Result<()> {
        let reason = "the keys were not loaded";
        let secrets = self.secrets.get(&slot.key);
        let secrets = secrets.ok_or_else(|| Error::new(ErrorKind::NotFound, reason))?;
        let options = FormatOptions {
            uuid: luks.uuid.to_string(),
            label: luks.plan.label.clone(),
            sector_bytes: luks.plan.sector_size,
            kdf: luks.plan.pbkdf.map_or_else(NewKdf::default, PbkdfPlan::kdf),
            volume_key: secrets.volume_key.clone(),
        };
        let mut count = 0_u64;
        let seed = self.prepared.plan.seed.as_deref();
        let mut random = |buffer: &mut [u8]| {
            count += 1;
            match (seed, &secrets.volume_key) {
                (Some(seed), Some(key)) => {
                    let count = count.to_le_bytes();
                    let parts = [key.as_bytes(), seed.as_bytes(), slot.key.as_bytes(), &count];
                    expand(&parts, buffer);
                    Ok(())
                }
                _ => fill_random(buffer).map_err(|e| std::io::Error::from(e).into()),
            }
        };
        let disk = self.open()?;
        let device = disk.volume(&slot.volume)?.writable_device()?;
        let key = diskfs_luks::format(&*device, &secrets.passphrase, &options, &mut random)?;
        drop(device);
        let key = Key::Volume(Secret::new(key.as_bytes().to_vec()));
        self.keys = std::mem::take(&mut self.keys).with_volume(slot.volume.clone(), key);
        disk.close()
    }

    fn make_group(&self, slot: &Slot, lvm: &LvmSlot) -> Result<()> {
        let seconds = u64::try_from(self.prepared.time.seconds).unwrap_or(0);
        let new = NewGroup {
            name: lvm.group.clone(),
            id: lvm.group_id,
            physical_volumes: vec![lvm.physical_id],
            extent_bytes: NewGroup::DEFAULT_EXTENT_BYTES,
            volumes: lvm
                .volumes
                .iter()
                .map(|(id, name, slot)| NewVolume {
                    name: name.clone(),
                    id: *id,
                    size: diskfs_volume::edit::NewSize::Bytes(slot.bytes),
                })
                .collect(),
            origin: MetadataOrigin {
                host: "diskfs".to_owned(),
                time_seconds: seconds,
                description: "created by diskfs build".to_owned(),
            },
        };
        let disk = self.open()?;
        let device = disk.volume(&slot.volume)?.writable_device()?;
        new.create(&[device])?;
        disk.close()
    }

    fn deploy(&self, progress: Progress<'_>) -> Result<Vec<StepReport>> {
        let steps = &self.prepared.plan.deploy;
        if steps.is_empty() {
            return Ok(Vec::new());
        }
        let plan = diskfs_deploy::Plan {
            steps: steps.clone(),
        };
        let disk = self.open()?;
        let guest = self.prepared.readable_tree(&disk)?;
        let deployment =
            Deployment::prepare_on(&disk, guest, &plan).map_err(|e| at("deploy", e))?;
        let changes = deployment.changes()?;
        deployment.check_room(&changes)?;
        let (reports, volumes) = deployment.into_parts();
        if !changes.is_empty() || !volumes.keeps_filesystems() {
            let options = self.prepared.write_options(Commits::AtClose);
            let target = self.prepared.writable_tree(&disk, &options)?;
            diskfs_deploy::apply(&changes, &volumes, &target, &mut |_, _| progress(0))?;
        }
        volumes.apply()?;
        disk.close()?;
        Ok(reports)
    }
}

impl PbkdfPlan {
    fn kdf(self) -> NewKdf {
        match self {
            Self::Argon2id {
                passes,
                memory,
                lanes,
            } => NewKdf::Argon2id {
                passes,
                memory_kib: memory,
                lanes,
            },
            Self::Pbkdf2 { iterations } => NewKdf::Pbkdf2 { iterations },
        }
    }
}
