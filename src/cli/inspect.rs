//! `diskfs inspect`.

use std::io::Write;

use clap::Args;
use serde_json::{Value, json};

use diskfs::guest;
use diskfs::inspect::{Depth, Password, Report, User};
use diskfs::{Disk, Error, ErrorKind, Filesystem, Result};

use super::operand::Operand;
use super::options::SourceArgs;
use super::session::{Output, Session, stdout};
use super::show::json as document;
use super::show::name::message;
use super::show::table::{Align, lay_out};

/// Show which systems are on an image, and what they have
///
/// All is read from the guest's own files: nothing of it is run, no virtual machine is started for what diskfs reads
/// itself, and nothing is written. What can't be read is told, and the rest is shown.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs inspect debian.qcow2
  diskfs inspect --packages debian.qcow2
  diskfs inspect --json debian.qcow2 | jq '.systems[].packages.installed | length'")]
pub(super) struct Inspect {
    /// The image
    #[arg(value_name = "IMG")]
    image: Operand,

    /// List the packages that are installed, too
    #[arg(long)]
    packages: bool,

    /// Unpack kernels' first filesystems, too, to tell which drivers are in them
    #[arg(long)]
    initramfs: bool,

    /// Say where each answer came from: file and line
    #[arg(long)]
    sources: bool,

    #[command(flatten)]
    source: SourceArgs,
}

impl Inspect {
    fn depth(&self) -> Depth {
        if self.initramfs {
            Depth::Initramfs
        } else {
            Depth::Files
        }
    }
}

/// A guest, and what there is to say of it.
struct Guest {
    volume: String,
    report: Report,
}

impl Guest {
    fn of(tree: &Filesystem, depth: Depth) -> Self {
        Self {
            volume: tree.volume().to_owned(),
            report: Report::of(tree, depth),
        }
    }
}

pub(super) fn run(args: &Inspect, session: &mut Session) -> Result<()> {
    let disk = session.disk(
        &args.image.image_alone("systems are looked at")?,
        &args.source,
    )?;
    let guests = guests(args, &disk)?;
    session.warn_of(&disk);
    let mut out = stdout()?;
    match session.output() {
        Output::Json => {
            let systems: Vec<Value> = guests.iter().map(|guest| guest_json(args, guest)).collect();
            document::write(&mut out, session.command(), json!({ "systems": systems }))?;
        }
        Output::Text => {
            for (number, guest) in (1..).zip(&guests) {
                write_guest(&mut out, args, number, guest)?;
            }
        }
    }
    Ok(out.flush()?)
}

fn guests(args: &Inspect, disk: &Disk) -> Result<Vec<Guest>> {
    if let Some(volume) = args.source.volume.volume(disk)? {
        return Ok(vec![Guest::of(&volume.filesystem()?, args.depth())]);
    }
    let systems = match args.source.volume.os {
        Some(number) => guest::meant(disk, Some(number))?.into_iter().collect(),
        None => guest::systems(disk)?,
    };
    if systems.is_empty() {
        let hint = "see `diskfs info` for what the image holds, and name a volume with --volume";
        let error = Error::new(ErrorKind::NotFound, "no operating system is found");
        return Err(error.in_file(disk.path()).with_hint(hint));
    }
    let trees = systems
        .iter()
        .map(|system| Ok(Guest::of(&system.filesystem()?, args.depth())));
    trees.collect()
}

fn guest_json(args: &Inspect, guest: &Guest) -> Value {
    let mut told = document::value(&guest.report);
    if let Value::Object(fields) = &mut told {
        fields.insert("volume".to_owned(), guest.volume.as_str().into());
        if !args.sources {
            fields.remove("sources");
        }
    }
    told
}

fn write_guest(out: &mut impl Write, args: &Inspect, number: usize, guest: &Guest) -> Result<()> {
    let report = &guest.report;
    writeln!(
        out,
        "operating system {number} on {}",
        message(&guest.volume)
    )?;
    let mut rows = Vec::new();
    for (name, question, value) in facts(report) {
        let mut row = vec![format!("  {name}"), message(&value)];
        if args.sources {
            row.push(sources(report, question));
        }
        rows.push(row);
    }
    out.write_all(lay_out(&[Align::Left; 3], &rows).as_bytes())?;
    for problem in &report.problems {
        let line = format!("  not read: {}: {}", problem.file, problem.reason);
        writeln!(out, "{}", message(&line))?;
    }
    if args.packages {
        let packages = report.packages.installed.iter().flatten();
        let rows: Vec<Vec<String>> = packages
            .map(|package| {
                let cells = [&package.name, &package.version, &package.architecture];
                cells.map(|cell| message(cell)).to_vec()
            })
            .collect();
        out.write_all(lay_out(&[Align::Left; 3], &rows).as_bytes())?;
    }
    Ok(())
}

/// What people are told: name, the question's name in the report, answer. What is not known is left out.
fn facts(report: &Report) -> Vec<(&'static str, &'static str, String)> {
    let release = &report.release;
    let code_name = release.code_name.as_ref().map(|name| format!("({name})"));
    let system = [&release.distribution, &release.version, &code_name];
    let system: Vec<&str> = system.into_iter().flatten().map(String::as_str).collect();
    let kernels: Vec<&str> = report
        .kernels
        .iter()
        .map(|kernel| &*kernel.version)
        .collect();
    let users: Vec<String> = report
        .users
        .iter()
        .filter(|user| is_person(user))
        .map(person)
        .collect();
    let known = |text: &Option<String>| text.clone().unwrap_or_default();
    let facts = [
        ("system", "distribution", system.join(" ")),
        ("product", "product", known(&release.product)),
        ("variant", "variant", known(&release.variant)),
        ("architecture", "architecture", known(&report.architecture)),
        ("hostname", "hostname", known(&report.hostname)),
        ("machine ID", "machine_id", known(&report.machine_id)),
        ("time zone", "timezone", known(&report.timezone)),
        ("locale", "locale", known(&report.locale)),
        ("kernels", "kernels", kernels.join(", ")),
        ("users", "users", users.join(", ")),
        ("packages", "packages", packages(report)),
    ];
    facts
        .into_iter()
        .filter(|(.., value)| !value.is_empty())
        .collect()
}

/// Root, and those whose numbers distributions give to people (login.defs(5): from 1000 on, less `nobody`).
fn is_person(user: &User) -> bool {
    user.uid == 0 || (1000..60_000).contains(&user.uid)
}

fn person(user: &User) -> String {
    let state = match user.password {
        Some(Password::Set) => "password",
        Some(Password::Empty) => "no password needed",
        Some(Password::Locked) => "password locked",
        None => return user.name.clone(),
    };
    format!("{} ({state})", user.name)
}

fn packages(report: &Report) -> String {
    let packages = &report.packages;
    let Some(format) = packages.format else {
        return String::new();
    };
    let count = match &packages.installed {
        Some(installed) => installed.len().to_string(),
        None => "not read".to_owned(),
    };
    match packages.manager {
        Some(manager) if manager != format => format!("{count} ({format}, {manager})"),
        _ => format!("{count} ({format})"),
    }
}

/// `/etc/hostname:1, ...`.
fn sources(report: &Report, question: &str) -> String {
    let sources = report.sources.get(question).into_iter().flatten();
    let named = sources.map(|source| match source.line {
        Some(line) => format!("{}:{line}", source.file),
        None => source.file.clone(),
    });
    named.collect::<Vec<_>>().join(", ")
}
