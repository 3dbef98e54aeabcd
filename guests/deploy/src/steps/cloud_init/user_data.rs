//! User data in guests without cloud-init: its keys are translated into steps, as far as there are
//! matching steps.

mod config;
mod packages;
mod users;
mod value;
mod write_files;

#[cfg(test)]
mod tests;

use super::super::super::guest::Guest;
use super::super::firstboot::Firstboot;
use diskfs_disk::{Error, ErrorKind, Result};

/// Forms of user data that only cloud-init can process.
const REFUSED: [(&str, &str); 9] = [
    ("Content-Type:", "MIME multipart"),
    ("MIME-Version:", "MIME multipart"),
    ("#include", "a list of URLs (#include)"),
    (
        "#cloud-config-archive",
        "an archive (#cloud-config-archive)",
    ),
    ("#cloud-config-jsonp", "a patch (#cloud-config-jsonp)"),
    ("#cloud-boothook", "a boot hook (#cloud-boothook)"),
    ("#part-handler", "a part handler (#part-handler)"),
    ("## template: jinja", "a Jinja template"),
    ("#upstart-job", "an upstart job"),
];

/// The name of the user-data script among the first-boot scripts.
const SCRIPT: &str = "50-user-data";

/// Applies the user data.
pub(super) fn translate(guest: &mut Guest, text: &str) -> Result<()> {
    let start = text.trim_start();
    if let Some((_, what)) = REFUSED.iter().find(|(head, _)| start.starts_with(*head)) {
        let reason = format!(
            "user data in the form of {what} is not supported without cloud-init in the guest"
        );
        let error = Error::new(ErrorKind::Unsupported, reason);
        let error = error.in_file(guest.stage.guest().image_path());
        return Err(error.with_hint("use a script that begins with #!, or a single #cloud-config"));
    }
    if start.starts_with("#!") {
        return run_once(guest, start);
    }
    if start.starts_with("#cloud-config") {
        return config::apply(guest, start);
    }
    if start.is_empty() {
        return Ok(());
    }
    let reason = "unknown form of user data; known: a script that begins with #!, #cloud-config";
    Err(guest.invalid(reason))
}

fn run_once(guest: &mut Guest, script: &str) -> Result<()> {
    Firstboot {
        name: Some(SCRIPT.to_owned()),
        script: Some(script.to_owned()),
        file: None,
    }
    .apply(guest)
}

/// Adds a note about a part of the user data that is ignored.
fn note_ignored(guest: &mut Guest, what: &str) {
    guest.note(format!("user data: {what} was ignored"));
}

/// Quotes a word for the shell.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:@%+,".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
