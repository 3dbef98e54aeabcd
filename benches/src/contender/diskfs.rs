//! diskfs itself.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::Contender;
use crate::command;
use crate::image::Kind;
use crate::mount::{Mount, MountPoint};

/// `diskfs mount`, and the commands.
#[derive(Debug)]
pub(super) struct Diskfs {
    program: PathBuf,
    kind: Kind,
}

impl Diskfs {
    /// One that opens images of this kind by this program.
    pub(super) fn new(program: PathBuf, kind: Kind) -> Self {
        Self { program, kind }
    }

    fn mount_with(&self, options: &[&str], image: &Path, dir: &Path) -> Result<Mount> {
        let point = MountPoint::directory(dir.join("mnt"))?;
        let mut mount = Command::new(&self.program);
        mount.arg("mount").args(options).arg(image);
        command::started(mount.arg(point.path()))?;
        Mount::by_server(point)
    }

    fn command(&self, name: &str, image: &Path, path: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(name).arg(format!("{}:{path}", image.display()));
        command
    }
}

impl Contender for Diskfs {
    fn program(&self) -> &'static str {
        "diskfs"
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn obstacle(&self) -> Option<String> {
        let mut mount = Command::new(&self.program);
        let error = command::output(mount.args(["mount", "--help"])).err()?;
        Some(format!("{error:#}"))
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
}
