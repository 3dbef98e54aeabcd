//! What cloud-init would do with user data, in guests that have no cloud-init: the same, by steps, as far as there are
//! steps for it.

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

/// Forms of user data that only cloud-init takes apart.
const REFUSED: [(&str, &str); 9] = [
    ("Content-Type:", "MIME multipart"),
    ("MIME-Version:", "MIME multipart"),
    ("#include", "a list of URLs (#include)"),
    ("#cloud-config-archive", "an archive of several"),
    ("#cloud-config-jsonp", "a patch of others"),
    ("#cloud-boothook", "a hook of cloud-init"),
    ("#part-handler", "a program of cloud-init's own"),
    ("## template: jinja", "a template of cloud-init"),
    ("#upstart-job", "a job of upstart"),
];

/// What its script is called among those of the first start.
const SCRIPT: &str = "50-user-data";

/// Does what the user data asks for.
pub(super) fn translate(guest: &mut Guest, text: &str) -> Result<()> {
    let start = text.trim_start();
    if let Some((_, what)) = REFUSED.iter().find(|(head, _)| start.starts_with(*head)) {
        let reason = format!("the user data is {what}, and the guest has no cloud-init");
        let error = Error::new(ErrorKind::Unsupported, reason);
        let error = error.in_file(guest.stage.guest().image_path());
        return Err(error.with_hint("give a script that begins with #!, or one #cloud-config"));
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
    let reason = "the user data is neither a script that begins with #! nor #cloud-config";
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

/// Tells what is not done.
fn left_out(guest: &mut Guest, what: &str) {
    guest.note(format!("user data: {what} is left out"));
}

/// A word, as a shell takes it for one.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:@%+,".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
