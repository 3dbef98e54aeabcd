//! The options that commands share: which image, how to open it, which volume of it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use diskfs::guest;
use diskfs::{
    CodePage, Disk, DiskOptions, Error, ErrorKind, Filesystem, Format, Gate, Keys, OpenOptions,
    Result, Share, StaleBase, WritableFilesystem, WriteOptions,
};

use super::bytes;
use super::config::Config;
use super::key::KeyArgs;
#[cfg(feature = "microvm")]
use super::vm::VmArgs;

/// Which filesystem of which image: what every command that reads files has.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SourceArgs {
    #[command(flatten)]
    pub(crate) image: ImageArgs,

    /// Another disk of the same machine, whose partitions are disk2/p1, ...; may be given again
    #[arg(long, value_name = "IMG", help_heading = "Image options")]
    pub(crate) add: Vec<OsString>,

    #[command(flatten)]
    pub(crate) volume: VolumeArgs,

    #[cfg(feature = "microvm")]
    #[command(flatten)]
    pub(crate) vm: VmArgs,
}

impl SourceArgs {
    /// Opens `image` as the user spells it, with the machine's other disks.
    pub(crate) fn open(&self, image: &OsStr) -> Result<Disk> {
        self.open_with(image, |options| options)
    }

    /// The disk of the image that `disk` is an overlay of, which was opened by these options.
    pub(crate) fn open_backing(&self, disk: &Disk) -> Result<Disk> {
        let backing = disk.backing().ok_or_else(|| {
            let reason = "is no overlay: there is no backing file";
            Error::new(ErrorKind::Invalid, reason)
                .in_file(disk.path())
                .with_hint("name the image to compare it with, as in `diskfs diff A B`")
        })?;
        if !self.add.is_empty() {
            let reason = "the machine's other disks have no backing file to take";
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
        Ok(backing)
    }

    /// The same for writing, into `overlay` where there is one.
    pub(crate) fn open_writable(&self, image: &OsStr, overlay: Option<&Path>) -> Result<Disk> {
        self.open_with(image, |options| match overlay {
            Some(overlay) => options.overlay(overlay),
            None => options.read_only(false),
        })
    }

    /// The same, with changes that are forgotten.
    pub(crate) fn open_dry_run(&self, image: &OsStr) -> Result<Disk> {
        self.open_with(image, DiskOptions::dry_run)
    }

    fn open_with(
        &self,
        image: &OsStr,
        access: impl Fn(DiskOptions) -> DiskOptions,
    ) -> Result<Disk> {
        let options = self.disk_options()?;
        #[cfg(feature = "microvm")]
        let options = {
            if self.vm.lacks_kernel() {
                // It may be open for writing by one only, so this one is closed before.
                let looked_into = options.clone().fallback(self.vm.fallback()?);
                self.vm
                    .take_kernel(&looked_into.open_spec(image)?, self.volume.os)?;
            }
            options.fallback(self.vm.fallback()?)
        };
        access(options).open_spec(image)
    }

    /// The options as the library takes them, but for the fallback. Keys that are to be asked for are asked for now.
    fn disk_options(&self) -> Result<DiskOptions> {
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

/// How to open the image.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Image options")]
pub(crate) struct ImageArgs {
    /// The image's format, instead of telling it from its contents (raw, qcow2)
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<Format>,

    /// Read an internal snapshot, by name or id, instead of the current state
    #[arg(long, value_name = "NAME")]
    pub(crate) snapshot: Option<String>,

    /// Read the image even when a running VM uses it; what is read may be inconsistent
    #[arg(long)]
    pub(crate) force_share: bool,

    /// Let the image name files below DIR: a backing file, or a data file, which is written to as
    /// well; may be given again
    #[arg(long, value_name = "DIR")]
    pub(crate) allow_backing: Vec<PathBuf>,

    /// Let the image have FILE as its external data file, to read and to write; may be given again
    #[arg(long, value_name = "FILE")]
    pub(crate) data_file: Vec<PathBuf>,

    /// Open no other file that the image names
    #[arg(long, conflicts_with_all = ["allow_backing", "data_file"])]
    pub(crate) no_backing: bool,

    /// Open an overlay whose backing file was changed since it was made; its disk may be damaged
    #[arg(long)]
    pub(crate) force_stale: bool,

    #[command(flatten)]
    pub(crate) keys: KeyArgs,
}

impl ImageArgs {
    /// The options as the library takes them. Keys that are to be asked for are asked for now.
    pub(crate) fn open_options(&self) -> Result<OpenOptions> {
        let keys = self.keys.load()?;
        self.options_with(keys.as_ref())
    }

    fn options_with(&self, keys: Option<&Keys>) -> Result<OpenOptions> {
        Ok(OpenOptions {
            format: self.format,
            snapshot: self.snapshot.clone(),
            gate: self.gate()?,
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

    /// Which files the image may name: what the configuration says of all images, and what the
    /// command line says of this one.
    fn gate(&self) -> Result<Gate> {
        if self.no_backing {
            return Ok(Gate::closed());
        }
        let gate = self.allow_backing.iter().fold(configured()?, Gate::allow);
        Ok(self.data_file.iter().fold(gate, Gate::allow_data_file))
    }
}

/// Which files images may name, by the configuration.
pub(crate) fn configured() -> Result<Gate> {
    Ok(Gate::from(Config::load()?.backing))
}

/// Which volume of the image is meant.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Volume options")]
pub(crate) struct VolumeArgs {
    /// The volume by name (p1, vg0/root, md0, disk), UUID, label, PARTUUID or PARTLABEL
    #[arg(long, value_name = "NAME", group = "which")]
    pub(crate) volume: Option<String>,

    /// The partition by number; short for --volume pN
    #[arg(short, long, value_name = "N", group = "which")]
    pub(crate) partition: Option<u32>,

    /// The filesystem at this byte of the disk (suffixes k, M, G, T; s for sectors of 512 bytes)
    #[arg(long, value_name = "BYTES", group = "which", value_parser = parse_offset)]
    pub(crate) offset: Option<u64>,

    /// The operating system by number, when there are several (see `diskfs mount --explain`)
    #[arg(long, value_name = "N", group = "which")]
    pub(crate) os: Option<usize>,

    /// The code page of short names on FAT, as 850 or 866 [default: fstab's, or 437]
    #[arg(long, value_name = "NUMBER", value_parser = code_page)]
    pub(crate) code_page: Option<CodePage>,
}

impl VolumeArgs {
    /// Whether it says which one is meant.
    pub(crate) fn names_one(&self) -> bool {
        let named = self.volume.is_some() || self.partition.is_some() || self.offset.is_some();
        named || self.os.is_some()
    }

    /// The volume that is named; `None` when none is.
    pub(crate) fn volume(&self, disk: &Disk) -> Result<Option<diskfs::Volume>> {
        match (&self.volume, self.partition, self.offset) {
            (Some(name), _, _) => disk.volume(name).map(Some),
            (None, Some(number), _) => disk.volume(&format!("p{number}")).map(Some),
            (None, None, Some(offset)) => disk.volume_at(offset).map(Some),
            (None, None, None) => Ok(None),
        }
    }

    /// The same where a volume is meant, and never the files of a system.
    pub(crate) fn volume_alone(&self, disk: &Disk) -> Result<Option<diskfs::Volume>> {
        if self.os.is_some() {
            let reason = "--os means the files of a system, and no volume";
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
        self.volume(disk)
    }

    /// Opens the filesystem that is meant: without a name, the tree of the operating system, and where there is none
    /// the only filesystem. Where that leaves several, volumes that can't be read are what is wrong.
    pub(crate) fn filesystem(&self, disk: &Disk) -> Result<Filesystem> {
        self.or_unopened(disk, self.any_filesystem(disk))
    }

    /// Opens the filesystem that is meant as [`filesystem`](Self::filesystem) does.
    ///
    /// # Errors
    /// `Ambiguous` for several, whether they can be read or not.
    pub(crate) fn any_filesystem(&self, disk: &Disk) -> Result<Filesystem> {
        if let Some(volume) = self.volume(disk)? {
            return volume.filesystem();
        }
        match guest::meant(disk, self.os)? {
            Some(system) => system.filesystem(),
            None => disk.filesystem(),
        }
    }

    /// Opens the filesystem that is meant for writing, as [`filesystem`](Self::filesystem) does for reading.
    pub(crate) fn writable_filesystem(
        &self,
        disk: &Disk,
        options: WriteOptions,
    ) -> Result<WritableFilesystem> {
        self.or_unopened(disk, self.any_writable_filesystem(disk, options))
    }

    /// Opens the filesystem that is meant for writing, as [`any_filesystem`](Self::any_filesystem) does for reading.
    pub(crate) fn any_writable_filesystem(
        &self,
        disk: &Disk,
        options: WriteOptions,
    ) -> Result<WritableFilesystem> {
        if let Some(volume) = self.volume(disk)? {
            return volume.writable_filesystem(&options);
        }
        match guest::meant(disk, self.os)? {
            Some(system) => system.writable_filesystem(&options),
            None => disk.writable_filesystem(&options),
        }
    }

    /// Opens the tree of the operating system, or the volume that is named: never a filesystem only because it is
    /// the only one.
    pub(crate) fn guest(&self, disk: &Disk) -> Result<Filesystem> {
        if let Some(volume) = self.volume(disk)? {
            return volume.filesystem();
        }
        let system = guest::meant(disk, self.os)?.ok_or_else(|| guest::no_system(disk))?;
        system.filesystem()
    }

    /// Replaces the error of a machine with several volumes, of which none is named and none holds a system, by the one
    /// that says which of them can't be read.
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

fn code_page(text: &str) -> std::result::Result<CodePage, String> {
    let number = text.strip_prefix("cp").unwrap_or(text).parse().ok();
    number.and_then(CodePage::new).ok_or_else(|| {
        let known: Vec<String> = CodePage::numbers().iter().map(u16::to_string).collect();
        format!("`{text}` is none of {}", known.join(", "))
    })
}

/// A number of bytes, and `s` for sectors as `parted` has them.
fn parse_offset(text: &str) -> std::result::Result<u64, String> {
    let Some(sectors) = text.strip_suffix('s') else {
        return bytes::parse(text);
    };
    let number: Option<u64> = sectors.parse().ok();
    number
        .and_then(|number| number.checked_mul(512))
        .ok_or_else(|| format!("`{text}` is no number of sectors; write 2048s"))
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
