//! The service `apis.DeployAgent`.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use super::status::{status, unexpected};
use crate::convert;
use crate::job::{Answer, Job, Policy};
use crate::proto::apis;
use crate::runner::Runner;

/// The answer to the methods for disks of `VMware`.
const NO_VDDK: &str = "disks of VMware are not supported: they need the proprietary Virtual Disk \
                       Development Kit (VDDK); copy the disk to this host, as a .vmdk file or \
                       converted with `qemu-img convert`";

/// The service `apis.DeployAgent`.
#[derive(Debug, Clone)]
pub(crate) struct Agent {
    pub(crate) runner: Arc<Runner>,
    pub(crate) policy: Arc<Policy>,
}

impl Agent {
    async fn run(&self, job: Result<Job, crate::failure::Failure>) -> Result<Answer, Status> {
        let job = job.map_err(status)?;
        self.runner.run(job, None).await.map_err(status)
    }

    async fn done(
        &self,
        job: Result<Job, crate::failure::Failure>,
    ) -> Result<Response<apis::Empty>, Status> {
        match self.run(job).await? {
            Answer::Done => Ok(Response::new(apis::Empty {})),
            _ => Err(unexpected()),
        }
    }
}

#[tonic::async_trait]
impl apis::deploy_agent_server::DeployAgent for Agent {
    async fn deploy_guest_fs(
        &self,
        request: Request<apis::DeployParams>,
    ) -> Result<Response<apis::DeployGuestFsResponse>, Status> {
        let job = convert::deploy(request.into_inner(), &self.policy);
        match self.run(job).await? {
            Answer::Deployed(deployed) => {
                let deployed = convert::deployed(deployed.map(|it| *it));
                Ok(Response::new(deployed))
            }
            _ => Err(unexpected()),
        }
    }

    async fn resize_fs(
        &self,
        request: Request<apis::ResizeFsParams>,
    ) -> Result<Response<apis::Empty>, Status> {
        self.done(convert::resize(request.into_inner())).await
    }

    async fn format_fs(
        &self,
        request: Request<apis::FormatFsParams>,
    ) -> Result<Response<apis::Empty>, Status> {
        self.done(convert::format(request.into_inner())).await
    }

    async fn save_to_glance(
        &self,
        request: Request<apis::SaveToGlanceParams>,
    ) -> Result<Response<apis::SaveToGlanceResponse>, Status> {
        match self.run(convert::save(request.into_inner())).await? {
            Answer::Saved(system) => Ok(Response::new(convert::saved(system))),
            _ => Err(unexpected()),
        }
    }

    async fn probe_image_info(
        &self,
        request: Request<apis::ProbeImageInfoPramas>,
    ) -> Result<Response<apis::ImageInfo>, Status> {
        match self.run(convert::probe(request.into_inner())).await? {
            Answer::Image(report) => Ok(Response::new(convert::image_info(report))),
            _ => Err(unexpected()),
        }
    }

    async fn connect_esxi_disks(
        &self,
        _: Request<apis::ConnectEsxiDisksParams>,
    ) -> Result<Response<apis::EsxiDisksConnectionInfo>, Status> {
        Err(Status::unimplemented(NO_VDDK))
    }

    async fn disconnect_esxi_disks(
        &self,
        _: Request<apis::EsxiDisksConnectionInfo>,
    ) -> Result<Response<apis::Empty>, Status> {
        Err(Status::unimplemented(NO_VDDK))
    }

    async fn set_ovmf_boot_order(
        &self,
        request: Request<apis::OvmfBootOrderParams>,
    ) -> Result<Response<apis::Empty>, Status> {
        self.done(convert::boot_order(&request.into_inner())).await
    }
}
