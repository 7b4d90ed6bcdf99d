//! Shows what is known of every function in the given PTX files, linked together.
//!
//! `cargo run -p apex-ptx --release --example inspect -- [--print] file.ptx..`: with `--print`
//! the linked text instead, for ptxas.

use apex_ptx::cfg::Graph;
use apex_ptx::classes::Classes;
use apex_ptx::code::Code;
use apex_ptx::liveness::Liveness;
use apex_ptx::mix::{Category, Mix};
use apex_ptx::tree::Function;

fn main() -> Result<(), Box<dyn core::error::Error>> {
    let mut modules = Vec::new();
    let (options, paths): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    for path in paths {
        let text = std::fs::read_to_string(&path)?;
        modules.push(apex_ptx::parse(&text).map_err(|error| format!("{path}: {error}"))?);
    }
    let linked = apex_ptx::link(&modules)?;
    if options.iter().any(|option| option == "--print") {
        print!("{}", linked.module);
        return Ok(());
    }
    for symbol in &linked.unresolved {
        println!("unresolved: {}", symbol.name);
    }
    for function in linked.module.functions().filter(|function| function.body.is_some()) {
        show(function)?;
    }
    Ok(())
}

fn show(function: &Function) -> Result<(), Box<dyn core::error::Error>> {
    let code = Code::new(function)?;
    let graph = Graph::new(&code);
    let classes = Classes::new(&code);
    let liveness = Liveness::new(&code, &graph, &classes).ok_or("a function is too large")?;
    println!(
        "{}: {} instructions, {} blocks, {} names of registers, {} registers and {} predicates live, {} estimated",
        function.name,
        code.instructions.len(),
        graph.blocks.len(),
        code.registers.len(),
        liveness.most_registers,
        liveness.most_predicates,
        liveness.registers_per_thread(function),
    );
    for (register, inferred) in code.registers.iter().zip(&classes.registers) {
        if inferred.contradiction
            || inferred.class != apex_ptx::classes::Class::of(register.declared)
        {
            println!(
                "  {} is declared {:?} but used as {inferred:?}",
                register.name, register.declared
            );
        }
    }
    let mix = Mix::of(function);
    for category in Category::ALL.into_iter().filter(|category| mix.count(*category) > 0) {
        print!("  {category:?} {}", mix.count(category));
    }
    println!();
    Ok(())
}
