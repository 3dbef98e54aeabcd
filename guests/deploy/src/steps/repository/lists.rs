//! Repositories of the other package managers: yum.conf(5) and zypper, apk-repositories(5),
//! pacman.conf(5).

use super::super::super::guest::Guest;
use super::super::super::text::{WRITTEN, of_lines, with_line};
use super::Repository;
use super::key::{self, Key};
use diskfs_disk::Result;

/// The directories with one file per repository.
pub(super) const YUM: &str = "/etc/yum.repos.d";
pub(super) const ZYPP: &str = "/etc/zypp/repos.d";

/// The directory for the keys of rpm.
const RPM_GPG: &str = "/etc/pki/rpm-gpg";

const APK: &str = "/etc/apk/repositories";
const APK_KEYS: &str = "/etc/apk/keys";

const PACMAN: &str = "/etc/pacman.conf";
const PACMAN_KEYS: &str = "/etc/pacman.d";

/// A comment before a line of apk's repository list, whose entries have no names. It gives the
/// repository's name.
const MARK: &str = "# Written by diskfs deploy:";

pub(super) fn put_ini(
    guest: &mut Guest,
    dir: &str,
    repository: &Repository,
    url: &str,
    key: Option<&Key>,
) -> Result<()> {
    let name = &repository.name;
    let key_path = format!("{RPM_GPG}/RPM-GPG-KEY-{name}");
    match key {
        Some(key) => {
            let bytes = key.armored(guest)?.to_vec();
            key::put(guest, &key_path, bytes)?;
        }
        None => guest.stage.remove(&key_path)?,
    }
    let mut lines = vec![
        WRITTEN.to_owned(),
        format!("[{name}]"),
        format!("name={name}"),
        format!("baseurl={url}"),
        "enabled=1".to_owned(),
        format!("gpgcheck={}", u8::from(!repository.unsigned)),
    ];
    if key.is_some() {
        lines.push(format!("gpgkey=file://{key_path}"));
    }
    if dir == ZYPP {
        lines.push("autorefresh=1".to_owned());
        if key.is_some() {
            guest.note(
                "zypper asks whether to trust the key; run it with --gpg-auto-import-keys to \
                 accept the key",
            );
        }
    }
    let path = format!("{dir}/{name}.repo");
    guest.stage.write_with(&path, &of_lines(lines), 0o644)
}

pub(super) fn remove_ini(guest: &mut Guest, dir: &str, name: &str) -> Result<()> {
    guest.stage.remove(&format!("{dir}/{name}.repo"))?;
    guest.stage.remove(&format!("{RPM_GPG}/RPM-GPG-KEY-{name}"))
}

pub(super) fn put_apk(
    guest: &mut Guest,
    repository: &Repository,
    url: &str,
    key: Option<&Key>,
) -> Result<()> {
    let name = &repository.name;
    if repository.unsigned {
        let reason = format!("apk cannot trust a single repository without a signature ({name})");
        return Err(guest
            .invalid(reason)
            .with_hint("give its public key in `key` or `key-file`"));
    }
    if let Some(key) = key {
        let file = key_file_of_apk(guest, name, key)?;
        key::put(guest, &file, key.as_is().to_vec())?;
    }
    let text = guest.stage.text(APK)?.unwrap_or_default();
    let mark = format!("{MARK} {name}");
    let known = text.lines().skip_while(|line| *line != mark).nth(1);
    if known == Some(url) {
        return Ok(());
    }
    let text = with_line(without_apk(&text, &mark), &mark);
    guest.stage.write_text(APK, &with_line(text, url))
}

/// Returns the path for a key. apk finds a key by the name that the signature contains.
fn key_file_of_apk(guest: &mut Guest, name: &str, key: &Key) -> Result<String> {
    if !String::from_utf8_lossy(key.as_is()).contains("-----BEGIN PUBLIC KEY-----") {
        return Err(guest.invalid(format!(
            "invalid key of {name}: apk expects a public key in PEM form"
        )));
    }
    if let Some(file) = &key.file_name {
        return Ok(format!("{APK_KEYS}/{file}"));
    }
    guest.note(format!(
        "apk finds keys by their file names: if the signature names another key than \
         {name}.rsa.pub, use key-file"
    ));
    Ok(format!("{APK_KEYS}/{name}.rsa.pub"))
}

/// Removes a repository. The key stays, because other repositories may use it, too.
pub(super) fn remove_apk(guest: &mut Guest, name: &str) -> Result<()> {
    let Some(text) = guest.stage.text(APK)? else {
        return Ok(());
    };
    let text = without_apk(&text, &format!("{MARK} {name}"));
    guest.stage.write_text(APK, &text)
}

fn without_apk(text: &str, mark: &str) -> String {
    let mut is_next = false;
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let is_mark = line.trim_end() == mark;
        if !is_mark && !is_next {
            out.push_str(line);
        }
        is_next = is_mark;
    }
    out
}

pub(super) fn put_pacman(
    guest: &mut Guest,
    repository: &Repository,
    url: &str,
    key: Option<&Key>,
) -> Result<()> {
    let name = &repository.name;
    if name == "options" {
        return Err(guest.invalid(
            "invalid repository name `options`: pacman.conf uses it for its own settings",
        ));
    }
    let mut section = vec![format!("[{name}]"), format!("Server = {url}")];
    if repository.unsigned {
        section.push("SigLevel = Optional TrustAll".to_owned());
    }
    if let Some(key) = key {
        let file = format!("{PACMAN_KEYS}/{name}.asc");
        let bytes = key.armored(guest)?.to_vec();
        key::put(guest, &file, bytes)?;
        guest.note(format!(
            "the key must be imported in the guest: run `pacman-key --add {file}` and \
             `pacman-key --lsign-key ID` at the first boot"
        ));
    }
    let text = guest.stage.text(PACMAN)?.unwrap_or_default();
    let section = of_lines(section);
    let (before, known, after) = around(&text, name);
    if known.trim_end() == section.trim_end() {
        return Ok(());
    }
    let text = if known.is_empty() {
        let end = if before.ends_with('\n') { "" } else { "\n" };
        format!("{before}{end}\n{section}")
    } else if after.is_empty() {
        format!("{before}{section}")
    } else {
        format!("{before}{section}\n{after}")
    };
    guest.stage.write_text(PACMAN, &text)
}

pub(super) fn remove_pacman(guest: &mut Guest, name: &str) -> Result<()> {
    let text = guest.stage.text(PACMAN)?.unwrap_or_default();
    let (before, known, after) = around(&text, name);
    if known.is_empty() || name == "options" {
        return Ok(());
    }
    let text = if after.is_empty() {
        format!("{}\n", before.trim_end())
    } else {
        format!("{before}{after}")
    };
    guest.stage.write_text(PACMAN, &text)
}

/// Splits the text into the part before a section, the section, and the part after it.
fn around<'t>(text: &'t str, name: &str) -> (&'t str, &'t str, &'t str) {
    let head = format!("[{name}]");
    let mut at = 0;
    let mut start = None;
    for line in text.split_inclusive('\n') {
        let is_head = line.trim_start().starts_with('[');
        match start {
            None if line.trim() == head => start = Some(at),
            Some(start) if is_head => return (&text[..start], &text[start..at], &text[at..]),
            _ => {}
        }
        at += line.len();
    }
    match start {
        Some(start) => (&text[..start], &text[start..], ""),
        None => (text, "", ""),
    }
}
