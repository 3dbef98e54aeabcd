//! What the guest runs at set times (crontab(5), anacrontab(5)). Timers of systemd are among its services.

use serde::Serialize;

use super::files::Files;
use diskfs_etc::shell::settings;

/// More jobs than anybody has.
const MAX_JOBS: usize = 100_000;

/// Tables with a user in each line.
const SYSTEM: &str = "/etc/crontab";
const SYSTEM_DIR: &str = "/etc/cron.d";

/// Tables of a user each, by the name of the file: Debian's, Red Hat's, SUSE's, and Alpine's.
const USERS: [&str; 4] = [
    "/var/spool/cron/crontabs",
    "/var/spool/cron",
    "/var/spool/cron/tabs",
    "/etc/crontabs",
];

/// Scripts that are run as often as their directory says.
const SCRIPTS: [(&str, &str); 4] = [
    ("/etc/cron.hourly", "@hourly"),
    ("/etc/cron.daily", "@daily"),
    ("/etc/cron.weekly", "@weekly"),
    ("/etc/cron.monthly", "@monthly"),
];

/// A job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CronJob {
    /// When: `*/5 * * * *`, `@reboot`.
    pub schedule: String,
    /// As whom.
    pub user: String,
    /// What.
    pub command: String,
    /// The file.
    pub file: String,
    /// The line, from 1, where it is one of several.
    pub line: Option<usize>,
}

/// All jobs.
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

/// cron(8) leaves out names with a dot, as editors and package managers leave them.
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
        files.came_from("cron", dir, None);
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
        files.came_from("cron", path, first.line);
    }
    jobs
}

/// When, as whom, and what. Variables of the table are none.
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
