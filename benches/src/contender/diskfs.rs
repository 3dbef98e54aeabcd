//! The contender diskfs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::{Contender, Deployment, Making};
use crate::command;
use crate::filesystem::Filesystem;
use crate::image::ImageFormat;
use crate::mount::{Mount, MountPoint};

/// The engine that opens the filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    /// The driver of diskfs.
    Driver,
    /// A kernel in User Mode Linux.
    Uml,
    /// A kernel in QEMU with an emulated processor.
    Tcg,
}

impl Engine {
    /// Returns the value of the option `--vm`.
    fn backend(self) -> Option<&'static str> {
        match self {
            Self::Driver => None,
            Self::Uml => Some("uml"),
            Self::Tcg => Some("qemu-tcg"),
        }
    }
}

/// Returns the engines and image kinds to measure on this filesystem. Emulation is slow whatever
/// the image, so one kind of image is enough for it.
pub(super) fn engines(filesystem: Filesystem) -> Vec<(Engine, ImageFormat)> {
    let kinds = [ImageFormat::Raw, ImageFormat::Qcow2, ImageFormat::Qcow2Zstd];
    let mut engines = kinds.map(|kind| (Engine::Driver, kind)).to_vec();
    if !filesystem.is_written() {
        engines.extend(kinds.map(|kind| (Engine::Uml, kind)));
        engines.push((Engine::Tcg, ImageFormat::Raw));
    }
    engines
}

/// The contender `diskfs mount`, with diskfs' commands.
#[derive(Debug)]
pub(super) struct Diskfs {
    program: PathBuf,
    engine: Engine,
    kind: ImageFormat,
    filesystem: Filesystem,
}

impl Diskfs {
    /// Returns a contender that opens images of this kind with this program.
    pub(super) fn new(
        program: PathBuf,
        engine: Engine,
        kind: ImageFormat,
        filesystem: Filesystem,
    ) -> Self {
        Self {
            program,
            engine,
            kind,
            filesystem,
        }
    }

    fn subcommand(&self, name: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(name);
        if let Some(backend) = self.engine.backend() {
            command.args(["--driver", "vm", "--vm", backend]);
        }
        command
    }

    fn mount_with(&self, options: &[&str], image: &Path, dir: &Path) -> Result<Mount> {
        let point = MountPoint::directory(dir.join("mnt"))?;
        let mut mount = self.subcommand("mount");
        mount.args(options).arg(image);
        command::started(mount.arg(point.path()))?;
        Mount::by_server(point)
    }

    fn command(&self, name: &str, image: &Path, path: &str) -> Command {
        let mut command = self.subcommand(name);
        command.arg(format!("{}:{path}", image.display()));
        command
    }
}

impl Contender for Diskfs {
    fn program(&self) -> &'static str {
        match self.engine {
            Engine::Driver => "diskfs",
            Engine::Uml => "diskfs+uml",
            Engine::Tcg => "diskfs+tcg",
        }
    }

    fn kind(&self) -> ImageFormat {
        self.kind
    }

    fn obstacle(&self) -> Option<String> {
        let mut trial = Command::new(&self.program);
        match self.engine.backend() {
            None => trial.args(["mount", "--help"]),
            Some(backend) => trial.args(["appliance", "test", "--vm", backend]),
        };
        let error = command::output(&mut trial).err()?;
        Some(format!("{error:#}"))
    }

    fn most_repetitions(&self) -> u32 {
        match self.engine {
            Engine::Driver | Engine::Uml => u32::MAX,
            Engine::Tcg => 3,
        }
    }

    fn writes(&self) -> bool {
        let has_driver = self.engine != Engine::Driver || self.filesystem.is_written();
        has_driver && self.kind != ImageFormat::Qcow2Zstd
    }

    fn mount(&self, image: &Path, dir: &Path) -> Result<Mount> {
        self.mount_with(&[], image, dir)
    }

    fn mount_for_writing(&self, image: &Path, dir: &Path) -> Result<Mount> {
        self.mount_with(&["--rw"], image, dir)
    }

    fn cat(&self, image: &Path, path: &str) -> Option<Command> {
        Some(self.command("cat", image, path))
    }

    fn list(&self, image: &Path, path: &str) -> Option<Command> {
        let mut command = self.command("ls", image, path);
        command.arg("-l");
        Some(command)
    }

    fn inspect(&self, image: &Path) -> Option<Command> {
        let mut command = self.subcommand("inspect");
        command.arg("--json").arg(image);
        Some(command)
    }

    fn inspect_fleet(&self, dir: &Path, backing: &Path, jobs: u32) -> Option<Command> {
        let mut command = self.subcommand("inspect");
        command.arg("--allow-backing").arg(backing.parent()?);
        command.arg("-j").arg(jobs.to_string());
        command.arg("--fleet").arg(dir);
        Some(command)
    }

    fn deploy(&self, image: &Path, deployment: &Deployment) -> Option<Command> {
        let mut command = self.subcommand("deploy");
        command
            .arg("--allow-backing")
            .arg(deployment.backing.parent()?);
        command.arg("--plan").arg(deployment.file("plan.yaml"));
        command.arg(image);
        Some(command)
    }

    fn deploy_fleet(
        &self,
        jobs: &Path,
        plan: &Path,
        backing: &Path,
        at_once: u32,
    ) -> Option<Command> {
        let mut command = self.subcommand("deploy");
        command.arg("--allow-backing").arg(backing.parent()?);
        command.arg("-j").arg(at_once.to_string());
        command.arg("--plan").arg(plan).arg("--fleet").arg(jobs);
        Some(command)
    }

    fn make(&self, making: &Making<'_>) -> Option<Command> {
        let mut command;
        match making {
            Making::Empty { image } => {
                command = self.subcommand("mkfs");
                command.arg("ext4").arg(image);
            }
            Making::Filled { image, archive, .. } => {
                command = self.subcommand("mkfs");
                command.args(["ext4", "--size", "fit", "--from-tar"]);
                command.arg(archive).arg(image);
            }
            Making::Grown { image, size } => {
                command = self.subcommand("resize");
                command.arg(image).arg(size);
            }
            Making::Checked { image } => {
                command = self.subcommand("check");
                command.arg(image);
            }
            Making::Sparsified { image } => {
                command = self.subcommand("sparsify");
                command.arg(image);
            }
            Making::Unpacked { image, archive } => {
                command = self.command("tar-in", image, "/");
                command.arg("--file").arg(archive);
            }
            Making::Copied { image, directory } => {
                command = self.subcommand("cp");
                command.arg("-a").arg(directory.join("."));
                command.arg(format!("{}:/", image.display()));
            }
            Making::Removed { image, names } => {
                command = self.subcommand("rm");
                let paths = names
                    .iter()
                    .map(|name| format!("{}:/{name}", image.display()));
                command.arg("-r").args(paths);
            }
        }
        Some(command)
    }

    fn diff(&self, image: &Path, from: &str, to: &str) -> Option<Command> {
        let diff = self.subcommand("diff");
        // Like diff(1), it exits with 1 if there is a difference.
        let mut command = Command::new("sh");
        command.args(["-c", "\"$@\" || test $? = 1", "sh"]);
        command.arg(diff.get_program()).args(diff.get_args());
        command.args(["--from-snapshot", from, "--to-snapshot", to]);
        command.arg(image);
        Some(command)
    }
}
