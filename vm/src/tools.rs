//! Work on a filesystem that only a kernel or its own programs can do: to make it, to check it, to make it
//! larger, to discard what it does not use.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, File, Overlay};
use diskfs_remote::client::{Ended, Program, Stream};

use super::boot_files::Appliance;
use super::kinds;
use super::kinds::Access;
use super::machine::serial;
use super::tree::{MachineTree, Part};
use super::{RECOVERY_MAX_BYTES, VmOptions};
use diskfs_disk::{Error, ErrorKind, Result};
use diskfs_export::vhost_user::BlockDevice;

/// Where programs are.
const PATH: &[u8] = b"PATH=/bin";
/// Where the filesystem is mounted that is worked on, if it is.
const TARGET_DIR: &str = "/mnt";
/// How much of what a program wrote is kept to say why it failed.
const SAID_BYTES: usize = 16 << 10;

/// What is to be done with the filesystem on a volume, or with a volume to be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Make a new one.
    Make(NewByTool),
    /// Look whether it is whole. Nothing is written.
    Check,
    /// Mend it.
    Repair,
    /// Make it as large as its volume.
    Grow,
    /// Tell the device what it does not use.
    Trim,
}

/// Whether there is a program that does it with this kind of filesystem, and what it needs is known.
pub fn is_known(kind: &str, work: &Work) -> bool {
    let mounts = |call: Call| !call.mounts || kinds::for_access(kind, Access::ReadWrite).is_ok();
    call(kind, work, "").is_ok_and(mounts)
}

/// A filesystem to be made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewByTool {
    /// Its label.
    pub label: Option<String>,
    /// Its UUID.
    pub uuid: Option<String>,
    /// Further options of the program that makes it.
    pub options: Vec<String>,
}

/// How the program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The program and its arguments.
    pub command: String,
    /// How it ended.
    pub ended: Ended,
    /// The last of what it wrote.
    pub said: String,
}

impl Done {
    /// Whether the program found nothing wrong, or did what it was to do.
    pub fn is_well(&self) -> bool {
        self.ended == Ended::Exited(0)
    }

    /// An error that quotes the program.
    ///
    /// # Errors
    /// `Other` unless all [is well](Self::is_well).
    pub fn check(&self) -> Result<()> {
        if self.is_well() {
            return Ok(());
        }
        let how = match self.ended {
            Ended::Exited(status) => format!("ended with status {status}"),
            Ended::Killed(signal) => format!("was killed by signal {signal}"),
        };
        let reason = format!("`{}` {how}: {}", self.command, self.said.trim_end());
        Err(Error::new(ErrorKind::Other, reason))
    }
}

/// How a program is called.
struct Call {
    words: Vec<String>,
    /// What it asks on its standard input.
    answers: &'static str,
    /// Whether the filesystem has to be mounted.
    mounts: bool,
}

/// Has it done on `device`, of which the filesystem is of this kind. `hear` gets what the program writes.
///
/// # Errors
/// `Unsupported` when nothing does that for this kind, and when no machine starts or there are no
/// [programs](Appliance::tools); what mounting meets.
pub fn work(
    options: &VmOptions,
    kind: &str,
    device: Arc<dyn BlockWrite>,
    work: &Work,
    hear: impl FnMut(Stream, &[u8]) -> Result<()>,
) -> Result<Done> {
    let call = call(kind, work, &format!("/dev/{}", serial(1)))?;
    let tools = Appliance::find(options.appliance.as_deref()).tools()?;
    let tools = File::open(&tools).map_err(|e| Error::from(e).in_file(&tools))?;
    let native = kinds::for_access("ext4", Access::ReadOnly)?;
    let tools = Part::mounted(
        BlockDevice::read_only(Arc::new(tools)),
        native,
        Access::ReadOnly,
    );
    let target = BlockDevice::writable(device);
    let target = if call.mounts {
        let mounting = kinds::for_access(kind, Access::ReadWrite)?;
        Part::mounted(target, mounting, Access::ReadWrite)
    } else {
        Part::only_a_disk(target)
    };
    let tree = MachineTree::of_parts(options, vec![tools, target], b"")?;
    if call.mounts {
        tree.show_at(1, TARGET_DIR)?;
    }
    let done = run(&tree, &call, hear);
    let ended = tree.end();
    let done = done?;
    ended?;
    Ok(done)
}

/// The same without writing anything: what has to be replayed before it can be looked at is, in memory.
///
/// # Errors
/// As [`work`].
pub fn check(
    options: &VmOptions,
    kind: &str,
    device: Arc<dyn BlockRead>,
    hear: impl FnMut(Stream, &[u8]) -> Result<()>,
) -> Result<Done> {
    let scratch = Overlay::in_memory(device, RECOVERY_MAX_BYTES);
    work(options, kind, Arc::new(scratch), &Work::Check, hear)
}

fn run(
    tree: &MachineTree,
    call: &Call,
    mut hear: impl FnMut(Stream, &[u8]) -> Result<()>,
) -> Result<Done> {
    let words = call.words.iter().map(|word| word.as_bytes().to_vec());
    let running = tree.start(Program {
        words: words.collect(),
        environment: vec![PATH.to_vec(), b"LC_ALL=C".to_vec()],
        ..Program::default()
    })?;
    // It may not read it.
    let _ = running.input(call.answers.as_bytes());
    let _ = running.close_input();
    let mut said = Vec::new();
    let ended = running.wait(|stream, bytes| {
        said.extend_from_slice(bytes);
        if said.len() > SAID_BYTES {
            said.drain(..said.len() - SAID_BYTES);
        }
        hear(stream, bytes)
    })?;
    Ok(Done {
        command: call.words.join(" "),
        ended,
        said: String::from_utf8_lossy(&said).into_owned(),
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
            let reason = format!("there is no program that does that with {kind}");
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
    })
}

/// The program that makes a filesystem, and how it takes a label and a UUID.
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
            return Err(unsupported(format!(
                "there is no program that makes {kind}"
            )));
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
            .ok_or_else(|| unsupported(format!("a new {kind} can't be given a UUID")))?;
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
