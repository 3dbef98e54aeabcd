//! The command `diskfs appliance`.

mod all;

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use diskfs::vm::appliance::{
    self, Appliance, BuildQemu, BuildTools, BuildUml, Lacking, QemuFiles, cache_dir,
};
use diskfs::vm::{BackendChoice, BackendKind, Trial};
use diskfs::{Error, ErrorKind, Result};

use super::session::{Output, Session, stdout};
use super::show::json as document;
use super::show::name::message;
use super::show::size::units;
use super::vm::VmArgs;

/// Build, find and test the kernels of the microVM
#[derive(Debug, Args)]
#[command(
    after_help = "An appliance is looked for in --appliance, $DISKFS_APPLIANCE, the directory `appliance` next to
the program, /usr/lib/diskfs and the user's cache directory. `build` writes to the last of these.

Examples:
  diskfs appliance build
  diskfs appliance test
  diskfs appliance build uml --source linux-source-7.2.tar.xz
  diskfs appliance build qemu --kernel linux-image-6.1.0-56-cloud-amd64.deb
  diskfs appliance build tools
  diskfs ls --vm qemu-tcg fedora.qcow2:/"
)]
pub(super) struct ApplianceArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Build what the backends boot: kernels with their agent, and the filesystem programs
    ///
    /// Without a part, builds all parts that this host has everything for, and names what the
    /// others lack, with the command that installs it. Parts that are there already are kept.
    #[command(args_conflicts_with_subcommands = true)]
    Build {
        #[command(subcommand)]
        what: Option<BuildTarget>,
        #[command(flatten)]
        all: all::AllArgs,
    },
    /// Show the files that were found, and the directories that were searched
    Show {
        #[command(flatten)]
        vm: VmArgs,
    },
    /// Boot each backend, and report how long that took
    Test {
        #[command(flatten)]
        vm: VmArgs,
    },
    /// Print the directory in which `build` creates files
    Path,
}

#[derive(Debug, Subcommand)]
enum BuildTarget {
    /// Build a User Mode Linux kernel that contains the agent, from Linux sources; takes some
    /// minutes
    Uml(UmlArgs),
    /// Pack a kernel for QEMU (of the host or of a package) with the agent and the modules that it
    /// needs
    Qemu(QemuArgs),
    /// Pack the host's programs that create, check and resize filesystems, with their libraries
    Tools {
        /// The output directory [default: the one that `diskfs appliance path` prints]
        #[arg(short, long, value_name = "DIR")]
        output: Option<PathBuf>,
    },
}

#[derive(Debug, Default, Args)]
struct UmlArgs {
    /// A source tree of Linux 6.16 or newer, a tar archive of it, or Debian's package
    /// linux-source-* [default: the newest archive in /usr/src]
    #[arg(long, value_name = "FILE")]
    source: Option<PathBuf>,

    /// Keep the compiled files in DIR, to speed up the next build
    #[arg(long, value_name = "DIR")]
    build_dir: Option<PathBuf>,

    /// The number of compilers that run at once [default: one per core]
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,

    #[command(flatten)]
    common: BuildArgs,
}

#[derive(Debug, Default, Args)]
struct QemuArgs {
    /// A vmlinuz, or Debian's package linux-image-* [default: the newest one in /boot]
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,

    /// The directory of the kernel's modules [default: that of its version in /lib/modules]
    #[arg(long, value_name = "DIR")]
    modules: Option<PathBuf>,

    /// Do not save a booted machine; emulated machines then boot each time
    #[arg(long)]
    no_saved: bool,

    #[command(flatten)]
    common: BuildArgs,
}

#[derive(Debug, Clone, Default, Args)]
struct BuildArgs {
    /// The agent [default: the one in the program, or diskfs-agent next to it or in one of the
    /// searched directories]
    #[arg(long, value_name = "FILE")]
    agent: Option<PathBuf>,

    /// The output directory [default: the one that `diskfs appliance path` prints]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

impl UmlArgs {
    fn with(common: BuildArgs) -> Self {
        Self {
            common,
            ..Self::default()
        }
    }
}

impl QemuArgs {
    fn with(common: BuildArgs) -> Self {
        Self {
            common,
            ..Self::default()
        }
    }
}

impl BuildArgs {
    fn output(&self) -> Result<PathBuf> {
        output_dir(self.output.clone())
    }
}

/// A part that was built: the texts that report it.
struct Built {
    text: String,
    document: Value,
}

impl Built {
    fn report(self, session: &Session) -> Result<()> {
        report(session, "built", &self.text, self.document)
    }
}

fn output_dir(dir: Option<PathBuf>) -> Result<PathBuf> {
    dir.or_else(cache_dir).ok_or_else(|| {
        let reason = "no cache directory: neither $XDG_CACHE_HOME nor $HOME is set";
        Error::new(ErrorKind::NotFound, reason).with_hint("give a directory with --output")
    })
}

pub(super) fn run(args: &ApplianceArgs, session: &mut Session) -> Result<()> {
    match &args.action {
        Action::Build { what, all } => match what {
            None => all::build(all, session),
            Some(BuildTarget::Uml(args)) => build_uml(args, session)?.report(session),
            Some(BuildTarget::Qemu(args)) => build_qemu(args, session)?.report(session),
            Some(BuildTarget::Tools { output }) => {
                let built = build_tools(output.clone(), session)?;
                warn_of_missing_tools(session);
                built.report(session)
            }
        },
        Action::Show { vm } => show(vm, session),
        Action::Test { vm } => test(vm, session),
        Action::Path => path(session),
    }
}

fn build_uml(args: &UmlArgs, session: &mut Session) -> Result<Built> {
    let build = BuildUml {
        source: args.source.clone(),
        agent: args.common.agent.clone(),
        build_dir: args.build_dir.clone(),
        output: args.common.output()?.join("uml"),
        jobs: args
            .jobs
            .or_else(|| thread::available_parallelism().ok())
            .unwrap_or(NonZeroUsize::MIN),
    };
    let built = build.run(&mut step_printer(session.output()))?;
    let document = json!({
        "kernel": built.version,
        "path": built.output.display().to_string(),
        "size_bytes": built.size_bytes,
    });
    let text = format!(
        "{}: Linux {}, {}",
        built.output.display(),
        built.version,
        units(built.size_bytes)
    );
    Ok(Built { text, document })
}

fn build_qemu(args: &QemuArgs, session: &mut Session) -> Result<Built> {
    let build = BuildQemu {
        kernel: args.kernel.clone(),
        modules: args.modules.clone(),
        agent: args.common.agent.clone(),
        output: args.common.output()?.join("qemu"),
        save: !args.no_saved,
    };
    let built = build.run(&mut step_printer(session.output()))?;
    let (kernel, initramfs) = built.size_bytes;
    let saved = match &built.saved {
        Some(Ok(size_bytes)) => Some(*size_bytes),
        Some(Err(error)) => {
            let reason = error.reason();
            session.warn(&format!(
                "cannot save a booted machine, so each machine boots: {reason}"
            ));
            None
        }
        None => None,
    };
    let document = json!({
        "path": built.output.display().to_string(),
        "kernel_bytes": kernel,
        "initramfs_bytes": initramfs,
        "saved_bytes": saved,
        "filesystems": built.filesystems,
    });
    let text = format!(
        "{}: kernel {}, initramfs {} with {}{}",
        built.output.display(),
        units(kernel),
        units(initramfs),
        built.filesystems.join(", "),
        saved.map_or_else(String::new, |size| format!("; saved {}", units(size)))
    );
    Ok(Built { text, document })
}

fn warn_of_missing_tools(session: &mut Session) {
    let lacking = Lacking::for_tools();
    if !lacking.names().is_empty() {
        let missing = lacking.names().join(", ");
        let mend = lacking.command().map(|it| format!("; install with `{it}`"));
        session.warn(&format!(
            "not installed on this host, and left out: {missing}{}",
            mend.unwrap_or_default()
        ));
    }
}

fn build_tools(output: Option<PathBuf>, session: &Session) -> Result<Built> {
    let build = BuildTools {
        output: output_dir(output)?,
    };
    let built = build.run(&mut step_printer(session.output()))?;
    let document = json!({
        "path": built.file.display().to_string(),
        "size_bytes": built.size_bytes,
        "programs": built.programs,
        "missing": built.missing,
    });
    let text = format!("{}: {}", built.file.display(), units(built.size_bytes));
    Ok(Built { text, document })
}

/// Prints what is done on standard error, if the output is text: a build takes minutes.
fn step_printer(output: Output) -> impl FnMut(&str) {
    move |what: &str| {
        if output == Output::Text {
            let _ = writeln!(std::io::stderr(), "{}", message(what)); // A failure here cannot be reported.
        }
    }
}

fn show(args: &VmArgs, session: &mut Session) -> Result<()> {
    let options = args.options()?;
    let found = Appliance::find(options.appliance.as_deref());
    let mut lines = Vec::new();
    let mut kernels = Vec::new();
    let mut add = |what: &str, found: Result<PathBuf>| {
        let (line, value) = match found {
            Ok(file) => {
                let size = std::fs::metadata(&file).map_or(0, |metadata| metadata.len());
                let problem = appliance::verify(&file).err().map(|error| error.reason());
                let damage = problem
                    .as_ref()
                    .map(|it| format!("; {it}"))
                    .unwrap_or_default();
                let line = format!("{what}: {} ({}){damage}", file.display(), units(size));
                let mut value = json!({ "path": file.display().to_string(), "size_bytes": size });
                if let Some(problem) = problem {
                    value["problem"] = json!(problem);
                }
                (line, value)
            }
            Err(error) => {
                let hint = error
                    .next_step()
                    .map(|hint| format!("; {hint}"))
                    .unwrap_or_default();
                let line = format!("{what}: none{hint}");
                (line, json!({ "path": null, "problem": error.reason() }))
            }
        };
        lines.push(line);
        kernels.push((what.to_owned(), value));
    };
    add("uml", found.uml());
    add("qemu", found.qemu().map(|files| files.kernel));
    add("qemu saved", found.qemu().and_then(saved));
    add("tools", found.tools());
    let places = found
        .places()
        .iter()
        .map(|place| place.display().to_string());
    let places: Vec<String> = places.collect();
    lines.push(format!("searched directories: {}", places.join(", ")));
    let kernels: Map<String, Value> = kernels.into_iter().collect();
    let document = json!({ "kernels": kernels, "places": places });
    report(session, "appliance", &lines.join("\n"), document)
}

/// Returns the path of the saved machine.
fn saved(files: QemuFiles) -> Result<PathBuf> {
    if files.saved.is_file() {
        return Ok(files.saved);
    }
    let hint = "`diskfs appliance build qemu` creates one, if QEMU is installed";
    Err(Error::new(ErrorKind::NotFound, "no saved machine").with_hint(hint))
}

fn test(args: &VmArgs, session: &mut Session) -> Result<()> {
    let options = args.options()?;
    let kinds: Vec<BackendKind> = match options.choice {
        BackendChoice::Only(kind) => vec![kind],
        BackendChoice::Auto | BackendChoice::None => BackendKind::ALL.to_vec(),
    };
    let mut lines = Vec::new();
    let mut results = Map::new();
    let mut any = false;
    for kind in kinds {
        let (line, value) = match Trial::run(kind, &options) {
            Ok(trial) => {
                any = true;
                let (ready, ended) = (trial.ready, trial.ended);
                let line = format!(
                    "{kind}: works; answered after {} ms, ended after {} ms (Linux {})",
                    ready.as_millis(),
                    ended.as_millis(),
                    trial.kernel
                );
                let value = json!({
                    "works": true,
                    "kernel": trial.kernel,
                    "ready_ms": u64::try_from(ready.as_millis()).unwrap_or(u64::MAX),
                    "ended_ms": u64::try_from(ended.as_millis()).unwrap_or(u64::MAX),
                });
                (line, value)
            }
            Err(error) => {
                let hint = error
                    .next_step()
                    .map(|hint| format!("\n  {hint}"))
                    .unwrap_or_default();
                let line = format!("{kind}: {}{hint}", error.reason());
                (line, json!({ "works": false, "problem": error.reason() }))
            }
        };
        lines.push(line);
        results.insert(kind.name().to_owned(), value);
    }
    report(
        session,
        "backends",
        &lines.join("\n"),
        Value::Object(results),
    )?;
    if any {
        return Ok(());
    }
    let reason = "no microVM can be started on this host";
    Err(Error::new(ErrorKind::Unsupported, reason))
}

fn path(session: &Session) -> Result<()> {
    let dir = cache_dir().ok_or_else(|| {
        let reason = "no cache directory: neither $XDG_CACHE_HOME nor $HOME is set";
        Error::new(ErrorKind::NotFound, reason)
    })?;
    let dir = dir.display().to_string();
    report(session, "path", &dir, json!(dir))
}

fn report(session: &Session, what: &str, text: &str, document: Value) -> Result<()> {
    let mut out = stdout()?;
    match session.output() {
        Output::Json => {
            let document = Map::from_iter([(what.to_owned(), document)]);
            document::write(&mut out, session.command(), Value::Object(document))?;
        }
        Output::Text => {
            for line in text.lines() {
                writeln!(out, "{}", message(line))?;
            }
        }
    }
    out.flush()?;
    Ok(())
}
