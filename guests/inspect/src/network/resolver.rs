//! Parsing of `/etc/resolv.conf` (resolv.conf(5)).

use crate::files::Files;
use diskfs_etc::shell::settings;

const PATH: &str = "/etc/resolv.conf";

/// Returns the DNS servers and the search domains. A symlink into `/run` is generated at each boot,
/// so it is ignored.
pub(super) fn of(files: &Files<'_>) -> (Vec<String>, Vec<String>) {
    let Some(text) = files.text(PATH) else {
        return Default::default();
    };
    let (mut dns, mut search) = (Vec::new(), Vec::new());
    for (_, line) in settings(&text) {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => dns.extend(words.next().map(str::to_owned)),
            // The last line takes precedence.
            Some("search" | "domain") => search = words.map(str::to_owned).collect(),
            _ => {}
        }
    }
    if !dns.is_empty() || !search.is_empty() {
        files.add_source("network", PATH, None);
    }
    (dns, search)
}
