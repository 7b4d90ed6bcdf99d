//! From a kernel's code to one Cranelift function.
//!
//! The function takes a warp whose lanes are all there and together at one of its entries and
//! runs it to the next stop. At a stop, registers go to the register file in compact form: of a
//! regular value only lane 0 is written, because the next to read it is most often the
//! entry after a barrier. Where the interpreter takes over, [`settle`] writes the other lanes.

use super::flow::{self, Bits, Flow};
use super::parted::{Parted, TakingPart};
use super::shape::Shapes;
use super::value::{Form, Home, Locals, scalar_type, vector_type};
use super::{Compilation, settle};
use crate::code::{Code, Guard, Inst, Pc, Reg};
use crate::frame::{BlockFrame, Reach, Stop, WarpFrame};
use crate::window::Window;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{
    AbiParam, Block, BlockArg, BlockCall, InstBuilder, JumpTableData, MemFlagsData, SigRef,
    Signature, SourceLoc, StackSlot, StackSlotData, StackSlotKind, Type, Value,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};
use std::collections::BTreeSet;
use std::mem::offset_of;
use std::rc::Rc;

/// What `settle` and `admit` do with one register in the register file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Regular {
    /// Where it lies.
    pub(super) offset: u32,
    /// Bytes of a lane.
    pub(super) lane_bytes: u8,
    /// True for regular values, whose lanes follow from lane 0.
    pub(super) spread: bool,
    /// True when NaNs are the processor's and must become PTX's.
    pub(super) raw: bool,
    /// Distance from lane to lane.
    pub(super) stride: i64,
}

/// The addresses compiled code calls, and how far apart warps lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct Helpers {
    /// Executes one step for the lanes of the warp.
    pub(super) step: usize,
    /// Tests what an entry relies on.
    pub(super) admit: usize,
    /// Writes all lanes of regular registers.
    pub(super) settle: usize,
    /// Takes lanes that stand at different steps.
    pub(super) part: usize,
    /// Asks about addresses outside of the window.
    pub(super) ask: usize,
    /// Where device memory lies.
    pub(super) window: Option<Window>,
    /// Parameters that addresses are near to are taken to lie in it.
    pub(super) trusting: bool,
    /// From one warp's frame to the next's.
    pub(super) warp_bytes: usize,
}

/// Tables that compiled code refers to by address: they must live as long as it does.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) regulars: Vec<Box<[Regular]>>,
    pub(super) places: Vec<Box<[Pc]>>,
    #[allow(clippy::vec_box, reason = "compiled code holds their addresses")]
    pub(super) reaches: Vec<Box<Reach>>,
    /// Offsets of the parameters that are trusted.
    pub(super) trusted: BTreeSet<u32>,
}

/// The state of a translation.
pub(super) struct Emit<'a, 'b> {
    pub(super) code: &'a Code,
    pub(super) shapes: Rc<Shapes<'a>>,
    pub(super) flow: &'a Flow<'a>,
    pub(super) threads: [u32; 3],
    /// Lanes that exist.
    pub(super) lanes: u32,
    pub(super) build: FunctionBuilder<'b>,
    pub(super) helpers: Helpers,
    /// True when the processor fuses multiply and add.
    pub(super) fused: bool,
    /// True when the kernel reaches other blocks' shared memory.
    pub(super) clusters: bool,
    /// The one step that writes a register, see [`super::anchor`].
    pub(super) writers: Vec<Option<Pc>>,
    pub(super) variables: Vec<Option<Rc<[Variable]>>>,
    /// All variables there are, with their types.
    pub(super) declared: Vec<(Variable, Type)>,
    pub(super) locals: Locals,
    /// Lanes for which the current step counts, when not for all.
    pub(super) taking_part: Option<TakingPart>,
    /// Where masked code is; `None` while the lanes are together.
    pub(super) parted: Option<Parted>,
    /// Steps compiled again for lanes on different ways.
    pub(super) parted_steps: usize,
    pub(super) tables: Tables,
    pub(super) block_frame: Value,
    pub(super) warp_frame: Value,
    pub(super) file: Value,
    pub(super) shared: Value,
    pub(super) params: Value,
    /// Lines for the lanes of a value: one for addresses, then one for each part of a vector.
    pub(super) scratch: [StackSlot; 5],
    pub(super) step_signature: SigRef,
    pub(super) table_signature: SigRef,
    pub(super) ask_signature: SigRef,
    pub(super) blocks: Vec<Option<Block>>,
    /// Where a warp begins; takes its frame.
    pub(super) head: Block,
    /// Where a warp goes that stopped as others may: takes how, and goes on with the next warp.
    pub(super) next_warp: Block,
    /// Registers written since an entry, up to the current step.
    pub(super) dirty: Bits,
}

/// The signature of compiled code.
fn signature() -> Signature {
    let mut signature = Signature::new(CallConv::SystemV);
    signature.params.extend([I64, I64, I32].map(AbiParam::new));
    signature.returns.push(AbiParam::new(I64));
    signature
}

/// The signature of a function that compiled code calls.
fn helper(params: &[Type]) -> Signature {
    let mut call = Signature::new(CallConv::SystemV);
    call.params.extend(params.iter().copied().map(AbiParam::new));
    call.returns.push(AbiParam::new(I32));
    call
}

/// Translates the kernel.
pub(crate) fn run(it: &mut Compilation<'_>) -> Option<()> {
    let (job, flow) = (&it.job, it.flow.as_ref()?);
    let helpers = Helpers {
        step: job.steps.step as usize,
        admit: settle::admit as *const () as usize,
        settle: settle::settle as *const () as usize,
        part: job.steps.part as usize,
        ask: job.steps.ask as usize,
        window: job.window,
        trusting: job.trusting,
        warp_bytes: job.warp_bytes,
    };
    it.context.func.signature = signature();
    let mut frontend = FunctionBuilderContext::new();
    let build = FunctionBuilder::new(&mut it.context.func, &mut frontend);
    let start = Start {
        shapes: it.shapes.clone()?,
        writers: std::mem::take(&mut it.writers),
        flow,
        helpers,
    };
    let (tables, build) = Emit::translate(job.code, (job.threads, job.lanes), start, build);
    build.finalize(it.isa.frontend_config());
    it.tables = tables;
    Some(())
}

/// What a translation begins with.
struct Start<'a> {
    shapes: Rc<Shapes<'a>>,
    writers: Vec<Option<Pc>>,
    flow: &'a Flow<'a>,
    helpers: Helpers,
}

/// Loads and stores that cannot fault, in our own frames.
pub(super) fn own() -> MemFlagsData {
    MemFlagsData::trusted()
}

impl<'a, 'b> Emit<'a, 'b> {
    /// Translates everything; gives the tables.
    fn translate(
        code: &'a Code,
        (threads, lanes): ([u32; 3], u32),
        start: Start<'a>,
        mut build: FunctionBuilder<'b>,
    ) -> (Tables, FunctionBuilder<'b>) {
        let Start { shapes, writers, flow, helpers } = start;
        let first = build.create_block();
        build.append_block_params_for_function_params(first);
        build.switch_to_block(first);
        let [block_frame, warp_frame, entry] = *build.block_params(first) else {
            unreachable!("the signature has three parameters")
        };
        let mut field = |base, ty, offset: usize| build.ins().load(ty, own(), base, offset as i32);
        let shared = field(block_frame, I64, offset_of!(BlockFrame, shared));
        let params = field(block_frame, I64, offset_of!(BlockFrame, params));
        let (head, next_warp) = (build.create_block(), build.create_block());
        build.ins().jump(head, &[BlockArg::Value(warp_frame)]);
        build.switch_to_block(head);
        let warp_frame = build.append_block_param(head, I64);
        let at = offset_of!(WarpFrame, registers) as i32;
        let file = build.ins().load(I64, own(), warp_frame, at);
        let at = offset_of!(BlockFrame, warp) as i32;
        build.ins().store(own(), warp_frame, block_frame, at);
        let dispatch = build.create_block();
        build.ins().jump(dispatch, &[]);
        let step_signature = build.import_signature(helper(&[I64, I64, I32]));
        let table_signature = build.import_signature(helper(&[I64, I64, I64, I32]));
        // Keeps all registers: the way on is as if nothing had been asked.
        let mut call = Signature::new(CallConv::PreserveAll);
        call.params.extend([I64, I64, I64, I32, I64].map(AbiParam::new));
        let ask_signature = build.import_signature(call);
        let line = StackSlotData::new(StackSlotKind::ExplicitSlot, 256, 4);
        let scratch = [(); 5].map(|()| build.create_sized_stack_slot(line.clone()));
        let blocks = (0..code.blocks.len())
            .map(|index| flow.reachable(index).then(|| build.create_block()))
            .collect();
        let mut emit = Emit {
            code,
            shapes,
            flow,
            threads,
            lanes,
            build,
            helpers,
            fused: std::is_x86_feature_detected!("fma"),
            clusters: code.steps.iter().any(|step| matches!(step.inst, Inst::Mapa { .. })),
            writers,
            variables: vec![None; code.registers.len()],
            declared: Vec::new(),
            locals: Locals::default(),
            taking_part: None,
            parted: None,
            parted_steps: 0,
            tables: Tables::default(),
            block_frame,
            warp_frame,
            file,
            shared,
            params,
            scratch,
            step_signature,
            table_signature,
            ask_signature,
            blocks,
            head,
            next_warp,
            dirty: Bits::default(),
        };
        let entries: Vec<Block> = flow.entries.iter().map(|_| emit.build.create_block()).collect();
        for (number, &block) in entries.iter().enumerate() {
            emit.entry(number, block);
        }
        for index in 0..code.blocks.len() {
            if let Some(block) = emit.blocks[index] {
                emit.block(index, block);
            }
        }
        emit.next_warp();
        emit.dispatch(dispatch, entry, &entries);
        emit.build.seal_all_blocks();
        (emit.tables, emit.build)
    }

    /// The way in: to the entry, which loads what is needed. It is written last, when all variables are
    /// known: none of them may bring a value along from the warp before.
    pub(super) fn dispatch(&mut self, block: Block, entry: Value, entries: &[Block]) {
        self.build.switch_to_block(block);
        self.locals.clear();
        for (variable, ty) in std::mem::take(&mut self.declared) {
            let zero = if ty.is_vector() {
                self.constant(ty, [0; 16])
            } else {
                self.build.ins().iconst(ty, 0)
            };
            self.build.def_var(variable, zero);
        }
        let pool = &mut self.build.func.dfg.value_lists;
        let none: [BlockArg; 0] = [];
        let calls: Vec<BlockCall> =
            entries.iter().map(|&block| BlockCall::new(block, none, pool)).collect();
        let Some(&first) = calls.first() else { return };
        let table = self.build.create_jump_table(JumpTableData::new(first, &calls));
        self.build.ins().br_table(entry, table);
    }

    /// Every lane must exist, and what the code takes for regular must be so. Compact
    /// registers were left by this code itself and need no test.
    pub(super) fn entry(&mut self, number: usize, block: Block) {
        let index = self.flow.entries[number] as usize;
        let pc = self.code.blocks[index].steps.start;
        let mut alive = Bits::new(self.code.registers.len());
        for &register in &self.code.blocks[index].live_in {
            alive.set(register);
        }
        let mut table = self.regulars(&alive);
        table.retain(|regular| regular.spread);
        self.build.switch_to_block(block);
        let refuse = self.build.create_block();
        let enter = self.build.create_block();
        let at = offset_of!(WarpFrame, lanes) as i32;
        let lanes = self.build.ins().load(I32, own(), self.warp_frame, at);
        let all = self.all_lanes();
        let whole = self.build.ins().icmp_imm_u(IntCC::Equal, lanes, i64::from(all));
        if table.is_empty() {
            self.build.ins().brif(whole, enter, &[], refuse, &[]);
        } else {
            let (known, test) = (self.build.create_block(), self.build.create_block());
            self.build.ins().brif(whole, known, &[], refuse, &[]);
            self.build.switch_to_block(known);
            let at = offset_of!(WarpFrame, compact) as i32;
            let compact = self.build.ins().load(I32, own(), self.warp_frame, at);
            self.build.ins().brif(compact, enter, &[], test, &[]);
            self.build.switch_to_block(test);
            self.build.set_cold_block(test);
            let admitted = self.call_table(self.helpers.admit, table);
            self.build.ins().brif(admitted, enter, &[], refuse, &[]);
        }
        self.build.switch_to_block(refuse);
        self.build.set_cold_block(refuse);
        self.stop_plain(Stop::HandOver, pc);
        self.build.switch_to_block(enter);
        self.locals.clear();
        let needed: Vec<Reg> = self.flow.blocks[index].needed.iter().collect();
        for register in needed {
            self.load_home(register);
        }
        self.locals.clear();
        self.go(pc);
    }

    /// True when every lane exists.
    pub(super) fn is_whole(&self) -> bool {
        self.lanes == self.code.width
    }

    /// Lane `n` of a vector's part: true where it exists.
    pub(super) fn exists(&self, lane: usize) -> bool {
        lane < self.lanes as usize
    }

    /// Reads a register from its place in the register file into its home.
    pub(super) fn load_home(&mut self, register: Reg) {
        let class = self.class(register);
        let at = self.code.registers[register.0 as usize].offset as i32;
        let form = match self.home(register) {
            Home::Scalar => {
                Form::Scalar(self.build.ins().load(scalar_type(class), own(), self.file, at))
            }
            Home::Splat => {
                let scalar = self.build.ins().load(scalar_type(class), own(), self.file, at);
                Form::Splat(self.build.ins().splat(vector_type(class), scalar))
            }
            Home::Vector => {
                let part = |part| {
                    let at = at + part as i32 * 16;
                    self.build.ins().load(vector_type(class), own(), self.file, at)
                };
                Form::Vector(
                    (0..self.code.width as usize * class.lane_bytes() / 16).map(part).collect(),
                )
            }
            Home::Flag => {
                let mask = self.load_mask(at);
                Form::Flag(self.build.ins().icmp_imm_u(IntCC::NotEqual, mask, 0))
            }
            Home::Mask => Form::Mask(self.load_mask(at)),
            Home::Memory => return,
        };
        self.write(register, form);
    }

    /// The bits of a predicate's place. Those above a narrow warp are of whoever had the memory before.
    fn load_mask(&mut self, at: i32) -> Value {
        let mask = self.build.ins().load(I32, own(), self.file, at);
        match self.all_lanes() {
            u32::MAX => mask,
            all => self.build.ins().band_imm_u(mask, i64::from(all)),
        }
    }

    /// Writes a register to its place, in compact form or with all lanes.
    pub(super) fn store_home(&mut self, register: Reg, compact: bool) {
        let class = self.class(register);
        let at = self.code.registers[register.0 as usize].offset as i32;
        let plain = Guard { predicate: register, negated: false };
        match self.home(register) {
            Home::Scalar | Home::Splat if compact => {
                let scalar = self.scalar(register);
                self.build.ins().store(own(), scalar, self.file, at);
            }
            Home::Scalar | Home::Splat | Home::Vector => {
                let vector = self.vector(register);
                let canonical = !compact && self.shapes.raw(register);
                for (part, &value) in vector.iter().enumerate() {
                    let value = if canonical { self.canonical(value) } else { value };
                    self.build.ins().store(own(), value, self.file, at + part as i32 * 16);
                }
                debug_assert_eq!(vector.len(), self.parts(class));
            }
            Home::Flag | Home::Mask => {
                let mask = self.mask(plain);
                self.build.ins().store(own(), mask, self.file, at);
            }
            Home::Memory => {}
        }
    }

    pub(super) fn block(&mut self, index: usize, block: Block) {
        self.build.switch_to_block(block);
        self.locals.clear();
        self.taking_part = None;
        let it = &self.flow.blocks[index];
        self.dirty = it.dirty.clone();
        let steps = self.code.blocks[index].steps.clone();
        self.build.set_srcloc(SourceLoc::new(steps.start));
        if it.header {
            self.burn(index, steps.start);
        }
        let alive = self.flow.alive(&self.shapes, index);
        for pc in steps.clone() {
            self.build.set_srcloc(SourceLoc::new(pc));
            if self.step(index, pc, &alive) {
                return;
            }
            flow::written(&mut self.dirty, &self.code.steps[pc as usize]);
        }
        // Falls through.
        self.go(steps.end);
    }

    /// Counts fuel at a loop's header; without any left the warp yields there.
    pub(super) fn burn(&mut self, index: usize, pc: Pc) {
        let at = offset_of!(BlockFrame, fuel) as i32;
        let fuel = self.build.ins().load(I64, own(), self.block_frame, at);
        let fuel = self.build.ins().iadd_imm_s(fuel, -1);
        self.build.ins().store(own(), fuel, self.block_frame, at);
        let (empty, on) = (self.build.create_block(), self.build.create_block());
        let spent = self.build.ins().icmp_imm_s(IntCC::SignedLessThan, fuel, 0);
        self.build.ins().brif(spent, empty, &[], on, &[]);
        self.build.switch_to_block(empty);
        self.build.set_cold_block(empty);
        let mut alive = Bits::new(self.code.registers.len());
        for &register in &self.code.blocks[index].live_in {
            alive.set(register);
        }
        self.aside(|emit| emit.stop(Stop::Yield, pc, &alive));
        self.build.switch_to_block(on);
    }

    /// Emits code to one side: forms of registers it makes are not known afterwards.
    pub(super) fn aside<T>(&mut self, body: impl FnOnce(&mut Self) -> T) -> T {
        let locals = self.locals.clone();
        let result = body(self);
        self.locals = locals;
        result
    }

    /// The compiled code of a block.
    pub(super) fn block_of(&self, index: usize) -> Option<Block> {
        self.blocks[index]
    }
}
