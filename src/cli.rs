//! The commands of the `diskfs` program, one file each.

mod amend;
#[cfg(feature = "microvm")]
mod appliance;
#[cfg(any(feature = "export", feature = "fuse"))]
mod background_copy;
mod backup;
mod bench;
mod bitmap;
#[cfg(feature = "browse")]
mod browse;
mod build;
mod bytes;
mod cat;
mod check;
#[cfg(feature = "objects")]
mod checksum;
mod chmod;
mod chown;
mod commit;
mod compare;
mod complete;
mod config;
mod convert;
mod copy;
mod cp;
mod create;
mod demo;
mod deploy;
mod df;
mod diff;
mod du;
mod each_file;
mod edit;
mod exclude;
#[cfg(feature = "fuse")]
mod explain;
#[cfg(feature = "export")]
mod export;
#[cfg(any(feature = "fuse", feature = "nbd"))]
mod failure;
#[cfg(feature = "objects")]
mod fetch;
mod find;
mod fleet;
mod fork;
mod grep;
mod hash;
mod help;
#[cfg(feature = "fuse")]
mod helper;
#[cfg(feature = "nbd")]
mod hotplug;
mod image_settings;
#[cfg(feature = "objects")]
mod import;
mod info;
mod inspect;
mod into_dir;
mod key;
mod ln;
mod log;
mod logging;
mod ls;
mod man;
mod map;
mod measure;
mod mkdir;
mod mkfs;
mod mode_change;
#[cfg(feature = "fuse")]
mod mount;
mod mv;
#[cfg(any(feature = "export", feature = "serve"))]
mod nbd_address;
mod new_key;
mod oci;
mod operand;
pub(crate) mod options;
mod out_file;
mod partition;
mod passed_on;
mod pool;
mod progress;
pub(crate) mod qemu_img;
mod random;
mod rebase;
mod reference;
#[cfg(feature = "nbd")]
mod remote;
mod resize;
mod rm;
#[cfg(feature = "microvm")]
mod run;
mod sandbox;
mod schema;
mod seed;
#[cfg(feature = "serve")]
mod serve;
mod session;
mod shell;
mod show;
mod signals;
mod snapshot;
#[cfg(any(feature = "nbd", feature = "serve"))]
mod socket;
mod sparsify;
mod stat;
mod tar;
mod tar_in;
mod target;
#[cfg(feature = "serve")]
mod telemetry;
mod tool;
mod touch;
mod tree;
mod truncate;
mod uefi;
#[cfg(feature = "fuse")]
mod umount;
mod usage;
mod validate;
#[cfg(feature = "microvm")]
mod vm;
#[cfg(feature = "fuse")]
mod wait;
mod write;
mod xattr;

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand, ValueEnum};

use diskfs::Result;
pub(crate) use help::command as definition;
#[cfg(feature = "fuse")]
pub(crate) use helper::{Invocation, exit_code as helper_exit_code};
use logging::Logged;
#[cfg(feature = "fuse")]
pub(crate) use mount::companion::run as companion;
use sandbox::Needs;
use session::Session;
pub(crate) use usage::refuse;

/// Inspect and change the disk images of virtual machines, without root and without mounting them
#[derive(Debug, Parser)]
#[command(name = "diskfs", version, max_term_width = 100, after_help = help::AFTER)]
#[command(after_long_help = help::AFTER_LONG)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

/// The options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output options")]
pub(crate) struct GlobalArgs {
    /// Print results as JSON, and errors as JSON on standard error
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Show the progress of operations that take longer than a second: auto, json or none
    #[arg(
        long,
        global = true,
        value_name = "HOW",
        default_value = "auto",
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub(crate) progress: ProgressMode,

    /// Do not confine the process that reads the image; the image's author may then attack the
    /// host through an error in diskfs
    #[arg(long, global = true)]
    pub(crate) no_sandbox: bool,

    /// Log what diskfs does; give it twice for more detail (or set `RUST_LOG`)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// The form in which progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressMode {
    /// Show a progress bar if standard error is a terminal
    Auto,
    /// Print one JSON object per line on standard error
    Json,
    /// Show no progress
    None,
}

/// Defines the commands: each has a name, its options, and the function that runs it.
macro_rules! commands {
    ($($(#[cfg($condition:meta)])? $name:literal $variant:ident($args:ty) $run:path;)*) => {
        #[derive(Debug, Subcommand)]
        enum Command {
            $($(#[cfg($condition)])? #[command(name = $name)] $variant($args),)*
        }

        impl Command {
            /// Returns clap's definition of a command for parsing alone; `None` if there is none
            /// with this name.
            fn parser(name: &str) -> Option<clap::Command> {
                match name {
                    $($(#[cfg($condition)])? $name => {
                        Some(<$args>::augment_args(clap::Command::new($name)))
                    })*
                    _ => None,
                }
            }

            fn name(&self) -> &'static str {
                match self {
                    $($(#[cfg($condition)])? Self::$variant(_) => $name,)*
                }
            }

            fn run(&self, session: &mut Session) -> Result<()> {
                match self {
                    $($(#[cfg($condition)])? Self::$variant(args) => $run(args, session),)*
                }
            }
        }
    };
}

commands! {
    "info" Info(info::Info) info::run;
    "inspect" Inspect(inspect::Inspect) inspect::run;
    "log" Log(log::Log) log::run;
    "df" Df(df::Df) df::run;
    "du" Du(du::Du) du::run;
    "diff" Diff(diff::Diff) diff::run;
    "deploy" Deploy(deploy::Deploy) deploy::run;
    "grep" Grep(grep::Grep) grep::run;
    "ls" Ls(ls::Ls) ls::run;
    "tree" Tree(tree::Tree) tree::run;
    "find" Find(find::Find) find::run;
    "stat" Stat(stat::Stat) stat::run;
    "cat" Cat(cat::Cat) cat::run;
    #[cfg(feature = "browse")]
    "browse" Browse(browse::Browse) browse::run;
    "shell" Shell(shell::Shell) shell::run;
    #[cfg(feature = "fuse")]
    "mount" Mount(mount::Mount) mount::run;
    #[cfg(feature = "fuse")]
    "umount" Umount(umount::Umount) umount::run;
    #[cfg(feature = "fuse")]
    "wait" Wait(wait::Wait) wait::run;
    #[cfg(feature = "export")]
    "export" Export(export::Export) export::run;
    #[cfg(feature = "nbd")]
    "hotplug" Hotplug(hotplug::HotplugArgs) hotplug::run;
    #[cfg(feature = "serve")]
    "serve" Serve(serve::ServeArgs) serve::run;
    "create" Create(create::Create) create::run;
    "backup" Backup(backup::Backup) backup::run;
    "bench" Bench(bench::Bench) bench::run;
    "convert" Convert(convert::Convert) convert::run;
    #[cfg(feature = "objects")]
    "fetch" Fetch(fetch::Fetch) fetch::run;
    #[cfg(feature = "objects")]
    "import" Import(import::Import) import::run;
    "compare" Compare(compare::Compare) compare::run;
    "map" Map(map::Map) map::run;
    "measure" Measure(measure::Measure) measure::run;
    "oci" Oci(oci::OciArgs) oci::run;
    "build" Build(Box<build::Build>) build::run;
    "mkfs" Mkfs(mkfs::Mkfs) mkfs::run;
    "check" Check(check::Check) check::run;
    "validate" Validate(validate::Validate) validate::run;
    "resize" Resize(resize::Resize) resize::run;
    "sparsify" Sparsify(sparsify::Sparsify) sparsify::run;
    "rebase" Rebase(rebase::Rebase) rebase::run;
    "commit" Commit(commit::Commit) commit::run;
    "snapshot" Snapshot(snapshot::SnapshotArgs) snapshot::run;
    "bitmap" Bitmap(bitmap::BitmapArgs) bitmap::run;
    "amend" Amend(amend::AmendArgs) amend::run;
    "partition" Partition(partition::PartitionArgs) partition::run;
    "seed" Seed(seed::SeedArgs) seed::run;
    "cp" Cp(cp::Cp) cp::run;
    "tar" Tar(tar::Tar) tar::run;
    "tar-in" TarIn(tar_in::TarIn) tar_in::run;
    "xattr" Xattr(xattr::Xattr) xattr::run;
    "write" Write(write::Write) write::run;
    "truncate" Truncate(truncate::Truncate) truncate::run;
    "touch" Touch(touch::Touch) touch::run;
    "rm" Rm(rm::Rm) rm::run;
    "mv" Mv(mv::Mv) mv::run;
    "mkdir" Mkdir(mkdir::Mkdir) mkdir::run;
    "ln" Ln(ln::Ln) ln::run;
    "edit" Edit(edit::Edit) edit::run;
    "chown" Chown(chown::Chown) chown::run;
    "chmod" Chmod(chmod::Chmod) chmod::run;
    "hash" Hash(hash::Hash) hash::run;
    "uefi" Uefi(uefi::Uefi) uefi::run;
    #[cfg(feature = "microvm")]
    "appliance" Appliance(appliance::ApplianceArgs) appliance::run;
    #[cfg(feature = "microvm")]
    "run" Run(run::Run) run::run;
    "demo" Demo(demo::Demo) demo::run;
    "completions" Completions(complete::Completions) complete::run;
    "complete" Complete(complete::Complete) complete::answer;
    "man" Man(man::Man) man::run;
    "options" Options(Box<help::CommonOptions>) help::print_common_options;
    "schema" Schema(schema::Schema) schema::run;
}

/// Returns clap's definition for parsing these words alone: with the one command that they name, and
/// without help. `None` if they name none.
///
/// To make the definition of all commands would take half of the time of a short command.
pub(crate) fn parser(words: &[OsString]) -> Option<clap::Command> {
    let mut words = words.iter().skip(1).filter_map(|word| word.to_str());
    let command = words.find_map(Command::parser)?;
    let program = GlobalArgs::augment_args(clap::Command::new("diskfs"));
    let program = program.disable_help_subcommand(true);
    Some(program.subcommand_required(true).subcommand(command))
}

impl Command {
    /// Returns the files of the host that the command uses, if it only reads images, and the command
    /// line names all of them. Fleets and mounts confine themselves later.
    fn needs(&self) -> Option<Needs<'_>> {
        match self {
            Self::Info(args) => Some(args.needs()),
            Self::Inspect(args) => args.needs(),
            Self::Log(args) => Some(args.needs()),
            Self::Du(args) => Some(args.needs()),
            Self::Diff(args) => Some(args.needs()),
            Self::Grep(args) => args.needs(),
            Self::Ls(args) => Some(args.needs()),
            Self::Tree(args) => Some(args.needs()),
            Self::Find(args) => Some(args.needs()),
            Self::Stat(args) => Some(args.needs()),
            Self::Cat(args) => Some(args.needs()),
            Self::Cp(args) => args.needs(),
            Self::Backup(args) => args.needs(),
            Self::Bench(args) => args.needs(),
            Self::Convert(args) => args.needs(),
            #[cfg(feature = "objects")]
            Self::Import(args) => Some(args.needs()),
            Self::Compare(args) => Some(args.needs()),
            Self::Map(args) => Some(args.needs()),
            Self::Measure(args) => Some(args.needs()),
            Self::Oci(args) => Some(args.needs()),
            Self::Tar(args) => Some(args.needs()),
            Self::Hash(args) => Some(args.needs()),
            Self::Validate(args) => Some(args.needs()),
            Self::Complete(args) => args.needs(),
            #[cfg(feature = "fuse")]
            Self::Mount(args) => args.needs(),
            _ => None,
        }
    }

    /// Returns what the command logs without an option.
    fn logged(&self) -> Logged {
        match self {
            #[cfg(feature = "serve")]
            Self::Serve(args) if args.log_format() == serve::LogFormat::Json => Logged::AsJson,
            #[cfg(feature = "serve")]
            Self::Serve(_) => Logged::AsText,
            #[cfg(feature = "fuse")]
            Self::Mount(args) => Logged::OfDisk {
                in_background: args.is_in_background(),
            },
            #[cfg(feature = "export")]
            Self::Export(_) => Logged::OfDisk {
                in_background: false,
            },
            _ => Logged::Nothing,
        }
    }
}

/// Runs the command and returns the exit code, which is that of the first error. Errors are printed
/// where they happen.
pub(crate) fn run(cli: &Cli) -> u8 {
    let mut session = Session::new(&cli.global, cli.command.name());
    #[cfg(feature = "serve")]
    let telemetry = match telemetry::start_for(&cli.command) {
        Ok(telemetry) => telemetry,
        Err(error) => {
            session.report(&error);
            return session.exit_code();
        }
    };
    #[cfg(feature = "serve")]
    let traces = telemetry.as_ref().map(telemetry::Telemetry::layer);
    #[cfg(not(feature = "serve"))]
    let traces = None::<tracing_subscriber::layer::Identity>;
    logging::start(cli.command.logged(), &cli.global, traces);
    let needs = cli.command.needs();
    let confined = match needs.map_or(Ok(None), |needs| session.confine(&needs, &mut || {})) {
        Ok(confined) => confined,
        Err(error) => {
            session.report(&error);
            return session.exit_code();
        }
    };
    if let Err(error) = cli.command.run(&mut session) {
        session.report(&error);
    }
    let exit_code = session.exit_code();
    drop(session);
    if let Some(confined) = confined {
        confined.finish();
    }
    exit_code
}
