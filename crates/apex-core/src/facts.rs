//! What is learned once and is too long for an event: kernels, images, graphs, devices, the process.
//!
//! Beside its rings each process appends facts to a text file, one line each:
//! `kernel id=3 name=saxpy registers=16`. A line is written with one call and counts only with its
//! newline, so a killed program leaves whole lines and at most one stump, which the reader skips.
//! Fields the reader does not know are passed over and missing ones are empty, so that an older
//! file stays readable. Spaces, newlines, `=` and `%` in a value are written as `%` and two hex digits.

use std::fmt::Write as _;

macro_rules! facts {
    ($($(#[$doc:meta])* $word:literal $name:ident {
        $($(#[$fdoc:meta])* $field:ident: $type:ty),+ $(,)?
    })+) => {
        $($(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name { $($(#[$fdoc])* pub $field: $type),+ })+

        /// One line of a facts file.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Fact { $($(#[$doc])* $name($name)),+ }

        impl Fact {
            /// The line, with its newline.
            #[must_use]
            pub fn line(&self) -> String {
                let mut line = String::new();
                match self {
                    $(Fact::$name(fact) => {
                        line.push_str($word);
                        $(line.push(' ');
                        line.push_str(stringify!($field));
                        line.push('=');
                        Field::write(&fact.$field, &mut line);)+
                    })+
                }
                line.push('\n');
                line
            }

            /// Reads one line without its newline; `None` if its first word is not known.
            #[must_use]
            pub fn parse(line: &str) -> Option<Fact> {
                let (word, fields) = line.split_once(' ').unwrap_or((line, ""));
                match word {
                    $($word => {
                        let mut fact = $name::default();
                        for (key, value) in fields.split(' ').filter_map(|f| f.split_once('=')) {
                            $(if key == stringify!($field) {
                                fact.$field = Field::read(value).unwrap_or_default();
                            })+
                        }
                        Some(Fact::$name(fact))
                    })+
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use facts;

facts! {
    /// The process itself; the first line.
    "process" Process {
        /// Process id.
        pid: u64,
        /// Id of its parent.
        parent: u64,
        /// Path of its executable.
        executable: String,
        /// Its arguments.
        arguments: Vec<String>,
        /// The driver's own version number, as `cuDriverGetVersion` gives it.
        driver_version: u64,
        /// Path of the driver that was loaded.
        driver_path: String,
        /// Whether the driver was the software GPU.
        soft: bool,
        /// Seconds since 1970 at the first CUDA call.
        started: u64,
    }
    /// A device, described when a context of it is first seen.
    "device" Device {
        /// Its ordinal in the process.
        ordinal: u64,
        /// Its name.
        name: String,
        /// Its UUID as hex digits.
        uuid: String,
        /// Compute capability, major.
        major: u64,
        /// Compute capability, minor.
        minor: u64,
        /// Multiprocessors.
        sms: u64,
        /// Registers of one multiprocessor.
        registers_per_sm: u64,
        /// Shared memory of one multiprocessor in bytes.
        shared_per_sm: u64,
        /// Shared memory one block may have when it asks for it.
        shared_per_block_optin: u64,
        /// Shared memory the driver keeps of each block's.
        reserved_shared_per_block: u64,
        /// Threads one multiprocessor holds.
        threads_per_sm: u64,
        /// Blocks one multiprocessor holds.
        blocks_per_sm: u64,
        /// Bytes of device memory.
        memory: u64,
        /// Bytes of second-level cache.
        l2: u64,
        /// Clock of the multiprocessors in kHz.
        clock_khz: u64,
        /// Clock of its memory in kHz.
        memory_clock_khz: u64,
        /// Bits of the bus to its memory.
        bus_bits: u64,
        /// Single-precision operations in the time of one of double precision.
        double_ratio: u64,
    }
    /// A context, by the number that events carry.
    "context" Context {
        /// Its number.
        id: u64,
        /// Its handle.
        handle: u64,
        /// Its device.
        device: u64,
    }
    /// A kernel, looked up once.
    "kernel" Kernel {
        /// Its number in this process.
        id: u64,
        /// Its mangled name.
        name: String,
        /// Registers per thread.
        registers: u64,
        /// Static shared memory in bytes.
        static_shared: u64,
        /// Dynamic shared memory a launch may ask for at present.
        max_dynamic_shared: u64,
        /// Local memory per thread in bytes.
        local: u64,
        /// Constant memory in bytes.
        constant: u64,
        /// Threads a block may have.
        max_threads: u64,
        /// Preferred carve-out of shared memory in per cent; -1 for the default.
        carveout: i64,
        /// PTX version it was built from, times ten.
        ptx_version: u64,
        /// Architecture of its machine code, times ten.
        binary_version: u64,
        /// Offset and size of each parameter, alternating.
        parameters: Vec<u64>,
        /// Number of its image in this process; 0 if it was loaded unseen.
        image: u64,
        /// Hash of its image; 0 if it was loaded unseen.
        image_hash: u64,
    }
    /// An image of code: a cubin, a fatbin or PTX.
    "image" Image {
        /// Its number in this process.
        id: u64,
        /// `cubin`, `fatbin`, `ptx` or `unknown`.
        kind: String,
        /// Bytes.
        bytes: u64,
        /// Hash.
        hash: u64,
        /// File it was loaded from, if it was one.
        file: String,
        /// Executable or library in whose memory it lies, if it lies in one.
        object: String,
        /// Where it lies there: bytes from where that begins in memory.
        within: u64,
    }
    /// What a launch passed: the first one of its kernel and shape, where launches are looked at closely.
    "passed" Passed {
        /// Number of the kernel.
        kernel: u64,
        /// Sides of grid, block and cluster, three each, and bytes of dynamic shared memory.
        shape: Vec<u64>,
        /// The parameters in their order, as far as they have eight bytes or fewer; 0 for others.
        values: Vec<u64>,
        /// Bytes of the allocation that each points to; 0 for what points to none.
        bytes: Vec<u64>,
        /// The words of eight bytes of longer parameters, one parameter after the other, as many as are looked at.
        inside: Vec<u64>,
        /// Bytes of the allocation that each of these points to.
        inside_bytes: Vec<u64>,
    }
    /// A graph made ready to launch.
    "graph" Graph {
        /// Its number in this process.
        id: u64,
        /// Kernel nodes, child graphs included.
        kernel_nodes: u64,
        /// All nodes.
        nodes: u64,
        /// Nodes whose body runs an unknown number of times (conditionals); their kernels are not counted.
        conditional_nodes: u64,
        /// Kernels may launch it again by themselves, as often as they like.
        device_launch: bool,
        /// Number and count of each kernel, alternating.
        kernels: Vec<u64>,
    }
    /// How near predictions inside the process came so far; a later one replaces it.
    "foresight" Foresight {
        /// Launches that were timed and predicted before.
        timed: u64,
        /// Those predicted within 10 %.
        near: u64,
        /// Guesses that an answer of the collector's models took the place of.
        answered: u64,
    }
    /// The program was made faster; what was done is counted beside its rings.
    "fast" Fast {
        /// What was switched on, as the words of `--fast`.
        words: String,
        /// Whether launches may wait in a queue: not where each call waits for its answer, nor with one processor.
        has_queue: bool,
    }
    /// What became of a kernel that was to be compiled again for what it is called with; a later one replaces it.
    "rewritten" Rewritten {
        /// Its name.
        kernel: String,
        /// `left`, `refused`, `tried`, `won` or `lost`.
        outcome: String,
        /// Why it was left alone or refused, or what was written into it.
        what: String,
        /// Median of the original in nanoseconds; 0 where it was not timed.
        original_ns: u64,
        /// Median of the rewritten one.
        rewritten_ns: u64,
    }
    /// What was found of launches that became a graph, with `--fast=overlap`: which of them depend on which.
    "sequence" Sequence {
        /// Its number in this process.
        id: u64,
        /// The numbers of their kernels, in the order of the launches.
        kernels: Vec<u64>,
        /// Of each launch `proven`, or why it is not known what it touches.
        reasons: Vec<String>,
        /// Three numbers for each edge that no others imply: the later launch, the earlier one, and the sum of 1 where it
        /// reads what the earlier writes, 2 where it writes what that reads, 4 where both write. 0 where all is thought.
        edges: Vec<u64>,
    }
    /// A sequence was launched with branches and as a chain until the faster form was known.
    "tried" Tried {
        /// The number of the sequence.
        sequence: u64,
        /// `won` where branches stay, `lost` where the chain does.
        outcome: String,
        /// Median of the chain in nanoseconds.
        chain_ns: u64,
        /// Median with branches.
        branches_ns: u64,
    }
    /// What the queue believes that its driver takes, in nanoseconds.
    "launch_costs" LaunchCosts {
        /// A launch.
        launch_ns: u64,
        /// A launch of a graph, without its nodes.
        graph_ns: u64,
        /// A node of it.
        node_ns: u64,
        /// Giving a node other parameters.
        changed_ns: u64,
        /// Building a graph, a node.
        build_ns: u64,
        /// They were measured here, and not on another machine.
        measured_here: bool,
    }
    /// An image for a newer chip was brought down and loaded.
    "lowered" Lowered {
        /// The chip that its PTX was made for.
        was: String,
        /// The chip that it was loaded for.
        to: String,
        /// Which newer features were rewritten.
        features: Vec<String>,
        /// Microseconds that it took.
        micros: u64,
        /// Texts of it that lay on disk from an earlier time.
        kept: u64,
    }
    /// The program was told that its device is another; a later one replaces it.
    "claimed" Claimed {
        /// The compute capability that it was told.
        claimed: String,
        /// The device's own.
        real: String,
        /// How often it asked.
        answers: u64,
    }
    /// Something of ours failed; the program's call went through.
    "failure" Failure {
        /// One sentence.
        sentence: String,
    }
}

/// Name of the file with an image's bytes, in the folder where images are kept.
#[must_use]
pub fn image_file(hash: u64) -> String {
    format!("{hash:016x}.image")
}

/// Reads every whole line of a facts file. Lines that are not understood are counted.
#[must_use]
pub fn read_all(text: &str) -> (Vec<Fact>, usize) {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut facts = Vec::new();
    let mut refused = 0;
    for line in whole.lines().filter(|line| !line.is_empty()) {
        match Fact::parse(line) {
            Some(fact) => facts.push(fact),
            None => refused += 1,
        }
    }
    (facts, refused)
}

pub(crate) trait Field: Sized {
    fn write(&self, line: &mut String);
    fn read(text: &str) -> Option<Self>;
}

impl Field for u64 {
    fn write(&self, line: &mut String) {
        let _ = write!(line, "{self}");
    }
    fn read(text: &str) -> Option<u64> {
        text.parse().ok()
    }
}

impl Field for i64 {
    fn write(&self, line: &mut String) {
        let _ = write!(line, "{self}");
    }
    fn read(text: &str) -> Option<i64> {
        text.parse().ok()
    }
}

impl Field for bool {
    fn write(&self, line: &mut String) {
        line.push(if *self { '1' } else { '0' });
    }
    fn read(text: &str) -> Option<bool> {
        Some(text == "1")
    }
}

impl Field for String {
    fn write(&self, line: &mut String) {
        for byte in self.bytes() {
            match byte {
                b'!'..=b'~' if !matches!(byte, b'%' | b'=' | b',') => line.push(char::from(byte)),
                _ => {
                    let _ = write!(line, "%{byte:02x}");
                }
            }
        }
    }
    fn read(text: &str) -> Option<String> {
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            if byte == b'%' {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let value = digit(rest.next()?)? * 16 + digit(rest.next()?)?;
                bytes.push(u8::try_from(value).ok()?);
            } else {
                bytes.push(byte);
            }
        }
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl<T: Field> Field for Vec<T> {
    fn write(&self, line: &mut String) {
        for (nth, item) in self.iter().enumerate() {
            if nth > 0 {
                line.push(',');
            }
            item.write(line);
        }
    }
    fn read(text: &str) -> Option<Vec<T>> {
        if text.is_empty() {
            return Some(Vec::new());
        }
        text.split(',').map(T::read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_reads_as_it_is_documented() {
        let fact = Fact::Graph(Graph {
            id: 2,
            kernel_nodes: 3,
            kernels: vec![1, 3],
            ..Default::default()
        });
        assert_eq!(
            fact.line(),
            "graph id=2 kernel_nodes=3 nodes=0 conditional_nodes=0 device_launch=0 kernels=1,3\n"
        );
        assert_eq!(Fact::parse(fact.line().trim_end()), Some(fact));
    }

    #[test]
    fn a_stump_and_an_unknown_word_are_skipped() {
        let (facts, refused) = read_all("failure sentence=a%20b\nnews x=1\nfailure sent");
        assert_eq!(facts, [Fact::Failure(Failure { sentence: "a b".into() })]);
        assert_eq!(refused, 1);
    }

    proptest! {
        #[test]
        fn any_text_survives(name in any::<String>(), arguments in any::<Vec<String>>()) {
            prop_assume!(arguments != [String::new()]);
            let fact = Fact::Process(Process { executable: name, arguments, ..Default::default() });
            prop_assert_eq!(Fact::parse(fact.line().trim_end_matches('\n')), Some(fact));
        }

        #[test]
        fn noise_never_panics(text in any::<String>()) {
            let _ = read_all(&text);
        }
    }
}
