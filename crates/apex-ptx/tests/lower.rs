//! Text that is brought down to an older chip: what changes, what stays, and what is refused.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use apex_ptx::lower::{FEATURES, Goal, LowerError, Lowered, Target, lower, page};

const H200: Goal = Goal { target: Target { number: 90, is_own: true }, version: (9, 0) };

fn text(target: &str, version: &str, directives: &str, body: &str) -> String {
    format!(
        ".version {version}\n.target {target}\n.address_size 64\n\
         .visible .entry k(.param .u64 p) {directives}\n{{\n.reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %d<9>;\n\
         {body}\nret;\n}}\n"
    )
}

#[track_caller]
fn lowered(text: &str, goal: Goal) -> Lowered {
    lower(text, goal).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn refused(text: &str, goal: Goal, reason: &str) {
    let error = lower(text, goal).unwrap_err().to_string();
    assert!(error.contains(reason), "{error}");
}

#[test]
fn plain_text_changes_its_header_only() {
    let newer = text("sm_120", "8.7", "", "add.u32 %r1, %r2, 3;");
    let older = lowered(&newer, H200);
    let expected = newer.replace("sm_120", "sm_90");
    let plain = |text: &str| apex_ptx::parse(text).unwrap().without_lines();
    assert_eq!(plain(&older.text), plain(&expected));
    assert!(older.changes.is_empty());
    assert_eq!(older.was, ("sm_120".into(), (8, 7)));
}

#[test]
fn text_that_runs_stays_word_for_word() {
    let own = text("sm_80", "8.0", "", "// a remark\nadd.u32 %r1, %r2, 3;");
    assert_eq!(lowered(&own, H200).text, own);
    let own = text("sm_90a", "8.0", "", "setmaxnreg.dec.sync.aligned.u32 40;");
    assert_eq!(lowered(&own, H200).text, own);
}

#[test]
fn a_version_that_is_too_new_is_brought_down() {
    let newer = text("sm_80", "9.9", "", "add.u32 %r1, %r2, 3;");
    let older = lowered(&newer, H200);
    assert!(older.text.starts_with(".version 9.0\n.target sm_80\n"), "{}", older.text);
    // What came with the version goes too.
    let body =
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%d1], %r2, [%r3];";
    let newer = text("sm_90", "8.6", "", body);
    let goal = Goal { version: (8, 0), ..H200 };
    let older = lowered(&newer, goal);
    assert!(older.text.contains("cp.async.bulk.shared::cluster.global"), "{}", older.text);
    assert_eq!(older.changes.len(), 1);
}

#[test]
fn what_the_chip_has_under_its_own_name_stays() {
    let newer = text("sm_120a", "8.7", "", "setmaxnreg.dec.sync.aligned.u32 40;");
    let older = lowered(&newer, H200);
    assert!(older.text.contains(".target sm_90a\n") && older.text.contains("setmaxnreg"));
    let plain = Goal { target: Target { is_own: false, ..H200.target }, ..H200 };
    let older = lowered(&newer, plain);
    assert!(older.text.contains(".target sm_90\n") && !older.text.contains("setmaxnreg"));
    assert_eq!(older.changes[0].feature.name, "setmaxnreg");
}

#[test]
fn changes_are_counted_and_name_their_first_line() {
    let body = "add.rn.f32x2 %d1, %d2, %d3;\nadd.u32 %r1, %r2, 3;\nmul.rn.f32x2 %d1, %d2, %d3;";
    let older = lowered(&text("sm_100", "8.6", "", body), H200);
    let [change] = older.changes[..] else { panic!("{:?}", older.changes) };
    assert_eq!((change.count, change.line), (2, 7));
}

#[test]
fn a_guard_covers_all_that_stands_for_its_instruction() {
    let older = lowered(&text("sm_100", "8.6", "", "@!%p1 add.rn.f32x2 %d1, %d2, %d3;"), H200);
    let module = apex_ptx::parse(&older.text).unwrap();
    let code = apex_ptx::code::Code::new(module.functions().next().unwrap()).unwrap();
    let (ret, rest) = code.instructions.split_last().unwrap();
    assert!(&*ret.opcode == "ret" && rest.len() == 7);
    assert!(rest.iter().all(|it| it.guard.as_ref().is_some_and(|guard| guard.negated)));
    // Where what stands there has branches of its own, one goes around it.
    let older =
        lowered(&text("sm_100", "8.6", "", "@%p1 st.bulk.shared::cta [%r1], %d1, 0;"), H200);
    assert!(older.text.contains("@!%p1 bra lower_0_end;"), "{}", older.text);
}

#[test]
fn names_of_the_text_are_left_alone() {
    let body = ".reg .b64 lower_0_a, lower__x;\nadd.rn.f32x2 lower_0_a, lower_0_a, lower__x;";
    let older = lowered(&text("sm_100", "8.6", "", body), H200);
    assert!(
        older.text.contains("lower__0_a") || older.text.contains("lower___0_a"),
        "{}",
        older.text
    );
    assert!(older.text.contains("mov.b64 lower_0_a, {"), "{}", older.text);
}

#[test]
fn what_has_no_equal_is_named_with_its_line() {
    let body =
        "add.u32 %r1, %r2, 3;\ntcgen05.fence::before_thread_sync;\nwgmma.fence.sync.aligned;";
    let newer = text("sm_100a", "8.6", "", body);
    refused(
        &newer,
        H200,
        "line 8: `tcgen05.fence::before_thread_sync`: older chips have no tensor memory",
    );
    let Err(LowerError::Refused(all)) =
        lower(&newer, Goal { target: Target { number: 80, is_own: true }, ..H200 })
    else {
        panic!("it is refused")
    };
    assert_eq!(all.iter().map(|one| one.line).collect::<Vec<_>>(), [8, 9]);
    let a100 = Goal { target: Target { number: 80, is_own: true }, ..H200 };
    refused(&text("sm_90", "8.0", ".reqnctapercluster 2, 1, 1", ""), a100, "launched in clusters");
    let alone = lowered(&text("sm_90", "8.0", ".reqnctapercluster 1, 1, 1", ""), a100);
    assert!(!alone.text.contains("cluster"));
    refused(&text("gfx90", "8.0", "", ""), H200, "gfx90");
    refused("no PTX", H200, "line 1");
}

#[test]
fn every_row_is_on_the_page_once() {
    let page = page();
    for feature in FEATURES {
        let cell = format!("| `{}` |", feature.name);
        assert_eq!(page.matches(&cell).count(), 1, "{}", feature.name);
    }
}
