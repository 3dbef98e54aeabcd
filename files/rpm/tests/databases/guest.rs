//! A guest's packages, built by rpmbuild and installed by rpm, once for all tests.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use diskfs_fixtures::{require, run};
use tempfile::TempDir;

use crate::facts::{QUERY, sorted_lines};

/// The number of packages: enough for three levels of pages of 512 bytes.
const PACKAGES: usize = 120;

/// The directory of the guest.
#[derive(Debug)]
pub(crate) struct Guest {
    directory: TempDir,
}

/// Returns the guest; `None` if the programs to make it are not installed.
pub(crate) fn guest() -> Option<&'static Guest> {
    static GUEST: OnceLock<Guest> = OnceLock::new();
    for program in ["rpm", "rpmbuild", "python3"] {
        require(program)?;
    }
    Some(GUEST.get_or_init(Guest::make))
}

impl Guest {
    fn make() -> Self {
        let directory = tempfile::Builder::new().prefix("diskfs-rpm-").tempdir();
        let guest = Self {
            directory: directory.unwrap(),
        };
        let spec = guest.path("some.spec");
        std::fs::write(&spec, specification()).unwrap();
        let top = format!("_topdir {}", guest.path("top").display());
        let payload = "_binary_payload w0.gzdio";
        let names = "_build_name_fmt %%{NAME}.rpm";
        let options = ["-bb", "--quiet", "--define", &top, "--define", payload];
        let options = options.into_iter().chain(["--define", names]);
        run("rpmbuild", options.chain([spec.to_str().unwrap()])).unwrap();
        guest.install();
        guest
    }

    fn install(&self) {
        let options =
            "-i --justdb --nodeps --nosignature --nodigest --ignorearch --ignoreos --noverify";
        let rpms = std::fs::read_dir(self.path("top/RPMS")).unwrap();
        let rpms = rpms.map(|rpm| rpm.unwrap().path().to_str().unwrap().to_owned());
        let options = options.split(' ').map(str::to_owned).chain(rpms);
        let options: Vec<String> = options.collect();
        rpm(
            "sqlite",
            &self.database(),
            options.iter().map(String::as_str),
        );
        let key = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/databases/key.asc");
        rpm(
            "sqlite",
            &self.database(),
            ["--import", key.to_str().unwrap()],
        );
    }

    /// Returns the directory of its database.
    pub(crate) fn database(&self) -> PathBuf {
        self.path("database")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

/// Returns the spec file for packages of all sizes, from a header in one page to one of hundreds of
/// pages, with all fields or only some.
fn specification() -> String {
    let mut spec = String::from(
        "Name: first\nVersion: 1\nRelease: 1\nSummary: The first\nSummary(de): Das erste\n\
         License: MIT\nBuildArch: noarch\n%description\nx\n\
         %install\nmkdir -p %{buildroot}/opt\nfor n in $(seq 400); do head -c $n /dev/zero >%{buildroot}/opt/file-$n; done\n\
         %files\n/opt\n",
    );
    for n in 0..PACKAGES {
        let (minor, release) = (n * 7 % 13, n % 5 + 1);
        let _ = write!(
            spec,
            "%package -n pkg{n}\nVersion: {n}.{minor}~rc1\nRelease: {release}.fc41\n\
             Summary: Package n\u{fc}mber {n}\nLicense: MIT AND Apache-2.0\n"
        );
        if n % 4 == 0 {
            let _ = write!(spec, "Epoch: {}\nURL: https://example.com/{n}\n", n % 3);
        }
        if n % 3 == 0 {
            let _ = write!(spec, "Vendor: Vendor {n}\nModularityLabel: mod:{n}:1:abc\n");
        }
        let description = "A long description of it.\n".repeat(n * n * n / 200);
        let _ = write!(
            spec,
            "%description -n pkg{n}\n{description}.\n%files -n pkg{n}\n"
        );
    }
    spec
}

/// Returns a command that runs rpm on the database of a format in `directory`.
pub(crate) fn rpm<'a>(
    form: &str,
    directory: &Path,
    arguments: impl IntoIterator<Item = &'a str>,
) -> String {
    let backend = format!("_db_backend {form}");
    let options = [
        "--define",
        &backend,
        "--dbpath",
        directory.to_str().unwrap(),
    ];
    let options = options.into_iter().map(str::to_owned);
    run(
        "rpm",
        options.chain(arguments.into_iter().map(str::to_owned)),
    )
    .unwrap()
}

/// Returns the packages that rpm lists.
pub(crate) fn said(form: &str, directory: &Path) -> Vec<String> {
    sorted_lines(&rpm(form, directory, ["-qa", "--qf", QUERY]))
}

/// Runs a Python script.
pub(crate) fn python<'a>(script: &'a str, arguments: impl IntoIterator<Item = &'a Path>) {
    let arguments = arguments.into_iter().map(|path| path.to_str().unwrap());
    run("python3", ["-c", script].into_iter().chain(arguments)).unwrap();
}
