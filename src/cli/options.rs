//! The options that several commands share: the image, how to open it, and which of its volumes to
//! use.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
#[cfg(feature = "microvm")]
use clap::ValueEnum;

use diskfs::block::BlockRead;
use diskfs::build::NewImageFile;
use diskfs::guest;
use diskfs::image::ProbedFormats;
use diskfs::{
    CodePage, Disk, DiskOptions, Error, ErrorKind, Filesystem, Format, Gate, Keys, OpenOptions,
    ResizeVolume, Result, Share, StaleBase, WritableFilesystem, WriteOptions,
};

use super::bytes;
use super::config::Config;
use super::key::KeyArgs;
#[cfg(feature = "nbd")]
use super::remote;
use super::sandbox;
#[cfg(feature = "microvm")]
use super::vm::VmArgs;

/// The options that select a filesystem of an image; every command that reads files has them.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SourceArgs {
    #[command(flatten)]
    pub(crate) image: ImageArgs,

    /// Add another disk of the same machine; its partitions are named disk2/p1, ...; can be
    /// repeated
    #[arg(long, value_name = "IMG", help_heading = "Image options")]
    pub(crate) add: Vec<OsString>,

    #[command(flatten)]
    pub(crate) volume: VolumeArgs,

    /// Open filesystems only with the drivers of diskfs (native), or all in a microVM (vm) [default:
    /// `$DISKFS_DRIVER`, or native if diskfs supports the filesystem, otherwise vm]
    #[cfg(feature = "microvm")]
    #[arg(
        long,
        value_name = "DRIVER",
        hide_possible_values = true,
        help_heading = "MicroVM options"
    )]
    pub(crate) driver: Option<DriverKind>,

    #[cfg(feature = "microvm")]
    #[command(flatten)]
    pub(crate) vm: VmArgs,
}

/// The environment variable for the drivers, which the command line overrides.
#[cfg(feature = "microvm")]
const DRIVER_VARIABLE: &str = "DISKFS_DRIVER";

/// The drivers that may open filesystems.
#[cfg(feature = "microvm")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DriverKind {
    /// The drivers of diskfs
    Native,
    /// The kernel of a microVM
    Vm,
}

impl SourceArgs {
    /// Returns the options for an image as a whole.
    pub(crate) fn of_image(image: &ImageArgs) -> Self {
        Self {
            image: image.clone(),
            ..Self::default()
        }
    }

    /// Returns the only drivers to use, if the options or the environment restrict them.
    #[cfg(feature = "microvm")]
    fn driver(&self) -> Result<Option<DriverKind>> {
        let value = std::env::var(DRIVER_VARIABLE).unwrap_or_default();
        if self.driver.is_some() || value.is_empty() {
            return Ok(self.driver);
        }
        let parsed = DriverKind::from_str(&value, false);
        parsed.map(Some).map_err(|_| {
            let reason = format!(
                "{DRIVER_VARIABLE}: unknown driver `{}`; expected native or vm",
                value.escape_debug()
            );
            Error::new(ErrorKind::Invalid, reason)
        })
    }

    /// Opens `image`, which may carry options in QEMU's syntax, together with the machine's other
    /// disks.
    pub(crate) fn open(&self, image: &OsStr) -> Result<Disk> {
        self.open_with(image, |options| options)
    }

    /// Opens the disk of the backing file of `disk`, which was opened with these options.
    pub(crate) fn open_backing(&self, disk: &Disk) -> Result<Disk> {
        let backing = disk.backing().ok_or_else(|| {
            let reason = "not an overlay: the image has no backing file";
            Error::new(ErrorKind::Invalid, reason)
                .in_file(disk.path())
                .with_hint("name the image to compare with, as in `diskfs diff A B`")
        })?;
        if !self.add.is_empty() {
            let reason = "--add cannot be combined with --backing: the other disks have no backing file to compare";
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
        Ok(backing)
    }

    /// Opens `image` for writing, or `overlay` on top of it if one is given.
    pub(crate) fn open_writable(&self, image: &OsStr, overlay: Option<&Path>) -> Result<Disk> {
        self.open_with(image, |options| match overlay {
            Some(overlay) => options.overlay(overlay),
            None => options.read_only(false),
        })
    }

    /// Opens a new image for writing, before it has its name.
    pub(crate) fn open_new(&self, image: &NewImageFile) -> Result<Disk> {
        diskfs_sandbox::act_if_planted();
        let path = image.path();
        let options = self.disk_options()?.files(image.opener());
        let options = self.with_fallback(options, path.as_os_str())?;
        options.read_only(false).open(path)
    }

    /// Opens `image` with the options that `access` returns.
    pub(crate) fn open_with(
        &self,
        image: &OsStr,
        access: impl Fn(DiskOptions) -> DiskOptions,
    ) -> Result<Disk> {
        diskfs_sandbox::act_if_planted();
        access(self.options_for(image)?).open_spec(image)
    }

    /// Returns the options for opening `image`, with the fallback.
    pub(crate) fn options_for(&self, image: &OsStr) -> Result<DiskOptions> {
        self.with_fallback(self.disk_options()?, image)
    }

    #[cfg_attr(
        not(feature = "microvm"),
        expect(
            unused_variables,
            clippy::unused_self,
            clippy::unnecessary_wraps,
            reason = "the fallback looks into the image"
        )
    )]
    fn with_fallback(&self, options: DiskOptions, image: &OsStr) -> Result<DiskOptions> {
        #[cfg(feature = "microvm")]
        let options = {
            let options = match self.driver()? {
                Some(DriverKind::Native) => return Ok(options),
                Some(DriverKind::Vm) => options.always_fallback(),
                None => options,
            };
            if self.vm.lacks_kernel() {
                // An image can be open for writing only once, so this first disk is closed before
                // the second open.
                let looked_into = options.clone().fallback(self.vm.fallback()?);
                self.vm
                    .take_kernel(&looked_into.open_spec(image)?, self.volume.os)?;
            }
            options.fallback(sandbox::fallback(&self.vm)?)
        };
        Ok(options)
    }

    /// Returns the library's options, without the fallback driver. Asks for the keys that the user
    /// must enter.
    pub(crate) fn disk_options(&self) -> Result<DiskOptions> {
        let keys = self.image.keys.load()?;
        let mut options = Disk::options().image(self.image.options_with(keys.as_ref())?);
        if let Some(keys) = keys {
            options = options.keys(keys);
        }
        if let Some(code_page) = self.volume.code_page {
            options = options.code_page(code_page);
        }
        self.add.iter().try_fold(options, DiskOptions::add_spec)
    }
}

/// The options that say how to open the image.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Image options")]
pub(crate) struct ImageArgs {
    /// The format of the image, instead of detecting it (raw, qcow2, vmdk, vdi, vhd, vhdx, qed,
    /// parallels, qcow, dmg, ova, compressed)
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<Format>,

    /// The formats that probing recognises
    #[arg(skip)]
    pub(crate) probed: ProbedFormats,

    /// Read an internal snapshot, by name or ID, instead of the current state
    #[arg(long, value_name = "NAME")]
    pub(crate) snapshot: Option<String>,

    /// Read the image even if a running VM is using it; the data may be inconsistent
    #[arg(long)]
    pub(crate) force_share: bool,

    /// Let the image refer to files below DIR: a backing file, or a data file, which is also
    /// written to; can be repeated
    #[arg(long, value_name = "DIR")]
    pub(crate) allow_backing: Vec<PathBuf>,

    /// Let the image use FILE as its external data file, for reading and writing; can be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) data_file: Vec<PathBuf>,

    /// Do not open any other file that the image refers to
    #[arg(long, conflicts_with_all = ["allow_backing", "data_file"])]
    pub(crate) no_backing: bool,

    /// Open an overlay even if its backing file has changed since it was created; its disk may be
    /// damaged
    #[arg(long)]
    pub(crate) force_stale: bool,

    #[command(flatten)]
    pub(crate) keys: KeyArgs,
}

impl ImageArgs {
    /// Returns the library's options. Asks for the keys that the user must enter.
    pub(crate) fn open_options(&self) -> Result<OpenOptions> {
        let keys = self.keys.load()?;
        self.options_with(keys.as_ref())
    }

    fn options_with(&self, keys: Option<&Keys>) -> Result<OpenOptions> {
        Ok(OpenOptions {
            format: self.format,
            probed: self.probed,
            snapshot: self.snapshot.clone(),
            gate: self.gate()?,
            files: sandbox::opener(),
            #[cfg(feature = "nbd")]
            remote: Some(remote::images()),
            share: if self.force_share {
                Share::Force
            } else {
                Share::default()
            },
            stale_base: if self.force_stale {
                StaleBase::Open
            } else {
                StaleBase::default()
            },
            unlock: keys.map(|keys| Arc::new(keys.clone()) as _),
            ..Default::default()
        })
    }

    /// Returns the files that the image may refer to: those that the configuration allows for all
    /// images, and those that the command line allows for this one.
    fn gate(&self) -> Result<Gate> {
        if self.no_backing {
            return Ok(Gate::closed());
        }
        let gate = configured_and(&self.allow_backing)?;
        Ok(self.data_file.iter().fold(gate, Gate::allow_data_file))
    }
}

/// Returns the files that images may refer to according to the configuration.
pub(crate) fn configured() -> Result<Gate> {
    Ok(Gate::from(Config::load()?.backing))
}

/// Returns the files to which images may refer according to the configuration, and those below
/// `dirs`.
pub(crate) fn configured_and(dirs: &[PathBuf]) -> Result<Gate> {
    Ok(dirs.iter().fold(configured()?, Gate::allow))
}

/// The options that select a volume of the image.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Volume options")]
pub(crate) struct VolumeArgs {
    /// Select the volume by name (p1, vg0/root, md0, disk), UUID, label, PARTUUID or PARTLABEL
    #[arg(long, value_name = "NAME", group = "which")]
    pub(crate) volume: Option<String>,

    /// Select the partition by number; short for --volume pN
    #[arg(short, long, value_name = "N", group = "which")]
    pub(crate) partition: Option<u32>,

    /// Select the filesystem that begins at this byte of the disk (suffixes k, M, G, T; s for
    /// 512-byte sectors)
    #[arg(long, value_name = "BYTES", group = "which", value_parser = parse_offset)]
    pub(crate) offset: Option<u64>,

    /// Select the operating system by number, if there are several (see `diskfs mount --explain`)
    #[arg(long, value_name = "N", group = "which")]
    pub(crate) os: Option<usize>,

    /// The code page of short names on FAT, such as 850 or 866 [default: the one in fstab, else
    /// 437]
    #[arg(long, value_name = "NUMBER", value_parser = code_page)]
    pub(crate) code_page: Option<CodePage>,
}

impl VolumeArgs {
    /// Returns true if an option selects a volume or a system.
    pub(crate) fn names_one(&self) -> bool {
        let named = self.volume.is_some() || self.partition.is_some() || self.offset.is_some();
        named || self.os.is_some()
    }

    /// Returns the selected volume, or `None` if no option selects one.
    pub(crate) fn volume(&self, disk: &Disk) -> Result<Option<diskfs::Volume>> {
        match (&self.volume, self.partition, self.offset) {
            (Some(name), _, _) => disk.volume(name).map(Some),
            (None, Some(number), _) => disk.volume(&format!("p{number}")).map(Some),
            (None, None, Some(offset)) => disk.volume_at(offset).map(Some),
            (None, None, None) => Ok(None),
        }
    }

    /// Returns the selected volume like [`volume`](Self::volume), and refuses `--os`: for commands
    /// that work on volumes, not on the files of a system.
    pub(crate) fn volume_alone(&self, disk: &Disk) -> Result<Option<diskfs::Volume>> {
        if self.os.is_some() {
            return Err(os_and_volume());
        }
        self.volume(disk)
    }

    /// Returns the selected volume as a device, or the whole disk if no option selects one.
    pub(crate) fn device(&self, disk: &Disk) -> Result<Arc<dyn BlockRead>> {
        match self.volume_alone(disk)? {
            Some(volume) => volume.device(),
            None => Ok(disk.device()),
        }
    }

    /// Returns the selected volume as a request to resize names it.
    pub(crate) fn resize_volume(&self) -> Result<ResizeVolume> {
        if self.os.is_some() {
            return Err(os_and_volume());
        }
        Ok(match (&self.volume, self.partition, self.offset) {
            (Some(name), _, _) => ResizeVolume::Named(name.clone()),
            (None, Some(number), _) => ResizeVolume::Named(format!("p{number}")),
            (None, None, Some(offset)) => ResizeVolume::At(offset),
            (None, None, None) => ResizeVolume::Default,
        })
    }

    /// Opens the selected filesystem. Without a selection, that is the tree of the operating
    /// system, else the only filesystem. If several remain and some volumes cannot be read, the
    /// error names the latter.
    pub(crate) fn filesystem(&self, disk: &Disk) -> Result<Filesystem> {
        self.or_unopened(disk, self.any_filesystem(disk))
    }

    /// Opens the selected filesystem like [`filesystem`](Self::filesystem).
    ///
    /// # Errors
    /// `Ambiguous` if there are several filesystems, whether they can be read or not.
    pub(crate) fn any_filesystem(&self, disk: &Disk) -> Result<Filesystem> {
        if let Some(volume) = self.volume(disk)? {
            return volume.filesystem();
        }
        match guest::select_system(disk, self.os)? {
            Some(system) => system.filesystem(),
            None => disk.filesystem(),
        }
    }

    /// Opens the selected filesystem for writing, as [`filesystem`](Self::filesystem) does for
    /// reading.
    pub(crate) fn writable_filesystem(
        &self,
        disk: &Disk,
        options: WriteOptions,
    ) -> Result<WritableFilesystem> {
        self.or_unopened(disk, self.any_writable_filesystem(disk, options))
    }

    /// Opens the selected filesystem for writing, as [`any_filesystem`](Self::any_filesystem) does
    /// for reading.
    pub(crate) fn any_writable_filesystem(
        &self,
        disk: &Disk,
        options: WriteOptions,
    ) -> Result<WritableFilesystem> {
        if let Some(volume) = self.volume(disk)? {
            return volume.writable_filesystem(&options);
        }
        match guest::select_system(disk, self.os)? {
            Some(system) => system.writable_filesystem(&options),
            None => disk.writable_filesystem(&options),
        }
    }

    /// Opens the tree of the operating system, or the selected volume. Unlike
    /// [`filesystem`](Self::filesystem), it does not fall back to the only filesystem.
    pub(crate) fn guest(&self, disk: &Disk) -> Result<Filesystem> {
        if let Some(volume) = self.volume(disk)? {
            return volume.filesystem();
        }
        let system = guest::select_system(disk, self.os)?.ok_or_else(|| guest::no_system(disk))?;
        system.filesystem()
    }

    /// Replaces the error if the machine has several volumes, none is selected and none contains a
    /// system. The new error names the volumes that cannot be read.
    fn or_unopened<T>(&self, disk: &Disk, opened: Result<T>) -> Result<T> {
        let Err(error) = opened else {
            return opened;
        };
        let is_one = self.names_one() || disk.volumes()?.len() < 2;
        if is_one || !guest::systems(disk)?.is_empty() || guest::unopened(disk)?.is_empty() {
            return Err(error);
        }
        Err(guest::no_system(disk))
    }
}

fn os_and_volume() -> Error {
    let reason =
        "--os selects the files of a system, and this command works on a volume; use --volume";
    Error::new(ErrorKind::Invalid, reason)
}

fn code_page(text: &str) -> std::result::Result<CodePage, String> {
    let number = text.strip_prefix("cp").unwrap_or(text).parse().ok();
    number.and_then(CodePage::new).ok_or_else(|| {
        let known: Vec<String> = CodePage::numbers().iter().map(u16::to_string).collect();
        format!("unknown code page `{text}`; known: {}", known.join(", "))
    })
}

/// Parses a number of bytes, or a number of 512-byte sectors with the suffix `s`, as `parted` does.
fn parse_offset(text: &str) -> std::result::Result<u64, String> {
    let Some(sectors) = text.strip_suffix('s') else {
        return bytes::parse(text);
    };
    let number: Option<u64> = sectors.parse().ok();
    number
        .and_then(|number| number.checked_mul(512))
        .ok_or_else(|| format!("invalid number of sectors `{text}`; write 2048s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_have_units() {
        for (text, bytes) in [
            ("0", 0),
            ("1048576", 1 << 20),
            ("0x100000", 1 << 20),
            ("1M", 1 << 20),
            ("2048s", 1 << 20),
            ("2GiB", 2 << 30),
        ] {
            assert_eq!(parse_offset(text), Ok(bytes), "{text}");
        }
        for text in ["", "M", "-1", "s", "1.5s", "1Q", "0x", "17000000T"] {
            assert!(parse_offset(text).is_err(), "{text}");
        }
    }
}
