//! The log of the program: on standard error, and of a mount in the background where the user or
//! the host keeps logs.

#[cfg(feature = "fuse")]
pub(super) mod background;
#[cfg(feature = "fuse")]
pub(super) mod system;

use std::fmt;
use std::io;
use std::sync::OnceLock;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt as formats, registry};

use super::GlobalArgs;
use super::progress;
use super::show::has_colours;
use super::show::name::message;

/// The target of messages about the work that a server does for itself.
#[cfg(feature = "fuse")]
pub(super) const WORK: &str = "work";

/// The filter for servers of disks: the reasons of their clients' errors, and their own work.
const OF_DISK: &str = "diskfs_export=warn,diskfs_nbd=warn,diskfs::cli::mount=warn,work=info";

/// The log of a command without `-v` and `RUST_LOG`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Logged {
    Nothing,
    /// The log of a server whose clients see nothing but the number of an error. In the foreground,
    /// `--json` makes it JSON.
    #[cfg_attr(
        not(feature = "fuse"),
        expect(dead_code, reason = "only mounts and exports serve disks")
    )]
    OfDisk {
        in_background: bool,
    },
    /// The log of a service, as text.
    #[cfg_attr(not(feature = "serve"), expect(dead_code, reason = "for services"))]
    AsText,
    /// The log of a service, as JSON.
    #[cfg_attr(not(feature = "serve"), expect(dead_code, reason = "for services"))]
    AsJson,
}

/// The form of lines after the terminal was left; unset before.
static LEFT_FOR: OnceLock<Form> = OnceLock::new();

/// The form of the lines of a log in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "fuse"),
    expect(dead_code, reason = "only mounts go into the background")
)]
enum Form {
    /// Lines with their times, for a file.
    File,
    /// Lines with a severity, for the system's log.
    System,
}

/// Starts logging to standard error, filtered by `RUST_LOG` or by the number of `-v` options, and to
/// `traces`.
pub(super) fn start(
    logged: Logged,
    global: &GlobalArgs,
    traces: Option<impl Layer<Registry> + Send + Sync>,
) {
    let filter = match (global.verbose, std::env::var("RUST_LOG"), logged) {
        (0, Ok(filter), _) => filter,
        (0, Err(_), Logged::Nothing) => return,
        (0, Err(_), Logged::OfDisk { .. }) => OF_DISK.to_owned(),
        (0 | 1, _, _) => "info".to_owned(),
        (2, _, _) => "debug".to_owned(),
        _ => "trace".to_owned(),
    };
    let log = formats::layer()
        .with_ansi(has_colours(&io::stderr()))
        .with_writer(io::stderr);
    let is_json = match logged {
        Logged::AsJson => true,
        Logged::OfDisk { in_background } => global.json && !in_background,
        Logged::AsText | Logged::Nothing => false,
    };
    let log = if is_json {
        log.json().boxed()
    } else {
        log.event_format(Lines(Format::default())).boxed()
    };
    let log = log.with_filter(EnvFilter::new(filter));
    registry().with(traces).with(log).init();
}

/// The format of text: of lines for people, or of lines for the system's log.
struct Lines(Format);

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        // In the background, without the colours of the terminal that was left.
        let mut text = String::new();
        let plain = Writer::new(&mut text);
        match LEFT_FOR.get() {
            None => {
                progress::clear();
                self.0.format_event(context, writer, event)
            }
            Some(Form::File) => {
                self.0.format_event(context, plain, event)?;
                writer.write_str(&text)
            }
            Some(Form::System) => {
                context.format_fields(plain, event)?;
                let severity = severity(*event.metadata().level());
                writeln!(writer, "<{severity}>{}", message(&text))
            }
        }
    }
}

/// Returns the severity of a level in syslog(3).
fn severity(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}
