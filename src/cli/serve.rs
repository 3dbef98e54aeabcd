//! The command `diskfs serve`.

mod images;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use diskfs::service::executor::{HostOptions, Workers};
use diskfs::service::job::Policy;
use diskfs::service::{self, Config, SOCKET, ServerOptions, Tls};
use diskfs::vm::BackendChoice;
use diskfs::{Error, Gate, Result};

use super::options::configured;
use super::session::Session;
use super::vm::VmArgs;

/// The most worker processes that wait for requests.
const READY_WORKERS: usize = 4;

/// Serve other programs: deployments over gRPC, images over HTTP
#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    #[command(subcommand)]
    service: Service,
}

#[derive(Debug, Subcommand)]
enum Service {
    Deploy(Box<Deploy>),
    Images(images::Images),
}

/// Serve as the host-deployer of a cloud's host
///
/// The service `apis.DeployAgent` is that of Cloudpods' host-deployer: it deploys guests, grows and
/// formats disks, probes images and prepares templates. `diskfs.v1.Disks` offers plans, inspection
/// and files to new callers. Both are on a Unix socket, which only its owner can use, and with
/// --listen also on an address, with TLS and certificates of clients.
///
/// Requests for one image wait for each other. A request that fails or is cancelled leaves its disk
/// as it was. SIGTERM completes the running requests, and then ends the server.
///
/// If the variable `OTEL_EXPORTER_OTLP_ENDPOINT` names a collector of OpenTelemetry, a trace of each
/// request is sent to it, over gRPC.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs serve deploy
  diskfs serve deploy --socket /run/diskfs.sock --metrics 127.0.0.1:9105
  diskfs serve deploy --config /etc/yunion/host.conf --log-format json
  diskfs serve deploy --listen 0.0.0.0:8443 --tls-cert s.pem --tls-key s.key --tls-client-ca ca.pem")]
struct Deploy {
    /// The path of the Unix socket [default: that in the configuration file, or
    /// /var/run/onecloud/deploy.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Serve on this address, too, for clients with a certificate
    #[arg(long, value_name = "ADDR", requires_all = ["tls_cert", "tls_key", "tls_client_ca"])]
    listen: Option<SocketAddr>,

    /// The certificate of the server, in PEM
    #[arg(long, value_name = "FILE", requires = "listen")]
    tls_cert: Option<PathBuf>,

    /// The private key of the server, in PEM
    #[arg(long, value_name = "FILE", requires = "listen")]
    tls_key: Option<PathBuf>,

    /// The certificate authority of the clients, in PEM
    #[arg(long, value_name = "FILE", requires = "listen")]
    tls_client_ca: Option<PathBuf>,

    /// Serve metrics for Prometheus on this address, at /metrics
    #[arg(long, value_name = "ADDR")]
    metrics: Option<SocketAddr>,

    /// The number of requests to carry out at once [default: that in the configuration file, or
    /// two per processor]
    #[arg(long, value_name = "N")]
    concurrency: Option<NonZeroUsize>,

    /// Read settings from a configuration file of the host-deployer (host.conf); settings that mean
    /// nothing to diskfs are ignored
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The directory of the programs `qemu-ga` and `telegraf`, which deployments install in guests
    #[arg(long, value_name = "DIR")]
    agents: Option<PathBuf>,

    /// Let images refer to files below DIR; can be repeated
    #[arg(long, value_name = "DIR")]
    allow_backing: Vec<PathBuf>,

    /// Cancel the requests that still run this many seconds after SIGTERM
    #[arg(long, value_name = "SECONDS", default_value = "60")]
    stop_timeout: u32,

    /// The format of the log on standard error
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,

    #[command(flatten)]
    vm: VmArgs,
}

/// The format of a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// A line of text per event
    #[default]
    Text,
    /// A JSON object per event
    Json,
}

impl ServeArgs {
    /// Returns the format of the log.
    pub(super) fn log_format(&self) -> LogFormat {
        match &self.service {
            Service::Deploy(args) => args.log_format,
            Service::Images(args) => args.log_format,
        }
    }
}

pub(super) fn run(args: &ServeArgs, session: &mut Session) -> Result<()> {
    match &args.service {
        Service::Deploy(args) => deploy(args),
        Service::Images(args) => images::run(args, session),
    }
}

fn deploy(args: &Deploy) -> Result<()> {
    let config = args.read_config()?;
    let host = args.host(&config)?;
    let options = args.server(config);
    let workers = Workers::start(host, options.concurrency.min(READY_WORKERS))?;
    service::serve(&options, Arc::new(workers))
}

impl Deploy {
    fn read_config(&self) -> Result<Config> {
        let Some(path) = &self.config else {
            return Ok(Config::default());
        };
        let in_file = |error: Error| error.in_file(path);
        let text = std::fs::read_to_string(path).map_err(|error| in_file(error.into()))?;
        let config = Config::parse(&text).map_err(in_file)?;
        if !config.ignored.is_empty() {
            tracing::info!(file = %path.display(), keys = config.ignored.join(", "), "settings ignored");
        }
        Ok(config)
    }

    fn host(&self, config: &Config) -> Result<HostOptions> {
        let dirs = config.allow_backing.iter().chain(&self.allow_backing);
        let gate = dirs.fold(configured()?, Gate::allow);
        let machines = self.vm.options()?;
        let fallback = match machines.choice {
            BackendChoice::None => None,
            _ => Some(self.vm.fallback()?),
        };
        Ok(HostOptions {
            gate,
            fallback,
            tools: Some(Arc::new(machines)),
        })
    }

    fn server(&self, config: Config) -> ServerOptions {
        let socket = self.socket.clone().or(config.socket);
        let concurrency = self.concurrency.map(NonZeroUsize::get);
        let default = Policy::default();
        ServerOptions {
            socket: socket.unwrap_or_else(|| SOCKET.into()),
            listen: self.listen.zip(self.tls()),
            metrics: self.metrics,
            concurrency: concurrency.or(config.concurrency).unwrap_or_else(|| {
                let processors = std::thread::available_parallelism();
                processors.map_or(4, |number| number.get() * 2)
            }),
            stop_timeout: Duration::from_secs(self.stop_timeout.into()),
            policy: Policy {
                allow_selinux: config.allow_selinux.unwrap_or_default(),
                cloudroot_dir: config.cloudroot_dir.unwrap_or(default.cloudroot_dir),
                private_prefixes: config.private_prefixes,
                user_data_opens_sshd: config.user_data_opens_sshd.unwrap_or_default(),
                agents: self.agents.clone().or(config.agents),
            },
        }
    }

    fn tls(&self) -> Option<Tls> {
        let file = |file: &Option<PathBuf>| file.as_deref().map(Path::to_owned);
        Some(Tls {
            certificate: file(&self.tls_cert)?,
            key: file(&self.tls_key)?,
            client_ca: file(&self.tls_client_ca)?,
        })
    }
}
