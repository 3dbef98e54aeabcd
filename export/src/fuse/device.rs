//! The connection to the kernel: `/dev/fuse`, mounted directly as root, or through fusermount3.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use super::host::{Host, MountPlace, RequestRings};
use super::mount_table::{KIND, MountId, lossy, mounted_at};
use super::options::{Access, Direction, Effect, Options};
use diskfs_disk::{Error, ErrorKind, Result};
use diskfs_vfs::FileType;

/// The device; each thread that serves a mount opens it.
pub const DEVICE: &str = "/dev/fuse";

/// The kernel's read-ahead in KiB, where we may set it: as much as one request transfers.
const READ_AHEAD_KIB: u32 = 1024;

/// The set-user-id helper that mounts for an ordinary user.
const FUSERMOUNT: &str = "fusermount3";

/// The subtype of our mounts: the part after `fuse.` in `/proc/self/mountinfo`.
const SUBTYPE: &str = "diskfs";

/// A mount and the descriptor that serves it. Dropping it unmounts the filesystem if it is still
/// mounted.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) device: File,
    pub(super) mount: MountPoint,
    pub(super) rings: Option<RequestRings>,
}

/// The place where the filesystem is mounted.
#[derive(Debug)]
pub(super) struct MountPoint {
    pub(super) place: MountPlace,
    pub(super) host: Arc<dyn Host>,
    unique_id: Option<u64>,
}

impl MountPoint {
    fn new(place: MountPlace, host: Arc<dyn Host>) -> Self {
        Self {
            unique_id: unique_id(&place.path),
            place,
            host,
        }
    }

    /// Removes what is left of the mount after the connection has ended. An unmount ended it and
    /// leaves nothing to do; an abort leaves a dead mount. The kernel reuses device numbers at
    /// once, so the mount that is found may already be another one.
    pub(super) fn clear(self) {
        if unique_id(&self.place.path) != self.unique_id {
            std::mem::forget(self);
        }
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        let _ = self.host.detach(&self.place);
    }
}

/// Detaches the mount `id` from the tree if it is still mounted. A filesystem that was mounted at
/// the same place since stays.
///
/// # Errors
/// Fails if the kernel or fusermount3 refuses.
pub fn detach(mountpoint: &Path, id: MountId) -> Result<()> {
    unmount_if(mountpoint, id, Laziness::Detach)
}

/// Unmounts `id` if it is the mount on top at `mountpoint`.
pub(super) fn unmount_if(mountpoint: &Path, id: MountId, laziness: Laziness) -> Result<()> {
    match mounted_at(mountpoint)? {
        Some(found) if found.id == id => unmount(mountpoint, laziness),
        _ => Ok(()),
    }
}

/// Returns the mount id of the topmost mount at `path`, which is never reused (Linux 6.8 and
/// later). The look-up does not ask the filesystem, so it also works while nobody answers requests.
fn unique_id(path: &Path) -> Option<u64> {
    /// The value in linux/stat.h.
    const STATX_MNT_ID_UNIQUE: u32 = 0x4000;
    let wanted = StatxFlags::from_bits_retain(STATX_MNT_ID_UNIQUE);
    let quietly = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    let found = rustix::fs::statx(rustix::fs::CWD, path, quietly, wanted).ok()?;
    (found.stx_mask & STATX_MNT_ID_UNIQUE != 0).then_some(found.stx_mnt_id)
}

/// Mounts at `mountpoint`; requests are not answered yet.
pub(super) fn connect(
    mountpoint: &Path,
    direction: Direction,
    options: &Options,
) -> Result<Connection> {
    let (device, place) = options.host.mount(mountpoint, direction, options)?;
    Ok(Connection {
        device: device.into(),
        mount: MountPoint::new(place, Arc::clone(&options.host)),
        rings: options.host.request_rings(options),
    })
}

/// Mounts at `mountpoint` in this process.
pub(super) fn mount(
    mountpoint: &Path,
    direction: Direction,
    options: &Options,
) -> Result<(OwnedFd, MountPlace)> {
    let path =
        check_mountpoint(mountpoint, options.root).map_err(|error| error.in_file(mountpoint))?;
    let device = mount_directly(&path, direction, options)
        .and_then(|mounted| match mounted {
            Some(device) => Ok(device),
            None => mount_with_helper(&path, direction, options),
        })
        .map_err(|error| error.in_file(mountpoint))?;
    let id = mounted_at(&path)?
        .filter(|mount| mount.kind == KIND)
        .map(|mount| mount.id)
        .ok_or_else(|| {
            let reason = "mounted, but the mount is missing in /proc/self/mountinfo";
            Error::new(ErrorKind::Other, reason).in_file(mountpoint)
        })?;
    Ok((device.into(), MountPlace { path, id }))
}

fn check_mountpoint(mountpoint: &Path, root: FileType) -> Result<PathBuf> {
    let found = fs::canonicalize(mountpoint).and_then(|path| Ok((fs::metadata(&path)?, path)));
    let (metadata, path) = found.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NOTCONN) => {
            let reason = "a FUSE mount whose server has ended is still mounted here";
            Error::new(ErrorKind::Other, reason).with_hint("remove it with `diskfs umount` first")
        }
        Some(Errno::NOENT) => Error::new(ErrorKind::NotFound, "mount point does not exist")
            .with_hint("make it with mkdir"),
        _ => error.into(),
    })?;
    match root {
        FileType::Directory if !metadata.is_dir() => {
            let reason = "mount point is not a directory";
            Err(Error::new(ErrorKind::NotADirectory, reason))
        }
        FileType::Regular if !metadata.is_file() => {
            let reason = "mount point is not a regular file";
            Err(Error::new(ErrorKind::Invalid, reason))
        }
        _ => Ok(path),
    }
}

/// Opens the device and mounts it. Returns `None` if we lack the privileges.
fn mount_directly(path: &Path, direction: Direction, options: &Options) -> Result<Option<File>> {
    let device = match OpenOptions::new().read(true).write(true).open(DEVICE) {
        Ok(device) => device,
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::ACCESS | Errno::PERM) => return Ok(None),
            Some(Errno::NOENT | Errno::NODEV | Errno::NXIO) => return Err(no_fuse()),
            _ => return Err(Error::from(error).in_file(DEVICE)),
        },
    };
    let data = kernel_options(&device, options);
    let flags = flags(direction, options);
    match rustix::mount::mount(&options.source, path, KIND, flags, data.as_c_str()) {
        Ok(()) => Ok(Some(device)),
        Err(Errno::PERM) => Ok(None),
        Err(Errno::NODEV) => Err(no_fuse()),
        Err(error) => Err(io::Error::from(error).into()),
    }
}

fn no_fuse() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "FUSE is not supported by this kernel",
    )
    .with_hint("load it with `modprobe fuse`; in a container, pass /dev/fuse in")
}

/// Builds the `data` string for fuse.ko (Documentation/filesystems/fuse.rst).
fn kernel_options(device: &File, options: &Options) -> CString {
    let mut data = format!(
        "fd={},rootmode={:o},user_id={},group_id={}",
        device.as_raw_fd(),
        options.root.mode_bits(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    for option in access_options(options.access) {
        data.push(',');
        data.push_str(option);
    }
    CString::new(data).unwrap_or_default()
}

fn access_options(access: Access) -> &'static [&'static str] {
    match access {
        Access::Owner => &[],
        Access::OwnerChecked => &["default_permissions"],
        Access::Everyone => &["default_permissions", "allow_other"],
    }
}

fn flags(direction: Direction, options: &Options) -> MountFlags {
    let unless = |effect: Effect, flag: MountFlags| match effect {
        Effect::Allowed => MountFlags::empty(),
        Effect::Ignored => flag,
    };
    let direction = match direction {
        Direction::ReadOnly => MountFlags::RDONLY,
        Direction::ReadWrite => MountFlags::empty(),
    };
    // FUSE does not report that a file was read, so every other atime mode would be untrue.
    direction
        | MountFlags::NOATIME
        | unless(options.suid, MountFlags::NOSUID)
        | unless(options.devices, MountFlags::NODEV)
        | unless(options.execute, MountFlags::NOEXEC)
}

/// Builds the argument of fusermount3's `-o`.
fn helper_options(direction: Direction, options: &Options) -> OsString {
    let direction = match direction {
        Direction::ReadOnly => "ro",
        Direction::ReadWrite => "rw",
    };
    let mut list = format!("{direction},noatime,subtype={SUBTYPE}").into_bytes();
    let by_effect = [
        (options.suid, "suid", "nosuid"),
        (options.devices, "dev", "nodev"),
        (options.execute, "exec", "noexec"),
    ];
    let by_effect = by_effect
        .iter()
        .map(|(effect, allowed, ignored)| match effect {
            Effect::Allowed => *allowed,
            Effect::Ignored => *ignored,
        });
    for option in by_effect.chain(access_options(options.access).iter().copied()) {
        list.push(b',');
        list.extend_from_slice(option.as_bytes());
    }
    list.extend_from_slice(b",fsname=");
    for &byte in options.source.as_os_str().as_bytes() {
        if matches!(byte, b',' | b'\\') {
            list.push(b'\\');
        }
        list.push(byte);
    }
    OsString::from_vec(list)
}

/// Mounts through fusermount3 and receives the open device over a socket. The socket is the
/// helper's standard input: the only descriptor that a child inherits without further arrangements.
fn mount_with_helper(path: &Path, direction: Direction, options: &Options) -> Result<File> {
    check_effects(options)?;
    let (ours, theirs) = UnixStream::pair()?;
    let child = Command::new(FUSERMOUNT)
        .arg("-o")
        .arg(helper_options(direction, options))
        .arg("--")
        .arg(path)
        .env("_FUSE_COMMFD", "0")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| no_helper(error, "mount"))?;
    let device = receive_device(&ours)?;
    // Wait only after the device arrived: without `-o auto_unmount` the helper ends after sending
    // it.
    let complaint = finish(child)?;
    device.ok_or_else(|| helper_failed(&complaint))
}

/// Refuses options that fusermount3 would drop silently: mounts of ordinary users never honour
/// set-user-id programs and device nodes.
fn check_effects(options: &Options) -> Result<()> {
    let effects = [(options.suid, "suid"), (options.devices, "dev")];
    let is_root = rustix::process::getuid().is_root();
    let refused = effects
        .iter()
        .find(|(effect, _)| *effect == Effect::Allowed);
    match refused {
        Some((_, name)) if !is_root => {
            let reason = format!("only root can mount with the option `{name}`");
            let hint = format!("leave out `-o {name}`, or mount as root");
            Err(Error::new(ErrorKind::Denied, reason).with_hint(hint))
        }
        _ => Ok(()),
    }
}

fn no_helper(error: io::Error, purpose: &str) -> Error {
    if error.kind() == io::ErrorKind::NotFound {
        let reason = format!("cannot {purpose} as an ordinary user: {FUSERMOUNT} is not installed");
        return Error::new(ErrorKind::Unsupported, reason)
            .with_hint("install fuse3: `apt install fuse3`");
    }
    Error::from(error).in_file(FUSERMOUNT)
}

/// Waits for the helper to end. Returns its error output.
fn finish(mut child: Child) -> Result<String> {
    let mut complaint = Vec::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_end(&mut complaint)?;
    }
    child.wait()?;
    Ok(lossy(OsStr::from_bytes(&complaint)).trim().to_owned())
}

/// The known error messages of fusermount3 about missing rights, each with a hint.
const DENIALS: [(&str, &str); 4] = [
    (
        "user_allow_other",
        "add the line `user_allow_other` to /etc/fuse.conf",
    ),
    (
        "failed to open /dev/fuse",
        "let ordinary users open it, as is usual: `chmod 666 /dev/fuse`",
    ),
    ("has no write access", "use a directory that you own"),
    ("not permitted", "use a directory that you own"),
];

fn helper_failed(complaint: &str) -> Error {
    let own_words = complaint
        .strip_prefix(FUSERMOUNT)
        .map_or(complaint, |rest| rest.trim_start_matches([':', ' ']));
    if complaint.contains("device not found") {
        return no_fuse();
    }
    let reason = format!("{FUSERMOUNT} refused: {own_words}");
    let known = DENIALS.iter().find(|(words, _)| complaint.contains(words));
    match known {
        Some((_, hint)) => Error::new(ErrorKind::Denied, reason).with_hint(*hint),
        None => Error::new(ErrorKind::Other, reason),
    }
}

/// Receives the device that the helper sends. Returns `None` if the helper ends without sending it.
fn receive_device(socket: &UnixStream) -> Result<Option<File>> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut byte)];
    let received = loop {
        match rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            received => break received.map_err(io::Error::from)?,
        }
    };
    if received.bytes == 0 {
        return Ok(None);
    }
    let fds = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    Ok(fds.flatten().next().map(File::from))
}

/// The behaviour of an unmount while the mount is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Laziness {
    /// Fails while a process uses the mount.
    Refuse,
    /// Detaches the mount from the tree at once; processes that use it continue until they are
    /// done.
    Detach,
}

/// Unmounts the topmost mount at `mountpoint`, as root or through fusermount3.
pub(super) fn unmount(mountpoint: &Path, laziness: Laziness) -> Result<()> {
    let flags = match laziness {
        Laziness::Refuse => UnmountFlags::NOFOLLOW,
        Laziness::Detach => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
    };
    match rustix::mount::unmount(mountpoint, flags) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => unmount_with_helper(mountpoint, laziness),
        Err(Errno::BUSY) => Err(busy()),
        Err(error) => Err(io::Error::from(error).into()),
    }
}

fn busy() -> Error {
    Error::new(ErrorKind::Locked, "the mount is in use")
}

fn unmount_with_helper(mountpoint: &Path, laziness: Laziness) -> Result<()> {
    let mut command = Command::new(FUSERMOUNT);
    command.arg("-u");
    if laziness == Laziness::Detach {
        command.arg("-z");
    }
    let output = command
        .arg("--")
        .arg(mountpoint)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| no_helper(error, "unmount"))?;
    if output.status.success() {
        return Ok(());
    }
    let complaint = lossy(OsStr::from_bytes(&output.stderr));
    if complaint.contains("busy") {
        return Err(busy());
    }
    Err(helper_failed(complaint.trim()))
}

/// Returns true if each thread can have a descriptor of its own: only a process that may open the
/// device can clone one.
pub(super) fn can_clone() -> bool {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(DEVICE)
        .is_ok()
}

/// Raises the kernel's read-ahead above its default of 128 KiB. Only root can do so. Failure is
/// ignored: it only costs speed.
pub(super) fn raise_read_ahead(id: MountId) {
    let _ = fs::write(
        format!("/sys/class/bdi/{id}/read_ahead_kb"),
        READ_AHEAD_KIB.to_string(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_helper_is_told_everything() {
        let options = Options {
            source: "/a,b\\c.qcow2".into(),
            access: Access::Everyone,
            execute: Effect::Ignored,
            ..Options::default()
        };
        assert_eq!(
            helper_options(Direction::ReadOnly, &options),
            "ro,noatime,subtype=diskfs,nosuid,nodev,noexec,default_permissions,allow_other,\
             fsname=/a\\,b\\\\c.qcow2"
        );
    }

    #[test]
    fn mountpoints_are_checked() {
        let missing =
            check_mountpoint(Path::new("/no/such/place"), FileType::Directory).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        let comm = Path::new("/proc/self/comm");
        let file = check_mountpoint(comm, FileType::Directory).unwrap_err();
        assert_eq!(file.kind(), ErrorKind::NotADirectory);
        assert_eq!(
            check_mountpoint(comm, FileType::Regular).unwrap(),
            Path::new("/proc/self/comm").canonicalize().unwrap()
        );
        let directory = check_mountpoint(Path::new("/proc"), FileType::Regular).unwrap_err();
        assert_eq!(directory.kind(), ErrorKind::Invalid);
    }

    #[test]
    fn complaints_of_the_helper_get_a_next_step() {
        let error = helper_failed(
            "fusermount3: option allow_other only allowed if 'user_allow_other' is set in \
             /etc/fuse.conf",
        );
        assert_eq!(error.kind(), ErrorKind::Denied);
        assert!(
            error
                .reason()
                .starts_with("fusermount3 refused: option allow_other")
        );
        assert!(
            error
                .next_step()
                .is_some_and(|hint| hint.contains("user_allow_other"))
        );
    }
}
