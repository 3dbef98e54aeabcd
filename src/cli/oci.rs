//! The command `diskfs oci`.

mod build;
#[cfg(feature = "objects")]
mod push;
mod source;
mod target;

use clap::{Args, Subcommand};
use diskfs::Result;

use super::sandbox::Needs;
use super::session::Session;

/// Build and push OCI images with a disk, for KubeVirt
#[derive(Debug, Args)]
#[command(
    after_help = "Every command reads the disk of such an image: `diskfs ls oci-layout:DIR:TAG:/etc`.

Examples:
  diskfs oci build disk.qcow2 -o web --tag 41
  diskfs ls oci-layout:web:41:/etc
  diskfs oci push web oci://registry.example.org/disks/web:41
  diskfs oci build disk.raw -O qcow2 -o web.tar --compress zstd --path /disk/web.qcow2"
)]
pub(super) struct OciArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Build(Box<build::Build>),
    #[cfg(feature = "objects")]
    Push(Box<push::Push>),
}

impl OciArgs {
    /// Returns the files of the host that the command uses.
    pub(super) fn needs(&self) -> Needs<'_> {
        match &self.action {
            Action::Build(args) => args.needs(),
            #[cfg(feature = "objects")]
            Action::Push(args) => args.needs(),
        }
    }
}

pub(super) fn run(args: &OciArgs, session: &mut Session) -> Result<()> {
    match &args.action {
        Action::Build(args) => build::run(args, session),
        #[cfg(feature = "objects")]
        Action::Push(args) => push::run(args, session),
    }
}
