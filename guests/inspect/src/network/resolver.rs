//! `/etc/resolv.conf` (resolv.conf(5)).

use crate::files::Files;
use diskfs_etc::shell::settings;

const PATH: &str = "/etc/resolv.conf";

/// Name servers, and the domains that names are searched in. A link into `/run` is made anew at each start and says
/// nothing.
pub(super) fn of(files: &Files<'_>) -> (Vec<String>, Vec<String>) {
    let Some(text) = files.text(PATH) else {
        return Default::default();
    };
    let (mut dns, mut search) = (Vec::new(), Vec::new());
    for (_, line) in settings(&text) {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => dns.extend(words.next().map(str::to_owned)),
            // The last one counts.
            Some("search" | "domain") => search = words.map(str::to_owned).collect(),
            _ => {}
        }
    }
    if !dns.is_empty() || !search.is_empty() {
        files.came_from("network", PATH, None);
    }
    (dns, search)
}
