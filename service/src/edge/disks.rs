//! The service `diskfs.v1.Disks`.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::idempotency::{Claim, Keys, result};
use super::status::{status, unexpected};
use crate::failure::Failure;
use crate::job::{
    Answer, ApplyPlan, FileEntry, FileKind, Inspect, Job, ListFiles, PlanResult, Progress,
    ReadFile, Secret, Source, StepResult,
};
use crate::proto::v1;
use crate::runner::Runner;

/// The number of bytes of a file in one message.
const PIECE_BYTES: u32 = 1 << 20;

/// The number of messages that wait for a slow client. Progress messages beyond are left out.
const QUEUE: usize = 16;

/// The service `diskfs.v1.Disks`.
#[derive(Debug, Clone)]
pub(crate) struct DisksService {
    runner: Arc<Runner>,
    keys: Arc<Keys>,
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl DisksService {
    pub(crate) fn new(runner: Arc<Runner>) -> Self {
        Self {
            runner,
            keys: Arc::default(),
        }
    }

    async fn run(&self, job: Job) -> Result<Answer, Status> {
        self.runner.run(job, None).await.map_err(status)
    }
}

fn source(disk: Option<v1::Disk>) -> Result<(Source, String), Status> {
    let disk = disk.ok_or_else(|| Status::invalid_argument("missing `disk`"))?;
    if !disk.path.starts_with('/') {
        let message = format!(
            "invalid path `{}` of a disk: expected an absolute path",
            disk.path
        );
        return Err(Status::invalid_argument(message));
    }
    let source = Source {
        path: PathBuf::from(disk.path),
        format: Some(disk.format).filter(|format| !format.is_empty()),
        passphrase: Some(disk.passphrase)
            .filter(|it| !it.is_empty())
            .map(Secret),
    };
    Ok((source, disk.volume))
}

#[tonic::async_trait]
impl v1::disks_server::Disks for DisksService {
    type DeployStream = Answers<v1::DeployResponse>;
    type ReadFileStream = Answers<v1::ReadFileResponse>;

    async fn inspect(
        &self,
        request: Request<v1::InspectRequest>,
    ) -> Result<Response<v1::InspectResponse>, Status> {
        let (disk, _) = source(request.into_inner().disk)?;
        match self.run(Job::Inspect(Inspect { disk })).await? {
            Answer::Report(report_json) => Ok(Response::new(v1::InspectResponse { report_json })),
            _ => Err(unexpected()),
        }
    }

    async fn deploy(
        &self,
        request: Request<v1::DeployRequest>,
    ) -> Result<Response<Self::DeployStream>, Status> {
        let request = request.into_inner();
        let key = request.idempotency_key.clone();
        let encoded = request.encode_to_vec();
        let (disk, _) = source(request.disk)?;
        let job = Job::Plan(ApplyPlan {
            disk,
            plan: request.plan,
            is_dry_run: request.dry_run,
        });
        let claim = match &*key {
            "" => None,
            key => Some(self.keys.claim(key, encoded).map_err(status)?),
        };
        let (sender, receiver) = mpsc::channel(QUEUE);
        let runner = Arc::clone(&self.runner);
        tokio::spawn(async move {
            let work = deploy(runner, job, claim, sender.clone());
            // A client that is gone cancels the work.
            let done = tokio::select! {
                done = work => done,
                () = sender.closed() => return,
            };
            let _ = sender
                .send(done.map(|it| event(it.into())).map_err(status))
                .await;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn list_files(
        &self,
        request: Request<v1::ListFilesRequest>,
    ) -> Result<Response<v1::ListFilesResponse>, Status> {
        let request = request.into_inner();
        let (disk, volume) = source(request.disk)?;
        let job = Job::ListFiles(ListFiles {
            disk,
            volume,
            path: request.path,
        });
        match self.run(job).await? {
            Answer::Files(files) => {
                let files = files.into_iter().map(v1::File::from).collect();
                Ok(Response::new(v1::ListFilesResponse { files }))
            }
            _ => Err(unexpected()),
        }
    }

    async fn read_file(
        &self,
        request: Request<v1::ReadFileRequest>,
    ) -> Result<Response<Self::ReadFileStream>, Status> {
        let request = request.into_inner();
        let (disk, volume) = source(request.disk)?;
        let job = ReadFile {
            disk,
            volume,
            path: request.path,
            offset: request.offset,
            limit: PIECE_BYTES,
        };
        let end = match request.limit {
            0 => u64::MAX,
            limit => request.offset.saturating_add(limit),
        };
        let (sender, receiver) = mpsc::channel(2);
        let service = self.clone();
        tokio::spawn(async move {
            if let Err(status) = service.send_file(job, end, &sender).await {
                let _ = sender.send(Err(status)).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

impl DisksService {
    /// Sends a file piece by piece, each read by a job of its own.
    async fn send_file(
        &self,
        mut job: ReadFile,
        end: u64,
        to: &mpsc::Sender<Result<v1::ReadFileResponse, Status>>,
    ) -> Result<(), Status> {
        while job.offset < end {
            let left = end.saturating_sub(job.offset);
            job.limit = u32::try_from(left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            let Answer::Bytes(data) = self.run(Job::ReadFile(job.clone())).await? else {
                return Err(unexpected());
            };
            let len = data.len() as u64;
            job.offset = job.offset.saturating_add(len);
            let is_last = len < u64::from(job.limit);
            if to.send(Ok(v1::ReadFileResponse { data })).await.is_err() || is_last {
                break;
            }
        }
        Ok(())
    }
}

/// Carries out a plan, or waits for the request that does so with the same key.
async fn deploy(
    runner: Arc<Runner>,
    job: Job,
    claim: Option<Claim>,
    events: mpsc::Sender<Result<v1::DeployResponse, Status>>,
) -> Result<PlanResult, Failure> {
    let publish = match claim {
        Some(Claim::Repeated(first)) => return result(first).await,
        Some(Claim::First(publish)) => Some(publish),
        None => None,
    };
    let on_progress = move |progress: Progress| {
        let _ = events.try_send(Ok(event(progress.into())));
    };
    let answer = runner.run(job, Some(Arc::new(on_progress))).await;
    let done = answer.map(|answer| match answer {
        Answer::Plan(done) => done,
        _ => PlanResult::default(),
    });
    if let Some(publish) = publish {
        publish.send_replace(Some(done.clone()));
    }
    done
}

fn event(event: v1::deploy_response::Event) -> v1::DeployResponse {
    v1::DeployResponse { event: Some(event) }
}

impl From<Progress> for v1::deploy_response::Event {
    fn from(progress: Progress) -> Self {
        Self::Progress(v1::Progress {
            step: progress.phase.name().to_owned(),
            done_bytes: progress.done_bytes,
            total_bytes: progress.total_bytes,
        })
    }
}

impl From<PlanResult> for v1::deploy_response::Event {
    fn from(done: PlanResult) -> Self {
        Self::Result(v1::DeployResult {
            steps: done.steps.into_iter().map(v1::StepResult::from).collect(),
            diff: done.diff,
            in_parts: done.in_parts,
        })
    }
}

impl From<StepResult> for v1::StepResult {
    fn from(step: StepResult) -> Self {
        let secrets = step.secrets.into_iter();
        Self {
            step: step.step,
            changed: step.changed,
            notes: step.notes,
            secrets: secrets
                .map(|(of, secret)| v1::Secret { of, secret })
                .collect(),
        }
    }
}

impl From<FileEntry> for v1::File {
    fn from(file: FileEntry) -> Self {
        let kind = match file.kind {
            FileKind::Regular => v1::FileType::Regular,
            FileKind::Directory => v1::FileType::Directory,
            FileKind::Symlink => v1::FileType::Symlink,
            FileKind::Other => v1::FileType::Other,
        };
        Self {
            name: file.name,
            r#type: kind.into(),
            size_bytes: file.size_bytes,
            mode: file.mode,
            uid: file.uid,
            gid: file.gid,
            modified_seconds: file.modified_seconds,
            target: file.target,
        }
    }
}
