//! Saving of a booted machine's state: machines that begin with it need not boot.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::architecture::Architecture;
use crate::boot_files::{QemuFiles, write_checksum};
use crate::confine::Confinement;
use crate::connection::accept;
use crate::process::Process;
use crate::qemu::{self, Accelerator};
use crate::saved_state::{SavedState, receive};

use super::monitor::Monitor;
use diskfs_disk::{Error, ErrorKind, Result};

/// The timeout of each step: on a busy machine, booting takes many times as long as on an idle one.
const DEADLINE: Duration = Duration::from_mins(2);

/// The name of the stream for the state in QEMU.
const STREAM: &str = "state";

/// Boots a machine with this much memory, and saves it when its agent waits for a host. Returns the
/// file's size.
///
/// # Errors
/// Fails with `Unsupported` if QEMU is not installed, or if the machine does not boot.
pub(super) fn save(files: &QemuFiles, memory_mib: u32) -> Result<u64> {
    let to = files.saved.as_path();
    let architecture = Architecture::of_kernel(&files.kernel)?;
    let program = qemu::find(architecture)?;
    let dir = tempfile::tempdir()?;
    let (stream, monitor) = (dir.path().join("agent"), dir.path().join("monitor"));
    let began = Instant::now();
    let listener = UnixListener::bind(&monitor)?;
    let parent = to.parent().filter(|dir| !dir.as_os_str().is_empty());
    let new = NamedTempFile::new_in(parent.unwrap_or(Path::new(".")))?;

    let processor = (architecture, Accelerator::Tcg);
    let mut command = qemu::machine(&program, architecture.machine(), processor, memory_mib);
    let words = format!("{} diskfs.saved", qemu::command_line(architecture));
    qemu::boot(&mut command, files, &words);
    let at = |path: &Path| qemu::doubled_commas(path);
    // QEMU does not wait for a peer of this stream.
    let stream = format!(
        "socket,id={},path={},server=on,wait=off",
        qemu::AGENT,
        at(&stream)
    );
    qemu::agent(&mut command, &stream);
    let monitor = format!("unix:{},server=off", at(&monitor));
    command.args(["-qmp", &monitor]);
    let process = Process::start(command, &confinement(dir.path()))?;
    let saved = accept(&listener, &process, began, DEADLINE)
        .and_then(|stream| Monitor::begin(stream, DEADLINE))
        .and_then(|monitor| save_booted(monitor, &process, new.as_file()));
    let machine = saved.inspect_err(|_| process.print_log())?;
    drop(process);

    SavedState::write_header(new.as_file(), &machine, memory_mib)?;
    new.as_file()
        .set_permissions(Permissions::from_mode(0o644))?;
    new.persist(to)
        .map_err(|e| Error::from(e.error).in_file(to))?;
    write_checksum(to)?;
    Ok(fs::metadata(to)?.len())
}

/// Returns a confinement that allows what saving needs: the kernel and its input are our own.
fn confinement(dir: &Path) -> Confinement {
    Confinement {
        read: vec!["/".into()],
        write: vec![dir.to_owned(), "/dev/null".into()],
        ..Confinement::default()
    }
}

/// Waits for the agent and writes the state after the header of `file`. Returns QEMU's machine
/// type.
fn save_booted(mut monitor: Monitor, process: &Process, file: &File) -> Result<String> {
    let kind = json!({ "path": "/machine", "property": "type" });
    let kind = monitor.execute("qom-get", &kind)?;
    let kind = kind.as_str().and_then(|kind| kind.strip_suffix("-machine"));
    let kind = kind.ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            "missing machine type in QEMU's answer",
        )
    })?;

    let events = json!({ "capabilities": [{ "capability": "events", "state": true }] });
    monitor.execute("migrate-set-capabilities", &events)?;
    // No limit: nothing else runs meanwhile.
    let unbounded = json!({ "max-bandwidth": i64::MAX });
    monitor.execute("migrate-set-parameters", &unbounded)?;

    // The agent opens its port last.
    monitor.wait_for("VSERPORT_CHANGE", |data| {
        data.get("open") == Some(&Value::Bool(true))
    })?;
    let (ours, theirs) = UnixStream::pair()?;
    monitor.pass(theirs.as_fd(), STREAM)?;
    drop(theirs); // The stream ends when QEMU closes it.
    thread::scope(|scope| {
        let received = scope.spawn(|| receive(ours, file));
        let migrated = migrate(monitor);
        process.kill(); // It closes the stream, also if it did not migrate.
        let received = received.join();
        let received = received.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        migrated.and(Ok(received?))
    })?;
    Ok(kind.to_owned())
}

/// Lets QEMU write the state to the stream, and closes it.
fn migrate(mut monitor: Monitor) -> Result<()> {
    monitor.execute("migrate", &json!({ "uri": format!("fd:{STREAM}") }))?;
    let status = |data: &Value| Some(data.get("status")?.as_str()?.to_owned());
    let ended = monitor.wait_for("MIGRATION", |data| {
        matches!(status(data).as_deref(), Some("completed" | "failed"))
    })?;
    if status(&ended).as_deref() != Some("completed") {
        return Err(Error::new(ErrorKind::Io, "QEMU cannot save the machine"));
    }
    Ok(())
}
