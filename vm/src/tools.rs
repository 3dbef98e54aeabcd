//! Work on a filesystem that only a kernel or the filesystem's own programs can do: making,
//! checking, growing, trimming.

use std::fmt;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, File, Overlay};
use diskfs_remote::client::{Ended, Program, Stream};
use serde::{Deserialize, Serialize};

use super::boot_files::{Appliance, verify_checksum};
use super::filesystem_kinds;
use super::filesystem_kinds::Access;
use super::machine::serial;
use super::start;
use super::tree::{MachineTree, Part};
use super::{BackendChoice, RECOVERY_MAX_BYTES, VmOptions};
use diskfs_disk::{Error, ErrorKind, Result};
use diskfs_export::vhost_user::BlockDevice;

/// The search path of the programs.
const PATH: &[u8] = b"PATH=/bin";
/// The mount point of the target filesystem, if the program needs it mounted.
const TARGET_DIR: &str = "/mnt";
/// The number of bytes of a program's output that are kept to explain a failure.
const OUTPUT_BYTES_MAX: usize = 16 << 10;

/// Makes and changes filesystems by their own programs.
pub trait FilesystemTools: fmt::Debug + Send + Sync {
    /// Checks that the programs are there and may run, before anything is changed for them.
    ///
    /// # Errors
    /// `Unsupported` or `NotFound` if not.
    fn check(&self) -> Result<()>;

    /// Does the work on a device.
    ///
    /// # Errors
    /// As for [`work`]; `Other` if the program fails.
    fn work(&self, kind: &str, device: Arc<dyn BlockWrite>, work: &Work) -> Result<()>;
}

/// Runs the programs in a machine with these options.
impl FilesystemTools for VmOptions {
    fn check(&self) -> Result<()> {
        if self.choice == BackendChoice::None {
            let reason = "this filesystem needs its own program in a microVM";
            let error = Error::new(ErrorKind::Unsupported, reason);
            return Err(error.with_hint("start the service without `--vm none`"));
        }
        let tools = Appliance::find(self.appliance.as_deref()).tools();
        tools.map(drop)
    }

    fn work(&self, kind: &str, device: Arc<dyn BlockWrite>, what: &Work) -> Result<()> {
        work(self, kind, device, what, |_, _| Ok(()))?.check()
    }
}

/// The operation on a filesystem or volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// Make a new filesystem.
    Make(NewByTool),
    /// Check the filesystem for errors. Nothing is written.
    Check,
    /// Repair the filesystem.
    Repair,
    /// Grow the filesystem to the size of its volume.
    Grow,
    /// Discard the unused space on the device.
    Trim,
}

/// Returns true if a program can do this with this kind of filesystem.
pub fn is_known(kind: &str, work: &Work) -> bool {
    let mounts =
        |call: Call| !call.mounts || filesystem_kinds::for_access(kind, Access::ReadWrite).is_ok();
    call(kind, work, "").is_ok_and(mounts)
}

/// The properties of a new filesystem.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewByTool {
    /// The label of the filesystem.
    pub label: Option<String>,
    /// The UUID of the filesystem.
    pub uuid: Option<String>,
    /// Further options for the program that makes it.
    pub options: Vec<String>,
}

/// The result of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The program and its arguments.
    pub command: String,
    /// The exit status of the program.
    pub ended: Ended,
    /// The end of the program's output.
    pub output: String,
}

impl ToolResult {
    /// Returns true if the program found no errors, or did its work.
    pub fn is_well(&self) -> bool {
        self.ended == Ended::Exited(0)
    }

    /// Returns an error that quotes the program's output.
    ///
    /// # Errors
    /// Fails with `Other` unless [`is_well`](Self::is_well) returns true.
    pub fn check(&self) -> Result<()> {
        if self.is_well() {
            return Ok(());
        }
        let how = match self.ended {
            Ended::Exited(status) => format!("ended with status {status}"),
            Ended::Killed(signal) => format!("was killed by signal {signal}"),
        };
        let reason = format!("`{}` {how}: {}", self.command, self.output.trim_end());
        Err(Error::new(ErrorKind::Other, reason))
    }
}

/// The command line of a program.
struct Call {
    words: Vec<String>,
    /// The answers to its questions, for its standard input.
    answers: &'static str,
    /// True if the filesystem has to be mounted.
    mounts: bool,
}

/// Runs the work on `device`, whose filesystem has this kind. `on_output` gets the program's
/// output.
///
/// # Errors
/// Fails with `Unsupported` if no program does that for this kind, if no machine starts, or if the
/// appliance has no [programs](Appliance::tools); with the error of mounting.
pub fn work(
    options: &VmOptions,
    kind: &str,
    device: Arc<dyn BlockWrite>,
    work: &Work,
    on_output: impl FnMut(Stream, &[u8]) -> Result<()>,
) -> Result<ToolResult> {
    let call = call(kind, work, &format!("/dev/{}", serial(1)))?;
    let tools = Appliance::find(options.appliance.as_deref()).tools()?;
    verify_checksum(&tools)?;
    let tools = File::open(&tools).map_err(|e| Error::from(e).in_file(&tools))?;
    let native = filesystem_kinds::for_access("ext4", Access::ReadOnly)?;
    let tools = Part::mounted(
        vec![BlockDevice::read_only(Arc::new(tools))],
        native,
        Access::ReadOnly,
    );
    let target = vec![BlockDevice::writable(device)];
    let target = if call.mounts {
        let mounting = filesystem_kinds::for_access(kind, Access::ReadWrite)?;
        Part::mounted(target, mounting, Access::ReadWrite)
    } else {
        Part::only_disks(target)
    };
    let tree = MachineTree::of_parts(options, vec![tools, target], b"")?;
    if call.mounts {
        tree.show_at(1, TARGET_DIR)?;
    }
    let done = run(&tree, &call, on_output);
    let ended = tree.end();
    let done = done?;
    ended?;
    Ok(done)
}

/// Checks a filesystem without writing to its device: a journal replay that precedes the check goes
/// into memory.
///
/// # Errors
/// Fails for the same reasons as [`work`].
pub fn check(
    options: &VmOptions,
    kind: &str,
    device: Arc<dyn BlockRead>,
    on_output: impl FnMut(Stream, &[u8]) -> Result<()>,
) -> Result<ToolResult> {
    let scratch = Overlay::in_memory(device, RECOVERY_MAX_BYTES);
    work(options, kind, Arc::new(scratch), &Work::Check, on_output)
}

/// Checks that [`work`] finds a program for the work, without starting a machine.
///
/// # Errors
/// Fails with `Unsupported` if no program does the work for this kind, if microVMs are disabled, or
/// if the appliance has no programs.
pub fn check_available(options: &VmOptions, kind: &str, work: &Work) -> Result<()> {
    call(kind, work, "")?;
    start::check_enabled(options)?;
    let tools = Appliance::find(options.appliance.as_deref()).tools()?;
    let opened = File::open(&tools).map(drop);
    opened.map_err(|e| Error::from(e).in_file(&tools))
}

fn run(
    tree: &MachineTree,
    call: &Call,
    mut on_output: impl FnMut(Stream, &[u8]) -> Result<()>,
) -> Result<ToolResult> {
    let words = call.words.iter().map(|word| word.as_bytes().to_vec());
    let running = tree.start(Program {
        words: words.collect(),
        environment: vec![PATH.to_vec(), b"LC_ALL=C".to_vec()],
        ..Program::default()
    })?;
    // The program may end without reading its input.
    let _ = running.input(call.answers.as_bytes());
    let _ = running.close_input();
    let mut output = Vec::new();
    let ended = running.wait(|stream, bytes| {
        output.extend_from_slice(bytes);
        if output.len() > OUTPUT_BYTES_MAX {
            output.drain(..output.len() - OUTPUT_BYTES_MAX);
        }
        on_output(stream, bytes)
    })?;
    Ok(ToolResult {
        command: call.words.join(" "),
        ended,
        output: String::from_utf8_lossy(&output).into_owned(),
    })
}

fn call(kind: &str, work: &Work, device: &str) -> Result<Call> {
    let on_device = |words: &[&str]| Call {
        words: words
            .iter()
            .chain(&[device])
            .map(|&word| word.to_owned())
            .collect(),
        answers: "",
        mounts: false,
    };
    let mounted = |words: &[&str]| Call {
        words: words.iter().map(|&word| word.to_owned()).collect(),
        answers: "",
        mounts: true,
    };
    Ok(match (work, kind) {
        (Work::Make(new), _) => make(kind, new, device)?,
        (Work::Check, "xfs") => on_device(&["xfs_repair", "-n"]),
        (Work::Check, "btrfs") => on_device(&["btrfs", "check", "--readonly"]),
        (Work::Check, "f2fs") => on_device(&["fsck.f2fs", "--dry-run"]),
        (Work::Check, "ntfs") => on_device(&["ntfsfix", "-n"]),
        (Work::Check, "ext2" | "ext3" | "ext4") => on_device(&["e2fsck", "-f", "-n"]),
        (Work::Check, "vfat") => on_device(&["fsck.vfat", "-n"]),
        (Work::Check, "exfat") => on_device(&["fsck.exfat", "-n"]),
        (Work::Repair, "xfs") => on_device(&["xfs_repair"]),
        (Work::Repair, "btrfs") => on_device(&["btrfs", "check", "--repair", "--force"]),
        (Work::Repair, "f2fs") => on_device(&["fsck.f2fs", "-f", "-y"]),
        (Work::Repair, "ntfs") => on_device(&["ntfsfix"]),
        (Work::Repair, "ext2" | "ext3" | "ext4") => on_device(&["e2fsck", "-f", "-y"]),
        (Work::Repair, "vfat") => on_device(&["fsck.vfat", "-a", "-w"]),
        (Work::Repair, "exfat") => on_device(&["fsck.exfat", "-y"]),
        (Work::Grow, "xfs") => mounted(&["xfs_growfs", TARGET_DIR]),
        (Work::Grow, "btrfs") => mounted(&["btrfs", "filesystem", "resize", "max", TARGET_DIR]),
        (Work::Grow, "f2fs") => on_device(&["resize.f2fs"]),
        (Work::Grow, "ntfs") => Call {
            answers: "y\n",
            ..on_device(&["ntfsresize", "--force", "--force"])
        },
        (Work::Grow, "ext2" | "ext3" | "ext4") => mounted(&["resize2fs", device]),
        (Work::Trim, _) => mounted(&["fstrim", "--verbose", TARGET_DIR]),
        (Work::Check | Work::Repair | Work::Grow, _) => {
            let reason = format!("this operation is not supported for {kind}");
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
    })
}

/// The program that makes a filesystem, with its options for a label and a UUID.
struct Maker {
    words: &'static [&'static str],
    label: &'static str,
    uuid: Option<&'static str>,
}

fn make(kind: &str, new: &NewByTool, device: &str) -> Result<Call> {
    let unsupported = |reason: String| Error::new(ErrorKind::Unsupported, reason);
    let maker = match kind {
        "xfs" => Maker {
            words: &["mkfs.xfs", "-f"],
            label: "-L",
            uuid: Some("-muuid="),
        },
        "btrfs" => Maker {
            words: &["mkfs.btrfs", "-f"],
            label: "-L",
            uuid: Some("-U"),
        },
        "ext2" | "ext3" | "ext4" => Maker {
            words: &["mke2fs", "-F", "-t"],
            label: "-L",
            uuid: Some("-U"),
        },
        "f2fs" => Maker {
            words: &[
                "mkfs.f2fs",
                "-f",
                "-O",
                "extra_attr,inode_checksum,sb_checksum",
            ],
            label: "-l",
            uuid: None,
        },
        "ntfs" => Maker {
            words: &["mkntfs", "--fast", "--force"],
            label: "-L",
            uuid: None,
        },
        _ => {
            return Err(unsupported(format!("making {kind} is not supported")));
        }
    };
    let mut words: Vec<String> = maker.words.iter().map(|&word| word.to_owned()).collect();
    if kind.starts_with("ext") {
        words.push(kind.to_owned());
    }
    if let Some(label) = &new.label {
        words.extend([maker.label.to_owned(), label.clone()]);
    }
    if let Some(uuid) = &new.uuid {
        let option = maker
            .uuid
            .ok_or_else(|| unsupported(format!("a UUID is not supported for {kind}")))?;
        words.push(format!("{option}{uuid}"));
    }
    words.extend(new.options.iter().cloned());
    words.push(device.to_owned());
    Ok(Call {
        words,
        answers: "",
        mounts: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_called_as_they_want_it() {
        let new = NewByTool {
            label: Some("data".to_owned()),
            uuid: Some("01-02".to_owned()),
            options: vec!["-K".to_owned()],
        };
        let words = |kind, work| call(kind, &work, "/dev/x").map(|call| call.words.join(" "));
        let made = words("xfs", Work::Make(new.clone())).unwrap();
        assert_eq!(made, "mkfs.xfs -f -L data -muuid=01-02 -K /dev/x");
        let made = words("ext3", Work::Make(new.clone())).unwrap();
        assert_eq!(made, "mke2fs -F -t ext3 -L data -U01-02 -K /dev/x");
        assert!(words("f2fs", Work::Make(new)).is_err());
        assert!(words("jfs", Work::Check).is_err());
        assert_eq!(words("xfs", Work::Grow).unwrap(), "xfs_growfs /mnt");
    }
}
