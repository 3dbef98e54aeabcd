//! `diskfs appliance`.

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use diskfs::vm::appliance::{Appliance, BuildQemu, BuildTools, BuildUml, QemuFiles, cache_dir};
use diskfs::vm::{Choice, Kind, Trial};
use diskfs::{Error, ErrorKind, Result};

use super::session::{Output, Session, stdout};
use super::show::json as document;
use super::show::name::message;
use super::show::size::units;
use super::vm::VmArgs;

/// Build, find and try the kernels of the microVM
#[derive(Debug, Args)]
#[command(
    after_help = "They are looked for in --appliance, $DISKFS_APPLIANCE, the directory `appliance` next to the
program, /usr/lib/diskfs and the user's cache; `build` makes them in the last one.

Examples:
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
    /// Build what a backend boots
    Build {
        #[command(subcommand)]
        what: What,
    },
    /// Show what there is, and where it was looked for
    Show {
        #[command(flatten)]
        vm: VmArgs,
    },
    /// Boot each, and say how long it took
    Test {
        #[command(flatten)]
        vm: VmArgs,
    },
    /// Print where `build` makes them
    Path,
}

#[derive(Debug, Subcommand)]
enum What {
    /// A User Mode Linux kernel with the agent in it, out of the source of Linux: some minutes
    Uml(UmlArgs),
    /// A kernel of the host or of a package for QEMU, and the agent with the modules it needs
    Qemu(QemuArgs),
    /// The host's programs that make, check and resize filesystems, with their libraries
    Tools {
        /// The directory to make it in [default: as `diskfs appliance path` prints]
        #[arg(short, long, value_name = "DIR")]
        output: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
struct UmlArgs {
    /// A tree of Linux 6.16 or newer, a tar archive of it, or Debian's package linux-source-*
    /// [default: the newest one in /usr/src]
    #[arg(long, value_name = "FILE")]
    source: Option<PathBuf>,

    /// Keep what is compiled in DIR, for the next time
    #[arg(long, value_name = "DIR")]
    build_dir: Option<PathBuf>,

    /// How many compilers run at once [default: one per core]
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,

    #[command(flatten)]
    common: BuildArgs,
}

#[derive(Debug, Args)]
struct QemuArgs {
    /// A vmlinuz, or Debian's package linux-image-* [default: the newest one in /boot]
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,

    /// The directory of its modules [default: that of its version in /lib/modules]
    #[arg(long, value_name = "DIR")]
    modules: Option<PathBuf>,

    /// Don't boot a machine to save it: emulated ones then boot each time
    #[arg(long)]
    no_saved: bool,

    #[command(flatten)]
    common: BuildArgs,
}

#[derive(Debug, Args)]
struct BuildArgs {
    /// The agent [default: diskfs-agent next to the program, or in one of the places]
    #[arg(long, value_name = "FILE")]
    agent: Option<PathBuf>,

    /// The directory to make it in [default: as `diskfs appliance path` prints]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

impl BuildArgs {
    fn agent(&self) -> Result<PathBuf> {
        match &self.agent {
            Some(agent) => Ok(agent.clone()),
            None => Appliance::find(None).agent(),
        }
    }

    fn output(&self) -> Result<PathBuf> {
        output_dir(self.output.as_deref())
    }
}

fn output_dir(said: Option<&Path>) -> Result<PathBuf> {
    said.map(Path::to_owned).or_else(cache_dir).ok_or_else(|| {
        let reason = "there is neither $XDG_CACHE_HOME nor $HOME to make it in";
        Error::new(ErrorKind::NotFound, reason).with_hint("name a directory with --output")
    })
}

pub(super) fn run(args: &ApplianceArgs, session: &mut Session) -> Result<()> {
    match &args.action {
        Action::Build { what } => match what {
            What::Uml(args) => build_uml(args, session),
            What::Qemu(args) => build_qemu(args, session),
            What::Tools { output } => build_tools(output.as_deref(), session),
        },
        Action::Show { vm } => show(vm, session),
        Action::Test { vm } => test(vm, session),
        Action::Path => path(session),
    }
}

fn build_uml(args: &UmlArgs, session: &mut Session) -> Result<()> {
    let build = BuildUml {
        source: args.source.clone(),
        agent: args.common.agent()?,
        build_dir: args.build_dir.clone(),
        output: args.common.output()?.join("uml"),
        jobs: args
            .jobs
            .or_else(|| thread::available_parallelism().ok())
            .unwrap_or(NonZeroUsize::MIN),
    };
    let built = build.run(&mut say(session.output()))?;
    let told = json!({
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
    report(session, "built", &text, told)
}

fn build_qemu(args: &QemuArgs, session: &mut Session) -> Result<()> {
    let build = BuildQemu {
        kernel: args.kernel.clone(),
        modules: args.modules.clone(),
        agent: args.common.agent()?,
        output: args.common.output()?.join("qemu"),
        save: !args.no_saved,
    };
    let built = build.run(&mut say(session.output()))?;
    let (kernel, initramfs) = built.size_bytes;
    let saved = match &built.saved {
        Some(Ok(size_bytes)) => Some(*size_bytes),
        Some(Err(error)) => {
            let reason = error.reason();
            session.warn(&format!("no machine was saved, each will boot: {reason}"));
            None
        }
        None => None,
    };
    let told = json!({
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
    report(session, "built", &text, told)
}

fn build_tools(output: Option<&Path>, session: &mut Session) -> Result<()> {
    let build = BuildTools {
        output: output_dir(output)?,
    };
    let built = build.run(&mut say(session.output()))?;
    if !built.missing.is_empty() {
        let missing = built.missing.join(", ");
        session.warn(&format!("this machine does not have {missing}"));
    }
    let told = json!({
        "path": built.file.display().to_string(),
        "size_bytes": built.size_bytes,
        "programs": built.programs,
        "missing": built.missing,
    });
    let text = format!("{}: {}", built.file.display(), units(built.size_bytes));
    report(session, "built", &text, told)
}

/// Says what is done, for people: it takes minutes.
fn say(output: Output) -> impl FnMut(&str) {
    move |what: &str| {
        if output == Output::Text {
            let _ = writeln!(std::io::stderr(), "{}", message(what)); // Nowhere left to complain.
        }
    }
}

fn show(args: &VmArgs, session: &mut Session) -> Result<()> {
    let options = args.options()?;
    let appliance = Appliance::find(options.appliance.as_deref());
    let mut lines = Vec::new();
    let mut told = Vec::new();
    let mut add = |what: &str, found: Result<PathBuf>| {
        let (line, value) = match found {
            Ok(file) => {
                let size = std::fs::metadata(&file).map_or(0, |told| told.len());
                let line = format!("{what}: {} ({})", file.display(), units(size));
                (
                    line,
                    json!({ "path": file.display().to_string(), "size_bytes": size }),
                )
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
        told.push((what.to_owned(), value));
    };
    add("uml", appliance.uml());
    add("qemu", appliance.qemu().map(|files| files.kernel));
    add("qemu saved", appliance.qemu().and_then(saved));
    add("tools", appliance.tools());
    let places = appliance
        .places()
        .iter()
        .map(|place| place.display().to_string());
    let places: Vec<String> = places.collect();
    lines.push(format!("looked for in: {}", places.join(", ")));
    let told: Map<String, Value> = told.into_iter().collect();
    let told = json!({ "kernels": told, "places": places });
    report(session, "appliance", &lines.join("\n"), told)
}

/// The saved machine, if there is one.
fn saved(files: QemuFiles) -> Result<PathBuf> {
    if files.saved.is_file() {
        return Ok(files.saved);
    }
    let hint = "`diskfs appliance build qemu` makes one, where QEMU is installed";
    Err(Error::new(ErrorKind::NotFound, "no saved machine").with_hint(hint))
}

fn test(args: &VmArgs, session: &mut Session) -> Result<()> {
    let options = args.options()?;
    let kinds: Vec<Kind> = match options.choice {
        Choice::Only(kind) => vec![kind],
        Choice::Auto | Choice::None => Kind::ALL.to_vec(),
    };
    let mut lines = Vec::new();
    let mut told = Map::new();
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
        told.insert(kind.name().to_owned(), value);
    }
    report(session, "backends", &lines.join("\n"), Value::Object(told))?;
    if any {
        return Ok(());
    }
    let reason = "no microVM can be started here";
    Err(Error::new(ErrorKind::Unsupported, reason))
}

fn path(session: &Session) -> Result<()> {
    let dir = cache_dir().ok_or_else(|| {
        let reason = "there is neither $XDG_CACHE_HOME nor $HOME";
        Error::new(ErrorKind::NotFound, reason)
    })?;
    let dir = dir.display().to_string();
    report(session, "path", &dir, json!(dir))
}

fn report(session: &Session, what: &str, text: &str, told: Value) -> Result<()> {
    let mut out = stdout()?;
    match session.output() {
        Output::Json => {
            let document = Map::from_iter([(what.to_owned(), told)]);
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
