//! Renders `docs/coverage.md` from the table.
//!
//! The page says which driver functions there are and what apex does with each; it
//! is made here so that it cannot differ from what the shim does.

use core::fmt::Write;
use std::collections::BTreeSet;

use crate::driver::{Function, Kind, Order};

/// The whole page, in Markdown.
pub fn coverage_page() -> String {
    let mut page = String::from(HEAD);
    counts(&mut page);
    orders(&mut page);
    page.push_str(
        "\n## Functions\n\n| function | kind | since | apex | in a queue | software GPU |\n\
         |---|---|---:|---|---|---|\n",
    );
    let answered = answered();
    for &function in Function::ALL {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} | {} | {} |",
            function.name(),
            function.kind().name(),
            version(function.since()),
            treatment(function),
            function.order().word(),
            if answered.contains(function.name()) { "yes" } else { "" },
        );
    }
    page
}

const HEAD: &str = "\
# Driver functions

Made from the table in `crates/apex-cuda/src/table.rs`; do not edit.

Every function below is exported by the shim. *passed on*: the call goes to the
real driver untouched and unseen. *hooked*: it is seen, by the named module, and
then goes to the driver. *since* is the CUDA version whose ABI the symbol has.
*software GPU*: whether apex's own driver answers the function where there is no
GPU; the others answer `CUDA_ERROR_NOT_SUPPORTED` there.

";

/// The functions that the software GPU answers. A test there holds the list to what
/// its driver really has.
fn answered() -> BTreeSet<&'static str> {
    include_str!("../softgpu_functions.txt").lines().collect()
}

fn counts(page: &mut String) {
    let answered = answered();
    page.push_str(
        "| kind | what | functions | hooked | software GPU |\n|---|---|---:|---:|---:|\n",
    );
    for &kind in Kind::ALL {
        let of_kind = || Function::ALL.iter().filter(move |function| function.kind() == kind);
        let hooked = of_kind().filter(|function| function.hooked().is_some()).count();
        let soft = of_kind().filter(|function| answered.contains(function.name())).count();
        let _ = writeln!(
            page,
            "| {} | {} | {} | {hooked} | {soft} |",
            kind.name(),
            kind.about(),
            of_kind().count()
        );
    }
    let hooked = Function::ALL.iter().filter(|function| function.hooked().is_some()).count();
    let soft = answered.len();
    let _ = writeln!(page, "| **all** | | **{}** | **{hooked}** | **{soft}** |", Function::COUNT);
}

fn orders(page: &mut String) {
    page.push_str(
        "\nUnder `apex run --fast` launches may wait in a queue. *In a queue* says where a call goes then:\n\n\
         | word | the call | functions |\n|---|---|---:|\n",
    );
    for &order in Order::ALL {
        let count = Function::ALL.iter().filter(|function| function.order() == order).count();
        let _ = writeln!(page, "| {} | {} | {count} |", order.word(), order.about());
    }
}

fn treatment(function: Function) -> String {
    match function.hooked() {
        Some(module) => format!("hooked: {module}"),
        None => "passed on".to_owned(),
    }
}

fn version(since: u32) -> String {
    match since {
        0 => "?".to_owned(),
        _ => format!("{}.{}", since / 1000, since % 1000 / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_line_for_every_function() {
        let page = coverage_page();
        for function in Function::ALL {
            assert!(page.contains(&format!("\n| `{}` | ", function.name())), "{}", function.name());
        }
        assert!(page.contains("| `cuMemAlloc_v2` | Alloc | 3.2 | "));
    }
}
