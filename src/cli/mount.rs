//! `diskfs mount`.
//!
//! Three processes, all of this program: the one that the user starts, which ends when the mount
//! works; the server, its copy; and a small one, the companion, which takes the mount away when the
//! server is killed. The companion is started anew and not copied: it must not have the name by
//! which somebody kills the server.

mod companion;
mod contents;

use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use clap::{Args, ValueEnum};

use diskfs::export::fuse::{
    self, Access, Effect, Ending, HowItEnds, IdMap, IdMapping, Mounted, Options, Writes,
};
use diskfs::{Disk, Error, ErrorKind, Result};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::Map;

use super::explain;
use super::fork::{Fork, fork};
use super::options::SourceArgs;
use super::session::{Output, Session, stdout};
use super::show::json::{self as document, put_name};
use super::signals::Signals;
use super::target::forget;
use companion::{Companion, watch};
use contents::{reader, way_on, writer};

/// How long those who use the mount have to finish when a signal ends it.
const GRACE: Duration = Duration::from_secs(1);

/// Mount a guest's files through FUSE
///
/// What is mounted is what the guest itself would see at `/`: its root filesystem, with the others
/// where its fstab (or crypttab, mount units, partition types) puts them; --explain tells what that
/// comes to. Without an operating system it is the only filesystem, or one directory for each volume;
/// with several, one directory for each, unless --os names one. Further images are further disks of
/// the same machine.
///
/// Returns when the mount works; the files are served from the background until it is unmounted
/// (with `diskfs umount`, `fusermount3 -u` or umount(8)). Needs no root: without it, fusermount3
/// mounts (package fuse3). The image stays locked as long as it is mounted. Read-only without --rw
/// or --overlay.
///
/// With --rw, a program that writes is told at once if there is no room. What was synced with fsync
/// is durable, the rest begins to be a second after it was written, and all of it is when `diskfs
/// umount` or `diskfs wait` has returned. `sync` and `sync -f` don't reach the image. When the machine
/// or the program is killed, the filesystem's journal brings it back to a state that it had.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs mount debian.qcow2 /mnt
  diskfs mount --rw debian.qcow2 /mnt
  diskfs mount system.qcow2 data.qcow2 /mnt
  diskfs mount --explain system.qcow2
  diskfs mount --overlay changes.qcow2 debian.qcow2 /mnt
  diskfs mount debian.qcow2,snapshot=before ~/mnt -p 1
  diskfs mount disk.img /mnt --uid 1000 --gid 1000
  diskfs umount /mnt")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(super) struct Mount {
    /// The image, further disks of the same machine, and the directory to mount them at
    #[arg(value_names = ["IMG", "MOUNTPOINT"], required = true, num_args = 1..)]
    operands: Vec<OsString>,

    /// Only tell what would be seen where, and why; there is no MOUNTPOINT then
    #[arg(long)]
    explain: bool,

    #[command(flatten)]
    write: WriteArgs,

    /// Serve in the foreground; Ctrl-C unmounts
    #[arg(short, long)]
    foreground: bool,

    /// Let other users in, as the modes and ACLs on the image allow
    #[arg(long)]
    allow_other: bool,

    /// Show files as owned by user ID, or map ranges of users; may be given again
    #[arg(long, value_name = "ID|GUEST:HOST:COUNT")]
    uid: Vec<IdMapping>,

    /// The same for groups
    #[arg(long, value_name = "ID|GUEST:HOST:COUNT")]
    gid: Vec<IdMapping>,

    /// Options as mount(8) takes them
    #[arg(short, value_name = "OPTION", value_delimiter = ',')]
    options: Vec<MountOption>,

    /// How many threads serve it [default: one per core, 2 to 4]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    #[command(flatten)]
    source: SourceArgs,

    /// Be the companion of a server
    #[arg(long, hide = true)]
    watch: bool,
}

/// Whether files can be written, and where to.
#[derive(Debug, Args)]
struct WriteArgs {
    /// Let files be written, too; nobody else can use the image meanwhile
    #[arg(long)]
    rw: bool,

    /// The same, but write all changes to FILE, a new qcow2 image with IMG behind it, or one made
    /// so before
    #[arg(long, value_name = "FILE")]
    overlay: Option<PathBuf>,
}

/// The options of mount(8) that mean something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum MountOption {
    /// Read-only (the default)
    Ro,
    /// As --rw
    Rw,
    /// Let other users in
    AllowOther,
    /// Have the kernel check modes and ACLs
    DefaultPermissions,
    /// Let set-user-id programs on the image take effect (root only)
    Suid,
    /// Don't (the default)
    Nosuid,
    /// Let device nodes on the image take effect (root only)
    Dev,
    /// Don't (the default)
    Nodev,
    /// Let programs run (the default)
    Exec,
    /// Don't
    Noexec,
    /// Don't record when files are read (always)
    Noatime,
    /// The same
    Nodiratime,
    /// Accepted for fstab's sake, with a warning: access times are not recorded
    Relatime,
    /// The same
    Strictatime,
    /// The same
    Atime,
    /// The same
    Diratime,
    /// Let the kernel keep what is written: small writes are faster, but a full or failing image is told
    /// by fsync and close only, and what nobody syncs may be lost without an error
    Writeback,
}

pub(super) fn run(args: &Mount, session: &mut Session) -> Result<()> {
    if args.watch {
        return watch();
    }
    let operands = args.operands()?;
    if args.explain {
        let disk = session.disk(operands.image, &operands.source)?;
        return explain::run(&disk, session);
    }
    let (orphaned, pipe) = io::pipe()?;
    let companion = Companion { pipe };
    if args.foreground {
        Companion::start(operands.mountpoint, orphaned)?;
        return serve(args, &operands, companion, None, session);
    }
    let (ready, waiting) = io::pipe()?;
    // Before the image is opened: that may start threads.
    match fork()? {
        Fork::Child => {
            drop((orphaned, ready));
            serve(args, &operands, companion, Some(waiting), session)
        }
        Fork::Parent(server) => {
            drop((waiting, companion));
            // While the server opens the image, and before the user hears that the mount works.
            if let Err(error) = Companion::start(operands.mountpoint, orphaned) {
                let _ = kill_process(server, Signal::TERM);
                return Err(error);
            }
            if wait_for(server, ready, session)? {
                tell(args, &operands, server, session)?;
            }
            Ok(())
        }
    }
}

/// Says what is mounted, for programs.
fn tell(args: &Mount, operands: &Operands<'_>, server: Pid, session: &Session) -> Result<()> {
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

/// Waits until the server works. Returns false when it doesn't, which it has told.
fn wait_for(server: Pid, mut ready: PipeReader, session: &mut Session) -> Result<bool> {
    let mut told = Vec::new();
    ready.read_to_end(&mut told)?;
    if !told.is_empty() {
        return Ok(true);
    }
    let ended = waitpid(Some(server), WaitOptions::empty()).map_err(io::Error::from)?;
    match ended.and_then(|(_, status)| status.exit_status()) {
        Some(code) if code != 0 => {
            session.end_with(u8::try_from(code).unwrap_or(1));
            Ok(false)
        }
        _ => {
            let reason = "the server ended before the mount worked";
            Err(Error::new(ErrorKind::Other, reason))
        }
    }
}

/// Mounts and answers, until it is unmounted. With a pipe, goes into the background when the mount
/// works, and says so there.
fn serve(
    args: &Mount,
    operands: &Operands<'_>,
    mut companion: Companion,
    background: Option<PipeWriter>,
    session: &mut Session,
) -> Result<()> {
    // Before there are other threads, which a signal would end otherwise, and all of us with them.
    let signals = Signals::hold();
    let MountedDisk { mounted, disk } = mount(args, operands, session)?;
    let (id, mountpoint) = (mounted.id(), mounted.mountpoint().to_owned());
    companion.watch_over(id, &mountpoint)?;
    match background {
        Some(waiting) => go_into_background(waiting)?,
        None => tell(args, operands, rustix::process::getpid(), session)?,
    }
    let end = Arc::new(End {
        ending: mounted.ending(),
        disk: Mutex::new(disk),
    });
    let by_signal = Arc::clone(&end);
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            signals.wait();
            by_signal.now();
        })?;
    let served = mounted.serve();
    if served.is_ok() {
        companion.release();
    }
    let closed = end.close_disk();
    served.and(closed)
}

/// A mount, and what it needs.
struct MountedDisk {
    mounted: Mounted,
    /// Of one that is written, until it is closed; else the mount alone holds the images.
    disk: Option<Disk>,
}

/// Opens what is meant and mounts it.
fn mount(args: &Mount, operands: &Operands<'_>, session: &mut Session) -> Result<MountedDisk> {
    let options = args.fuse_options()?;
    if args.wants_access_times() {
        session.warn("access times are not recorded: the mount is noatime");
    }
    if args.writes() {
        return mount_writable(args, operands, options, session);
    }
    let disk = session.disk(operands.image, &operands.source)?;
    let filesystem = reader(&disk, &operands.source, session);
    session.warn_of(&disk);
    let filesystem = filesystem?;
    let options = Options {
        source: std::path::absolute(filesystem.image_path())?,
        ..options
    };
    let mounted = fuse::mount(filesystem.driver(), operands.mountpoint, &options)?;
    Ok(MountedDisk {
        mounted,
        disk: None,
    })
}

fn mount_writable(
    args: &Mount,
    operands: &Operands<'_>,
    options: Options,
    session: &mut Session,
) -> Result<MountedDisk> {
    let overlay = args.write.overlay.as_deref();
    let new_overlay = overlay.filter(|path| path.symlink_metadata().is_err());
    let disk = operands.source.open_writable(operands.image, overlay);
    let disk = disk.map_err(way_on)?;
    let mounted = mount_disk(&disk, operands, options, session);
    let mounted = mounted.inspect_err(|_| forget(new_overlay))?;
    Ok(MountedDisk {
        mounted,
        disk: Some(disk),
    })
}

fn mount_disk(
    disk: &Disk,
    operands: &Operands<'_>,
    options: Options,
    session: &mut Session,
) -> Result<Mounted> {
    let filesystem = writer(disk, &operands.source, session);
    session.warn_of(disk);
    let filesystem = filesystem.map_err(way_on)?;
    let options = Options {
        source: std::path::absolute(disk.path())?,
        ..options
    };
    fuse::mount_writable(filesystem.driver(), operands.mountpoint, &options)
}

/// Says that the mount works, and lets go of the terminal, the session and the directory.
fn go_into_background(mut waiting: PipeWriter) -> Result<()> {
    let null = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null).map_err(io::Error::from)?;
    rustix::stdio::dup2_stdout(&null).map_err(io::Error::from)?;
    rustix::stdio::dup2_stderr(&null).map_err(io::Error::from)?;
    // Fails for the leader of a process group only, who has no terminal to let go of.
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/")?;
    waiting.write_all(b"\n")?;
    Ok(())
}

/// The end of a server.
struct End {
    ending: Ending,
    /// What is written; gone when it was closed.
    disk: Mutex<Option<Disk>>,
}

impl End {
    /// Unmounts because of a signal.
    fn now(&self) {
        let ends = self.ending.end(GRACE);
        if let Ok(HowItEnds::ByItself) = ends {
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

    /// After the filesystem was closed.
    fn close_disk(&self) -> Result<()> {
        let disk = self
            .disk
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let closed = disk.map_or(Ok(()), Disk::close);
        closed.inspect_err(|error| self.ending.went_badly(error))
    }
}

/// What the words of the command come to.
struct Operands<'a> {
    image: &'a OsStr,
    source: SourceArgs,
    mountpoint: &'a Path,
}

impl Mount {
    fn operands(&self) -> Result<Operands<'_>> {
        let (mountpoint, images) = match self.operands.split_last() {
            Some((mountpoint, images)) if !self.explain => (mountpoint.as_os_str(), images),
            _ => (OsStr::new(""), self.operands.as_slice()),
        };
        let Some((image, further)) = images.split_first() else {
            let error = Error::new(ErrorKind::Invalid, "where to mount it is missing");
            return Err(error.with_hint("write diskfs mount IMG MOUNTPOINT"));
        };
        let mut source = self.source.clone();
        source.add.extend_from_slice(further);
        Ok(Operands {
            image,
            source,
            mountpoint: Path::new(mountpoint),
        })
    }

    fn writes(&self) -> bool {
        let option = self.effect(MountOption::Rw, MountOption::Ro, Effect::Ignored);
        self.write.rw || self.write.overlay.is_some() || option == Effect::Allowed
    }

    /// Whether the last option about access times asks for them.
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

    /// What the last of two opposite options says.
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
