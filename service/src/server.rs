//! The server: its listeners, its services, its end.

mod deadline;
mod listeners;
mod shutdown;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use diskfs_disk::{Error, ErrorKind, Result};
use tokio::sync::watch;
use tonic::transport::Server;

use crate::edge::{Agent, DisksService};
use crate::executor::Executor;
use crate::job::Policy;
use crate::metrics::Metrics;
use crate::proto::{DESCRIPTORS, apis, v1};
use crate::runner::Runner;
use crate::{metrics_http, notify};
use deadline::Deadline;
pub use listeners::Tls;
use listeners::tls;

/// The default path of the socket: that of the host-deployer.
pub const SOCKET: &str = "/var/run/onecloud/deploy.sock";

/// The size of the largest request, besides a margin for its other fields: user data and files of a
/// deployment are in it.
const MAX_REQUEST_BYTES: usize = 64 << 20;

/// The options of the server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The path of the Unix socket. A socket that the service manager passes takes precedence.
    pub socket: PathBuf,
    /// The address for clients of other machines, with TLS.
    pub listen: Option<(SocketAddr, Tls)>,
    /// The address of the metrics.
    pub metrics: Option<SocketAddr>,
    /// The number of jobs that are carried out at once.
    pub concurrency: usize,
    /// The time that running jobs may take after the server was asked to stop.
    pub stop_timeout: Duration,
    /// The policy of the host for deployments.
    pub policy: Policy,
}

/// Serves until the process gets SIGTERM or SIGINT, and then completes or cancels the running jobs.
///
/// # Errors
/// `Exists` if another server listens on the socket; the errors of binding the addresses and of
/// reading the certificates.
pub fn serve(options: &ServerOptions, executor: Arc<dyn Executor>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("diskfs-serve")
        .enable_all()
        .build()?;
    let served = runtime.block_on(run(options, executor));
    // Cancelled jobs end at their next step; what a disk needs for that is done before.
    runtime.shutdown_timeout(Duration::from_secs(5));
    served
}

async fn run(options: &ServerOptions, executor: Arc<dyn Executor>) -> Result<()> {
    let metrics = Arc::new(Metrics::default());
    let runner = Arc::new(Runner::new(
        executor,
        options.concurrency,
        Arc::clone(&metrics),
    ));
    // Before anybody can see the server: a signal right after that must not leave its socket behind.
    let mut signals = shutdown::Signals::take()?;
    let (unix, socket) = listeners::unix(&options.socket)?;
    let (stop, stopped) = watch::channel(false);
    let (health, services) = services(options, &runner).await?;
    let mut servers = tokio::task::JoinSet::new();
    let local = Server::builder().add_routes(services.clone());
    servers.spawn(local.serve_with_incoming_shutdown(unix, wait(stopped.clone())));
    if let Some((address, files)) = &options.listen {
        let listener = listeners::tcp(*address).await?;
        let server = Server::builder().tls_config(tls(files)?);
        let mut server = server.map_err(|error| other("invalid TLS settings", &error))?;
        let remote = server.add_routes(services);
        servers.spawn(remote.serve_with_incoming_shutdown(listener, wait(stopped.clone())));
    }
    if let Some(address) = options.metrics {
        let listener = metrics_http::bind(address).await.map_err(|error| {
            let reason = format!("cannot serve metrics on {address}: {error}");
            Error::new(ErrorKind::Other, reason)
        })?;
        tokio::spawn(metrics_http::serve(listener, metrics));
    }
    tracing::info!(socket = %options.socket.display(), "serving");
    notify::notify("READY=1");
    let failed = tokio::select! {
        signal = signals.wait() => {
            tracing::info!("stopping: {signal}");
            None
        }
        ended = servers.join_next() => Some(ended),
    };
    notify::notify("STOPPING=1");
    health
        .set_not_serving::<apis::deploy_agent_server::DeployAgentServer<Agent>>()
        .await;
    shutdown::complete(&runner, options.stop_timeout).await;
    let _ = stop.send(true);
    let _ = tokio::time::timeout(Duration::from_secs(2), async {
        while servers.join_next().await.is_some() {}
    })
    .await;
    drop(socket);
    match failed {
        Some(Some(Ok(Err(error)))) => Err(other("the server failed", &error)),
        _ => Ok(()),
    }
}

async fn wait(mut stopped: watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

fn other(what: &str, error: &dyn std::error::Error) -> Error {
    Error::new(
        ErrorKind::Other,
        format!("{what}: {}", diskfs_block::with_reasons(error)),
    )
}

/// Returns all services, and the reporter of their health.
async fn services(
    options: &ServerOptions,
    runner: &Arc<Runner>,
) -> Result<(tonic_health::server::HealthReporter, tonic::service::Routes)> {
    let agent = apis::deploy_agent_server::DeployAgentServer::new(Agent {
        runner: Arc::clone(runner),
        policy: Arc::new(options.policy.clone()),
    })
    .max_decoding_message_size(MAX_REQUEST_BYTES);
    let disks = v1::disks_server::DisksServer::new(DisksService::new(Arc::clone(runner)))
        .max_decoding_message_size(MAX_REQUEST_BYTES);
    let (health, health_service) = tonic_health::server::health_reporter();
    health
        .set_serving::<apis::deploy_agent_server::DeployAgentServer<Agent>>()
        .await;
    health
        .set_serving::<v1::disks_server::DisksServer<DisksService>>()
        .await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .map_err(|error| other("invalid descriptors", &error))?;
    let routes = tonic::service::Routes::new(Deadline(agent))
        .add_service(Deadline(disks))
        .add_service(health_service)
        .add_service(reflection);
    Ok((health, routes))
}
