//! Where the access of a machine instruction that faulted begins.
//!
//! The processor tells the first byte that is not there, which can lie in the middle of a wide access. Compiled code
//! addresses memory by registers and a constant; of an instruction only that part is read, whatever it does.

/// The general registers, in the order of their numbers in instructions.
pub(crate) type Registers = [u64; 16];

/// What they hold where a signal came.
#[cfg(target_arch = "x86_64")]
pub(super) fn registers(machine: &libc::mcontext_t) -> Registers {
    use libc::{
        REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RAX, REG_RBP,
        REG_RBX, REG_RCX, REG_RDI, REG_RDX, REG_RSI, REG_RSP,
    };
    const ORDER: [i32; 16] = [
        REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI, REG_R8, REG_R9,
        REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
    ];
    ORDER.map(|register| machine.gregs[register as usize] as u64)
}

/// There is no compiled code for other processors.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn registers(_: &libc::mcontext_t) -> Registers {
    Registers::default()
}

/// Where the access of an instruction begins; `None` where it is of another form.
///
/// # Safety
/// The instruction is one of compiled code, which still lies there.
pub(crate) unsafe fn start(instruction: usize, registers: &Registers) -> Option<u64> {
    let at = std::ptr::with_exposed_provenance::<u8>(instruction);
    // SAFETY: the caller's; only bytes of this instruction are read.
    effective(|index| unsafe { at.add(index).read() }, registers)
}

/// Reads prefixes, the opcode and the bytes that name the operand in memory.
fn effective(byte: impl Fn(usize) -> u8, registers: &Registers) -> Option<u64> {
    let mut at = 0;
    let mut next = || {
        at += 1;
        byte(at - 1)
    };
    let mut first = next();
    while matches!(first, 0x66 | 0xf0 | 0xf2 | 0xf3) {
        first = next();
    }
    // The fourth bits of the numbers of index and base.
    let (index_high, base_high) = match first {
        0xc5 => {
            next();
            next();
            (0, 0)
        }
        0xc4 => {
            let bits = !next();
            next();
            next();
            (bits >> 3 & 8, bits >> 2 & 8)
        }
        _ => {
            let rex = if first & 0xf0 == 0x40 { std::mem::replace(&mut first, next()) } else { 0 };
            if first == 0x0f && matches!(next(), 0x38 | 0x3a) {
                next();
            }
            (rex << 2 & 8, rex << 3 & 8)
        }
    };
    let mode = next();
    let (kind, low) = (mode >> 6, mode & 7);
    if kind == 3 || (kind == 0 && low == 5) {
        return None;
    }
    let mut address = 0_u64;
    let mut base = Some(low | base_high);
    if low == 4 {
        let scaled = next();
        let index = scaled >> 3 & 7 | index_high;
        if index != 4 {
            address = registers[usize::from(index)] << (scaled >> 6);
        }
        base = (kind != 0 || scaled & 7 != 5).then_some(scaled & 7 | base_high);
    }
    let further = match kind {
        1 => i64::from(next() as i8),
        _ if kind == 2 || base.is_none() => i64::from(i32::from_le_bytes([(); 4].map(|()| next()))),
        _ => 0,
    };
    let base = base.map_or(0, |base| registers[usize::from(base)]);
    Some(address.wrapping_add(base).wrapping_add(further as u64))
}

#[cfg(test)]
mod tests {
    use super::effective;

    #[test]
    fn operands_are_read() {
        let registers = std::array::from_fn(|number| 0x1000 * (number as u64 + 1));
        let check = |bytes: &[u8], expected: Option<u64>| {
            let read = |index| bytes.get(index).copied().unwrap_or(0x90);
            assert_eq!(effective(read, &registers), expected, "{bytes:02x?}");
        };
        check(&[0x8b, 0x07], Some(0x8000)); // mov eax, [rdi]
        check(&[0x8b, 0x47, 0xf0], Some(0x7ff0)); // mov eax, [rdi-16]
        check(&[0x41, 0x8b, 0x80, 0, 1, 0, 0], Some(0x9100)); // mov eax, [r8+256]
        check(&[0x0f, 0x10, 0x46, 0x10], Some(0x7010)); // movups xmm0, [rsi+16]
        check(&[0xc5, 0xf8, 0x10, 0x46, 0x20], Some(0x7020)); // vmovups xmm0, [rsi+32]
        check(&[0xc4, 0xc1, 0x78, 0x11, 0x45, 0x00], Some(0xe000)); // vmovups [r13], xmm0
        check(&[0xf3, 0x0f, 0x6f, 0x04, 0xc8], Some(0x1000 + 0x2000 * 8)); // movdqu xmm0, [rax+rcx*8]
        check(&[0x66, 0x0f, 0x38, 0x33, 0x02], Some(0x3000)); // pmovzxwd xmm0, [rdx]
        check(&[0xc4, 0xe2, 0x79, 0x33, 0x42, 0x08], Some(0x3008)); // vpmovzxwd xmm0, [rdx+8]
        check(&[0xf0, 0x42, 0x0f, 0xb1, 0x0c, 0x20], Some(0x1000 + 0xd000)); // lock cmpxchg [rax+r12], ecx
        check(&[0x8b, 0x05, 0, 0, 0, 0], None); // mov eax, [rip]
        check(&[0x89, 0xc0], None); // mov eax, eax
    }
}
