//! What compiled code asks about an access outside of the window of device memory.
//!
//! It asks in the middle of what it does, with values in every register; so the call keeps them all, and the way on is
//! as if nothing had been asked.

use super::block::BlockRun;
use super::file::lanes_of;
use super::reach;
use super::warp::Warp;
use crate::code::{Inst, Order};
use crate::fault::guard;
use crate::frame::{BlockFrame, Reach, WarpFrame};
use crate::site::Access;

/// Comes back when all lanes of `mask` may touch what they reach, and ends the turn of the block with a fault otherwise.
/// `at` is the address of lane 0, or where the addresses of all lanes lie.
///
/// # Safety
/// The frames are those the compiled code was called with, and the access is one of its own.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn ask(
    block: *mut BlockFrame,
    warp: *mut WarpFrame,
    at: u64,
    mask: u32,
    access: *const Reach,
) {
    // Calls of C keep rbx, rbp and r12 to r15; the rest is kept here.
    core::arch::naked_asm!(
        "push rax",
        "push rcx",
        "push rdx",
        "push rsi",
        "push rdi",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "sub rsp, 256",
        "movups [rsp], xmm0",
        "movups [rsp + 16], xmm1",
        "movups [rsp + 32], xmm2",
        "movups [rsp + 48], xmm3",
        "movups [rsp + 64], xmm4",
        "movups [rsp + 80], xmm5",
        "movups [rsp + 96], xmm6",
        "movups [rsp + 112], xmm7",
        "movups [rsp + 128], xmm8",
        "movups [rsp + 144], xmm9",
        "movups [rsp + 160], xmm10",
        "movups [rsp + 176], xmm11",
        "movups [rsp + 192], xmm12",
        "movups [rsp + 208], xmm13",
        "movups [rsp + 224], xmm14",
        "movups [rsp + 240], xmm15",
        "call {judge}",
        "movups xmm0, [rsp]",
        "movups xmm1, [rsp + 16]",
        "movups xmm2, [rsp + 32]",
        "movups xmm3, [rsp + 48]",
        "movups xmm4, [rsp + 64]",
        "movups xmm5, [rsp + 80]",
        "movups xmm6, [rsp + 96]",
        "movups xmm7, [rsp + 112]",
        "movups xmm8, [rsp + 128]",
        "movups xmm9, [rsp + 144]",
        "movups xmm10, [rsp + 160]",
        "movups xmm11, [rsp + 176]",
        "movups xmm12, [rsp + 192]",
        "movups xmm13, [rsp + 208]",
        "movups xmm14, [rsp + 224]",
        "movups xmm15, [rsp + 240]",
        "add rsp, 256",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "pop rcx",
        "pop rax",
        "ret",
        judge = sym judge,
    )
}

/// # Safety
/// As for [`ask`].
unsafe extern "C" fn judge(
    block: *mut BlockFrame,
    warp: *mut WarpFrame,
    at: u64,
    mask: u32,
    access: *const Reach,
) {
    // SAFETY: the frames stand at the start of the block and of the warp, and `runner` is the block; the access
    // and the addresses lie in the compiled code's own tables and frame.
    let refused = unsafe {
        let block = (*block).runner.cast::<BlockRun>();
        let warp = warp.cast::<Warp>();
        let access = *access;
        let x = (*block).context(warp, mask, access.pc);
        let deed = match (*block).facts().code().steps[access.pc as usize].inst {
            Inst::Load { order: Order::Weak, .. } => Access::Read,
            Inst::Store { order: Order::Weak, .. } => Access::Write,
            _ => Access::Atomic,
        };
        lanes_of(mask)
            .try_for_each(|lane| {
                let base = match access.stride {
                    Some(stride) => at.wrapping_add((stride as u64).wrapping_mul(lane as u64)),
                    None => std::ptr::with_exposed_provenance::<u64>(at as usize).add(lane).read(),
                };
                reach::one(&x, lane, base.wrapping_add(access.offset as u64), access.bytes, deed)
            })
            .is_err()
    };
    if refused {
        // SAFETY: the fault lies in the block; frames up to the guarded call own nothing.
        unsafe { guard::leave_call() }
    }
}
