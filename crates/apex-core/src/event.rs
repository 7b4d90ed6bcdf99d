//! What happened, in 64 bytes.
//!
//! An [`Event`] is packed into a [`Record`] of eight words, so that one cache line holds one event
//! and a thread can write it without a lock. Word 0 carries a check over the other words and the
//! record's position in its ring: a reader believes a record only if its check holds, so neither
//! a torn write nor a program that scribbles over its own ring can make it believe anything else.
//!
//! Handles and addresses are kept as the program gave them; which host memory was pinned, which
//! direction a unified copy took, and how long an object lived are worked out by the reader, so that
//! the program never pays for it.

/// A driver function, by its place in the function table of `apex-cuda`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u16);

/// A kernel of one process; the facts file of that process says what it is. Zero means unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KernelId(pub u32);

/// What every event carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The driver function that was called.
    pub call: CallId,
    /// The driver's answer (`CUresult`), untouched.
    pub result: u16,
    /// Clock reading just before the driver was called; [`crate::pace::UNREAD`] for a launch that did not
    /// read the clock.
    pub start: u64,
    /// Clock ticks spent in the driver; 0 for a launch whose end was not read.
    pub ticks: u64,
    /// Device ordinal; 255 when not known.
    pub device: u8,
    /// Number of the context within the process; 0 when none was current.
    pub context: u16,
    /// The stream handle: 0 and 1 legacy default, 2 per-thread default.
    pub stream: u64,
}

/// Grid, block and cluster of one launch, with its dynamic shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaunchShape {
    /// Blocks in x, y, z. The driver allows 2^31-1, 65535, 65535; of a launch that it refuses for more, the
    /// low 16 bits of y and z are kept.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u16; 3],
    /// Blocks of a cluster in x, y, z; zeros where none was asked for.
    pub cluster: [u8; 3],
    /// Dynamic shared memory in bytes.
    pub dynamic_shared: u32,
}

/// One kernel launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Which kernel.
    pub kernel: KernelId,
    /// Its shape.
    pub shape: LaunchShape,
    /// Launched through a cooperative entry or attribute.
    pub cooperative: bool,
    /// The stream was being captured: a graph node was made and nothing ran.
    pub captured: bool,
}

/// One copy. `from` and `to` are addresses, or array handles where the call takes arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// What the call itself says of the direction.
    pub direction: Direction,
    /// The call may return before the copy is done.
    pub asynchronous: bool,
    /// A graph node was made and nothing was copied yet.
    pub captured: bool,
    /// Destination.
    pub to: u64,
    /// Source.
    pub from: u64,
    /// Bytes.
    pub bytes: u64,
}

/// One memset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set {
    /// The call may return before the memory is set.
    pub asynchronous: bool,
    /// A graph node was made and nothing was set yet.
    pub captured: bool,
    /// Destination.
    pub to: u64,
    /// The value written.
    pub value: u32,
    /// Bytes.
    pub bytes: u64,
}

/// Creation or end of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// What kind of object.
    pub object: ObjectKind,
    /// `true` when it was made, `false` when it ended.
    pub begins: bool,
    /// Its handle; for a thread, the kernel's thread id.
    pub handle: u64,
    /// Flags it was made with.
    pub flags: u32,
    /// Priority of a stream.
    pub priority: i32,
}

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $code:literal $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name { $($(#[$vdoc])* $variant = $code),+ }

        impl $name {
            /// Every value, in the order of its code.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The value with this code.
            #[must_use]
            pub fn from_code(code: u8) -> Option<$name> {
                match code { $($code => Some($name::$variant),)+ _ => None }
            }

            /// The value's code in a record.
            #[inline]
            #[must_use]
            pub fn code(self) -> u8 { self as u8 }

            /// The word used for it in reports and files.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
        }
    };
}

codes! {
    /// Direction of a copy as the call states it.
    Direction {
        /// The call does not say (`cuMemcpy`, `cuMemcpyAsync`): the reader looks at the addresses.
        Unstated = 0 "unstated",
        /// Host memory to device memory.
        HostToDevice = 1 "host-to-device",
        /// Device memory to host memory.
        DeviceToHost = 2 "device-to-host",
        /// Within one device.
        DeviceToDevice = 3 "device-to-device",
        /// Between two devices or contexts.
        Peer = 4 "peer",
        /// Host memory to host memory.
        HostToHost = 5 "host-to-host",
    }
}

codes! {
    /// Where an allocation came from.
    AllocKind {
        /// `cuMemAlloc` and its pitched form.
        Plain = 0 "plain",
        /// Stream-ordered, from the device's current pool.
        Async = 1 "async",
        /// Stream-ordered, from a named pool.
        Pool = 2 "pool",
        /// Managed memory.
        Managed = 3 "managed",
        /// Pinned host memory.
        Host = 4 "host",
        /// Host memory of the program that was pinned afterwards.
        Registered = 5 "registered",
        /// Address range reserved by the virtual-memory calls.
        Reserved = 6 "reserved",
        /// Physical memory made by the virtual-memory calls.
        Physical = 7 "physical",
        /// Physical memory mapped into a reserved range.
        Mapped = 8 "mapped",
        /// Arrays and mipmapped arrays.
        Array = 9 "array",
    }
}

codes! {
    /// What a synchronisation waited for.
    SyncKind {
        /// Everything in a context.
        Context = 0 "context",
        /// One stream.
        Stream = 1 "stream",
        /// One event.
        Event = 2 "event",
    }
}

codes! {
    /// Objects whose life is recorded.
    ObjectKind {
        /// A thread of the program that began to call the driver; first event of each ring's owner.
        Thread = 0 "thread",
        /// A context.
        Context = 1 "context",
        /// A stream.
        Stream = 2 "stream",
        /// An event of the driver.
        Event = 3 "event",
        /// A module.
        Module = 4 "module",
        /// A library.
        Library = 5 "library",
        /// A graph made ready to launch.
        GraphExec = 6 "graph-exec",
        /// A memory pool.
        Pool = 7 "pool",
    }
}

codes! {
    /// How a GPU time came about.
    TimeBasis {
        /// An event pair on a stream that was still busy: the kernel's time plus about a microsecond.
        EventPair = 0 "event-pair",
        /// An event pair on a stream that had run dry, the launch's time on the host taken off: an upper
        /// bound, by a few microseconds.
        EventPairIdle = 1 "event-pair-idle",
        /// CUPTI's activity record: the hardware's own times.
        Cupti = 2 "cupti",
    }
}

/// What kind of thing happened, with its particulars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A kernel was launched.
    Launch(Launch),
    /// A graph was launched: its number, its kernel nodes, all its nodes.
    GraphLaunch {
        /// Number of the executable graph within the process.
        graph: u32,
        /// Kernels that one launch of it runs.
        kernels: u64,
        /// All nodes.
        nodes: u64,
        /// Launched into a stream under capture: it became a node itself.
        captured: bool,
    },
    /// Memory was obtained.
    Alloc {
        /// How.
        kind: AllocKind,
        /// Where.
        address: u64,
        /// How much.
        bytes: u64,
    },
    /// Memory was given back.
    Free {
        /// As the call states it.
        kind: AllocKind,
        /// Where.
        address: u64,
        /// How much, where the call says so; else 0.
        bytes: u64,
    },
    /// Memory was copied.
    Copy(Copy),
    /// Memory was set.
    Set(Set),
    /// The program waited; `Head::ticks` says how long.
    Sync {
        /// For what.
        kind: SyncKind,
        /// Its handle.
        object: u64,
    },
    /// An object began or ended.
    Life(Life),
    /// Code was loaded; `Head::ticks` holds the time it took, just-in-time compilation included.
    Load {
        /// Module or library.
        object: ObjectKind,
        /// Number of the image within the process (see the facts file).
        image: u32,
        /// The handle it got.
        handle: u64,
        /// Bytes of the image.
        bytes: u64,
        /// Hash of the image.
        hash: u64,
    },
    /// How long the GPU took. `Head::start` is the launch's clock reading (for CUPTI: the kernel's
    /// own start on our clock).
    GpuTime {
        /// The kernel; zero for a whole graph.
        kernel: KernelId,
        /// Its shape; for a graph `grid[0]` is the graph's number.
        shape: LaunchShape,
        /// Nanoseconds on the GPU.
        nanos: u64,
        /// Where the number comes from.
        basis: TimeBasis,
    },
    /// Pointers that the launch before it on this thread passed; recorded where detail is asked for. Zeros
    /// stand for none. Which of them lie in device memory is worked out by the reader.
    Passed {
        /// The kernel.
        kernel: KernelId,
        /// Values of eight bytes that can be addresses, below 2^48, in the order of the parameters.
        pointers: [u64; POINTERS],
    },
    /// What the upload before it on this thread copied; recorded where detail is asked for.
    Contents {
        /// Destination.
        to: u64,
        /// Bytes copied.
        bytes: u64,
        /// Digest of the bytes looked at.
        digest: u64,
        /// All bytes were looked at, and not a sample of them.
        whole: bool,
    },
    /// A call that is recorded for its count and time alone.
    Other,
}

/// Pointers of one launch that are kept.
pub const POINTERS: usize = 5;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What every event carries.
    pub head: Head,
    /// What happened.
    pub what: What,
}

/// One event as it lies in the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Record(pub [u64; WORDS]);

/// Words of a record.
pub const WORDS: usize = 8;
/// Bytes of a record.
pub const RECORD_BYTES: usize = WORDS * 8;

const KIND_LAUNCH: u8 = 1;
const KIND_GRAPH_LAUNCH: u8 = 2;
const KIND_ALLOC: u8 = 3;
const KIND_FREE: u8 = 4;
const KIND_COPY: u8 = 5;
const KIND_SET: u8 = 6;
const KIND_SYNC: u8 = 7;
const KIND_LIFE: u8 = 8;
const KIND_LOAD: u8 = 9;
const KIND_GPU_TIME: u8 = 10;
const KIND_OTHER: u8 = 11;
const KIND_PASSED: u8 = 20;
const KIND_CONTENTS: u8 = 21;

const FLAG_FIRST: u32 = 1;
const FLAG_CAPTURED: u32 = 2;

// Word 0: check 32 | call 16 | result 16.   Word 1: start.   Word 2: ticks.
// Word 3: kind 8 | device 8 | context 16 | subject 32.   Word 4: stream.   Words 5..7: particulars.
impl Event {
    /// Packs the event for `position` of its ring.
    #[inline(always)]
    #[must_use]
    pub fn pack(&self, position: u64) -> Record {
        let (kind, subject, rest) = match self.what {
            What::Launch(launch) => {
                let [grid, block, tail] = pack_shape(&launch.shape);
                let flags = u64::from(launch.cooperative) | u64::from(launch.captured) << 1;
                (KIND_LAUNCH, launch.kernel.0, [grid, block, tail | flags << 40])
            }
            What::GraphLaunch { graph, kernels, nodes, captured } => {
                (KIND_GRAPH_LAUNCH, graph, [kernels, nodes, u64::from(captured)])
            }
            What::Alloc { kind, address, bytes } => {
                (KIND_ALLOC, u32::from(kind.code()), [address, bytes, 0])
            }
            What::Free { kind, address, bytes } => {
                (KIND_FREE, u32::from(kind.code()), [address, bytes, 0])
            }
            What::Copy(copy) => {
                let subject =
                    u32::from(copy.direction.code()) << 8 | flags(copy.asynchronous, copy.captured);
                (KIND_COPY, subject, [copy.to, copy.from, copy.bytes])
            }
            What::Set(set) => {
                let subject = flags(set.asynchronous, set.captured);
                (KIND_SET, subject, [set.to, u64::from(set.value), set.bytes])
            }
            What::Sync { kind, object } => (KIND_SYNC, u32::from(kind.code()), [object, 0, 0]),
            What::Life(life) => {
                let subject = u32::from(life.object.code()) << 8 | u32::from(life.begins);
                let made = u64::from(life.flags) << 32 | u64::from(life.priority.cast_unsigned());
                (KIND_LIFE, subject, [life.handle, made, 0])
            }
            What::Load { object, image, handle, bytes, hash } => {
                // An image has fewer than 2^56 bytes: the top byte holds the kind of object.
                let size = bytes & BYTES_OF_IMAGE | u64::from(object.code()) << 56;
                (KIND_LOAD, image, [handle, size, hash])
            }
            What::GpuTime { kernel, shape, nanos: _, basis } => {
                let [grid, block, tail] = pack_shape(&shape);
                (KIND_GPU_TIME, kernel.0, [grid, block, tail | u64::from(basis.code()) << 40])
            }
            What::Passed { kernel, pointers } => {
                let [_, rest @ ..] = pack_pointers(&pointers);
                (KIND_PASSED, kernel.0, rest)
            }
            What::Contents { to, bytes, digest, whole } => {
                (KIND_CONTENTS, u32::from(whole), [to, bytes, digest])
            }
            What::Other => (KIND_OTHER, 0, [0, 0, 0]),
        };
        // The GPU's time takes the place of the driver's: a sample has no driver call of its own.
        let ticks = match self.what {
            What::GpuTime { nanos, .. } => nanos,
            What::Passed { pointers, .. } => pack_pointers(&pointers)[0],
            _ => self.head.ticks,
        };
        let named = u64::from(self.head.call.0) << 32 | u64::from(self.head.result) << 48;
        let place = u64::from(kind)
            | u64::from(self.head.device) << 8
            | u64::from(self.head.context) << 16
            | u64::from(subject) << 32;
        let mut words =
            [named, self.head.start, ticks, place, self.head.stream, rest[0], rest[1], rest[2]];
        words[0] |= u64::from(check(&words, position));
        Record(words)
    }

    /// Unpacks a record read at `position`, or refuses it if its check or any code is wrong.
    #[must_use]
    #[expect(clippy::too_many_lines, reason = "a table: one entry for each kind of record")]
    pub fn unpack(record: &Record, position: u64) -> Option<Event> {
        let mut words = record.0;
        #[expect(clippy::cast_possible_truncation, reason = "the check is the low half of word 0")]
        let found = words[0] as u32;
        words[0] &= !0xffff_ffff;
        if found != check(&words, position) {
            return None;
        }
        let [named, start, ticks, place, stream, a, b, c] = words;
        let bytes = place.to_le_bytes();
        let subject = u32_at(place, 32);
        let low = subject.to_le_bytes()[0];
        let second = subject.to_le_bytes()[1];
        let mut head = Head {
            call: CallId(u16_at(named, 32)),
            result: u16_at(named, 48),
            start,
            ticks,
            device: bytes[1],
            context: u16_at(place, 16),
            stream,
        };
        let what = match bytes[0] {
            KIND_LAUNCH => What::Launch(Launch {
                kernel: KernelId(subject),
                shape: unpack_shape(a, b, c),
                cooperative: c >> 40 & 1 == 1,
                captured: c >> 41 & 1 == 1,
            }),
            KIND_GRAPH_LAUNCH => {
                What::GraphLaunch { graph: subject, kernels: a, nodes: b, captured: c & 1 == 1 }
            }
            KIND_ALLOC => What::Alloc { kind: AllocKind::from_code(low)?, address: a, bytes: b },
            KIND_FREE => What::Free { kind: AllocKind::from_code(low)?, address: a, bytes: b },
            KIND_COPY => What::Copy(Copy {
                direction: Direction::from_code(second)?,
                asynchronous: subject & FLAG_FIRST != 0,
                captured: subject & FLAG_CAPTURED != 0,
                to: a,
                from: b,
                bytes: c,
            }),
            KIND_SET => What::Set(Set {
                asynchronous: subject & FLAG_FIRST != 0,
                captured: subject & FLAG_CAPTURED != 0,
                to: a,
                value: u32_at(b, 0),
                bytes: c,
            }),
            KIND_SYNC => What::Sync { kind: SyncKind::from_code(low)?, object: a },
            KIND_LIFE => What::Life(Life {
                object: ObjectKind::from_code(second)?,
                begins: low & 1 == 1,
                handle: a,
                flags: u32_at(b, 32),
                priority: u32_at(b, 0).cast_signed(),
            }),
            KIND_LOAD => What::Load {
                object: ObjectKind::from_code(b.to_le_bytes()[7])?,
                image: subject,
                handle: a,
                bytes: b & BYTES_OF_IMAGE,
                hash: c,
            },
            KIND_GPU_TIME => {
                head.ticks = 0;
                What::GpuTime {
                    kernel: KernelId(subject),
                    shape: unpack_shape(a, b, c),
                    nanos: ticks,
                    basis: TimeBasis::from_code(c.to_le_bytes()[5])?,
                }
            }
            KIND_PASSED => {
                head.ticks = 0;
                What::Passed {
                    kernel: KernelId(subject),
                    pointers: unpack_pointers([ticks, a, b, c]),
                }
            }
            KIND_CONTENTS => What::Contents { to: a, bytes: b, digest: c, whole: low & 1 == 1 },
            KIND_OTHER => What::Other,
            _ => return None,
        };
        Some(Event { head, what })
    }
}

const BYTES_OF_IMAGE: u64 = (1 << 56) - 1;

/// Four pointers in the low 48 bits of a word each; the fifth in the high bits of the first three.
#[inline]
fn pack_pointers(pointers: &[u64; POINTERS]) -> [u64; 4] {
    let [a, b, c, d, last] = pointers.map(|pointer| pointer & POINTER_BITS);
    [a | last << 48, b | last >> 16 << 48, c | last >> 32 << 48, d]
}

fn unpack_pointers(words: [u64; 4]) -> [u64; POINTERS] {
    let [a, b, c, d] = words;
    let last = a >> 48 | b >> 48 << 16 | c >> 48 << 32;
    [a & POINTER_BITS, b & POINTER_BITS, c & POINTER_BITS, d & POINTER_BITS, last]
}

const POINTER_BITS: u64 = (1 << 48) - 1;

#[inline]
fn flags(first: bool, captured: bool) -> u32 {
    (if first { FLAG_FIRST } else { 0 }) | (if captured { FLAG_CAPTURED } else { 0 })
}

/// Grid in one word, block and cluster in the next, the rest below bit 40 of the third.
#[inline]
fn pack_shape(shape: &LaunchShape) -> [u64; 3] {
    let [grid_x, grid_y, grid_z] = shape.grid;
    let narrow = |blocks: u32| u64::from(blocks & 0xffff);
    let [block_x, block_y, block_z] = shape.block.map(u64::from);
    let [cluster_x, cluster_y, cluster_z] = shape.cluster.map(u64::from);
    [
        u64::from(grid_x) | narrow(grid_y) << 32 | narrow(grid_z) << 48,
        block_x | block_y << 16 | block_z << 32 | cluster_x << 48 | cluster_y << 56,
        u64::from(shape.dynamic_shared) | cluster_z << 32,
    ]
}

fn unpack_shape(grid: u64, block: u64, tail: u64) -> LaunchShape {
    let sides = block.to_le_bytes();
    LaunchShape {
        grid: [u32_at(grid, 0), u32::from(u16_at(grid, 32)), u32::from(u16_at(grid, 48))],
        block: [u16_at(block, 0), u16_at(block, 16), u16_at(block, 32)],
        cluster: [sides[6], sides[7], tail.to_le_bytes()[4]],
        dynamic_shared: u32_at(tail, 0),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "picks 16 bits out of a word")]
fn u16_at(word: u64, bit: u32) -> u16 {
    (word >> bit) as u16
}

#[expect(clippy::cast_possible_truncation, reason = "picks 32 bits out of a word")]
fn u32_at(word: u64, bit: u32) -> u32 {
    (word >> bit) as u32
}

/// A 32-bit check over all words (the check's own half zeroed) and the position in the ring. Each word is
/// turned by another amount, so that words that changed places or differ alike do not cancel; one
/// multiplication spreads what remains. It must be cheap: it stands on the way of every launch.
#[inline(always)]
fn check(words: &[u64; WORDS], position: u64) -> u32 {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    const PLACE: u64 = 0xd6e8_feb8_6659_fd93;
    let [a, b, c, d, e, f, g, h] = *words;
    let early = a ^ b.rotate_left(9) ^ c.rotate_left(18) ^ d.rotate_left(27);
    let late = e.rotate_left(36) ^ f.rotate_left(45) ^ g.rotate_left(54) ^ h.rotate_left(61);
    let mixed = early ^ late ^ position.wrapping_add(1).wrapping_mul(PLACE);
    u32_at(mixed.wrapping_mul(SPREAD), 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[expect(clippy::too_many_lines, reason = "a table: one entry for each kind of event")]
    fn any_event() -> impl Strategy<Value = Event> {
        let head = (any::<u16>(), any::<u16>(), any::<u64>(), any::<u64>(), any::<u8>())
            .prop_flat_map(|(call, result, start, ticks, device)| {
                (any::<u16>(), any::<u64>()).prop_map(move |(context, stream)| Head {
                    call: CallId(call),
                    result,
                    start,
                    ticks,
                    device,
                    context,
                    stream,
                })
            });
        let shape =
            (any::<u32>(), any::<[u16; 2]>(), any::<[u16; 3]>(), any::<[u8; 3]>(), any::<u32>())
                .prop_map(|(x, [y, z], block, cluster, dynamic_shared)| LaunchShape {
                    grid: [x, u32::from(y), u32::from(z)],
                    block,
                    cluster,
                    dynamic_shared,
                });
        let what = prop_oneof![
            (any::<u32>(), shape.clone(), any::<bool>(), any::<bool>()).prop_map(
                |(kernel, shape, cooperative, captured)| What::Launch(Launch {
                    kernel: KernelId(kernel),
                    shape,
                    cooperative,
                    captured
                })
            ),
            (any::<u32>(), any::<u64>(), any::<u64>(), any::<bool>()).prop_map(
                |(graph, kernels, nodes, captured)| What::GraphLaunch {
                    graph,
                    kernels,
                    nodes,
                    captured
                }
            ),
            (0..10_u8, any::<u64>(), any::<u64>(), any::<bool>()).prop_map(
                |(kind, address, bytes, alloc)| {
                    let kind = AllocKind::from_code(kind).unwrap();
                    if alloc {
                        What::Alloc { kind, address, bytes }
                    } else {
                        What::Free { kind, address, bytes }
                    }
                }
            ),
            (0..6_u8, any::<[bool; 2]>(), any::<[u64; 3]>()).prop_map(
                |(direction, [asynchronous, captured], [to, from, bytes])| What::Copy(Copy {
                    direction: Direction::from_code(direction).unwrap(),
                    asynchronous,
                    captured,
                    to,
                    from,
                    bytes
                })
            ),
            (0..8_u8, any::<bool>(), any::<u64>(), any::<u32>(), any::<i32>()).prop_map(
                |(object, begins, handle, flags, priority)| What::Life(Life {
                    object: ObjectKind::from_code(object).unwrap(),
                    begins,
                    handle,
                    flags,
                    priority
                })
            ),
            (any::<u32>(), any::<u64>(), 0..BYTES_OF_IMAGE, any::<u64>()).prop_map(
                |(image, handle, bytes, hash)| What::Load {
                    object: ObjectKind::Module,
                    image,
                    handle,
                    bytes,
                    hash
                }
            ),
            (any::<u32>(), shape, any::<u64>(), 0..3_u8).prop_map(
                |(kernel, shape, nanos, basis)| What::GpuTime {
                    kernel: KernelId(kernel),
                    shape,
                    nanos,
                    basis: TimeBasis::from_code(basis).unwrap()
                }
            ),
            (any::<u32>(), any::<[u64; POINTERS]>()).prop_map(|(kernel, pointers)| What::Passed {
                kernel: KernelId(kernel),
                pointers: pointers.map(|pointer| pointer & POINTER_BITS)
            }),
            (any::<[u64; 3]>(), any::<bool>()).prop_map(|([to, bytes, digest], whole)| {
                What::Contents { to, bytes, digest, whole }
            }),
            Just(What::Other),
        ];
        (head, what).prop_map(|(mut head, what)| {
            if matches!(what, What::GpuTime { .. } | What::Passed { .. }) {
                head.ticks = 0;
            }
            Event { head, what }
        })
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(event in any_event(), position in any::<u64>()) {
            prop_assert_eq!(Event::unpack(&event.pack(position), position), Some(event));
        }

        #[test]
        fn a_record_at_another_position_is_refused(event in any_event(), position in 0..u64::MAX) {
            prop_assert_eq!(Event::unpack(&event.pack(position), position + 1), None);
        }

        #[test]
        fn a_record_torn_at_any_word_is_refused(
            old in any_event(), new in any_event(), position in any::<u64>(), cut in 1..WORDS,
        ) {
            let (old, new) = (old.pack(position), new.pack(position));
            let mut torn = old;
            torn.0[..cut].copy_from_slice(&new.0[..cut]);
            prop_assume!(torn != old && torn != new);
            prop_assert_eq!(Event::unpack(&torn, position), None);
        }

        #[test]
        fn a_flipped_bit_is_refused(
            event in any_event(), position in any::<u64>(), bit in 0..WORDS * 64,
        ) {
            let mut record = event.pack(position);
            record.0[bit / 64] ^= 1 << (bit % 64);
            prop_assert_eq!(Event::unpack(&record, position), None);
        }

        #[test]
        fn noise_is_refused(words in any::<[u64; WORDS]>(), position in any::<u64>()) {
            prop_assert_eq!(Event::unpack(&Record(words), position), None);
        }
    }

    #[test]
    fn a_record_is_one_cache_line() {
        assert_eq!(size_of::<Record>(), 64);
        assert_eq!(RECORD_BYTES, 64);
    }
}
