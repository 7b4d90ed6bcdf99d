//! Where a launch's bytes go when it runs on copies of them.
//!
//! What a launch touches is a range in each of some allocations. Each range gets a place in a room of apex's own, and the
//! pointers among the parameters are moved with it. It is taken for granted, as everywhere, that a kernel does not leave
//! the allocation that its pointer points into. Then it is worked out again what the moved launch touches: only if each
//! access has moved exactly as its pointer did can it run there without harm, whatever the bytes are.

use apex_ptx::touches::{Kind, Shape, Span, Touches};
use std::ops::Range;

/// Bytes of a room that one form may take.
const MOST_BYTES: u64 = 512 << 20;
/// Ranges keep their place within so many bytes, so that wide loads find them as they were.
const ALIGNMENT: u64 = 256;
/// A pointer this near the end of an allocation may mean the next one.
const NEAR_END: u64 = 4096;
/// Bytes before, between and behind ranges: a program that reads a little beyond its memory does no harm in the room.
const MARGIN: u64 = 64 << 10;

/// What a comparison needs to know of a kernel.
pub(super) struct Comparable {
    touches: Touches,
    /// Offset and size of each parameter.
    places: Vec<(u32, u32)>,
}

/// A range of the program's memory and its place in the room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) bytes: Range<u64>,
    /// Bytes from the room's beginning.
    pub(super) at: u64,
}

/// How a launch is moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) regions: Vec<Region>,
    /// What it may write, in whole words: place in the room and bytes.
    pub(super) written: Vec<(u64, u64)>,
    /// Bytes of the room.
    pub(super) bytes: u64,
    /// The parameters as they are.
    packed: Vec<u8>,
    /// Where a pointer stands among them, and its place in the room.
    pointers: Vec<(u32, u64)>,
}

impl Comparable {
    /// `touches` of a kernel whose parameters lie there.
    pub(super) fn new(touches: Touches, places: Vec<(u32, u32)>) -> Comparable {
        Comparable { touches, places }
    }

    /// Offset and size of each parameter.
    pub(super) fn places(&self) -> &[(u32, u32)] {
        &self.places
    }

    /// How a launch can be moved; why it cannot. `folded` are the bytes of parameters that are written into a form.
    pub(super) fn plan(
        &self,
        shape: &Shape<'_>,
        folded: &[Range<u32>],
        allocation: &mut dyn FnMut(u64) -> Option<Range<u64>>,
    ) -> Result<Plan, String> {
        let spans = self.spans(shape, allocation)?;
        let mut wholes: Vec<Range<u64>> = Vec::new();
        let (mut regions, mut pointers, mut touched) =
            (Vec::<Region>::new(), Vec::new(), Vec::new());
        for span in &spans {
            // Variables of the module are read where they lie.
            let Some(offset) = span.pointer else { continue };
            let pointer = pointer(shape.parameters, offset).ok_or(NO_POINTER)?;
            let whole = allocation(pointer).ok_or("a pointer leads to no allocation")?;
            let bytes = within(span, pointer, &whole)?;
            if span.kind != Kind::Read {
                touched.push(bytes.clone());
            }
            // The pointer moves with what is touched of its allocation, and lies in the room itself.
            let bytes = bytes.start.min(pointer)..bytes.end.max(pointer + 1);
            match wholes.iter().position(|known| *known == whole) {
                Some(nth) => {
                    let known = &mut regions[nth].bytes;
                    *known = known.start.min(bytes.start)..known.end.max(bytes.end);
                }
                None => {
                    wholes.push(whole);
                    regions.push(Region { bytes, at: 0 });
                }
            }
            if folded.iter().any(|it| it.start < offset + 8 && offset < it.end) {
                return Err("a pointer is written into the form".to_owned());
            }
            pointers.push((offset, pointer));
        }
        if touched.is_empty() {
            return Err("nothing that it writes can be compared".to_owned());
        }
        let bytes = place(&mut regions)?;
        let moved = |address: u64| {
            let region = regions.iter().find(|it| it.bytes.contains(&address))?;
            Some(region.at + (address - region.bytes.start))
        };
        pointers.sort_unstable();
        pointers.dedup();
        let pointers =
            pointers.into_iter().map(|(offset, pointer)| Some((offset, moved(pointer)?)));
        let pointers = pointers.collect::<Option<Vec<_>>>().ok_or(NO_POINTER)?;
        let mut written = Vec::new();
        for bytes in touched {
            let begin = moved(bytes.start).ok_or(NO_POINTER)?;
            let end = begin + (bytes.end - bytes.start);
            written.push((begin / 4 * 4, end.next_multiple_of(4) - begin / 4 * 4));
        }
        written.sort_unstable();
        written.dedup();
        let packed = shape.parameters.to_vec();
        Ok(Plan { regions, written, bytes, packed, pointers })
    }

    /// The parameters of the launch that runs in a room there; `None` unless each of its accesses has moved as its pointer.
    pub(super) fn moved(
        &self,
        plan: &Plan,
        shape: &Shape<'_>,
        allocation: &mut dyn FnMut(u64) -> Option<Range<u64>>,
        room: u64,
    ) -> Option<Vec<u8>> {
        let before = self.spans(shape, allocation).ok()?;
        let mut packed = plan.packed.clone();
        for &(offset, at) in &plan.pointers {
            let begin = offset as usize;
            packed.get_mut(begin..begin + 8)?.copy_from_slice(&(room + at).to_le_bytes());
        }
        let place = |region: &Region| {
            let begin = room + region.at;
            begin..begin + (region.bytes.end - region.bytes.start)
        };
        let places: Vec<Range<u64>> = plan.regions.iter().map(place).collect();
        let mut found =
            |address: u64| places.iter().find(|place| place.contains(&address)).cloned();
        let after = self.spans(&Shape { parameters: &packed, ..*shape }, &mut found).ok()?;
        let same = |(one, other): (&Span, &Span)| {
            let Some(offset) = one.pointer else { return one == other };
            let way = |parameters: &[u8]| pointer(parameters, offset).map(i128::from);
            let Some((from, to)) = way(shape.parameters).zip(way(&packed)) else { return false };
            let is_moved =
                one.low + (to - from) == other.low && one.high + (to - from) == other.high;
            one.pointer == other.pointer
                && one.is_wild == other.is_wild
                && (one.is_wild || is_moved)
        };
        (before.len() == after.len() && before.iter().zip(&after).all(same)).then_some(packed)
    }

    fn spans(
        &self,
        shape: &Shape<'_>,
        allocation: &mut dyn FnMut(u64) -> Option<Range<u64>>,
    ) -> Result<Vec<Span>, String> {
        let unknown = |word: &str| format!("what it touches is not known: {word}");
        let spans = self.touches.spans(shape, allocation);
        let spans = spans.map_err(|barrier| unknown(barrier.word()))?;
        let writes = |span: &Span| span.pointer.is_none() && span.kind != Kind::Read;
        match spans.iter().any(writes) {
            true => Err("it writes a variable of its module".to_owned()),
            false => Ok(spans),
        }
    }
}

const NO_POINTER: &str = "a pointer was lost";

fn pointer(parameters: &[u8], offset: u32) -> Option<u64> {
    let bytes = parameters.get(offset as usize..offset as usize + 8)?;
    bytes.try_into().ok().map(u64::from_le_bytes)
}

/// What an access may touch of the allocation that its pointer points into.
fn within(span: &Span, pointer: u64, whole: &Range<u64>) -> Result<Range<u64>, String> {
    if span.is_wild {
        // A pointer to before the first element may lie in what stands before.
        if whole.end - pointer <= NEAR_END && whole.end - whole.start > 2 * NEAR_END {
            return Err("a pointer may belong to another allocation".to_owned());
        }
        return Ok(whole.clone());
    }
    let (begin, end) = (i128::from(whole.start), i128::from(whole.end));
    let (low, high) = (span.low.clamp(begin, end) as u64, span.high.clamp(begin, end) as u64);
    if low < high { Ok(low..high) } else { Err("what it touches lies elsewhere".to_owned()) }
}

/// Gives each range its place. Says how many bytes that takes.
fn place(regions: &mut [Region]) -> Result<u64, String> {
    let mut end = MARGIN;
    for region in regions {
        region.at = end.next_multiple_of(ALIGNMENT) + region.bytes.start % ALIGNMENT;
        end = region.at + (region.bytes.end - region.bytes.start) + MARGIN;
        if end > MOST_BYTES {
            return Err(format!("it touches more than {} MiB", MOST_BYTES >> 20));
        }
    }
    Ok(end.next_multiple_of(ALIGNMENT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice::from_ref;

    /// `out[i] = x[i] * a + x[i + 1]` for `i` below `n`, both buffers perhaps in one allocation.
    fn comparable() -> Comparable {
        let text = "
            .version 7.0
            .target sm_70
            .address_size 64
            .visible .entry k(.param .u64 x, .param .u64 out, .param .u32 n)
            {
                .reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<5>; .reg .b64 %d<8>;
                ld.param.u64 %d1, [x]; ld.param.u64 %d2, [out]; ld.param.u32 %r1, [n];
                mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
                mad.lo.s32 %r5, %r2, %r3, %r4;
                setp.ge.u32 %p1, %r5, %r1;
                @%p1 bra DONE;
                mul.wide.u32 %d3, %r5, 4; add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;
                ld.global.f32 %f1, [%d4]; ld.global.f32 %f2, [%d4+4];
                mul.f32 %f3, %f1, 0f40490fdb; add.f32 %f4, %f3, %f2;
                st.global.f32 [%d5], %f4;
            DONE: ret;
            }";
        let module = apex_ptx::parse(text).unwrap();
        let kernel = apex_ptx::specialise::entry(&module, "k").unwrap();
        Comparable::new(Touches::new(&module, kernel).unwrap(), vec![(0, 8), (8, 8), (16, 4)])
    }

    fn packed(x: u64, out: u64, n: u32) -> Vec<u8> {
        [x.to_le_bytes().to_vec(), out.to_le_bytes().to_vec(), n.to_le_bytes().to_vec()].concat()
    }

    #[test]
    fn a_launch_is_moved_with_all_it_touches() {
        let comparable = comparable();
        let parameters = packed(0x7000_0104, 0x7001_0000, 1000);
        let shape = Shape { grid: [4, 1, 1], block: [256, 1, 1], parameters: &parameters };
        let mut allocation = |address: u64| {
            let all = [0x7000_0000..0x7000_2000, 0x7001_0000..0x7001_1000];
            all.into_iter().find(|it: &Range<u64>| it.contains(&address))
        };
        let plan = comparable.plan(&shape, from_ref(&(16..20)), &mut allocation).unwrap();
        let sizes: Vec<u64> = plan.regions.iter().map(|it| it.bytes.end - it.bytes.start).collect();
        assert_eq!(sizes, [4004, 4000]);
        assert!(plan.regions.iter().all(|it| it.at % ALIGNMENT == it.bytes.start % ALIGNMENT));
        assert_eq!(plan.written, [(plan.regions[1].at, 4000)]);
        let moved = comparable.moved(&plan, &shape, &mut allocation, 0x9000_0000).unwrap();
        let at = |nth: usize| 0x9000_0000 + plan.regions[nth].at;
        assert_eq!(moved, packed(at(0), at(1), 1000));
        // A pointer that the form has as a number cannot be moved.
        assert!(comparable.plan(&shape, from_ref(&(8..16)), &mut allocation).is_err());
        // Neither can one to memory of which nothing is known.
        assert!(comparable.plan(&shape, &[], &mut |_| None).is_err());
    }

    #[test]
    fn what_lies_in_one_allocation_stays_together() {
        let comparable = comparable();
        let parameters = packed(0x7000_0000, 0x7000_1000, 1000);
        let shape = Shape { grid: [4, 1, 1], block: [256, 1, 1], parameters: &parameters };
        let mut allocation = |address: u64| {
            (0x7000_0000..0x7000_2000).contains(&address).then_some(0x7000_0000..0x7000_2000)
        };
        let plan = comparable.plan(&shape, &[], &mut allocation).unwrap();
        assert_eq!(plan.regions, [Region { bytes: 0x7000_0000..0x7000_1fa0, at: MARGIN }]);
        assert_eq!(plan.written, [(MARGIN + 0x1000, 4000)]);
        assert_eq!(
            comparable.moved(&plan, &shape, &mut allocation, 0x9000_0000),
            Some(packed(0x9000_0000 + MARGIN, 0x9000_1000 + MARGIN, 1000))
        );
    }

    #[test]
    fn too_much_is_not_copied() {
        let comparable = comparable();
        let parameters = packed(1 << 40, 1 << 41, 1 << 30);
        let shape = Shape { grid: [1 << 22, 1, 1], block: [256, 1, 1], parameters: &parameters };
        let mut allocation = |address: u64| {
            let begin = if address >= 1 << 41 { 1 << 41 } else { 1 << 40 };
            Some(begin..begin + (1_u64 << 33))
        };
        let refused = comparable.plan(&shape, &[], &mut allocation).unwrap_err();
        assert!(refused.contains("more than 512 MiB"), "{refused}");
    }
}
