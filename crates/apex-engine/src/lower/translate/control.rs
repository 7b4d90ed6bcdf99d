//! Jumps, barriers, fences, and the stack of `alloca`.

use super::Translator;
use super::scope::Entity;
use crate::code::{BarrierMode, BinaryOp, Class, Inst, Mode, Reg, Src, Ty};
use crate::lower::words::Words;
use crate::lower::{Outcome, refuse};
use apex_ptx::tree::{Instruction, Operand};

/// Bytes of local memory per lane that `alloca` may give out.
const ALLOCA_BYTES: u32 = 4096;

/// What a reduction at a barrier makes of the predicates.
#[derive(Clone, Copy)]
enum Reduction {
    Count,
    And,
    Or,
}

impl Translator<'_, '_> {
    /// `bra`, `brx.idx`, `ret`, `exit`, `trap`, `brkpt`.
    pub(super) fn jump(&mut self, it: &Instruction) -> Outcome {
        let mut words = Words::of(it);
        words.drop_all(&["uni", "idx"]);
        words.finish()?;
        match (&*it.opcode, it.operands.as_slice()) {
            ("bra", [Operand::Name(name)]) => {
                let Some(Entity::Label(target)) = self.find(name) else {
                    return refuse(format!("{name} is not a label"));
                };
                self.emit(Inst::Branch { target });
            }
            ("brx", [index, Operand::Name(name)]) => {
                let Some(Entity::Targets(targets)) = self.find(name) else {
                    return refuse(format!("{name} is not a list of targets"));
                };
                let index = self.read(index, Ty::U32)?;
                let index = self.in_register(index, Ty::U32);
                self.emit(Inst::BranchIndexed { index, targets: targets.to_vec() });
            }
            ("ret", []) => self.leave(),
            ("exit", []) => self.emit(Inst::Exit),
            ("trap", []) => self.emit(Inst::Trap),
            ("brkpt", []) => self.emit(Inst::Breakpoint),
            _ => return refuse("has other operands than known"),
        }
        Ok(())
    }

    /// Barriers, fences and what only takes time.
    pub(super) fn control(&mut self, it: &Instruction) -> Outcome {
        match &*it.opcode {
            "membar" | "fence" => self.emit(Inst::Fence),
            "nanosleep" => self.emit(Inst::Yield),
            "pmevent" | "setmaxnreg" | "griddepcontrol" => self.emit(Inst::Nop),
            _ => return self.barrier(it),
        }
        Ok(())
    }

    fn barrier(&mut self, it: &Instruction) -> Outcome {
        let mut words = Words::of(it);
        if words.take("warp") {
            words.take("sync");
            words.finish()?;
            let [mask] = it.operands.as_slice() else {
                return refuse("takes one operand");
            };
            let mask = self.read(mask, Ty::B32)?;
            self.emit(Inst::WarpBarrier { mask });
            return Ok(());
        }
        if words.take("cluster") {
            words.drop_all(&["aligned", "release", "relaxed", "acquire"]);
            let wait = words.take("wait");
            words.take("arrive");
            words.finish()?;
            self.emit(if wait { Inst::ClusterWait } else { Inst::ClusterArrive });
            return Ok(());
        }
        words.take("cta");
        let aligned = words.take("aligned") || &*it.opcode == "bar";
        let arrive = words.take("arrive");
        let red = words.take("red");
        words.take("sync");
        let reduction = words.pick(&[
            ("popc", Reduction::Count),
            ("and", Reduction::And),
            ("or", Reduction::Or),
        ]);
        words.types();
        words.finish()?;
        if !red {
            let (id, threads) = self.barrier_operands(&it.operands)?;
            let mode = if arrive { BarrierMode::Arrive } else { BarrierMode::Sync };
            self.emit(Inst::Barrier { mode, id, threads, aligned });
            return Ok(());
        }
        let (Some(reduction), [to, operands @ .., predicate]) = (reduction, &it.operands[..])
        else {
            return refuse("has other operands than known");
        };
        let (id, threads) = self.barrier_operands(operands)?;
        let predicate = self.predicate(predicate)?;
        let result = match reduction {
            Reduction::Count => Some(self.write(to, Ty::U32)?),
            Reduction::And | Reduction::Or => self.write_predicate(to)?,
        };
        let result = result.unwrap_or_else(|| self.temporary(Class::Pred));
        let mode = match reduction {
            Reduction::Count => BarrierMode::RedPopc(result, predicate),
            Reduction::And => BarrierMode::RedAnd(result, predicate),
            Reduction::Or => BarrierMode::RedOr(result, predicate),
        };
        self.emit(Inst::Barrier { mode, id, threads, aligned });
        Ok(())
    }

    fn barrier_operands(&mut self, operands: &[Operand]) -> Outcome<(Src, Option<Src>)> {
        match operands {
            [id] => Ok((self.read(id, Ty::U32)?, None)),
            [id, threads] => Ok((self.read(id, Ty::U32)?, Some(self.read(threads, Ty::U32)?))),
            _ => refuse("has other operands than known"),
        }
    }

    /// `alloca`, `stacksave`, `stackrestore`: a register counts what is given out.
    pub(super) fn stack(&mut self, it: &Instruction) -> Outcome {
        let mut words = Words::of(it);
        let ty = words.ty()?;
        words.finish()?;
        let top = self.stack_top();
        let mode = Mode::default();
        match (&*it.opcode, it.operands.as_slice()) {
            ("alloca", [to, size, rest @ ..]) => {
                let align = match rest.first() {
                    Some(Operand::Constant(value)) => {
                        super::constant::constant_bits(*value, Ty::U32).max(8)
                    }
                    _ => 8,
                };
                let size = self.read(size, ty)?;
                let size = self.fit(size, Ty::U64)?;
                let dst = self.write(to, ty)?;
                let add =
                    |dst, a, b| Inst::Binary { op: BinaryOp::Add, ty: Ty::U64, mode, dst, a, b };
                let place = self.temporary(Class::B64);
                self.emit(add(place, Src::Reg(top), Src::Imm(align - 1)));
                self.emit(Inst::Binary {
                    op: BinaryOp::And,
                    ty: Ty::B64,
                    mode,
                    dst: place,
                    a: Src::Reg(place),
                    b: Src::Imm(!(align - 1)),
                });
                self.emit(add(top, Src::Reg(place), size));
                let src = self.fit(Src::Reg(place), ty)?;
                self.emit(Inst::Mov { ty, dst, src });
            }
            ("stacksave", [to]) => {
                let dst = self.write(to, ty)?;
                let src = self.fit(Src::Reg(top), ty)?;
                self.emit(Inst::Mov { ty, dst, src });
            }
            ("stackrestore", [from]) => {
                let src = self.read(from, ty)?;
                let src = self.fit(src, Ty::B64)?;
                self.emit(Inst::Mov { ty: Ty::B64, dst: top, src });
            }
            _ => return refuse("has other operands than known"),
        }
        Ok(())
    }

    /// The register that says where free local memory begins; set at the body's start.
    fn stack_top(&mut self) -> Reg {
        if let Some(top) = self.stack {
            return top;
        }
        let top = self.register(Class::B64);
        let area = self.slot(ALLOCA_BYTES, 16);
        let src = Src::Reg(area.base);
        let inst = Inst::Mov { ty: Ty::B64, dst: top, src };
        self.body.steps.insert(0, crate::code::Step { guard: None, inst, line: 0 });
        for label in self.body.labels.iter_mut().filter(|label| **label != u32::MAX) {
            *label += 1;
        }
        self.stack = Some(top);
        top
    }
}
