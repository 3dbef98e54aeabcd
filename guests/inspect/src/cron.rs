//! The scheduled jobs of the guest (crontab(5), anacrontab(5)). Timers of systemd are in the list
//! of services.

use serde::Serialize;

use super::files::Files;
use diskfs_etc::shell::settings;

/// The limit on the number of jobs, far above that of any real guest.
const MAX_JOBS: usize = 100_000;

/// The system tables, which have a user in each line.
const SYSTEM: &str = "/etc/crontab";
const SYSTEM_DIR: &str = "/etc/cron.d";

/// The directories with one table per user, named after the user: Debian's, Red Hat's, SUSE's, and
/// Alpine's.
const USERS: [&str; 4] = [
    "/var/spool/cron/crontabs",
    "/var/spool/cron",
    "/var/spool/cron/tabs",
    "/etc/crontabs",
];

/// The directories of scripts, and the schedule of each.
const SCRIPTS: [(&str, &str); 4] = [
    ("/etc/cron.hourly", "@hourly"),
    ("/etc/cron.daily", "@daily"),
    ("/etc/cron.weekly", "@weekly"),
    ("/etc/cron.monthly", "@monthly"),
];

/// A scheduled job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CronJob {
    /// The schedule: `*/5 * * * *`, `@reboot`.
    pub schedule: String,
    /// The user that it runs as.
    pub user: String,
    /// The command that it runs.
    pub command: String,
    /// The file that defines it.
    pub file: String,
    /// The line in the file, from 1, if the file has several jobs.
    pub line: Option<usize>,
}

/// Reads all jobs.
pub(super) fn of(files: &Files<'_>) -> Vec<CronJob> {
    let mut jobs = table(files, SYSTEM, None);
    for name in files.names(SYSTEM_DIR).iter().filter(|name| is_read(name)) {
        jobs.extend(table(files, &format!("{SYSTEM_DIR}/{name}"), None));
    }
    for dir in USERS {
        for user in files.names(dir) {
            let path = format!("{dir}/{user}");
            if files.is_file(&path) {
                jobs.extend(table(files, &path, Some(&user)));
            }
        }
    }
    jobs.extend(
        SCRIPTS
            .iter()
            .flat_map(|(dir, schedule)| scripts(files, dir, schedule)),
    );
    jobs.truncate(MAX_JOBS);
    jobs
}

/// Returns true for file names that cron(8) reads: it ignores names with a dot, which editors and
/// package managers leave behind.
fn is_read(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    name.chars().all(is_plain)
}

fn scripts(files: &Files<'_>, dir: &str, schedule: &str) -> Vec<CronJob> {
    let names = files.names(dir).into_iter().filter(|name| is_read(name));
    let jobs = names.map(|name| CronJob {
        schedule: schedule.to_owned(),
        user: "root".to_owned(),
        command: format!("{dir}/{name}"),
        file: format!("{dir}/{name}"),
        line: None,
    });
    let jobs: Vec<CronJob> = jobs.collect();
    if !jobs.is_empty() {
        files.add_source("cron", dir, None);
    }
    jobs
}

fn table(files: &Files<'_>, path: &str, user: Option<&str>) -> Vec<CronJob> {
    let Some(text) = files.text(path) else {
        return Vec::new();
    };
    let jobs = settings(&text).filter_map(|(line, words)| {
        let (schedule, user, command) = job(words, user)?;
        Some(CronJob {
            schedule,
            user: user.to_owned(),
            command: command.to_owned(),
            file: path.to_owned(),
            line: Some(line),
        })
    });
    let jobs: Vec<CronJob> = jobs.take(MAX_JOBS).collect();
    if let Some(first) = jobs.first() {
        files.add_source("cron", path, first.line);
    }
    jobs
}

/// Returns the schedule, the user and the command of a line, or `None` for an assignment of a
/// variable.
fn job<'l>(line: &'l str, user: Option<&'l str>) -> Option<(String, &'l str, &'l str)> {
    let fields = if line.starts_with('@') { 1 } else { 5 };
    let mut rest = line;
    let mut schedule = Vec::new();
    for _ in 0..fields {
        let (word, after) = rest.split_once(char::is_whitespace)?;
        schedule.push(word);
        rest = after.trim_start();
    }
    let is_time = |word: &&str| {
        let known = |c: char| c.is_ascii_alphanumeric() || "*/,-@~?#".contains(c);
        !word.is_empty() && word.chars().all(known)
    };
    if !schedule.iter().all(is_time) {
        return None;
    }
    let (user, command) = match user {
        Some(user) => (user, rest),
        None => rest.split_once(char::is_whitespace)?,
    };
    Some((schedule.join(" "), user, command.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::guest;
    use super::*;

    #[test]
    fn tables_and_scripts() {
        let tree = guest(&[
            (
                SYSTEM,
                "SHELL=/bin/sh\nPATH=/bin:/usr/bin a b c d e\n17 *\t* * *\troot cd / && run-parts x\n",
            ),
            ("/etc/cron.d/e2scrub_all", "@reboot root x\n"),
            ("/etc/cron.d/.placeholder", "@reboot root no\n"),
            (
                "/var/spool/cron/crontabs/ann",
                "# c\n*/5 1-3 * * mon,tue backup -a\n",
            ),
            ("/etc/cron.daily/logrotate", "#!/bin/sh\n"),
        ]);
        let found = of(&Files::new(&tree));
        let shown: Vec<_> = found
            .iter()
            .map(|it| (&*it.schedule, &*it.user, &*it.command, it.line))
            .collect();
        let expected = [
            ("17 * * * *", "root", "cd / && run-parts x", Some(3)),
            ("@reboot", "root", "x", Some(1)),
            ("*/5 1-3 * * mon,tue", "ann", "backup -a", Some(2)),
            ("@daily", "root", "/etc/cron.daily/logrotate", None),
        ];
        assert_eq!(shown, expected);
    }
}
