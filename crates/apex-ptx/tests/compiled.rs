//! What compilers write: nvcc 13.0 for three architectures and LLVM 14.
//!
//! Every file parses, prints, parses to the same tree, and every function can be analysed
//! without a contradiction.

use std::fs;
use std::path::Path;

use apex_ptx::cfg::{BlockId, Graph};
use apex_ptx::classes::{Class, Classes};
use apex_ptx::code::Code;
use apex_ptx::liveness::Liveness;
use apex_ptx::mix::{Category, Mix};
use apex_ptx::tree::{Function, Module};

fn modules() -> Vec<(String, Module)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compiled");
    let entries = fs::read_dir(folder).expect("the folder is there");
    let mut modules: Vec<(String, Module)> = entries
        .map(|entry| {
            let path = entry.expect("the folder can be read").path();
            let text = fs::read_to_string(&path).expect("a text");
            let name = path.file_name().expect("a file").to_string_lossy().into_owned();
            let module = apex_ptx::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name, module)
        })
        .collect();
    modules.sort_by(|one, other| one.0.cmp(&other.0));
    modules
}

#[test]
fn printed_text_means_the_same() {
    let modules = modules();
    assert!(modules.len() > 10);
    for (name, module) in modules {
        let again = apex_ptx::parse(&module.to_string());
        let again = again.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(again.without_lines(), module.without_lines(), "{name}");
    }
}

#[test]
fn declared_widths_are_confirmed_by_the_uses() {
    for (name, module) in modules() {
        for function in module.functions() {
            let code = Code::new(function).unwrap_or_else(|error| panic!("{name}: {error}"));
            let classes = Classes::new(&code);
            for (register, inferred) in code.registers.iter().zip(&classes.registers) {
                assert!(!inferred.contradiction, "{name}: {}", register.name);
                assert_eq!(
                    inferred.class,
                    Class::of(register.declared),
                    "{name}: {}",
                    register.name
                );
            }
        }
    }
}

#[test]
fn nothing_is_live_where_a_kernel_begins() {
    for (name, module) in modules() {
        for function in module.functions() {
            let code = Code::new(function).unwrap_or_else(|error| panic!("{name}: {error}"));
            let graph = Graph::new(&code);
            let liveness = Liveness::new(&code, &graph, &Classes::new(&code)).expect("small");
            if graph.blocks.is_empty() {
                continue;
            }
            let names: Vec<&str> = liveness
                .live_in(BlockId(0))
                .map(|id| &*code.registers[id.0 as usize].name)
                .collect();
            assert_eq!(names, [""; 0], "{name}: {} reads what nobody wrote", function.name);
            assert!(liveness.most_registers > 0, "{name}: {}", function.name);
        }
    }
}

#[test]
fn every_block_leads_somewhere_and_every_instruction_is_known() {
    for (name, module) in modules() {
        for function in module.functions().filter(|function| function.body.is_some()) {
            let code = Code::new(function).unwrap_or_else(|error| panic!("{name}: {error}"));
            let graph = Graph::new(&code);
            for block in &graph.blocks {
                assert!(block.ends || !block.successors.is_empty(), "{name}: {}", function.name);
            }
            assert_eq!(Mix::of(function).count(Category::Other), 0, "{name}: {}", function.name);
        }
    }
}

fn kernel<'module>(
    modules: &'module [(String, Module)],
    file: &str,
    name: &str,
) -> &'module Function {
    let (_, module) = modules.iter().find(|(known, _)| known == file).expect("the file is there");
    module.functions().find(|function| &*function.name == name).expect("the kernel is there")
}

#[test]
fn the_mix_of_a_reduction() {
    let modules = modules();
    let mix = Mix::of(kernel(&modules, "shared_90.ptx", "reduce"));
    assert_eq!(mix.count(Category::AtomicGlobal), 3);
    assert_eq!(mix.count(Category::LoadShared), 2);
    assert_eq!(mix.count(Category::StoreShared), 3);
    assert_eq!(mix.count(Category::Float64), 1);
    assert_eq!(mix.total(), 153);
    let tensor = Mix::of(kernel(&modules, "mma_90.ptx", "mm"));
    assert!(tensor.count(Category::Tensor) >= 4);
    assert!(tensor.count(Category::AsyncCopy) >= 2);
}
