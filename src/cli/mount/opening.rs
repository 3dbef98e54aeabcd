//! Opening the selected filesystem, and mounting it.

use std::sync::Arc;

use diskfs::export::fuse::{self, Mounted, Options, RequestRings};
use diskfs::{Disk, OverlaidImage, Result};

use super::contents::{reader, with_read_only_hint, writer};
use super::host::BrokeredHost;
use super::{Mount, Operands};
use crate::cli::background_copy::OverlayCopy;
use crate::cli::sandbox;
use crate::cli::session::Session;
use crate::cli::target::remove_new_overlay;

/// A mount with the disk that it writes to.
pub(super) struct MountedDisk {
    pub(super) mounted: Mounted,
    /// The disk of a writable mount until it is closed. In a read-only mount, the filesystem keeps
    /// the images open.
    pub(super) disk: Option<Disk>,
    /// The copy into its overlay.
    pub(super) copy: Option<OverlayCopy>,
}

/// Opens the selected filesystem and mounts it.
pub(super) fn mount(
    args: &Mount,
    operands: &Operands<'_>,
    rings: Option<RequestRings>,
    session: &mut Session,
) -> Result<MountedDisk> {
    let options = args.fuse_options()?;
    let options = match sandbox::broker() {
        Some(broker) => Options {
            host: Arc::new(BrokeredHost::new(broker).with_rings(rings)),
            ..options
        },
        None => options,
    };
    if args.wants_access_times() {
        session.warn("access times are not recorded: the mount is noatime");
    }
    if args.writes() {
        return mount_writable(args, operands, options, session);
    }
    let disk = session.disk(operands.image, &operands.source)?;
    let filesystem = reader(&disk, &operands.source, session);
    session.print_warnings(&disk);
    let filesystem = filesystem?;
    let options = Options {
        source: super::mount_source(filesystem.image_path())?,
        ..options
    };
    let mounted = fuse::mount(filesystem.driver(), operands.mountpoint, &options)?;
    Ok(MountedDisk {
        mounted,
        disk: None,
        copy: None,
    })
}

fn mount_writable(
    args: &Mount,
    operands: &Operands<'_>,
    options: Options,
    session: &mut Session,
) -> Result<MountedDisk> {
    let overlay = args.write.overlay.overlay.as_deref();
    let new_overlay = overlay.filter(|path| path.symlink_metadata().is_err());
    let host = sandbox::broker().map(BrokeredHost::new);
    if let (Some(_), Some(host)) = (new_overlay, &host) {
        let image = operands.source.open(operands.image)?;
        host.create_overlay(OverlaidImage::of(image.description())?)?;
    }
    let mounted = open_and_mount(args, operands, options, session);
    mounted.inspect_err(|_| match &host {
        Some(host) => host.remove_overlay(),
        None => remove_new_overlay(new_overlay),
    })
}

fn open_and_mount(
    args: &Mount,
    operands: &Operands<'_>,
    options: Options,
    session: &mut Session,
) -> Result<MountedDisk> {
    let overlay = args.write.overlay.overlay.as_deref();
    let disk = operands.source.open_writable(operands.image, overlay);
    let disk = disk.map_err(with_read_only_hint)?;
    let copy = args.write.overlay.prepare_copy(&disk)?;
    let mounted = mount_disk(&disk, operands, options, session)?;
    Ok(MountedDisk {
        mounted,
        disk: Some(disk),
        copy,
    })
}

fn mount_disk(
    disk: &Disk,
    operands: &Operands<'_>,
    options: Options,
    session: &mut Session,
) -> Result<Mounted> {
    let filesystem = writer(disk, &operands.source, session);
    session.print_warnings(disk);
    let filesystem = filesystem.map_err(with_read_only_hint)?;
    let options = Options {
        source: super::mount_source(disk.path())?,
        ..options
    };
    fuse::mount_writable(filesystem.driver(), operands.mountpoint, &options)
}
