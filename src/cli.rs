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

use clap::{Args, Parser, Subcommand, ValueEnum};

use diskfs::Result;
pub(crate) use help::command as definition;
#[cfg(feature = "fuse")]
pub(crate) use helper::{Invocation, exit_code as helper_exit_code};
use logging::Logged;
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

/// Defines the enum of all commands.
macro_rules! commands {
    ($(#[$attribute:meta])* $name:ident) => {
        #[derive(Debug, Subcommand)]
        $(#[$attribute])*
        enum $name {
            Info(info::Info),
            Inspect(inspect::Inspect),
            Log(log::Log),
            Df(df::Df),
            Du(du::Du),
            Diff(diff::Diff),
            Deploy(deploy::Deploy),
            Grep(grep::Grep),
            Ls(ls::Ls),
            Tree(tree::Tree),
            Find(find::Find),
            Stat(stat::Stat),
            Cat(cat::Cat),
            #[cfg(feature = "browse")]
            Browse(browse::Browse),
            Shell(shell::Shell),
            #[cfg(feature = "fuse")]
            Mount(mount::Mount),
            #[cfg(feature = "fuse")]
            Umount(umount::Umount),
            #[cfg(feature = "fuse")]
            Wait(wait::Wait),
            #[cfg(feature = "export")]
            Export(export::Export),
            #[cfg(feature = "nbd")]
            Hotplug(hotplug::HotplugArgs),
            #[cfg(feature = "serve")]
            Serve(serve::ServeArgs),
            Create(create::Create),
            Backup(backup::Backup),
            Bench(bench::Bench),
            Convert(convert::Convert),
            #[cfg(feature = "objects")]
            Fetch(fetch::Fetch),
            #[cfg(feature = "objects")]
            Import(import::Import),
            Compare(compare::Compare),
            Map(map::Map),
            Measure(measure::Measure),
            Oci(oci::OciArgs),
            Build(Box<build::Build>),
            Mkfs(mkfs::Mkfs),
            Check(check::Check),
            Validate(validate::Validate),
            Resize(resize::Resize),
            Sparsify(sparsify::Sparsify),
            Rebase(rebase::Rebase),
            Commit(commit::Commit),
            Snapshot(snapshot::SnapshotArgs),
            Bitmap(bitmap::BitmapArgs),
            Amend(amend::AmendArgs),
            Partition(partition::PartitionArgs),
            Seed(seed::SeedArgs),
            Cp(cp::Cp),
            Tar(tar::Tar),
            TarIn(tar_in::TarIn),
            Xattr(xattr::Xattr),
            Write(write::Write),
            Truncate(truncate::Truncate),
            Touch(touch::Touch),
            Rm(rm::Rm),
            Mv(mv::Mv),
            Mkdir(mkdir::Mkdir),
            Ln(ln::Ln),
            Edit(edit::Edit),
            Chown(chown::Chown),
            Chmod(chmod::Chmod),
            Hash(hash::Hash),
            Uefi(uefi::Uefi),
            #[cfg(feature = "microvm")]
            Appliance(appliance::ApplianceArgs),
            #[cfg(feature = "microvm")]
            Run(run::Run),
            Demo(demo::Demo),
            Completions(complete::Completions),
            #[command(hide = true)]
            Complete(complete::Complete),
            Man(man::Man),
            #[command(hide = true)]
            Options(Box<help::CommonOptions>),
            Schema(schema::Schema),
        }
    };
}

commands!(Command);
commands! {
    #[command(defer = true)]
    DeferredCommand
}

/// Returns clap's definition for parsing alone, without help: a command gets its options when it is
/// named. To make those of all commands would take half of the time of a short command.
pub(crate) fn parser() -> clap::Command {
    let program = GlobalArgs::augment_args(clap::Command::new("diskfs"));
    let program = DeferredCommand::augment_subcommands(program.subcommand_required(true));
    // Its own --verbose must be there before clap passes the global one on.
    program.mut_subcommand("grep", |_| {
        grep::Grep::augment_args(clap::Command::new("grep"))
    })
}

impl Command {
    fn name(&self) -> &'static str {
        match self {
            Self::Info(_) => "info",
            Self::Inspect(_) => "inspect",
            Self::Log(_) => "log",
            Self::Df(_) => "df",
            Self::Du(_) => "du",
            Self::Diff(_) => "diff",
            Self::Deploy(_) => "deploy",
            Self::Grep(_) => "grep",
            Self::Ls(_) => "ls",
            Self::Tree(_) => "tree",
            Self::Find(_) => "find",
            Self::Stat(_) => "stat",
            Self::Cat(_) => "cat",
            #[cfg(feature = "browse")]
            Self::Browse(_) => "browse",
            Self::Shell(_) => "shell",
            #[cfg(feature = "fuse")]
            Self::Mount(_) => "mount",
            #[cfg(feature = "fuse")]
            Self::Umount(_) => "umount",
            #[cfg(feature = "fuse")]
            Self::Wait(_) => "wait",
            #[cfg(feature = "export")]
            Self::Export(_) => "export",
            #[cfg(feature = "nbd")]
            Self::Hotplug(_) => "hotplug",
            #[cfg(feature = "serve")]
            Self::Serve(_) => "serve",
            Self::Create(_) => "create",
            Self::Backup(_) => "backup",
            Self::Bench(_) => "bench",
            Self::Convert(_) => "convert",
            #[cfg(feature = "objects")]
            Self::Fetch(_) => "fetch",
            #[cfg(feature = "objects")]
            Self::Import(_) => "import",
            Self::Compare(_) => "compare",
            Self::Map(_) => "map",
            Self::Measure(_) => "measure",
            Self::Oci(_) => "oci",
            Self::Build(_) => "build",
            Self::Mkfs(_) => "mkfs",
            Self::Check(_) => "check",
            Self::Validate(_) => "validate",
            Self::Resize(_) => "resize",
            Self::Sparsify(_) => "sparsify",
            Self::Rebase(_) => "rebase",
            Self::Commit(_) => "commit",
            Self::Snapshot(_) => "snapshot",
            Self::Bitmap(_) => "bitmap",
            Self::Amend(_) => "amend",
            Self::Partition(_) => "partition",
            Self::Seed(_) => "seed",
            Self::Cp(_) => "cp",
            Self::Tar(_) => "tar",
            Self::TarIn(_) => "tar-in",
            Self::Xattr(_) => "xattr",
            Self::Write(_) => "write",
            Self::Truncate(_) => "truncate",
            Self::Touch(_) => "touch",
            Self::Rm(_) => "rm",
            Self::Mv(_) => "mv",
            Self::Mkdir(_) => "mkdir",
            Self::Ln(_) => "ln",
            Self::Edit(_) => "edit",
            Self::Chown(_) => "chown",
            Self::Chmod(_) => "chmod",
            Self::Hash(_) => "hash",
            Self::Uefi(_) => "uefi",
            #[cfg(feature = "microvm")]
            Self::Appliance(_) => "appliance",
            #[cfg(feature = "microvm")]
            Self::Run(_) => "run",
            Self::Demo(_) => "demo",
            Self::Completions(_) => "completions",
            Self::Complete(_) => "complete",
            Self::Man(_) => "man",
            Self::Options(_) => "options",
            Self::Schema(_) => "schema",
        }
    }

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

    fn run(&self, session: &mut Session) -> Result<()> {
        match self {
            Self::Info(args) => info::run(args, session),
            Self::Inspect(args) => inspect::run(args, session),
            Self::Log(args) => log::run(args, session),
            Self::Df(args) => df::run(args, session),
            Self::Du(args) => du::run(args, session),
            Self::Diff(args) => diff::run(args, session),
            Self::Deploy(args) => deploy::run(args, session),
            Self::Grep(args) => grep::run(args, session),
            Self::Ls(args) => ls::run(args, session),
            Self::Tree(args) => tree::run(args, session),
            Self::Find(args) => find::run(args, session),
            Self::Stat(args) => stat::run(args, session),
            Self::Cat(args) => cat::run(args, session),
            #[cfg(feature = "browse")]
            Self::Browse(args) => browse::run(args, session),
            Self::Shell(args) => shell::run(args, session),
            #[cfg(feature = "fuse")]
            Self::Mount(args) => mount::run(args, session),
            #[cfg(feature = "fuse")]
            Self::Umount(args) => umount::run(args, session),
            #[cfg(feature = "fuse")]
            Self::Wait(args) => wait::run(args, session),
            #[cfg(feature = "export")]
            Self::Export(args) => export::run(args, session),
            #[cfg(feature = "nbd")]
            Self::Hotplug(args) => hotplug::run(args, session),
            #[cfg(feature = "serve")]
            Self::Serve(args) => serve::run(args, session),
            Self::Create(args) => create::run(args, session),
            Self::Backup(args) => backup::run(args, session),
            Self::Bench(args) => bench::run(args, session),
            Self::Convert(args) => convert::run(args, session),
            #[cfg(feature = "objects")]
            Self::Fetch(args) => fetch::run(args, session),
            #[cfg(feature = "objects")]
            Self::Import(args) => import::run(args, session),
            Self::Compare(args) => compare::run(args, session),
            Self::Map(args) => map::run(args, session),
            Self::Measure(args) => measure::run(args, session),
            Self::Oci(args) => oci::run(args, session),
            Self::Build(args) => build::run(args, session),
            Self::Mkfs(args) => mkfs::run(args, session),
            Self::Check(args) => check::run(args, session),
            Self::Validate(args) => validate::run(args, session),
            Self::Resize(args) => resize::run(args, session),
            Self::Sparsify(args) => sparsify::run(args, session),
            Self::Rebase(args) => rebase::run(args, session),
            Self::Commit(args) => commit::run(args, session),
            Self::Snapshot(args) => snapshot::run(args, session),
            Self::Bitmap(args) => bitmap::run(args, session),
            Self::Amend(args) => amend::run(args, session),
            Self::Partition(args) => partition::run(args, session),
            Self::Seed(args) => seed::run(args, session),
            Self::Cp(args) => cp::run(args, session),
            Self::Tar(args) => tar::run(args, session),
            Self::TarIn(args) => tar_in::run(args, session),
            Self::Xattr(args) => xattr::run(args, session),
            Self::Write(args) => write::run(args, session),
            Self::Truncate(args) => truncate::run(args, session),
            Self::Touch(args) => touch::run(args, session),
            Self::Rm(args) => rm::run(args, session),
            Self::Mv(args) => mv::run(args, session),
            Self::Mkdir(args) => mkdir::run(args, session),
            Self::Ln(args) => ln::run(args, session),
            Self::Edit(args) => edit::run(args, session),
            Self::Chown(args) => chown::run(args, session),
            Self::Chmod(args) => chmod::run(args, session),
            Self::Hash(args) => hash::run(args, session),
            Self::Uefi(args) => uefi::run(args, session),
            #[cfg(feature = "microvm")]
            Self::Appliance(args) => appliance::run(args, session),
            #[cfg(feature = "microvm")]
            Self::Run(args) => run::run(args, session),
            Self::Demo(args) => demo::run(args, session),
            Self::Completions(args) => complete::run(args),
            Self::Complete(args) => complete::answer(args),
            Self::Man(args) => man::run(args, session),
            Self::Options(_) => help::print_common_options(),
            Self::Schema(args) => schema::run(args, session),
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
