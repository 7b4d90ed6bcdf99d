//! What becomes of rewritten forms: their times are judged, and what was found is told and kept.

use super::kernels::{self, EARLY, Kernel, Known};
use super::numbers::described;
use super::past::{self, Past, Stood};
use super::{Told, beneath, images, room, tell};
use crate::counts::COUNTERS;
use apex_cuda::types::*;
use apex_policy::duel::{Form, Verdict};
use apex_policy::specialise::{Earlier, Proven};
use apex_ptx::specialise::alone;
use core::ptr::null_mut;
use std::sync::atomic::Ordering;

/// Forms of a kernel that are kept for later processes.
const MOST_KEPT: usize = 16;

/// Judges all times that have become known. Says whether any form has won or lost.
pub(super) fn judge(known: &mut Known) -> bool {
    let mut is_decided = false;
    while let Some((nth, form, nanos)) = known.timing.known() {
        is_decided |= judge_one(known, nth, form, nanos);
    }
    is_decided
}

fn judge_one(known: &mut Known, nth: usize, form: Form, nanos: u64) -> bool {
    if form == Form::Original && (known.original_ns == 0 || nanos < known.original_ns) {
        known.original_ns = nanos.max(1);
    }
    let Some(variant) = known.variants.get_mut(nth).filter(|_| nth != EARLY) else { return false };
    if let Some(proof) = &mut variant.proof {
        proof.took(nanos);
    }
    let before = variant.duel.verdict();
    let verdict = variant.duel.took(form, nanos);
    let (original, rewritten) = variant.duel.medians().unwrap_or_default();
    variant.gain = match verdict {
        Verdict::Won => original.saturating_sub(rewritten),
        Verdict::Open | Verdict::Lost => 0,
    };
    if verdict == before {
        return false;
    }
    let (counter, word) = match verdict {
        Verdict::Won => (&COUNTERS.rewritten_won, "won"),
        Verdict::Lost | Verdict::Open => (&COUNTERS.rewritten_lost, "lost"),
    };
    counter.fetch_add(1, Ordering::Relaxed);
    known.is_new = true;
    told(known, nth, word, "");
    true
}

/// A rewritten form is never launched again, or never at all.
#[cold]
pub(super) fn drop_variant(known: &mut Known, nth: usize, why: &str) {
    if let Some(variant) = known.variants.get_mut(nth).filter(|variant| !variant.is_refused) {
        variant.is_refused = true;
        known.is_new = true;
        COUNTERS.rewritten_lost.fetch_add(1, Ordering::Relaxed);
        told(known, nth, "refused", why);
    }
}

/// What became of a rewritten form: why, or what was written into it.
pub(super) fn told(known: &Known, nth: usize, outcome: &'static str, why: &str) {
    let Some(variant) = known.variants.get(nth) else { return };
    let (original_ns, rewritten_ns) = variant.duel.medians().unwrap_or_default();
    let what =
        if why.is_empty() { described(&known.fields, &variant.numbers) } else { why.to_owned() };
    tell(&Told { kernel: known.name.clone(), outcome, what, original_ns, rewritten_ns });
}

/// Keeps how the forms of a kernel stand, for later processes.
pub(super) fn keep(known: &mut Known) {
    if !known.is_new || !past::is_kept() {
        return;
    }
    known.is_new = false;
    let Some((owner, module)) = &known.text else { return };
    let Ok(text) = alone(module, &known.name) else { return };
    let mut all: Vec<Past> =
        (0..known.variants.len()).filter_map(|nth| past_of(known, nth)).collect();
    let is_other = |past: &&Past| !known.variants.iter().any(|it| it.numbers == past.numbers);
    let others = known.past.iter().filter(is_other).cloned();
    all.extend(others.map(|past| Past { earlier: past_earlier(known, &past.earlier), ..past }));
    all.truncate(MOST_KEPT);
    past::remember(&known.key, &text, &all);
    if let Some(image) = images::digest(*owner) {
        let hopeful = all.iter().filter(|past| past.stood != Stood::Lost);
        let best = hopeful.map(|past| past.earlier).max_by_key(Earlier::expected_ns);
        past::name_kernel(&known.machine, image, &known.name, best);
    }
}

/// What is known now of a kernel whose form was not made here.
fn past_earlier(known: &Known, before: &Earlier) -> Earlier {
    let original_ns = if before.original_ns > 0 { before.original_ns } else { known.original_ns };
    Earlier { calls: known.calls.max(before.calls), original_ns, ..*before }
}

/// How a form stands; nothing where the driver refused it by chance of this process.
fn past_of(known: &Known, nth: usize) -> Option<Past> {
    let variant = known.variants.get(nth)?;
    let proven = variant.proof.as_ref().map_or(Proven::Equal, |proof| proof.verdict());
    let stood = match (variant.duel.verdict(), proven) {
        (_, Proven::Differs) | (Verdict::Lost, _) => Stood::Lost,
        _ if variant.is_refused => return None,
        (Verdict::Won, _) => Stood::Won,
        (Verdict::Open, _) => Stood::Open,
    };
    let before = known.past.iter().find(|past| past.numbers == variant.numbers);
    let before = before.map(|past| past.earlier).unwrap_or_default();
    let (original, rewritten) = variant.duel.medians().unwrap_or_default();
    let timed = [original, known.original_ns, before.original_ns];
    let earlier = Earlier {
        has_won: stood == Stood::Won,
        // A process may end before it has called as often as others.
        calls: known.calls.max(before.calls),
        original_ns: timed.into_iter().find(|nanos| *nanos > 0).unwrap_or(0),
        rewritten_ns: rewritten,
        cost_ns: known.study_ns + variant.cost_ns,
    };
    let (threads, shared) = variant.shape;
    let (is_equal, numbers) = (proven == Proven::Equal, variant.numbers.clone());
    Some(Past { stood, is_equal, earlier, threads, shared, numbers })
}

/// Code or a context is about to end, or the process: what can be known by now is judged and kept.
pub(super) fn conclude() {
    for kernel in kernels::all() {
        let Ok(mut known) = kernel.known.try_lock() else { continue };
        if known.variants.is_empty() && known.past.is_empty() || kernel.is_forgotten() {
            continue;
        }
        let mut popped = null_mut();
        // SAFETY: the context that the kernel was launched in, which has not ended; what was pushed is popped.
        unsafe {
            if (beneath().cuCtxPushCurrent_v2)(known.context as CUcontext) == CUDA_SUCCESS {
                judge(&mut known);
                (beneath().cuCtxPopCurrent_v2)(&raw mut popped);
            }
        }
        hear(kernel, &mut known);
        // How often it is called decides whether another process waits for its forms.
        let calls = known.calls;
        known.is_new |= known.past.iter().all(|past| past.earlier.calls < calls / 2);
        keep(&mut known);
    }
}

/// Comparisons that have ended since the last launch.
fn hear(kernel: &Kernel, known: &mut Known) {
    for (nth, variant) in known.variants.iter_mut().enumerate() {
        if let Some(proof) = &mut variant.proof
            && let Some(finding) = room::finding((kernel.handle, nth))
        {
            proof.found(finding);
        }
    }
}
