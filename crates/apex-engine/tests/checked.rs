//! Checked mode finds what is wrong, and nothing where nothing is.

mod support;

use apex_engine::{Fault, Kind, Report};
use support::Run;

fn reports(run: &Run) -> Vec<Report> {
    match run.launch() {
        Ok(_) => Vec::new(),
        Err(Fault::Checked(reports)) => reports,
        Err(other) => panic!("{other}"),
    }
}

fn found(run: &Run, kind: Kind) -> String {
    let all = reports(run);
    let report = all.iter().find(|report| report.kind == kind).unwrap_or_else(|| panic!("{all:?}"));
    assert!(report.place.line > 0, "{report}");
    report.to_string()
}

const HEAD: &str = ".visible .entry k(.param .u64 p) { .reg .pred %p<4>; .reg .b32 %r<10>; .reg .b64 %rd<8>;
    .shared .align 4 .b8 s[512];
    ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2;
    mov.u32 %r2, s; mad.lo.u32 %r3, %r1, 4, %r2;\n";

fn run(body: &str, data: &[u32]) -> Run {
    Run::new(&format!("{HEAD}{body}\nret; }}")).block(64).checked().buffer(data)
}

#[test]
fn a_clean_kernel_has_no_reports() {
    let data = [1u32; 64];
    let body = "ld.global.u32 %r4, [%rd3]; st.shared.u32 [%r3], %r4; bar.sync 0;
        xor.b32 %r5, %r1, 63; mad.lo.u32 %r6, %r5, 4, %r2; ld.shared.u32 %r7, [%r6]; st.global.u32 [%rd3], %r7;";
    assert_eq!(reports(&run(body, &data)), []);
}

#[test]
fn out_of_bounds_names_the_allocation() {
    let data = [1u32; 60];
    let text = found(&run("ld.global.u32 %r4, [%rd3];", &data), Kind::OutOfBounds);
    assert!(text.contains("thread (60,0,0)") && text.contains("0 bytes after the end"), "{text}");
    assert!(text.contains("4 times"), "{text}");
}

#[test]
fn races_and_unwritten_memory_are_found() {
    let data = [1u32; 64];
    let body = "st.shared.u32 [%r3], %r1; xor.b32 %r5, %r1, 32; mad.lo.u32 %r6, %r5, 4, %r2;
        ld.shared.u32 %r7, [%r6]; st.global.u32 [%rd3], %r7;";
    let text = found(&run(body, &data), Kind::Race);
    assert!(text.contains("since the last barrier"), "{text}");
    let text = found(
        &run("ld.shared.u32 %r4, [%r3]; st.global.u32 [%rd3], %r4;", &data),
        Kind::Uninitialised,
    );
    assert!(text.contains("shared memory"), "{text}");
    let text =
        found(&run("add.u32 %r4, %r9, 1; st.global.u32 [%rd3], %r4;", &data), Kind::Uninitialised);
    assert!(text.contains("register"), "{text}");
}

#[test]
fn a_divergent_barrier_is_found() {
    let data = [1u32; 64];
    let body = "setp.lt.u32 %p1, %r1, 40; @!%p1 bra skip; bar.sync 0; skip:";
    let text = found(&run(body, &data), Kind::DivergentBarrier);
    assert!(text.contains("8 of the warp's"), "{text}");
}
