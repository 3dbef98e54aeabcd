//! The command `qemu-img bitmap`.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use diskfs::OpenOptions;
use diskfs::image::bitmaps::{self, MergeSource, NewBitmap, Recording};

use super::arguments::{OpenArgs, Source, size};
use super::failure::{Failure, Result};

/// Add, change or remove a bitmap of an image
#[derive(Debug, Args)]
pub(super) struct Bitmap {
    /// The image, and the name of the bitmap
    #[arg(value_name = "FILE BITMAP")]
    names: Vec<OsString>,

    #[command(flatten)]
    actions: Actions,

    /// The bytes that one bit of a new bitmap covers
    #[arg(short, long, value_name = "SIZE")]
    granularity: Option<String>,

    /// The image with the source of --merge
    #[arg(short = 'b', long, value_name = "FILE")]
    source_file: Option<OsString>,

    /// The format of the image with the source
    #[arg(short = 'F', long, value_name = "FMT")]
    source_format: Option<String>,

    /// The format of the image
    #[arg(short, long, value_name = "FMT")]
    format: Option<String>,

    #[command(flatten)]
    open: OpenArgs,
}

/// A change of the bitmap.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Action {
    Add,
    Remove,
    Clear,
    Enable,
    Disable,
    /// Adds the bits of the bitmap with this name.
    Merge(String),
}

/// The changes in the order of the command line.
#[derive(Debug, Clone, Default)]
struct Actions(Vec<Action>);

/// The changes without a value, and their descriptions.
const PLAIN: [(&str, Action, &str); 5] = [
    ("add", Action::Add, "Add the bitmap"),
    ("remove", Action::Remove, "Remove the bitmap"),
    ("clear", Action::Clear, "Clear all bits"),
    ("enable", Action::Enable, "Set bits for writes from now on"),
    (
        "disable",
        Action::Disable,
        "Set no bits for writes from now on",
    ),
];

impl Args for Actions {
    fn augment_args(command: Command) -> Command {
        let plain = PLAIN.iter().map(|(name, _, help)| {
            let arg = Arg::new(*name).long(*name).help(*help);
            arg.action(ArgAction::SetTrue)
        });
        let merge = Arg::new("merge")
            .long("merge")
            .value_name("SOURCE")
            .help("Set the bits of another bitmap")
            .action(ArgAction::Append);
        command.args(plain).arg(merge)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Actions {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let mut actions = Self::default();
        actions.update_from_arg_matches(matches).map(|()| actions)
    }

    fn update_from_arg_matches(
        &mut self,
        matches: &ArgMatches,
    ) -> std::result::Result<(), clap::Error> {
        let indices = |name| matches.indices_of(name).into_iter().flatten();
        let mut all: Vec<(usize, Action)> = Vec::new();
        for (name, action, _) in &PLAIN {
            if matches.value_source(name) == Some(ValueSource::CommandLine) {
                all.extend(indices(name).map(|at| (at, action.clone())));
            }
        }
        let sources = matches.get_many::<String>("merge").into_iter().flatten();
        let merges = indices("merge").zip(sources);
        all.extend(merges.map(|(at, name)| (at, Action::Merge(name.clone()))));
        all.sort_by_key(|(at, _)| *at);
        self.0 = all.into_iter().map(|(_, action)| action).collect();
        Ok(())
    }
}

impl Bitmap {
    pub(super) fn run(&self) -> Result<u8> {
        let [image, name] = self.names.as_slice() else {
            let reason = "Expecting filename and bitmap name";
            return Err(Failure::usage(reason, "bitmap"));
        };
        if self.actions.0.is_empty() {
            let reason = "Need at least one of --add, --remove, --clear, --enable, --disable, or \
                          --merge";
            return Err(Failure::usage(reason, "bitmap"));
        }
        if self.granularity.is_some() && !self.actions.0.contains(&Action::Add) {
            return Err(Failure::new("granularity only supported with --add"));
        }
        let name = name.to_string_lossy();
        let source = self.open.source(image, self.format.as_deref())?;
        let options = source.open_options()?;
        for action in &self.actions.0 {
            let done = self.change(&source, &options, &name, action)?;
            done.map_err(|e| Failure::at(&format!("Operation on bitmap '{name}' failed"), e))?;
        }
        Ok(0)
    }

    /// Makes one change; the inner result is that of the change itself.
    fn change(
        &self,
        image: &Source,
        options: &OpenOptions,
        name: &str,
        action: &Action,
    ) -> Result<diskfs::block::Result<()>> {
        let path = &image.path;
        Ok(match action {
            Action::Add => {
                let new = NewBitmap {
                    granularity_bytes: self.granularity.as_deref().map(size).transpose()?,
                    recording: Recording::Enabled,
                };
                bitmaps::add(path, name, new, options).map(|_| ())
            }
            Action::Remove => bitmaps::remove(path, name, options),
            Action::Clear => bitmaps::clear(path, name, options),
            Action::Enable => bitmaps::set_recording(path, name, Recording::Enabled, options),
            Action::Disable => bitmaps::set_recording(path, name, Recording::Disabled, options),
            Action::Merge(bitmap) => {
                let file = self.source_file.as_ref();
                let format = self.source_format.as_deref();
                let other = file
                    .map(|file| self.open.source(file, format))
                    .transpose()?;
                let other = match &other {
                    Some(other) => Some((&*other.path, other.open_options()?)),
                    None => None,
                };
                let source = MergeSource {
                    bitmap,
                    image: other.as_ref().map(|(path, options)| (*path, options)),
                };
                bitmaps::merge(path, name, source, options)
            }
        })
    }
}
