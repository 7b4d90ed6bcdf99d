//! Sources become kernels: through NVRTC and the cache on disk, or from the PTX that is kept.
//!
//! NVRTC comes from PyPI in `cargo xtask test`, which sets `APEX_TEST_PYTHON`; there its absence is a failure.
//! Elsewhere a machine without NVRTC leaves these tests out.

use apex_exec::{CompileOptions, Device, EXAMPLE, Error, Executor, Grid, compile_to_ptx};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Whether there is a compiler.
fn has_compiler() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let probe =
            compile_to_ptx("extern \"C\" __global__ void f() {}", &CompileOptions::default());
        match probe {
            Ok(_) => true,
            Err(error @ Error::LibraryMissing { .. }) => {
                assert!(std::env::var_os("APEX_TEST_PYTHON").is_none(), "{error}");
                eprintln!("left out: {error}");
                false
            }
            Err(other) => panic!("{other}"),
        }
    })
}

fn executor() -> Executor {
    Executor::new(Device::Auto).expect("a GPU or the software GPU")
}

const POWER: &str = r#"
extern "C" __global__ void power(const double* in, double* out, int length) {
    int place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= length) return;
    double result = 1.0;
    for (int step = 0; step < EXPONENT; ++step) result *= in[place];
    out[place] = result;
}
"#;

#[test]
fn a_source_is_compiled_with_its_definitions_and_run() {
    if !has_compiler() {
        return;
    }
    let executor = executor();
    for exponent in [2, 3] {
        let options = CompileOptions::default().define("EXPONENT", &exponent.to_string());
        let power = executor.compile(POWER, &options).unwrap().kernel("power").unwrap();
        let input = executor.upload(&[1.0_f64, 2.0, 3.0]).unwrap();
        let mut output = executor.poisoned::<f64>(3).unwrap();
        let grid = Grid::for_elements(3, 32);
        executor
            .stream()
            .launch(&power, grid)
            .arg(&input)
            .arg(&mut output)
            .arg(&3_i32)
            .run()
            .unwrap();
        let expected: Vec<f64> =
            [1.0_f64, 2.0, 3.0].iter().map(|value| value.powi(exponent)).collect();
        assert_eq!(executor.download(&output).unwrap(), expected);
    }
}

#[test]
fn half_precision_headers_are_found() {
    if !has_compiler() {
        return;
    }
    let source = r#"
#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void convert(const float* in, __half* half_out, __nv_bfloat16* brain_out) {
    half_out[threadIdx.x] = __float2half(in[threadIdx.x]);
    brain_out[threadIdx.x] = __float2bfloat16(in[threadIdx.x]);
}
"#;
    let executor = executor();
    let convert =
        executor.compile(source, &CompileOptions::default()).unwrap().kernel("convert").unwrap();
    let input = executor.upload(&[1.5_f32, -0.25]).unwrap();
    let mut halves = executor.poisoned::<half::f16>(2).unwrap();
    let mut brains = executor.poisoned::<half::bf16>(2).unwrap();
    let grid = Grid::linear(1, 2);
    executor
        .stream()
        .launch(&convert, grid)
        .arg(&input)
        .arg(&mut halves)
        .arg(&mut brains)
        .run()
        .unwrap();
    assert_eq!(executor.download(&halves).unwrap(), [1.5, -0.25].map(half::f16::from_f32));
    assert_eq!(executor.download(&brains).unwrap(), [1.5, -0.25].map(half::bf16::from_f32));
}

#[test]
fn an_array_of_numbers_is_passed_as_a_struct_and_a_half_by_value() {
    if !has_compiler() {
        return;
    }
    let source = r#"
#include <cuda_fp16.h>
struct Shape { int sides[3]; };
extern "C" __global__ void volume(Shape shape, __half factor, float* out) {
    *out = __half2float(factor) * shape.sides[0] * shape.sides[1] * shape.sides[2];
}
"#;
    let executor = executor();
    let volume =
        executor.compile(source, &CompileOptions::default()).unwrap().kernel("volume").unwrap();
    let mut out = executor.poisoned::<f32>(1).unwrap();
    let (sides, factor) = ([2_i32, 3, 4], half::f16::from_f32(0.5));
    let one = Grid::linear(1, 1);
    executor.stream().launch(&volume, one).arg(&sides).arg(&factor).arg(&mut out).run().unwrap();
    assert_eq!(executor.download(&out).unwrap(), [12.0]);
    let wrong =
        executor.stream().launch(&volume, one).arg(&[1_i32, 2]).arg(&factor).arg(&mut out).run();
    assert!(matches!(
        wrong,
        Err(Error::WrongSize { argument: 1, expected: 12, given_bytes: 8, .. })
    ));
}

#[test]
fn a_source_that_does_not_compile_gives_the_log_with_its_line() {
    if !has_compiler() {
        return;
    }
    let source = "extern \"C\" __global__ void f() {\n    int x = 1;\n    x = undeclared;\n}\n";
    let error = executor().compile(source, &CompileOptions::default()).unwrap_err();
    let Error::Compilation { log } = &error else { panic!("{error}") };
    assert!(log.contains("(3)") && log.contains("undeclared"), "{log}");
    // As often as it is asked: a failure is not kept.
    assert!(executor().compile(source, &CompileOptions::default()).is_err());
}

#[test]
fn flags_that_the_compiler_does_not_know_are_told() {
    if !has_compiler() {
        return;
    }
    let source = "extern \"C\" __global__ void f() {}";
    for options in [
        CompileOptions::default().flag("--no-such-flag"),
        CompileOptions::default().architecture("compute_1"),
    ] {
        let error = compile_to_ptx(source, &options).unwrap_err();
        assert!(
            matches!(error, Error::CompileOption { .. } | Error::Compilation { .. }),
            "{error}"
        );
        assert!(!error.to_string().trim_end().ends_with(':'), "{error}");
    }
    assert!(compile_to_ptx("a\0b", &CompileOptions::default()).is_err());
}

#[test]
fn a_header_that_changes_is_seen() {
    if !has_compiler() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("apex-exec-headers-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let source =
        "#include \"number.h\"\nextern \"C\" __global__ void f(int* out) { *out = NUMBER; }";
    let options = CompileOptions::default().include(&folder);
    let executor = executor();
    for number in [41, 4200] {
        std::fs::write(folder.join("number.h"), format!("#define NUMBER {number}\n")).unwrap();
        let f = executor.compile(source, &options).unwrap().kernel("f").unwrap();
        let mut out = executor.zeros::<i32>(1).unwrap();
        executor.stream().launch(&f, Grid::linear(1, 1)).arg(&mut out).run().unwrap();
        assert_eq!(executor.download(&out).unwrap(), [number]);
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_kept_source_runs_with_and_without_a_compiler() {
    let executor = executor();
    let compiled = executor.kept(&EXAMPLE).unwrap().kernel("scale").unwrap();
    let kept = executor.load_ptx(EXAMPLE.ptx).unwrap().kernel("scale").unwrap();
    for scale in [compiled, kept] {
        let mut values = executor.upload(&[1.0_f32, 2.0]).unwrap();
        let grid = Grid::linear(1, 2);
        executor
            .stream()
            .launch(&scale, grid)
            .arg(&mut values)
            .arg(&3.0_f32)
            .arg(&2_u32)
            .run()
            .unwrap();
        assert_eq!(executor.download(&values).unwrap(), [3.0, 6.0]);
    }
}

#[test]
fn without_a_compiler_kept_sources_run_and_others_are_refused() {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "where_no_compiler_is_found", "--ignored", "--nocapture"]);
    for variable in
        ["PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "PATH"]
    {
        child.env_remove(variable);
    }
    let child = child.output().unwrap();
    let text = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "needs an environment that names no compiler, which the test above gives it"]
fn where_no_compiler_is_found() {
    let executor = executor();
    match executor.compile(EXAMPLE.source, &CompileOptions::default()) {
        Ok(_) => eprintln!("this machine's loader finds a compiler by itself"),
        Err(error) => {
            assert!(
                matches!(error, Error::LibraryMissing { library: "libnvrtc.so", .. }),
                "{error}"
            );
            assert!(error.to_string().contains("pip install"), "{error}");
        }
    }
    let scale = executor.kept(&EXAMPLE).unwrap().kernel("scale").unwrap();
    let mut values = executor.upload(&[2.0_f32]).unwrap();
    let one = Grid::linear(1, 1);
    executor.stream().launch(&scale, one).arg(&mut values).arg(&3.0_f32).arg(&1_u32).run().unwrap();
    assert_eq!(executor.download(&values).unwrap(), [6.0]);
}

#[test]
fn every_kept_ptx_is_what_its_source_compiles_to() {
    if !has_compiler() {
        return;
    }
    let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels"));
    assert!(!sources.is_empty());
    for path in sources {
        let source = std::fs::read_to_string(&path).unwrap();
        if source.lines().any(|line| line.starts_with("// keep: nothing")) {
            continue;
        }
        let kept = std::fs::read_to_string(path.with_extension("ptx")).unwrap();
        let options = CompileOptions::of_source(&source).include(path.parent().unwrap());
        let ptx = compile_to_ptx(&source, &options).unwrap();
        assert!(
            code(&kept).eq(code(&ptx)),
            "{} is stale: cargo run -p apex-exec --example keep-kernels",
            path.with_extension("ptx").display()
        );
    }
}

/// The lines that are code: comments name the compiler's version.
fn code(ptx: &str) -> impl Iterator<Item = &str> {
    ptx.lines().map(str::trim).filter(|line| !line.starts_with("//") && !line.is_empty())
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the kernels' folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "cu") {
            found.push(path);
        }
    }
    found
}
