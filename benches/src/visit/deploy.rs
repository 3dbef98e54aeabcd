//! The visit that deploys to a new guest: password, key, name, network, three files and an agent.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Record, Row, Unit, Visit, mebibytes, milliseconds, overlays};
use crate::command;
use crate::contender::{Contender, Deployment};
use crate::image::ImageFormat;
use crate::rig::Rig;

const KEY_DEPLOY: &str = "deploy";
const KEY_DEPLOY_MEMORY: &str = "deploy_memory";
const KEY_FLEET: &str = "deploy_fleet";
const KEY_FLEET_MEMORY: &str = "deploy_fleet_memory";
const KEY_FLEET_BARE: &str = "deploy_fleet_bare";

/// The size of the agent, which is one file.
const AGENT_BYTES: u32 = 50_000_000;

/// The number of deployments of one guest in one visit.
const RUNS: u32 = 10;

/// The number of guests of a fleet.
const FLEET: u32 = 100;

const FLEET_JOBS: u32 = 2;

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl bench\n";

const INTERFACES: &str = "auto lo\niface lo inet loopback\n\nauto eth0\niface eth0 inet static\n\
    \taddress 192.0.2.10/24\n\tgateway 192.0.2.1\n";

const UNIT: &str = "[Unit]\nDescription=Agent\n[Service]\nExecStart=/usr/local/bin/agent\n\
    [Install]\nWantedBy=multi-user.target\n";

/// The plan for diskfs; other contenders get the same by their options.
const PLAN: &str = "steps:
- hostname: web1
- root-password: Correct-horse-7
- ssh-key: {user: root, keys: [\"KEY\"]}
- network:
    interfaces:
    - {mac: \"52:54:00:12:34:56\", name: eth0, addresses: [192.0.2.10/24], gateway4: 192.0.2.1}
- upload: {from: DIR/file-0, to: /etc/file-0}
- upload: {from: DIR/file-1, to: /etc/file-1}
- upload: {from: DIR/file-2, to: /etc/file-2}
";

/// The steps of the plan that install the agent.
const PLAN_AGENT: &str = "- upload: {from: DIR/agent, to: /usr/local/bin/agent, mode: 0755}
- upload: {from: DIR/agent.service, to: /etc/systemd/system/agent.service}
- units: {enable: [agent.service]}
";

/// The visit of `deploy` to an overlay, and to a hundred, as whole processes, with the image
/// cached.
#[derive(Debug)]
pub(super) struct Deploy;

impl Visit for Deploy {
    fn name(&self) -> &'static str {
        "deploy"
    }

    fn rows(&self) -> &'static [Row] {
        const {
            use Unit::{ImagesPerSecond, Mebibytes, Milliseconds};
            &[
                Row::new(
                    KEY_DEPLOY,
                    "`deploy`: password, key, name, network, files, 50 MB agent",
                    Milliseconds,
                ),
                Row::new(KEY_DEPLOY_MEMORY, "`deploy`: peak memory", Mebibytes),
                Row::new(
                    KEY_FLEET,
                    "`deploy` of 100 overlays, two at a time",
                    ImagesPerSecond,
                ),
                Row::new(
                    KEY_FLEET_MEMORY,
                    "`deploy` of 100 overlays: peak memory",
                    Mebibytes,
                ),
                Row::new(
                    KEY_FLEET_BARE,
                    "`deploy` of 100 overlays without the agent",
                    ImagesPerSecond,
                ),
            ]
        }
    }

    fn run(&self, rig: &Rig, contender: &dyn Contender, record: &mut Record<'_>) -> Result<()> {
        if contender.kind() == ImageFormat::Qcow2Zstd {
            return Ok(());
        }
        let backing = rig.image(contender);
        let work = rig.scratch().join("deploy");
        let deployment = make_deployment(&work, &backing)?;
        let overlays = rig.scratch().join("deployed");
        rig.cache_image(contender)?;
        for _ in 0..contender.most_repetitions().min(RUNS) {
            overlays::make(&overlays, &backing, format_of(contender), 1)?;
            let image = overlays.join("0.qcow2");
            let Some(mut deploy) = contender.deploy(&image, &deployment) else {
                break;
            };
            let used = command::used(&mut deploy)?;
            record(KEY_DEPLOY, milliseconds(used.wall));
            record(KEY_DEPLOY_MEMORY, mebibytes(used.peak_memory_kib << 10));
            fs::remove_dir_all(&overlays)?;
        }
        for (plan, key, key_memory) in [
            ("plan.yaml", KEY_FLEET, Some(KEY_FLEET_MEMORY)),
            ("bare.yaml", KEY_FLEET_BARE, None),
        ] {
            overlays::make(&overlays, &backing, format_of(contender), FLEET)?;
            let plan = deployment.file(plan);
            let jobs = make_jobs(&work, &overlays)?;
            if let Some(mut fleet) = contender.deploy_fleet(&jobs, &plan, &backing, FLEET_JOBS) {
                let used = command::used(&mut fleet)?;
                record(key, f64::from(FLEET) / used.wall.as_secs_f64());
                if let Some(key) = key_memory {
                    record(key, mebibytes(used.peak_memory_kib << 10));
                }
            }
            fs::remove_dir_all(&overlays)?;
        }
        Ok(())
    }
}

fn format_of(contender: &dyn Contender) -> &'static str {
    match contender.kind() {
        ImageFormat::Raw => "raw",
        ImageFormat::Qcow2 | ImageFormat::Qcow2Zstd => "qcow2",
    }
}

/// Writes the guests' files and the plan, once.
fn make_deployment(work: &Path, backing: &Path) -> Result<Deployment> {
    let deployment = Deployment::new(work, backing);
    if work.exists() {
        return Ok(deployment);
    }
    fs::create_dir(work)?;
    let file = |name: &str| deployment.file(name);
    fs::write(file("key.pub"), KEY)?;
    fs::write(file("interfaces"), INTERFACES)?;
    fs::write(file("agent.service"), UNIT)?;
    for number in 0..3 {
        fs::write(file(&format!("file-{number}")), format!("{number}\n"))?;
    }
    let plan = PLAN
        .replace("KEY", KEY.trim_end())
        .replace("DIR", &work.display().to_string());
    let agent = PLAN_AGENT.replace("DIR", &work.display().to_string());
    fs::write(file("bare.yaml"), &plan)?;
    fs::write(file("plan.yaml"), plan + &agent)?;
    make_agent(&file("agent"))?;
    Ok(deployment)
}

/// Writes incompressible bytes. They are never all in memory, because a program's peak memory
/// starts with that of its parent.
fn make_agent(path: &Path) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..AGENT_BYTES / 8 {
        // Marsaglia's xorshift64.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        file.write_all(&state.to_le_bytes())?;
    }
    Ok(file.flush()?)
}

/// Writes a line for each overlay.
fn make_jobs(work: &Path, overlays: &Path) -> Result<PathBuf> {
    let path = work.join("jobs.jsonl");
    let mut jobs = File::create(&path)?;
    for number in 0..FLEET {
        let image = overlays.join(format!("{number}.qcow2"));
        writeln!(jobs, "{}", serde_json::json!({ "image": image }))?;
    }
    Ok(path)
}
