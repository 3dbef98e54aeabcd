//! The package for Python: built as a wheel by maturin, installed, and tested by pytest.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use diskfs_fixtures::{have, image, run, run_with_input};

/// The largest wheel, in bytes.
const MAX_WHEEL_BYTES: u64 = 12 << 20;

/// Returns the Python that has maturin, pytest and fsspec.
fn python() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let mut places = env::split_paths(&path).filter(|place| place.join("maturin").is_file());
    Some(places.next()?.join("python"))
}

/// Unpacks the images that the tests use into a directory.
fn unpack_images(directory: &Path) {
    for name in ["demo.qcow2", "ext4-default"] {
        fs::copy(image(name).path(), directory.join(name)).unwrap();
    }
    let encrypted = directory.join("encrypted");
    File::create(&encrypted).unwrap().set_len(16 << 20).unwrap();
    let options = "luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000";
    let options = options.split(' ').chain(["--key-file=-"]).map(Path::new);
    run_with_input("cryptsetup", options.chain([&*encrypted]), "secret").unwrap();
}

/// Builds the wheel, and returns its path.
fn wheel(python: &Path, directory: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = root.join("Cargo.toml");
    let maturin = python.with_file_name("maturin");
    let status = Command::new(maturin)
        .env("CARGO", root.join("tests/cargo"))
        .args(["build", "--offline", "--profile", "dev", "--manifest-path"])
        .arg(manifest)
        .arg("--out")
        .arg(directory)
        .status();
    assert!(status.unwrap().success(), "maturin");
    let built = fs::read_dir(directory).unwrap();
    let built = built.map(|entry| entry.unwrap().path());
    let mut wheels = built.filter(|path| path.extension().is_some_and(|it| it == "whl"));
    wheels.next().unwrap()
}

#[test]
fn the_wheel_passes_its_tests() {
    if !have(&["maturin", "cryptsetup"]) {
        return;
    }
    let python = python().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let wheel = wheel(&python, directory);
    let name = wheel.file_name().unwrap().to_str().unwrap();
    assert!(name.contains("-cp39-abi3-"), "{name}");
    let size_bytes = fs::metadata(&wheel).unwrap().len();
    assert!(size_bytes <= MAX_WHEEL_BYTES, "{size_bytes} bytes");

    let installed = directory.join("installed");
    let options = [
        "-m",
        "pip",
        "install",
        "-q",
        "--no-index",
        "--no-deps",
        "--target",
    ];
    let options = options.iter().map(Path::new);
    run(&python, options.chain([&*installed, &*wheel])).unwrap();
    let images = directory.join("images");
    fs::create_dir(&images).unwrap();
    unpack_images(&images);
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let environment = [
        format!("PYTHONPATH={}", installed.display()),
        format!("DISKFS_TEST_IMAGES={}", images.display()),
        "PYTHONDONTWRITEBYTECODE=1".to_owned(),
    ];
    let words = ["-m", "pytest", "-q", "-p", "no:cacheprovider"].map(Path::new);
    let words = [python.as_path()].into_iter().chain(words);
    let environment = environment.iter().map(Path::new);
    run("env", environment.chain(words).chain([&*tests])).unwrap();
}
