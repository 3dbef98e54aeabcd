//! The command `diskfs snapshot`.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use diskfs::image::{ImageSpec, OpenOptions, Snapshot, snapshots};
use diskfs::vfs::Timestamp;
use diskfs::{Error, ErrorKind, Result};
use serde_json::{Value, json};

use super::options::ImageArgs;
use super::session::{Output, Session, name_style, stdout};
use super::show::json as document;
use super::show::name::NameStyle;
use super::show::time;

/// List, create, apply and delete internal snapshots of qcow2 images
#[derive(Debug, Args)]
#[command(
    after_help = "Each action is atomic, even if it is interrupted. The image must not be in use.

Examples:
  diskfs snapshot list disk.qcow2
  diskfs snapshot create disk.qcow2 before-upgrade
  diskfs snapshot apply disk.qcow2 before-upgrade
  diskfs cat disk.qcow2,snapshot=before-upgrade:/etc/fstab"
)]
pub(super) struct SnapshotArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the snapshots of an image
    List {
        /// The qcow2 image
        #[arg(value_name = "IMG")]
        image: OsString,

        #[command(flatten)]
        options: ImageArgs,
    },
    /// Create a snapshot of the current state of the disk
    Create {
        /// The qcow2 image
        #[arg(value_name = "IMG")]
        image: OsString,

        /// The name of the new snapshot
        name: String,

        #[command(flatten)]
        options: ImageArgs,
    },
    /// Return the disk to a snapshot; its current state is lost, unless another snapshot has it
    Apply {
        /// The qcow2 image
        #[arg(value_name = "IMG")]
        image: OsString,

        /// The snapshot, by ID or name
        snapshot_to_apply: String,

        #[command(flatten)]
        options: ImageArgs,
    },
    /// Delete a snapshot
    Delete {
        /// The qcow2 image
        #[arg(value_name = "IMG")]
        image: OsString,

        /// The snapshot, by ID or name
        snapshot_to_delete: String,

        #[command(flatten)]
        options: ImageArgs,
    },
}

/// Returns the path of an image that is changed as a whole, and the options to open it with.
pub(super) fn open_options(image: &OsStr, args: &ImageArgs) -> Result<(PathBuf, OpenOptions)> {
    let spec = ImageSpec::parse(image)?;
    let options = spec.options_over(&args.open_options()?);
    if options.snapshot.is_some() {
        let reason = "expected an image as a whole, not one of its snapshots";
        return Err(Error::new(ErrorKind::Invalid, reason).in_file(spec.shown_path()));
    }
    Ok((spec.path, options))
}

pub(super) fn run(args: &SnapshotArgs, session: &mut Session) -> Result<()> {
    match &args.action {
        Action::List { image, options } => {
            let (path, options) = open_options(image, options)?;
            list(&snapshots::list(&path, &options)?, session)
        }
        Action::Create {
            image,
            name,
            options,
        } => {
            let (path, options) = open_options(image, options)?;
            let taken = snapshots::create(&path, name, &options)?;
            session.print_done("created snapshot", name.as_bytes());
            match session.output() {
                Output::Json => list(&[taken], session),
                Output::Text => Ok(()),
            }
        }
        Action::Apply {
            image,
            snapshot_to_apply,
            options,
        } => {
            let (path, options) = open_options(image, options)?;
            snapshots::apply(&path, snapshot_to_apply, &options)?;
            done(session, "applied snapshot", snapshot_to_apply)
        }
        Action::Delete {
            image,
            snapshot_to_delete,
            options,
        } => {
            let (path, options) = open_options(image, options)?;
            snapshots::delete(&path, snapshot_to_delete, &options)?;
            done(session, "deleted snapshot", snapshot_to_delete)
        }
    }
}

fn done(session: &mut Session, what: &str, snapshot: &str) -> Result<()> {
    session.print_done(what, snapshot.as_bytes());
    if session.output() == Output::Json {
        let mut out = stdout()?;
        document::write(&mut out, session.command(), json!({ "snapshot": snapshot }))?;
        out.flush()?;
    }
    Ok(())
}

/// Returns the time at which a snapshot was taken.
pub(super) fn taken_at(snapshot: &Snapshot) -> Timestamp {
    let since = snapshot.taken_at.duration_since(std::time::UNIX_EPOCH);
    let since = since.unwrap_or_default();
    Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanoseconds: since.subsec_nanos(),
    }
}

fn list(snapshots: &[Snapshot], session: &Session) -> Result<()> {
    let mut out = stdout()?;
    if session.output() == Output::Json {
        let all: Vec<Value> = snapshots.iter().map(to_json).collect();
        document::write(&mut out, session.command(), json!({ "snapshots": all }))?;
    } else {
        let style = name_style(NameStyle::Escaped);
        for snapshot in snapshots {
            let id = style.show(snapshot.id.as_bytes());
            out.write_all(&id)?;
            write!(out, "\t{}\t", time::minutes(taken_at(snapshot)))?;
            out.write_all(&style.show(snapshot.name.as_bytes()))?;
            writeln!(out)?;
        }
    }
    Ok(out.flush()?)
}

fn to_json(snapshot: &Snapshot) -> Value {
    json!({
        "id": snapshot.id,
        "name": snapshot.name,
        "taken_at": time::rfc3339(taken_at(snapshot)),
        "virtual_size_bytes": snapshot.virtual_size_bytes,
        "vm_state_bytes": snapshot.vm_state_bytes,
    })
}
