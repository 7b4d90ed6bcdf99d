//! Statements to steps: scopes, labels, functions taken in, and the instructions themselves.
//!
//! What comes out is a [`Draft`]: one [`Body`] for the kernel and one for each function that has
//! to be called.

mod address;
mod arithmetic;
mod async_copy;
mod bits;
mod call;
mod clear;
mod constant;
mod control;
mod convert;
mod floating;
mod hand_over;
mod logic;
mod matrix;
mod memory;
mod moves;
mod operand;
mod scope;
mod special;
mod tensor_map;
mod texture;
mod video;
mod warp;
mod warpgroup;
mod work_request;

use super::draft::{Body, Draft, RegisterFacts, Slot};
use super::program::Program;
use super::{Lowering, Outcome, Refusal, refuse};
use crate::code::{Class, Guard, Inst, Mode, Reg, Src, Step, Ty};
use apex_ptx::tree::{Instruction, Statement};
use scope::{Entity, Scope};
use std::collections::{HashMap, HashSet};

/// The most steps a kernel may grow to by taking functions in, and the most functions taken in,
/// which may be empty; beyond it they are called.
const INLINE_STEPS: usize = 60_000;
const INLINE_CALLS: usize = 10_000;

/// The most scopes open at a time. A function deeper than that is called: translating goes down
/// with the scopes, and a long chain of calls must not use up the stack.
const INLINE_SCOPES: usize = 200;

/// Translates the kernel with all it calls.
pub(crate) fn run(it: &mut Lowering<'_, '_>) -> Outcome {
    let mut translator = Translator::new(it.program);
    translator.body(it.kernel, true)?;
    while let Some(function) = translator.wanted.pop() {
        translator.body(function, false)?;
    }
    // Dynamic memory begins where the static part ends.
    let align = translator.dynamic_align;
    let bytes = translator.shared_bytes.checked_next_multiple_of(align);
    translator.draft.static_shared = bytes.unwrap_or(u32::MAX);
    it.draft = translator.draft;
    Ok(())
}

/// How functions begin that a kernel calls to launch another.
const DEVICE_RUNTIME: [&str; 3] = ["cudaGetParameterBuffer", "cudaLaunchDevice", "cudaGraphLaunch"];

/// A function being translated: the kernel, a called one, or one taken in.
struct Instance {
    function: usize,
    /// Scopes below this index are not seen.
    scopes: usize,
    /// Where `ret` goes; `None` in the kernel, where it ends the lane, and in called functions.
    end: Option<u32>,
    /// The carry flag.
    carry: Option<Reg>,
    /// Slots of what it returns, for the end of a called function.
    returns: Vec<Slot>,
}

/// The state of translation.
struct Translator<'p, 't> {
    program: &'p Program<'t>,
    draft: Draft,
    body: Body,
    scopes: Vec<Scope<'t>>,
    instances: Vec<Instance>,
    /// Offsets of shared variables met so far.
    shared: HashMap<usize, u32>,
    shared_bytes: u32,
    dynamic_align: u32,
    /// Functions to be called that have no body yet, and all that were ever wanted.
    wanted: Vec<usize>,
    ever_wanted: HashSet<usize>,
    /// How many functions were taken in.
    taken_in: usize,
    /// Where `alloca` takes from: the register with the next free offset.
    stack: Option<Reg>,
    /// Guard and line of the instruction at hand.
    guard: Option<Guard>,
    line: u32,
    /// Results that wait to be brought into a wider or narrower register: from, to, type.
    after: Vec<(Reg, Reg, Ty)>,
}

impl<'p, 't> Translator<'p, 't> {
    fn new(program: &'p Program<'t>) -> Self {
        Translator {
            program,
            draft: Draft::default(),
            body: Body::default(),
            scopes: Vec::new(),
            instances: Vec::new(),
            shared: HashMap::new(),
            shared_bytes: 0,
            dynamic_align: 1,
            wanted: Vec::new(),
            ever_wanted: HashSet::new(),
            taken_in: 0,
            stack: None,
            guard: None,
            line: 0,
            after: Vec::new(),
        }
    }

    /// Translates one whole function as a body of its own.
    fn body(&mut self, function: usize, kernel: bool) -> Outcome {
        let tree = self.program.functions[function];
        let Some(statements) = &tree.body else {
            if DEVICE_RUNTIME.iter().any(|name| tree.name.starts_with(name)) {
                return refuse("kernels that launch kernels are not executed by the software GPU");
            }
            return refuse(format!("function {} is declared and not defined", tree.name));
        };
        self.body =
            Body { function, recursive: self.program.is_recursive(function), ..Body::default() };
        self.stack = None;
        self.line = tree.line;
        let mut outer = Scope::default();
        let mut returns = Vec::new();
        if kernel {
            let (params, _) = crate::kernel::layout(&tree.params);
            for (param, place) in tree.params.iter().zip(params) {
                outer.names.insert(&param.name, Entity::KernelParam(place.offset));
            }
        } else {
            returns = self.enter_called(&mut outer, tree)?;
        }
        let scopes = self.scopes.len();
        self.scopes.push(outer);
        self.instances.push(Instance { function, scopes, end: None, carry: None, returns });
        self.statements(statements)?;
        self.guard = None;
        self.leave();
        self.instances.pop();
        self.scopes.pop();
        self.draft.bodies.push(std::mem::take(&mut self.body));
        Ok(())
    }

    /// Translates statements in a scope of their own.
    fn statements(&mut self, statements: &'t [Statement]) -> Outcome {
        let scope = self.open_scope(statements);
        self.scopes.push(scope);
        for statement in statements {
            self.statement(statement)?;
        }
        self.scopes.pop();
        Ok(())
    }

    fn statement(&mut self, statement: &'t Statement) -> Outcome {
        match statement {
            Statement::Label { name, .. } => {
                if let Some(Entity::Label(label)) = self.find(name) {
                    self.set_label(label);
                }
                Ok(())
            }
            Statement::Block(inner) => self.statements(inner),
            Statement::Instruction(instruction) => {
                let outcome = self.instruction(instruction);
                outcome.map_err(|Refusal(reason)| self.at(instruction, &reason))
            }
            // Taken in when the scope was opened.
            Statement::Registers(_)
            | Statement::Variable(_)
            | Statement::BranchTargets { .. }
            | Statement::CallTargets { .. }
            | Statement::CallPrototype(_)
            | Statement::Verbatim(_) => Ok(()),
        }
    }

    /// A refusal that says where; one from a function taken in says so already.
    fn at(&self, instruction: &Instruction, reason: &str) -> Refusal {
        if reason.starts_with("line ") {
            return Refusal(reason.to_owned());
        }
        let text = instruction.to_string();
        Refusal(format!("line {}: `{}`: {reason}", instruction.line, text.trim()))
    }

    fn instruction(&mut self, instruction: &'t Instruction) -> Outcome {
        self.line = instruction.line;
        self.guard = None;
        if let Some(guard) = &instruction.guard {
            let predicate = self.predicate_register(&guard.register)?;
            self.guard = Some(Guard { predicate, negated: guard.negated });
        }
        self.translate(instruction)?;
        for (from, to, ty) in std::mem::take(&mut self.after) {
            let wide =
                if ty.signed() { signed_of(self.class(to)) } else { unsigned_of(self.class(to)) };
            let mode = Mode::default();
            self.emit(Inst::Cvt { to: wide, from: ty, mode, dst: to, a: Src::Reg(from) });
        }
        Ok(())
    }

    fn translate(&mut self, it: &'t Instruction) -> Outcome {
        match &*it.opcode {
            "mov" => self.mov(it),
            "ld" | "ldu" => self.load(it),
            "st" if it.has("bulk") => self.clear(it),
            "st" => self.store(it),
            "add" | "sub" | "mul" | "mad" | "min" | "max" | "div" | "rem" | "abs" | "neg"
            | "sad" | "mul24" | "mad24" | "addc" | "subc" | "madc" => self.arithmetic(it),
            "popc" | "clz" | "bfind" | "brev" | "bfe" | "bfi" | "szext" | "bmsk" | "dp4a"
            | "dp2a" | "fns" => self.bits(it),
            "fma" | "rcp" | "sqrt" | "rsqrt" | "sin" | "cos" | "lg2" | "ex2" | "tanh"
            | "copysign" | "testp" => self.floating(it),
            "and" | "or" | "xor" | "not" | "cnot" | "lop3" | "shf" | "shl" | "shr" | "prmt" => {
                self.logic(it)
            }
            "setp" | "set" | "selp" | "slct" => self.comparison(it),
            "cvt" => self.cvt(it),
            "cvta" | "isspacep" | "mapa" | "getctarank" | "istypep" => self.address_conversion(it),
            "atom" | "red" => self.atom(it),
            "prefetch" | "prefetchu" | "applypriority" | "discard" | "createpolicy" => {
                self.hint(it)
            }
            "cp" => self.copy(it),
            "tensormap" => self.tensor_map(it),
            "wgmma" => self.warpgroup(it),
            "multimem" | "tcgen05" => refuse("the software GPU does not execute this instruction"),
            "mbarrier" => self.mbarrier(it),
            "clusterlaunchcontrol" => self.work_request(it),
            "bra" | "brx" | "ret" | "exit" | "trap" | "brkpt" => self.jump(it),
            "call" => self.call(it),
            "bar" | "barrier" | "membar" | "fence" | "nanosleep" | "pmevent" | "setmaxnreg"
            | "griddepcontrol" => self.control(it),
            "alloca" | "stacksave" | "stackrestore" => self.stack(it),
            "shfl" | "vote" | "match" | "activemask" | "redux" | "elect" => self.warp(it),
            "mma" | "wmma" | "ldmatrix" | "stmatrix" | "movmatrix" => self.matrix(it),
            "tex" | "tld4" | "txq" | "suld" | "sust" | "sured" | "suq" => self.texture(it),
            opcode if video::is_video(opcode) => self.video(it),
            _ => refuse("instruction is not known here"),
        }
    }

    /// The class of a register.
    fn class(&self, register: Reg) -> Class {
        self.draft.registers[register.0 as usize].class
    }

    /// A register of its own.
    fn register(&mut self, class: Class) -> Reg {
        self.draft.registers.push(RegisterFacts { class, temporary: false });
        Reg(self.draft.registers.len() as u32 - 1)
    }

    /// A register for one instruction's needs.
    fn temporary(&mut self, class: Class) -> Reg {
        self.draft.registers.push(RegisterFacts { class, temporary: true });
        Reg(self.draft.registers.len() as u32 - 1)
    }

    /// A step under the guard of the instruction at hand.
    fn emit(&mut self, inst: Inst) {
        self.body.steps.push(Step { guard: self.guard, inst, line: self.line });
    }

    /// A step that only fills a temporary and may do so for every lane.
    fn emit_free(&mut self, inst: Inst) {
        self.body.steps.push(Step { guard: None, inst, line: self.line });
    }

    /// A variable of the function at hand.
    fn slot(&mut self, bytes: u32, align: u32) -> Slot {
        let base = self.register(Class::B64);
        let slot = Slot { base, bytes, align: align.max(1) };
        self.body.slots.push(slot);
        slot
    }

    fn new_label(&mut self) -> u32 {
        self.body.labels.push(u32::MAX);
        self.body.labels.len() as u32 - 1
    }

    fn set_label(&mut self, label: u32) {
        self.body.labels[label as usize] = self.body.steps.len() as u32;
    }

    /// The innermost function.
    fn instance(&mut self) -> &mut Instance {
        self.instances.last_mut().expect("a body is being translated")
    }

    /// The carry flag of the function at hand.
    fn carry(&mut self) -> Reg {
        if let Some(carry) = self.instance().carry {
            return carry;
        }
        let carry = self.register(Class::Pred);
        self.instance().carry = Some(carry);
        carry
    }
}

/// The unsigned type that fills a register.
fn unsigned_of(class: Class) -> Ty {
    match class {
        Class::Pred => Ty::Pred,
        Class::B16 => Ty::U16,
        Class::B32 => Ty::U32,
        Class::B64 => Ty::U64,
        Class::B128 => Ty::B128,
    }
}

/// The signed type that fills a register.
fn signed_of(class: Class) -> Ty {
    match class {
        Class::B16 => Ty::S16,
        Class::B32 => Ty::S32,
        Class::B64 => Ty::S64,
        other => unsigned_of(other),
    }
}
