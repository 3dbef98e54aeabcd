//! The manifests: kustomize builds them, the schemas of Kubernetes accept them, and diskfs accepts
//! the arguments in them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use diskfs_fixtures::{image, require};

use crate::{diskfs, packaging};

const JUDGE: &str = "kubernetes-validate";

fn judge(manifest: &str) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("manifest.yaml");
    fs::write(&file, manifest).unwrap();
    let mut judge = Command::new(JUDGE);
    judge.arg("--strict").arg(file).output().unwrap()
}

fn built(directory: &str) -> Option<String> {
    require("kubectl")?;
    let mut kubectl = Command::new("kubectl");
    let built = kubectl.arg("kustomize").arg(packaging(directory));
    let built = built.output().unwrap();
    assert!(built.status.success(), "{built:?}");
    Some(String::from_utf8(built.stdout).unwrap())
}

/// Returns the arguments of the container in a manifest.
fn arguments(manifest: &str) -> Vec<String> {
    let lines = manifest.lines().skip_while(|line| line.trim() != "args:");
    let items = lines
        .skip(1)
        .map_while(|line| line.trim().strip_prefix("- "));
    items.map(str::to_owned).collect()
}

#[test]
fn the_schemas_accept_the_manifests() {
    if require(JUDGE).is_none() {
        return;
    }
    let deploy = fs::read_to_string(packaging("kubernetes/jobs/deploy.yaml")).unwrap();
    let built = ["kubernetes/deployer", "kubernetes/jobs"].map(built);
    for manifest in built.iter().flatten().chain([&deploy]) {
        let output = judge(manifest);
        assert!(output.status.success(), "{output:?}\n{manifest}");
        let wrong = manifest.replace("readOnlyRootFilesystem", "readonlyRootFilesystem");
        assert!(!judge(&wrong).status.success(), "{wrong}");
    }
}

/// No pod has more rights than it needs, and the list of images needs a name that does not change.
#[test]
fn no_pod_is_privileged() {
    let files = ["deployer/daemonset", "jobs/inspect", "jobs/deploy"];
    for file in files.map(|file| packaging(&format!("kubernetes/{file}.yaml"))) {
        let text = fs::read_to_string(file).unwrap();
        for line in [
            "privileged: false",
            "allowPrivilegeEscalation: false",
            "readOnlyRootFilesystem: true",
            "drop: [ALL]",
            "type: RuntimeDefault",
            "automountServiceAccountToken: false",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}

/// The pods of a job share its list: each image has one answer.
#[test]
fn the_pods_of_a_job_do_the_whole_list() {
    let manifest = fs::read_to_string(packaging("kubernetes/jobs/inspect.yaml")).unwrap();
    assert!(manifest.contains("completions: 4\n"), "{manifest}");
    let guest = image("guest.raw");
    let directory = guest.directory();
    let names = ["a.raw", "b.raw", "c.raw", "d.raw", "e.raw"];
    for name in names {
        fs::hard_link(guest.path(), directory.join(name)).unwrap();
    }
    fs::write(directory.join("images.txt"), names.join("\n")).unwrap();
    let mut images = Vec::new();
    for index in ["0", "1", "2", "3"] {
        let lines = answers(directory, &manifest, index);
        images.extend(lines.iter().map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(line["systems"].is_array(), "{line}");
            line["image"].as_str().unwrap().to_owned()
        }));
    }
    images.sort();
    assert_eq!(images, names);
}

fn answers(directory: &Path, manifest: &str, index: &str) -> Vec<String> {
    let words: Vec<String> = arguments(manifest)
        .iter()
        .map(|word| word.replace("$(JOB_COMPLETION_INDEX)", index))
        .map(|word| word.replace("/list/", ""))
        .collect();
    let output = diskfs(directory, &words);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// diskfs knows the options of the manifests: with `--help` behind them, a wrong one would be an
/// error.
#[test]
fn diskfs_knows_the_arguments() {
    for file in ["deployer/daemonset", "jobs/deploy"] {
        let manifest = packaging(&format!("kubernetes/{file}.yaml"));
        let mut words = arguments(&fs::read_to_string(manifest).unwrap());
        assert!(words.len() > 3, "{words:?}");
        for word in &mut words {
            *word = word.replace("$(JOB_COMPLETION_INDEX)", "0");
        }
        let run = |words: &[String]| diskfs(Path::new("/"), words).status.code();
        let mut unknown = words.clone();
        words.push("--help".to_owned());
        assert_eq!(run(&words), Some(0), "{words:?}");
        unknown.extend(["--unknown".to_owned(), "--help".to_owned()]);
        assert_eq!(run(&unknown), Some(2), "{unknown:?}");
    }
}
