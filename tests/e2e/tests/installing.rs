//! What users install works where there is neither source tree nor Rust, and goes away whole.
//!
//! The archives are packed of what the tests run with, by the same `cargo xtask package`. Where the test may mount, the
//! source tree is covered while the installed apex runs.

use apex_e2e::{Ended, Place, linked, tools, with_runtime};
use std::path::{Path, PathBuf};

/// An empty folder outside the source tree, with archives and programs in it.
struct Outside {
    folder: PathBuf,
    place: Place,
}

impl Outside {
    fn new(name: &str) -> Outside {
        let folder = std::env::temp_dir().join(format!("apex-{name}-{}", std::process::id()));
        for name in ["home", "temporary"] {
            std::fs::create_dir_all(folder.join(name)).expect("a folder can be made");
        }
        let built = tools().apex.parent().expect("apex lies in a folder");
        let place = Place::new()
            .without("LD_LIBRARY_PATH")
            .without("APEX_DEVICE")
            .without("APEX_STATE")
            .without("PYTHONPATH")
            .with("HOME", folder.join("home"))
            .with("TMPDIR", folder.join("temporary"))
            .with("PATH", std::env::var_os("PATH").unwrap_or_default());
        let package = folder.join("package");
        let words = ["package", "--from", text(built), "--output", text(&package)];
        place.plain(&built.join("xtask"), &words).check_success();
        std::fs::copy(linked("vector_add"), folder.join("driver_program"))
            .expect("a program can be copied");
        std::fs::copy(with_runtime("copies"), folder.join("runtime_program"))
            .expect("a program can be copied");
        Outside { folder, place }
    }

    /// The one archive with this end.
    fn archive(&self, end: &str) -> PathBuf {
        let folder =
            std::fs::read_dir(self.folder.join("package/archives")).expect("archives were made");
        let found = folder.map(|entry| entry.expect("a folder can be read").path());
        let mut found = found.filter(|path| text(path).ends_with(end));
        found.next().unwrap_or_else(|| panic!("there is no archive *{end}"))
    }

    /// Runs a script in the folder, with the source tree out of reach if this user may do that.
    fn run(&self, script: &str) -> Ended {
        let script = format!("cd {}\n{script}", self.folder.display());
        let covered = format!("mount -t tmpfs none {}\n{script}", source().display());
        let ended = self.place.mounted(&covered);
        ended.unwrap_or_else(|| self.place.plain(Path::new("sh"), &["-ec", &script]))
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn source() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of a test is text")
}

/// What an installed apex is tried with: it is on the path.
const TRIAL: &str = "
apex --version
apex doctor || true
apex run --device soft -- ./driver_program
apex run --device soft -- ./runtime_program
apex report
apex report --by kernel
apex predict --grid 128 --block 256
";

fn check_trial(ended: &Ended) {
    ended.check_success();
    for word in ["kernels executed", "apex software GPU", "apex 0.", "400 kernels executed"] {
        let is_said = ended.stderr.contains(word) || ended.stdout.contains(word);
        assert!(is_said, "{word} is not in\n{}\n{}", ended.stdout, ended.stderr);
    }
    for word in ["is not beside", "no trained models", "the program runs without apex"] {
        assert!(!ended.stderr.contains(word), "{}", ended.stderr);
        assert!(!ended.stdout.contains(word), "{}", ended.stdout);
    }
}

#[test]
fn a_tarball_works_where_it_is_unpacked_and_goes_with_its_folder() {
    let outside = Outside::new("tarball");
    let archive = outside.archive(".tar.gz");
    let ended = outside.run(&format!(
        "mkdir place; tar -xzf {} --strip-components 1 -C place\n\
         find place | sort >before\n\
         export PATH=$PWD/place/bin:$PATH\n{TRIAL}\n\
         find place | sort >after; diff before after >&2\n\
         find home -type f | grep -v state/apex >&2 && exit 1 || true",
        archive.display()
    ));
    check_trial(&ended);
    let demo = outside.run("place/bin/apex demo; rm -r place; ls -A $TMPDIR >&2");
    demo.check_success();
    for word in ["redundant-upload", "kept: 1 kernel changed", "bert-base"] {
        assert!(demo.stdout.contains(word), "{word} is not in\n{}", demo.stdout);
    }
    assert_eq!(demo.stderr, "", "temporary files are left");
}

#[test]
fn a_wheel_puts_apex_on_the_path_and_leaves_nothing() {
    let outside = Outside::new("wheel");
    let archive = outside.archive(".whl");
    let ended = outside.run(&format!(
        "python=$(command -v python3)\n\
         $python -m venv --without-pip environment\n\
         find environment | sort >before\n\
         pip=\"$python -m pip --python environment/bin/python --disable-pip-version-check\"\n\
         $pip install --no-index --no-compile --quiet {}\n\
         export PATH=$PWD/environment/bin:$PATH\n{TRIAL}\n\
         python -B -c 'from apex import scheduler; print(scheduler.active())'\n\
         apex run --device soft -- python -B -c 'from apex import scheduler'\n\
         $pip uninstall --yes --quiet apex-gpu\n\
         find environment | sort >after\n\
         diff before after >&2",
        archive.display()
    ));
    check_trial(&ended);
    assert!(ended.stdout.contains("False"), "{}", ended.stdout);
}
