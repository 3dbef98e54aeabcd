//! The PAM settings for password changes: pam.d(5).

use super::super::guest::Guest;
use diskfs_disk::Result;

/// The PAM files for password changes on Debian and Red Hat.
const FILES: [&str; 4] = [
    "/etc/pam.d/common-password",
    "/etc/pam.d/system-auth",
    "/etc/pam.d/password-auth",
    "/etc/pam.d/base-password",
];

/// Returns the first match of `find` among the options of these modules.
pub(in super::super) fn first_word<T>(
    guest: &Guest,
    modules: &[&str],
    find: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>> {
    for file in FILES {
        let text = guest.stage.text(file)?.unwrap_or_default();
        let lines = text.lines().map(str::trim_start);
        let mut lines = lines.filter(|line| line.trim_start_matches('-').starts_with("password"));
        let found = lines.find_map(|line| {
            let is_module = |word: &&str| modules.iter().any(|module| word.ends_with(module));
            let mut words = line.split_whitespace().skip_while(|word| !is_module(word));
            words.find_map(&find)
        });
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}
