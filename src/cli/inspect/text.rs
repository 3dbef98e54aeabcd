//! The report as text.

use std::io::Write;

use diskfs::Result;
use diskfs::guest::MountedFilesystem;
use diskfs::inspect::{
    DriverPlace, Firmware, Interface, Kernel, Password, Report, ServiceState, User,
};

use super::{Guest, Inspect};
use crate::cli::show::name::message;
use crate::cli::show::size::human;
use crate::cli::show::table::{Align, lay_out};

/// A line of the report: its label, the question's name in the report, the answer.
type ReportLine = (&'static str, &'static str, String);

pub(super) fn write(
    out: &mut impl Write,
    args: &Inspect,
    number: usize,
    guest: &Guest,
) -> Result<()> {
    let report = &guest.report;
    writeln!(
        out,
        "operating system {number} on {}",
        message(&guest.volume)
    )?;
    let mut rows = Vec::new();
    for (name, question, value) in facts(guest) {
        let mut row = vec![format!("  {name}"), message(&value)];
        if args.sources {
            row.push(sources(report, question));
        }
        rows.push(row);
    }
    out.write_all(lay_out(&[Align::Left; 3], &rows).as_bytes())?;
    for problem in &report.problems {
        let line = format!("  cannot read: {}: {}", problem.file, problem.reason);
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

/// Returns all lines; unknown facts are left out.
fn facts(guest: &Guest) -> Vec<ReportLine> {
    let report = &guest.report;
    let all = [system(report), startup(report), people(report)];
    let mut facts: Vec<ReportLine> = all.into_iter().flatten().collect();
    let disks = guest.filesystems.iter();
    facts.extend(disks.map(|it| ("filesystem", "filesystems", filesystem(it))));
    let interfaces = report.network.interfaces.iter();
    facts.extend(interfaces.map(|it| ("network", "network", interface(it))));
    facts.push(("name servers", "network", report.network.dns.join(", ")));
    facts.push(("packages", "packages", packages(report)));
    facts.retain(|(.., value)| !value.is_empty());
    facts
}

fn known(text: Option<&String>) -> String {
    text.cloned().unwrap_or_default()
}

fn system(report: &Report) -> Vec<ReportLine> {
    let release = &report.release;
    let code_name = release.code_name.as_ref().map(|name| format!("({name})"));
    let system = [&release.distribution, &release.version, &code_name];
    let system: Vec<&str> = system.into_iter().flatten().map(String::as_str).collect();
    let selinux = report.selinux.as_ref().map(|it| it.mode.clone());
    vec![
        ("system", "distribution", system.join(" ")),
        ("product", "product", known(release.product.as_ref())),
        ("variant", "variant", known(release.variant.as_ref())),
        (
            "architecture",
            "architecture",
            known(report.architecture.as_ref()),
        ),
        ("hostname", "hostname", known(report.hostname.as_ref())),
        (
            "machine ID",
            "machine_id",
            known(report.machine_id.as_ref()),
        ),
        ("time zone", "timezone", known(report.timezone.as_ref())),
        ("locale", "locale", known(report.locale.as_ref())),
        ("SELinux", "selinux", selinux.unwrap_or_default()),
        (
            "last start",
            "activity",
            known(report.activity.last_boot.as_ref()),
        ),
        (
            "last log",
            "activity",
            known(report.activity.last_log.as_ref()),
        ),
    ]
}

fn startup(report: &Report) -> Vec<ReportLine> {
    let boot = &report.boot;
    let firmware = boot.firmware.iter().map(|firmware| match firmware {
        Firmware::Bios => "BIOS",
        Firmware::Uefi => "UEFI",
        _ => "other firmware",
    });
    let firmware = firmware.collect::<Vec<_>>().join(" and ");
    let by = match boot.loaders.join(", ") {
        loaders if loaders.is_empty() => loaders,
        loaders => format!("by {loaders}"),
    };
    let how = [firmware, by].into_iter().filter(|it| !it.is_empty());
    let how = how.collect::<Vec<_>>().join(", ");
    let command_line = boot.default.as_ref().map(|it| it.command_line.clone());
    let mut facts = vec![
        ("boot", "boot", how),
        ("command line", "boot", command_line.unwrap_or_default()),
    ];
    facts.extend(
        report
            .kernels
            .iter()
            .map(|it| ("kernel", "kernels", kernel(it))),
    );
    let counted = |state| {
        report
            .services
            .iter()
            .filter(|it| it.state == state)
            .count()
    };
    let (enabled, masked) = (
        counted(ServiceState::Enabled),
        counted(ServiceState::Masked),
    );
    let services = match (enabled, masked) {
        (0, 0) => String::new(),
        (enabled, 0) => format!("{enabled} enabled"),
        (enabled, masked) => format!("{enabled} enabled, {masked} masked"),
    };
    facts.push(("services", "services", services));
    let jobs = Some(report.cron.len()).filter(|count| *count > 0);
    let jobs = jobs.map_or_else(String::new, |count| format!("{count} jobs"));
    facts.push(("cron", "cron", jobs));
    let cloud_init = report.cloud_init.as_ref().map(|it| {
        let version = it.version.as_deref().unwrap_or("there");
        let ran = match (&it.instance, it.is_disabled) {
            (_, true) => "disabled".to_owned(),
            (None, _) => "never ran".to_owned(),
            (Some(instance), _) => format!("ran for {instance}"),
        };
        format!("{version} ({ran})")
    });
    facts.push(("cloud-init", "cloud_init", cloud_init.unwrap_or_default()));
    let agent = report.guest_agent.as_ref();
    let agent = agent.map(|it| it.version.clone().unwrap_or_else(|| it.path.clone()));
    facts.push(("guest agent", "guest_agent", agent.unwrap_or_default()));
    facts
}

/// Formats a kernel as `6.1.0-9-amd64: virtio_blk (initramfs), nvme (module)`.
fn kernel(kernel: &Kernel) -> String {
    let drivers = kernel.drivers.iter().map(|(driver, place)| match place {
        DriverPlace::BuiltIn => format!("{driver} (built in)"),
        DriverPlace::Initramfs => format!("{driver} (initramfs)"),
        DriverPlace::Module => (*driver).to_owned(),
        _ => format!("{driver} (elsewhere)"),
    });
    let drivers: Vec<String> = drivers.collect();
    if drivers.is_empty() {
        return kernel.version.clone();
    }
    format!("{} with {}", kernel.version, drivers.join(", "))
}

fn people(report: &Report) -> Vec<ReportLine> {
    let users: Vec<String> = report
        .users
        .iter()
        .filter(|user| is_person(user))
        .map(person)
        .collect();
    let rules: Vec<String> = report.sudoers.iter().map(|it| it.who.clone()).collect();
    let mut facts = vec![
        ("users", "users", users.join(", ")),
        ("sudo", "sudoers", rules.join(", ")),
    ];
    let host = report.ssh.host_keys.iter();
    facts.extend(host.map(|key| {
        let shown = format!("{} {}", key.algorithm, key.fingerprint);
        ("host key", "ssh", shown)
    }));
    let authorized = report.ssh.authorized_keys.iter();
    facts.extend(authorized.map(|it| {
        let comment = it.key.comment.as_deref().unwrap_or_default();
        let shown = format!("{}: {} {comment}", it.user, it.key.fingerprint);
        ("ssh key", "ssh", shown.trim_end().to_owned())
    }));
    facts
}

/// Returns true for root, and for users with the numbers that distributions give to people
/// (login.defs(5): from 1000 on, except `nobody`).
fn is_person(user: &User) -> bool {
    user.uid == 0 || (1000..60_000).contains(&user.uid)
}

fn person(user: &User) -> String {
    let state = match user.password {
        Some(Password::Set) => "password",
        Some(Password::Empty) => "no password needed",
        Some(Password::Locked) => "password locked",
        Some(_) => "password of unknown type",
        None => return user.name.clone(),
    };
    format!("{} ({state})", user.name)
}

/// Formats a filesystem as `/ ext4, 1.1G of 2.0G used`.
fn filesystem(filesystem: &MountedFilesystem) -> String {
    let MountedFilesystem {
        path,
        filesystem: kind,
        volume,
        ..
    } = filesystem;
    match (filesystem.used_bytes, filesystem.size_bytes) {
        (Some(used), Some(size)) => {
            format!(
                "{path} ({volume}, {kind}): {} of {} used",
                human(used),
                human(size)
            )
        }
        _ => format!("{path} ({volume}, {kind})"),
    }
}

/// Formats an interface as `eth0 (52:54:00:12:34:56): DHCP, 192.0.2.7/24 via 192.0.2.1 (netplan)`.
fn interface(interface: &Interface) -> String {
    let name = interface.name.as_deref().unwrap_or("any");
    let mac = interface.mac.as_ref().map(|mac| format!(" ({mac})"));
    let mut says = Vec::new();
    match (interface.dhcp4, interface.dhcp6) {
        (true, true) => says.push("DHCP".to_owned()),
        (true, false) => says.push("DHCPv4".to_owned()),
        (false, true) => says.push("DHCPv6".to_owned()),
        (false, false) => {}
    }
    says.extend(interface.addresses.iter().cloned());
    says.extend(interface.gateways.iter().map(|it| format!("via {it}")));
    says.extend(interface.kind.iter().cloned());
    format!(
        "{name}{}: {} ({})",
        mac.unwrap_or_default(),
        says.join(", "),
        interface.configured_by
    )
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

/// Formats the sources of an answer as `/etc/hostname:1, ...`.
fn sources(report: &Report, question: &str) -> String {
    let sources = report.sources.get(question).into_iter().flatten();
    let named = sources.map(|source| match source.line {
        Some(line) => format!("{}:{line}", source.file),
        None => source.file.clone(),
    });
    message(&named.collect::<Vec<_>>().join(", "))
}
