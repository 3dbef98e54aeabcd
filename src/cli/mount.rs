//! The command `diskfs mount`.
//!
//! A mount has several processes of this program. The first is started by the user, and exits when
//! the mount is ready. The second is the server, a fork of the first. The third is a small process,
//! the companion, which unmounts if the server is killed. The companion is executed anew and not
//! forked: its process name must differ from the server's, so that killing the server by name does
//! not kill the companion. It also passes the server's log on to the system's log. The server is
//! confined, and has a broker, a fork of it, that opens its images and mounts.

mod background;
pub(super) mod companion;
mod contents;
pub(super) mod host;
mod opening;

use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader, PipeWriter, Read};
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use clap::{Args, ValueEnum};

use diskfs::export::fuse::{
    Access, Direction, Effect, EndState, Ending, IdMap, IdMapping, Options, RequestRings, Writes,
};
use diskfs::image::{ImageSpec, is_oci};
use diskfs::{Disk, Error, ErrorKind, Result};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::Map;

use super::ProgressMode;
use super::background_copy::{OverlayArgs, OverlayCopy};
use super::explain;
use super::fork::{Fork, fork};
use super::logging::background::Target;
use super::options::SourceArgs;
use super::sandbox::{self, Changes, Confined, Needs};
use super::session::{Output, Session, stdout};
use super::show::json::{self as document, put_name};
use super::signals::Signals;
use background::Background;
use companion::Companion;
use host::{BrokeredHost, HostServer};
use opening::{MountedDisk, mount};

/// The time to wait for processes that use the mount when a signal ends it.
const GRACE: Duration = Duration::from_secs(1);

/// Mount a guest's files through FUSE
///
/// The mount shows the files as the guest itself would see them at `/`: its root filesystem, with
/// the other filesystems where its fstab (or crypttab, mount units, partition types) puts them;
/// --explain shows the result without mounting. An image without an operating system is mounted as
/// its only filesystem, or with one directory for each volume; an image with several systems has
/// one directory for each, unless --os selects one. Further images are further disks of the same
/// machine.
///
/// The command returns when the mount is ready; the files are served in the background until the
/// directory is unmounted (with `diskfs umount`, `fusermount3 -u` or umount(8)). Root is not
/// needed: without it, fusermount3 (package fuse3) mounts. The image is locked while it is mounted.
/// The mount is read-only without --rw or --overlay.
///
/// With --rw, a write fails at once if there is no space left. Data is durable after fsync. Other
/// data begins to be written to the image a second after the write, and all of it is durable when
/// `diskfs umount` or `diskfs wait` has returned. `sync` and `sync -f` do not reach the image. If
/// the host crashes or the program is killed, the filesystem's journal restores a consistent
/// earlier state.
///
/// In the background, the reasons of input/output errors and the state of a copy go to the system's
/// log (`journalctl -t diskfs`), if the host has one at /dev/log, or to the file of --log.
///
/// With --background-copy, the disk can be used at once, and needs the image less and less. In the
/// end the overlay has no backing file any more (`diskfs info --force-share FILE`). Interrupted, the
/// same command continues, unless the server has another version of the image by then.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs mount debian.qcow2 /mnt
  diskfs mount --rw debian.qcow2 /mnt
  diskfs mount system.qcow2 data.qcow2 /mnt
  diskfs mount --explain system.qcow2
  diskfs mount --overlay changes.qcow2 debian.qcow2 /mnt
  diskfs mount --overlay copy.qcow2 --background-copy https://example.org/debian.qcow2 /mnt
  diskfs mount --log mount.log debian.qcow2 /mnt
  diskfs mount debian.qcow2,snapshot=before ~/mnt -p 1
  diskfs mount disk.img /mnt --uid 1000 --gid 1000
  diskfs umount /mnt")]
pub(super) struct Mount {
    /// The image, further disks of the same machine, and the mount point
    #[arg(value_names = ["IMG", "MOUNTPOINT"], required = true, num_args = 1..)]
    operands: Vec<OsString>,

    /// Only show what would be mounted where, and why; no MOUNTPOINT is given
    #[arg(long)]
    explain: bool,

    #[command(flatten)]
    write: WriteArgs,

    /// Serve in the foreground; Ctrl-C unmounts
    #[arg(short, long)]
    foreground: bool,

    /// Append the log of the mount in the background to FILE, not to the system's log
    #[arg(long, value_name = "FILE", conflicts_with = "foreground")]
    log: Option<PathBuf>,

    /// Give other users access, as the modes and ACLs in the image allow
    #[arg(long)]
    allow_other: bool,

    /// Show files as owned by user ID, or map ranges of user IDs; can be repeated
    #[arg(long, value_name = "ID|GUEST:HOST:COUNT")]
    uid: Vec<IdMapping>,

    /// Show files as owned by group ID, or map ranges of group IDs; can be repeated
    #[arg(long, value_name = "ID|GUEST:HOST:COUNT")]
    gid: Vec<IdMapping>,

    /// Set mount options, as in mount(8)
    #[arg(short, value_name = "OPTION", value_delimiter = ',')]
    options: Vec<MountOption>,

    /// The number of threads that serve the mount, or each processor's queue over io_uring [default:
    /// one per core, 2 to 4]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    #[command(flatten)]
    source: SourceArgs,
}

/// The options that make a mount writable.
#[derive(Debug, Args)]
struct WriteArgs {
    /// Mount read-write; no other process can use the image meanwhile
    #[arg(long)]
    rw: bool,

    #[command(flatten)]
    overlay: OverlayArgs,
}

/// The options of mount(8) that have an effect here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum MountOption {
    /// Mount read-only (the default)
    Ro,
    /// Mount read-write, as --rw does
    Rw,
    /// Give other users access, as --allow-other does
    AllowOther,
    /// Let the kernel check modes and ACLs
    DefaultPermissions,
    /// Honor set-user-ID programs in the image (root only)
    Suid,
    /// Ignore set-user-ID bits (the default)
    Nosuid,
    /// Honor device nodes in the image (root only)
    Dev,
    /// Ignore device nodes (the default)
    Nodev,
    /// Allow running programs (the default)
    Exec,
    /// Do not allow running programs
    Noexec,
    /// Do not record access times (always)
    Noatime,
    /// Do not record access times of directories (always)
    Nodiratime,
    /// Accepted for fstab, with a warning: access times are not recorded
    Relatime,
    /// Accepted for fstab, with a warning: access times are not recorded
    Strictatime,
    /// Accepted for fstab, with a warning: access times are not recorded
    Atime,
    /// Accepted for fstab, with a warning: access times are not recorded
    Diratime,
    /// Let the kernel cache writes: small writes are faster, but a full or failing image is
    /// reported only by fsync and close, and data without fsync can be lost without an error
    Writeback,
}

pub(super) fn run(args: &Mount, session: &mut Session) -> Result<()> {
    let operands = args.operands()?;
    if args.explain {
        let disk = session.disk(operands.image, &operands.source)?;
        return explain::run(&disk, session);
    }
    let (orphaned, pipe) = io::pipe()?;
    let companion = Companion { pipe };
    if args.foreground {
        Companion::start(operands.mountpoint, orphaned, None)?;
        return serve(args, &operands, companion, None, session);
    }
    let (ready, waiting) = io::pipe()?;
    let (log, lines) = args.log()?;
    // The fork comes before the image is opened, because that may start threads.
    match fork()? {
        Fork::Child => {
            drop((orphaned, ready, lines));
            log.choose();
            serve(args, &operands, companion, Some(waiting), session)
        }
        Fork::Parent(server) => {
            drop((waiting, companion, log));
            // The companion starts while the server opens the image, before the user sees that the
            // mount is ready.
            if let Err(error) = Companion::start(operands.mountpoint, orphaned, lines) {
                let _ = kill_process(server, Signal::TERM);
                return Err(error);
            }
            if wait_for(server, ready, session)? {
                print_mounted(args, &operands, server, session)?;
            }
            Ok(())
        }
    }
}

/// Reports the mount as JSON.
fn print_mounted(
    args: &Mount,
    operands: &Operands<'_>,
    server: Pid,
    session: &Session,
) -> Result<()> {
    if session.output() == Output::Text {
        return Ok(());
    }
    let mut fields = Map::new();
    let mountpoint = operands.mountpoint.as_os_str().as_bytes();
    put_name(&mut fields, "mountpoint", mountpoint);
    put_name(&mut fields, "image", operands.image.as_bytes());
    fields.insert("read_only".to_owned(), (!args.writes()).into());
    fields.insert("pid".to_owned(), server.as_raw_nonzero().get().into());
    document::write(&mut stdout()?, session.command(), fields.into())?;
    Ok(())
}

/// Waits until the server is ready. Returns false if it failed; it has then reported the error
/// itself.
fn wait_for(server: Pid, mut ready: PipeReader, session: &mut Session) -> Result<bool> {
    let mut message = Vec::new();
    ready.read_to_end(&mut message)?;
    if !message.is_empty() {
        return Ok(true);
    }
    let ended = waitpid(Some(server), WaitOptions::empty()).map_err(io::Error::from)?;
    match ended.and_then(|(_, status)| status.exit_status()) {
        Some(code) if code != 0 => {
            session.set_exit_code(u8::try_from(code).unwrap_or(1));
            Ok(false)
        }
        _ => {
            let reason = "the server ended before the mount was ready";
            Err(Error::new(ErrorKind::Other, reason))
        }
    }
}

/// Mounts the filesystem and serves it until it is unmounted. With a pipe, goes into the background
/// when the mount is ready, and signals that through the pipe.
fn serve(
    args: &Mount,
    operands: &Operands<'_>,
    companion: Companion,
    background: Option<PipeWriter>,
    session: &mut Session,
) -> Result<()> {
    // Signals are blocked before other threads start: a signal that is delivered to one of these
    // would end the whole process. The broker, too, ends with the server only.
    let signals = Signals::block();
    let mut watchers = Some(Watchers {
        companion,
        background: background.map(Background::new).transpose()?,
    });
    // Without a confinement, they are made when they are needed.
    let mut rings = if session.confines() {
        RequestRings::new(&args.fuse_options()?)
    } else {
        None
    };
    // The broker would keep them waiting.
    let confined = args.confine(operands, session, &mut || {
        watchers = None;
        rings = None;
    })?;
    let Some(watchers) = watchers else {
        return Ok(());
    };
    let served = serve_disk(args, operands, watchers, signals, rings, session);
    if let Some(confined) = confined {
        confined.finish();
    }
    served
}

/// The pipes to the processes that wait for the server.
struct Watchers {
    companion: Companion,
    background: Option<Background>,
}

/// Does the work of [`serve`], after this process was confined.
fn serve_disk(
    args: &Mount,
    operands: &Operands<'_>,
    watchers: Watchers,
    signals: Signals,
    rings: Option<RequestRings>,
    session: &mut Session,
) -> Result<()> {
    let Watchers {
        mut companion,
        background,
    } = watchers;
    let MountedDisk {
        mounted,
        disk,
        copy,
    } = mount(args, operands, rings, session)?;
    let (id, mountpoint) = (mounted.id(), mounted.mountpoint().to_owned());
    companion.watch_over(id, &mountpoint)?;
    let shown = match background {
        Some(_) => ProgressMode::None,
        None => session.progress(),
    };
    match background {
        Some(background) => {
            if let Some(broker) = sandbox::broker() {
                BrokeredHost::new(broker).leave_terminal()?;
            }
            background.enter()?;
        }
        None => print_mounted(args, operands, rustix::process::getpid(), session)?,
    }
    if let Some(copy) = &copy {
        copy.start(shown)?;
    }
    let end = Arc::new(Shutdown {
        ending: mounted.ending(),
        disk: Mutex::new(disk),
        copy,
        is_unmounted: AtomicBool::new(false),
    });
    let by_signal = Arc::clone(&end);
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            signals.wait();
            by_signal.now();
        })?;
    let served = mounted.serve();
    end.is_unmounted.store(true, Ordering::Release);
    if served.is_ok() {
        companion.release();
    }
    let closed = end.close_disk();
    served.and(closed)
}

/// Returns the source of a mount as the host shows it: the absolute path of an image, or its URI
/// without secrets.
pub(super) fn mount_source(image: &Path) -> Result<PathBuf> {
    let spec = ImageSpec {
        path: image.to_owned(),
        ..ImageSpec::default()
    };
    match spec.remote_uri() {
        Some(_) => Ok(spec.shown_path()),
        None if is_oci(image) => Ok(spec.path),
        None => Ok(std::path::absolute(image)?),
    }
}

/// The end of a server, after a signal or an unmount.
struct Shutdown {
    ending: Ending,
    /// The disk that is written to; `None` after it was closed.
    disk: Mutex<Option<Disk>>,
    /// The copy into the overlay.
    copy: Option<OverlayCopy>,
    /// True when the thread that serves has returned: it ends the process, and the broker.
    is_unmounted: AtomicBool,
}

impl Shutdown {
    /// Unmounts after a signal.
    fn now(&self) {
        let ends = self.ending.end(GRACE);
        let ends_by_itself = match ends {
            Ok(state) => state == EndState::ByItself,
            // The broker ends before it can answer that it has unmounted.
            Err(_) => self.is_unmounted.load(Ordering::Acquire),
        };
        if ends_by_itself {
            return;
        }
        let closed = self.close_disk();
        let code = match ends.and(closed) {
            Ok(()) => 0,
            Err(error) => {
                tracing::warn!("{error}");
                i32::from(error.kind().exit_code())
            }
        };
        std::process::exit(code);
    }

    /// Closes the disk, after the filesystem was closed.
    fn close_disk(&self) -> Result<()> {
        if let Some(copy) = &self.copy {
            copy.stop();
        }
        let disk = self
            .disk
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let closed = disk.map_or(Ok(()), Disk::close);
        closed.inspect_err(|error| self.ending.report_failure(error))
    }
}

/// The operands of the command line.
struct Operands<'a> {
    image: &'a OsStr,
    source: SourceArgs,
    mountpoint: &'a Path,
}

impl Mount {
    /// Returns the needs of `--explain`. A server confines itself when it has forked.
    pub(super) fn needs(&self) -> Option<Needs<'_>> {
        let needs = || Needs::reading_images(self.operands.clone(), &self.source);
        self.explain.then(needs)
    }

    /// Returns true if the server leaves the terminal when it is ready.
    pub(super) fn is_in_background(&self) -> bool {
        !self.foreground
    }

    fn operands(&self) -> Result<Operands<'_>> {
        let (mountpoint, images) = match self.operands.split_last() {
            Some((mountpoint, images)) if !self.explain => (mountpoint.as_os_str(), images),
            _ => (OsStr::new(""), self.operands.as_slice()),
        };
        let Some((image, further)) = images.split_first() else {
            let error = Error::new(ErrorKind::Invalid, "missing mount point");
            return Err(error.with_hint("write `diskfs mount IMG MOUNTPOINT`"));
        };
        let mut source = self.source.clone();
        source.add.extend_from_slice(further);
        Ok(Operands {
            image,
            source,
            mountpoint: Path::new(mountpoint),
        })
    }

    /// Returns the log in the background. If it is the system's log, also returns the lines, which
    /// the companion passes on.
    fn log(&self) -> Result<(Target, Option<PipeReader>)> {
        if let Some(path) = &self.log {
            return Ok((Target::file(path)?, None));
        }
        let (log, lines) = Target::pipe()?;
        Ok((log, Some(lines)))
    }

    /// Confines this process.
    fn confine(
        &self,
        operands: &Operands<'_>,
        session: &Session,
        in_broker: &mut dyn FnMut(),
    ) -> Result<Option<Confined>> {
        let image = ImageSpec::parse(operands.image)?.path;
        let overlay = self.write.overlay.overlay.as_deref();
        let (direction, changes) = match overlay {
            Some(overlay) => (Direction::ReadWrite, Changes::Overlay(overlay)),
            None if self.writes() => (Direction::ReadWrite, Changes::Images),
            None => (Direction::ReadOnly, Changes::None),
        };
        let options = Options {
            source: mount_source(overlay.unwrap_or(&image))?,
            ..self.fuse_options()?
        };
        let needs = Needs::reading_images(vec![operands.image.to_owned()], &operands.source);
        let mut mount = HostServer::new(operands.mountpoint, direction, options);
        if let Some(overlay) = overlay {
            mount = mount.overlay(overlay, &image);
        }
        session.confine(&needs.changing(changes).mounting(mount), in_broker)
    }

    fn writes(&self) -> bool {
        let option = self.effect(MountOption::Rw, MountOption::Ro, Effect::Ignored);
        self.write.rw || self.write.overlay.overlay.is_some() || option == Effect::Allowed
    }

    /// Returns true if the last option about access times enables them.
    fn wants_access_times(&self) -> bool {
        use MountOption::{Atime, Diratime, Noatime, Nodiratime, Relatime, Strictatime};
        let last = self.options.iter().rev().find(|option| {
            matches!(
                option,
                Atime | Diratime | Noatime | Nodiratime | Relatime | Strictatime
            )
        });
        matches!(last, Some(Atime | Diratime | Relatime | Strictatime))
    }

    fn fuse_options(&self) -> Result<Options> {
        let map = |parts: &[IdMapping]| {
            IdMapping::merge(parts.iter().cloned())
                .map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))
        };
        let has = |option| self.options.contains(&option);
        let access = match () {
            () if self.allow_other || has(MountOption::AllowOther) => Access::Everyone,
            () if has(MountOption::DefaultPermissions) => Access::OwnerChecked,
            () => Access::Owner,
        };
        Ok(Options {
            threads: self.threads,
            access,
            ids: IdMap {
                uid: map(&self.uid)?,
                gid: map(&self.gid)?,
            },
            suid: self.effect(MountOption::Suid, MountOption::Nosuid, Effect::Ignored),
            devices: self.effect(MountOption::Dev, MountOption::Nodev, Effect::Ignored),
            execute: self.effect(MountOption::Exec, MountOption::Noexec, Effect::Allowed),
            writes: if has(MountOption::Writeback) {
                Writes::Cached
            } else {
                Writes::Through
            },
            ..Options::default()
        })
    }

    /// Returns the effect of the last of two opposite options.
    fn effect(&self, allow: MountOption, ignore: MountOption, default: Effect) -> Effect {
        let last = self
            .options
            .iter()
            .rev()
            .find(|&&option| option == allow || option == ignore);
        match last {
            Some(&option) if option == allow => Effect::Allowed,
            Some(_) => Effect::Ignored,
            None => default,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        mount: Mount,
    }

    fn options(words: &[&str]) -> Result<Options> {
        let words = ["mount", "i.img", "/mnt"].iter().chain(words);
        Program::parse_from(words).mount.fuse_options()
    }

    #[test]
    fn what_the_image_can_do_to_the_host_is_off_unless_asked_for() {
        let plain = options(&[]).unwrap();
        assert_eq!(plain.access, Access::Owner);
        assert_eq!(
            (plain.suid, plain.devices, plain.execute),
            (Effect::Ignored, Effect::Ignored, Effect::Allowed)
        );
        let asked = options(&["-o", "ro,suid,dev,noexec", "-o", "nodev"]).unwrap();
        assert_eq!(
            (asked.suid, asked.devices, asked.execute),
            (Effect::Allowed, Effect::Ignored, Effect::Ignored)
        );
    }

    #[test]
    fn others_get_in_only_with_checks() {
        assert_eq!(
            options(&["--allow-other"]).unwrap().access,
            Access::Everyone
        );
        assert_eq!(
            options(&["-o", "allow_other"]).unwrap().access,
            Access::Everyone
        );
        assert_eq!(
            options(&["-o", "default_permissions"]).unwrap().access,
            Access::OwnerChecked
        );
    }

    #[test]
    fn ids_are_put_together() {
        let mapped = options(&["--uid", "0:1000:1", "--uid", "1:5:1", "--gid", "7"]).unwrap();
        assert_eq!(mapped.ids.uid.map(1), 5);
        assert_eq!(mapped.ids.gid.map(1), 7);
        let error = options(&["--uid", "1", "--uid", "2"]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }

    #[test]
    fn access_times_are_asked_for_by_the_last_option() {
        let wants = |option: &str| {
            let words = ["mount", "i.img", "/mnt", "-o", option];
            Program::parse_from(words).mount.wants_access_times()
        };
        assert!(wants("relatime") && wants("noatime,strictatime"));
        assert!(!wants("rw") && !wants("relatime,noatime"));
    }

    #[test]
    fn nothing_is_written_unless_asked_for() {
        let writes = |words: &[&str]| {
            let words = ["mount", "i.img", "/mnt"].iter().chain(words);
            Program::parse_from(words).mount.writes()
        };
        assert!(!writes(&[]) && !writes(&["-o", "rw,ro"]));
        for asked in [&["--rw"][..], &["-o", "ro,rw"], &["--overlay", "o.qcow2"]] {
            assert!(writes(asked), "{asked:?}");
        }
    }
}
