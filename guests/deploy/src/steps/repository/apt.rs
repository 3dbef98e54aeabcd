//! Repositories of apt: sources.list(5).

use super::super::super::guest::Guest;
use super::super::super::text::{WRITTEN, of_lines};
use super::Repository;
use super::key::{self, Key};
use diskfs_disk::Result;

const DIR: &str = "/etc/apt/sources.list.d";

/// The directories for keys of a single repository, and for keys of all repositories. apt before
/// 1.1 has only the latter.
const KEYRINGS: &str = "/etc/apt/keyrings";
const TRUSTED: &str = "/etc/apt/trusted.gpg.d";

/// The database of dpkg's installed packages.
const STATUS: &str = "/var/lib/dpkg/status";

pub(super) fn put(
    guest: &mut Guest,
    repository: &Repository,
    url: &str,
    key: Option<&Key>,
) -> Result<()> {
    let name = &repository.name;
    let suites = &repository.suites;
    if suites.is_empty() {
        let reason = format!(
            "missing key `suites` of the repository {name}: give suites such as `bookworm`, or \
             the path `./`"
        );
        return Err(guest.invalid(reason));
    }
    let is_flat = suites.iter().any(|suite| suite.ends_with('/'));
    if is_flat != repository.components.is_empty() {
        let reason = format!(
            "invalid suites of {name}: expected suites with components, or one suite that ends \
             with `/` without components"
        );
        return Err(guest.invalid(reason));
    }
    let is_new = has_deb822(guest);
    let dir = if is_new { KEYRINGS } else { TRUSTED };
    let key_path = format!("{dir}/{name}.gpg");
    if let Some(key) = key {
        let bytes = key.binary(guest)?;
        key::put(guest, &key_path, bytes)?;
    } else {
        guest.stage.remove(&format!("{KEYRINGS}/{name}.gpg"))?;
        guest.stage.remove(&format!("{TRUSTED}/{name}.gpg"))?;
    }
    let signed_by = key.map(|_| &*key_path);
    let (text, kind, other) = if is_new {
        (deb822(repository, url, signed_by), "sources", "list")
    } else {
        (one_line(repository, url), "list", "sources")
    };
    guest
        .stage
        .write_with(&format!("{DIR}/{name}.{kind}"), &text, 0o644)?;
    guest.stage.remove(&format!("{DIR}/{name}.{other}"))
}

pub(super) fn remove(guest: &mut Guest, name: &str) -> Result<()> {
    for path in [
        format!("{DIR}/{name}.sources"),
        format!("{DIR}/{name}.list"),
        format!("{KEYRINGS}/{name}.gpg"),
        format!("{TRUSTED}/{name}.gpg"),
    ] {
        guest.stage.remove(&path)?;
    }
    Ok(())
}

/// Returns true if the guest's apt reads `.sources` files (apt 1.1). An apt of unknown version
/// counts as new.
fn has_deb822(guest: &Guest) -> bool {
    // The database of packages may exceed the size limit for settings.
    let status = guest.stage.guest();
    let status = status.read_at_most(STATUS, 64 << 20).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let mut paragraphs = status.split("\n\n");
    let apt = paragraphs.find(|it| it.lines().any(|line| line == "Package: apt"));
    let version = apt.and_then(|it| it.lines().find_map(|line| line.strip_prefix("Version: ")));
    let mut numbers = version
        .unwrap_or_default()
        .split(|c: char| !c.is_ascii_digit())
        .map(|number| number.parse::<u64>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) >= (1, 1),
        _ => true,
    }
}

fn deb822(repository: &Repository, url: &str, signed_by: Option<&str>) -> String {
    let mut lines = vec![
        WRITTEN.to_owned(),
        "Types: deb".to_owned(),
        format!("URIs: {url}"),
        format!("Suites: {}", repository.suites.join(" ")),
    ];
    for (key, words) in [
        ("Components", &repository.components),
        ("Architectures", &repository.architectures),
    ] {
        if !words.is_empty() {
            lines.push(format!("{key}: {}", words.join(" ")));
        }
    }
    lines.extend(signed_by.map(|path| format!("Signed-By: {path}")));
    if repository.unsigned {
        lines.push("Trusted: yes".to_owned());
    }
    of_lines(lines)
}

fn one_line(repository: &Repository, url: &str) -> String {
    let mut options = Vec::new();
    if !repository.architectures.is_empty() {
        options.push(format!("arch={}", repository.architectures.join(",")));
    }
    if repository.unsigned {
        options.push("trusted=yes".to_owned());
    }
    let options = if options.is_empty() {
        String::new()
    } else {
        format!("[{}] ", options.join(" "))
    };
    let lines = repository.suites.iter().map(|suite| {
        let words = [std::slice::from_ref(suite), &repository.components[..]].concat();
        format!("deb {options}{url} {}", words.join(" "))
    });
    of_lines(std::iter::once(WRITTEN.to_owned()).chain(lines))
}
