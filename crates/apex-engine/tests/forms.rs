//! Every form of instruction that programs use has a lowering.

use apex_engine::Module;

/// A module whose kernel consists of this instruction.
fn kernel(instruction: &str) -> String {
    format!(
        ".version 8.8\n.target sm_100a\n.address_size 64\n\
         .const .align 16 .b8 ct[64];\n.global .texref tr;\n\
         .func (.param .b32 rp0) fun(.param .b64 a0) {{ st.param.b32 [rp0], 1; ret; }}\n\
         .visible .entry k(.param .align 16 .b8 kp[64]) {{\n\
         .reg .pred %p<8>; .reg .b8 %b<2>; .reg .b16 %h<24>; .reg .b32 %r<64>;\n\
         .reg .b64 %d<24>; .reg .b128 %q<4>;\n.param .b64 sp0; .param .b32 rp;\n\
         @%p7 {instruction};\nL0: ret;\n}}\n"
    )
}

#[test]
fn every_form_is_lowered() {
    let forms = include_str!("forms.txt").lines().filter(|line| !line.starts_with('#'));
    let mut refused = Vec::new();
    for form in forms {
        let mut memory = vec![0_u64; 64];
        let address = memory.as_mut_ptr() as u64;
        match Module::load(&[&kernel(form)], &mut |_| Some(address.next_multiple_of(64))) {
            Ok(module) => {
                refused.extend(module.warnings().iter().map(|why| format!("{form}: {why}")))
            }
            Err(error) => refused.push(format!("{form}: {error}")),
        }
    }
    assert!(refused.is_empty(), "{} forms refused:\n{}", refused.len(), refused.join("\n"));
}

#[test]
fn a_form_nobody_knows_is_refused_by_name() {
    let text = kernel("frobnicate.u32 %r0, %r1");
    let mut memory = vec![0_u64; 64];
    let address = memory.as_mut_ptr() as u64;
    let module = Module::load(&[&text], &mut |_| Some(address.next_multiple_of(64)));
    let module = module.expect("a module with an unknown instruction loads");
    let kernel = module.kernel("k").expect("its kernel is there");
    let reason = kernel.unsupported.as_deref().expect("and cannot run");
    assert!(reason.contains("frobnicate.u32") && reason.contains("line 11"), "{reason}");
}
