//! The command `diskfs chown`.

use clap::Args;

use diskfs::vfs::{Follow, Metadata, SetMetadata};
use diskfs::{Error, ErrorKind, Filesystem, Result};

use super::each_file::{ChangeScope, each_file};
use super::operand::Operand;
use super::options::SourceArgs;
use super::progress::Progress;
use super::session::Session;
use super::show::owners::{Numeric, Owners};
use super::target::{self, WriteArgs};

/// Change the owners of files
#[derive(Debug, Args)]
#[command(
    after_help = "OWNER is USER, USER:GROUP, :GROUP, or USER: for the user's login group. Names are looked up in the
guest's own /etc/passwd and /etc/group. The set-user-ID and set-group-ID bits of files are cleared,
as the kernel does. A symlink that is named is followed within the image, except with -h or -R.

Examples:
  diskfs chown root:root disk.qcow2:/etc/sudoers.d/admin
  diskfs chown -R www-data: disk.qcow2:/srv/www
  diskfs chown 1000:1000 disk.qcow2:/home/me",
    disable_help_flag = true
)]
pub(super) struct Chown {
    /// The new owner and group
    #[arg(value_name = "OWNER")]
    owner: String,

    /// The files to change
    #[arg(required = true, value_name = "IMG:/PATH")]
    paths: Vec<Operand>,

    /// Change directories and everything below them
    #[arg(short = 'R', long)]
    recursive: bool,

    /// Change a symlink itself, not the file that it points to
    #[arg(short = 'h', long)]
    no_dereference: bool,

    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    write: WriteArgs,
}

/// The new owner and group; `None` leaves the owner or the group unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NewOwner {
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
}

pub(super) fn run(args: &Chown, session: &mut Session) -> Result<()> {
    let mut progress = Progress::new(session.progress(), None);
    let scope = match (args.recursive, args.no_dereference) {
        (true, _) => ChangeScope::Tree,
        (false, true) => ChangeScope::File(Follow::AllButLast),
        (false, false) => ChangeScope::File(Follow::All),
    };
    let done = target::for_each(
        session,
        &args.paths,
        &args.source,
        &args.write,
        |session, place| {
            let owner = NewOwner::look_up(&args.owner, place.reader())?;
            each_file(
                session,
                &mut progress,
                place,
                scope,
                |inode, metadata| match owner.change(metadata) {
                    Some(change) => place.fs().set_metadata(inode, &change),
                    None => Ok(()),
                },
            )
        },
    );
    progress.finish();
    done
}

impl NewOwner {
    /// Looks up `USER:GROUP` in the guest.
    pub(super) fn look_up(text: &str, filesystem: &Filesystem) -> Result<Self> {
        let owners = Owners::new(filesystem, Numeric::No);
        let unknown = |what: &str, name: &str| {
            let reason = format!("no such {what}: `{}`", name.escape_debug());
            Error::new(ErrorKind::Invalid, reason)
                .in_file(filesystem.image_path())
                .with_hint("names are looked up in the guest; a number can be given for any ID")
        };
        let (user, group) = match text.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (text, None),
        };
        let user = Some(user).filter(|user| !user.is_empty());
        let uid = user
            .map(|name| owners.uid(name).ok_or_else(|| unknown("user", name)))
            .transpose()?;
        let gid = match (user, group) {
            (_, None) | (None, Some("")) => None,
            (Some(user), Some("")) => Some(
                owners
                    .login_gid(user)
                    .ok_or_else(|| unknown("user", user))?,
            ),
            (_, Some(name)) => Some(owners.gid(name).ok_or_else(|| unknown("group", name))?),
        };
        Ok(Self { uid, gid })
    }

    /// Returns the change of a file's metadata, or `None` if nothing changes.
    fn change(self, metadata: &Metadata) -> Option<SetMetadata> {
        let uid = self.uid.filter(|uid| *uid != metadata.uid);
        let gid = self.gid.filter(|gid| *gid != metadata.gid);
        if uid.is_none() && gid.is_none() {
            return None;
        }
        let permissions = metadata.permissions_after_chown();
        Some(SetMetadata {
            uid,
            gid,
            permissions: (permissions != metadata.permissions).then_some(permissions),
            ..SetMetadata::default()
        })
    }
}
