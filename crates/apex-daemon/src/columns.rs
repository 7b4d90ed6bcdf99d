//! The columns of an event on disk and in exports: said once.
//!
//! The list makes the flat record, its Arrow batch, the reader of such a batch, and the cells that CSV
//! and NDJSON are written from. A column that does not apply to an event is null. A column that is
//! missing in a file reads as null, and one that is not known here is passed over.

use apex_core::event::{
    AllocKind, Copy, Direction, KernelId, Launch, LaunchShape, Life, ObjectKind, Set, SyncKind,
    TimeBasis, What,
};
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Int32Array, RecordBatch, StringArray,
    UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow_schema::{ArrowError, DataType};
use std::sync::Arc;

use crate::row::{Row, call_named};

/// The content of one cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cell<'a> {
    None,
    Whole(u64),
    Signed(i64),
    Truth(bool),
    Text(&'a str),
}

macro_rules! columns {
    ($($name:ident: $type:ty;)+) => {
        /// One event as a flat record.
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub(crate) struct Flat<'a> { $(pub(crate) $name: $type),+ }

        /// Names of the columns in their order.
        pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),+];

        impl<'a> Flat<'a> {
            /// Every cell in the order of the columns.
            pub(crate) fn cells(&self) -> [Cell<'a>; NAMES.len()] {
                [$(self.$name.cell()),+]
            }
        }

        /// An Arrow batch of the records.
        pub(crate) fn batch<'a>(flat: &[Flat<'a>]) -> Result<RecordBatch, ArrowError> {
            RecordBatch::try_from_iter_with_nullable([
                $((stringify!($name), <$type>::array(flat.iter().map(|flat| flat.$name)), <$type>::NULLABLE)),+
            ])
        }

        /// Hands on every record of a batch.
        pub(crate) fn each<'a>(batch: &'a RecordBatch, mut sink: impl FnMut(Flat<'a>)) {
            $(let $name = batch.column_by_name(stringify!($name));)+
            for place in 0..batch.num_rows() {
                sink(Flat { $($name: $name.and_then(|column| <$type>::read(column, place)).unwrap_or_default()),+ });
            }
        }
    };
}

columns! {
    time_ns: u64;
    host_ns: Option<u64>;
    process: u32;
    pid: u32;
    tid: u32;
    function: Option<&'a str>;
    kind: &'a str;
    result: u16;
    device: Option<u8>;
    context: u16;
    stream: u64;
    kernel: Option<u32>;
    kernel_name: Option<&'a str>;
    grid_x: Option<u32>;
    grid_y: Option<u32>;
    grid_z: Option<u32>;
    block_x: Option<u16>;
    block_y: Option<u16>;
    block_z: Option<u16>;
    cluster_x: Option<u8>;
    cluster_y: Option<u8>;
    cluster_z: Option<u8>;
    dynamic_shared: Option<u32>;
    cooperative: Option<bool>;
    captured: Option<bool>;
    graph: Option<u32>;
    graph_kernels: Option<u64>;
    graph_nodes: Option<u64>;
    memory: Option<&'a str>;
    address: Option<u64>;
    source: Option<u64>;
    bytes: Option<u64>;
    value: Option<u32>;
    direction: Option<&'a str>;
    asynchronous: Option<bool>;
    pageable: Option<bool>;
    object: Option<&'a str>;
    handle: Option<u64>;
    begins: Option<bool>;
    flags: Option<u32>;
    priority: Option<i32>;
    image: Option<u32>;
    image_hash: Option<u64>;
    gpu_ns: Option<u64>;
    basis: Option<&'a str>;
    pointer_1: Option<u64>;
    pointer_2: Option<u64>;
    pointer_3: Option<u64>;
    pointer_4: Option<u64>;
    pointer_5: Option<u64>;
    digest: Option<u64>;
    whole: Option<bool>;
}

impl<'a> Flat<'a> {
    /// The flat record of a row; `kernel_name` is that of the row's kernel.
    pub(crate) fn of(row: &Row, kernel_name: Option<&'a str>) -> Flat<'a> {
        let common = Flat::common(row);
        match row.what {
            What::Launch(launch) => Flat {
                kernel: Some(launch.kernel.0),
                kernel_name,
                cooperative: Some(launch.cooperative),
                captured: Some(launch.captured),
                ..common.shaped(&launch.shape)
            },
            What::GraphLaunch { graph, kernels, nodes, captured } => Flat {
                graph: Some(graph),
                graph_kernels: Some(kernels),
                graph_nodes: Some(nodes),
                captured: Some(captured),
                ..common
            },
            What::Alloc { kind, address, bytes } | What::Free { kind, address, bytes } => Flat {
                memory: Some(kind.word()),
                address: Some(address),
                bytes: Some(bytes),
                ..common
            },
            What::Copy(copy) => Flat {
                direction: Some(copy.direction.word()),
                asynchronous: Some(copy.asynchronous),
                captured: Some(copy.captured),
                address: Some(copy.to),
                source: Some(copy.from),
                bytes: Some(copy.bytes),
                ..common
            },
            What::Set(set) => Flat {
                asynchronous: Some(set.asynchronous),
                captured: Some(set.captured),
                address: Some(set.to),
                value: Some(set.value),
                bytes: Some(set.bytes),
                ..common
            },
            What::Sync { kind, object } => {
                Flat { object: Some(kind.word()), handle: Some(object), ..common }
            }
            What::Life(life) => Flat {
                object: Some(life.object.word()),
                begins: Some(life.begins),
                handle: Some(life.handle),
                flags: Some(life.flags),
                priority: Some(life.priority),
                ..common
            },
            What::Load { object, image, handle, bytes, hash } => Flat {
                object: Some(object.word()),
                image: Some(image),
                handle: Some(handle),
                bytes: Some(bytes),
                image_hash: Some(hash),
                ..common
            },
            What::GpuTime { kernel, shape, nanos, basis } => Flat {
                kernel: Some(kernel.0),
                kernel_name,
                gpu_ns: Some(nanos),
                basis: Some(basis.word()),
                ..common.shaped(&shape)
            },
            What::Passed { kernel, pointers } => {
                Flat { kernel: Some(kernel.0), ..common.pointed(pointers) }
            }
            What::Contents { to, bytes, digest, whole } => Flat {
                address: Some(to),
                bytes: Some(bytes),
                digest: Some(digest),
                whole: Some(whole),
                ..common
            },
            What::Other => common,
        }
    }

    /// What the records of all kinds have.
    fn common(row: &Row) -> Flat<'a> {
        Flat {
            time_ns: row.time_ns,
            host_ns: row.host(),
            process: row.process,
            pid: row.pid,
            tid: row.tid,
            function: row.is_call().then(|| row.function()),
            kind: row.kind(),
            result: row.result,
            device: row.device,
            context: row.context,
            stream: row.stream,
            pageable: row.pageable,
            ..Flat::default()
        }
    }

    /// The row of a flat record; nothing if a word in it is not known.
    pub(crate) fn row(&self) -> Option<Row> {
        Some(Row {
            time_ns: self.time_ns,
            host_ns: self.host_ns.unwrap_or(0),
            process: self.process,
            pid: self.pid,
            tid: self.tid,
            call: call_named(self.function.unwrap_or_default()),
            result: self.result,
            device: self.device,
            context: self.context,
            stream: self.stream,
            what: self.what()?,
            pageable: self.pageable,
        })
    }

    fn what(&self) -> Option<What> {
        let captured = self.captured.unwrap_or_default();
        let asynchronous = self.asynchronous.unwrap_or_default();
        let address = self.address.unwrap_or_default();
        let bytes = self.bytes.unwrap_or_default();
        let handle = self.handle.unwrap_or_default();
        let object = || ObjectKind::ALL.iter().copied().find(|o| Some(o.word()) == self.object);
        let direction =
            || Direction::ALL.iter().copied().find(|d| Some(d.word()) == self.direction);
        let memory = || AllocKind::ALL.iter().copied().find(|m| Some(m.word()) == self.memory);
        Some(match self.kind {
            "launch" => What::Launch(Launch {
                kernel: KernelId(self.kernel?),
                shape: self.shape(),
                cooperative: self.cooperative.unwrap_or_default(),
                captured,
            }),
            "graph-launch" => What::GraphLaunch {
                graph: self.graph?,
                kernels: self.graph_kernels.unwrap_or_default(),
                nodes: self.graph_nodes.unwrap_or_default(),
                captured,
            },
            "alloc" => What::Alloc { kind: memory()?, address, bytes },
            "free" => What::Free { kind: memory()?, address, bytes },
            "copy" => What::Copy(Copy {
                direction: direction()?,
                asynchronous,
                captured,
                to: address,
                from: self.source.unwrap_or_default(),
                bytes,
            }),
            "set" => What::Set(Set {
                asynchronous,
                captured,
                to: address,
                value: self.value.unwrap_or_default(),
                bytes,
            }),
            "sync" => What::Sync {
                kind: SyncKind::ALL.iter().copied().find(|s| Some(s.word()) == self.object)?,
                object: handle,
            },
            "life" => What::Life(Life {
                object: object()?,
                begins: self.begins.unwrap_or_default(),
                handle,
                flags: self.flags.unwrap_or_default(),
                priority: self.priority.unwrap_or_default(),
            }),
            "load" => What::Load {
                object: object()?,
                image: self.image.unwrap_or_default(),
                handle,
                bytes,
                hash: self.image_hash.unwrap_or_default(),
            },
            "gpu-time" => What::GpuTime {
                kernel: KernelId(self.kernel?),
                shape: self.shape(),
                nanos: self.gpu_ns?,
                basis: TimeBasis::ALL.iter().copied().find(|b| Some(b.word()) == self.basis)?,
            },
            "passed" => What::Passed { kernel: KernelId(self.kernel?), pointers: self.pointers() },
            "contents" => What::Contents {
                to: address,
                bytes,
                digest: self.digest?,
                whole: self.whole.unwrap_or_default(),
            },
            "other" => What::Other,
            _ => return None,
        })
    }

    fn pointed(self, pointers: [u64; 5]) -> Flat<'a> {
        let [a, b, c, d, e] = pointers.map(|pointer| (pointer != 0).then_some(pointer));
        Flat { pointer_1: a, pointer_2: b, pointer_3: c, pointer_4: d, pointer_5: e, ..self }
    }

    fn pointers(&self) -> [u64; 5] {
        [self.pointer_1, self.pointer_2, self.pointer_3, self.pointer_4, self.pointer_5]
            .map(Option::unwrap_or_default)
    }

    fn shaped(self, shape: &LaunchShape) -> Flat<'a> {
        let LaunchShape { grid, block, cluster, dynamic_shared } = *shape;
        let clustered = cluster != [0; 3];
        Flat {
            grid_x: Some(grid[0]),
            grid_y: Some(grid[1]),
            grid_z: Some(grid[2]),
            block_x: Some(block[0]),
            block_y: Some(block[1]),
            block_z: Some(block[2]),
            cluster_x: clustered.then_some(cluster[0]),
            cluster_y: clustered.then_some(cluster[1]),
            cluster_z: clustered.then_some(cluster[2]),
            dynamic_shared: Some(dynamic_shared),
            ..self
        }
    }

    fn shape(&self) -> LaunchShape {
        LaunchShape {
            grid: [self.grid_x, self.grid_y, self.grid_z].map(Option::unwrap_or_default),
            block: [self.block_x, self.block_y, self.block_z].map(Option::unwrap_or_default),
            cluster: [self.cluster_x, self.cluster_y, self.cluster_z]
                .map(Option::unwrap_or_default),
            dynamic_shared: self.dynamic_shared.unwrap_or_default(),
        }
    }
}

/// A type that a column can have.
trait Column<'a>: Sized {
    const NULLABLE: bool;
    fn array(values: impl Iterator<Item = Self>) -> ArrayRef;
    fn read(column: &'a ArrayRef, place: usize) -> Option<Self>;
    fn cell(self) -> Cell<'a>;
}

macro_rules! plain_column {
    ($($type:ty, $array:ty, $cell:ident;)+) => {$(
        impl<'a> Column<'a> for $type {
            const NULLABLE: bool = false;
            fn array(values: impl Iterator<Item = $type>) -> ArrayRef {
                Arc::new(values.map(Some).collect::<$array>())
            }
            fn read(column: &'a ArrayRef, place: usize) -> Option<$type> {
                let array = column.as_any().downcast_ref::<$array>()?;
                array.is_valid(place).then(|| array.value(place))
            }
            fn cell(self) -> Cell<'a> {
                Cell::$cell(self.into())
            }
        }

        impl<'a> Column<'a> for Option<$type> {
            const NULLABLE: bool = true;
            fn array(values: impl Iterator<Item = Option<$type>>) -> ArrayRef {
                Arc::new(values.collect::<$array>())
            }
            fn read(column: &'a ArrayRef, place: usize) -> Option<Option<$type>> {
                Some(<$type as Column>::read(column, place))
            }
            fn cell(self) -> Cell<'a> {
                self.map_or(Cell::None, Column::cell)
            }
        }
    )+};
}

plain_column! {
    u64, UInt64Array, Whole;
    u32, UInt32Array, Whole;
    u16, UInt16Array, Whole;
    u8, UInt8Array, Whole;
    i32, Int32Array, Signed;
    bool, BooleanArray, Truth;
}

impl<'a> Column<'a> for &'a str {
    const NULLABLE: bool = false;
    fn array(values: impl Iterator<Item = &'a str>) -> ArrayRef {
        Arc::new(values.collect::<DictionaryArray<Int32Type>>())
    }
    fn read(column: &'a ArrayRef, place: usize) -> Option<&'a str> {
        if !matches!(column.data_type(), DataType::Dictionary(..)) {
            let words = column.as_any().downcast_ref::<StringArray>()?;
            return words.is_valid(place).then(|| words.value(place));
        }
        let dictionary = column.as_any().downcast_ref::<DictionaryArray<Int32Type>>()?;
        let words = dictionary.values().as_any().downcast_ref::<StringArray>()?;
        Some(words.value(dictionary.key(place)?))
    }
    fn cell(self) -> Cell<'a> {
        Cell::Text(self)
    }
}

impl<'a> Column<'a> for Option<&'a str> {
    const NULLABLE: bool = true;
    fn array(values: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
        Arc::new(values.collect::<DictionaryArray<Int32Type>>())
    }
    fn read(column: &'a ArrayRef, place: usize) -> Option<Option<&'a str>> {
        Some(<&str as Column>::read(column, place))
    }
    fn cell(self) -> Cell<'a> {
        self.map_or(Cell::None, Column::cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::call_named;

    fn check(what: What) {
        let mut row = Row {
            time_ns: 1,
            host_ns: 2,
            process: 3,
            pid: 4,
            tid: 5,
            call: call_named("cuLaunchKernel"),
            result: 6,
            device: Some(7),
            context: 8,
            stream: 9,
            what,
            pageable: Some(true),
        };
        let batch = batch(&[Flat::of(&row, Some("name"))]).unwrap();
        if !row.is_call() {
            row.call = call_named("");
        }
        let mut found = Vec::new();
        each(&batch, |flat| found.push(flat.row()));
        assert_eq!(found, [Some(row)]);
    }

    #[test]
    fn every_kind_of_row_survives_its_columns() {
        let shape = LaunchShape {
            grid: [1, 2, 3],
            block: [4, 5, 6],
            cluster: [2, 1, 1],
            dynamic_shared: 7,
        };
        let kernel = KernelId(9);
        check(What::Launch(Launch { kernel, shape, cooperative: true, captured: false }));
        check(What::GraphLaunch { graph: 1, kernels: 2, nodes: 3, captured: true });
        check(What::Alloc { kind: AllocKind::Physical, address: 1, bytes: u64::MAX });
        check(What::Free { kind: AllocKind::Async, address: 1, bytes: 2 });
        let direction = Direction::Peer;
        check(What::Copy(Copy {
            direction,
            asynchronous: true,
            captured: true,
            to: 1,
            from: 2,
            bytes: 3,
        }));
        check(What::Set(Set { asynchronous: true, captured: false, to: 1, value: 2, bytes: 3 }));
        check(What::Sync { kind: SyncKind::Event, object: 1 });
        let object = ObjectKind::Stream;
        check(What::Life(Life { object, begins: true, handle: 1, flags: 2, priority: -5 }));
        check(What::Load { object: ObjectKind::Library, image: 1, handle: 2, bytes: 3, hash: 4 });
        check(What::GpuTime { kernel, shape, nanos: 5, basis: TimeBasis::EventPairIdle });
        check(What::Passed { kernel, pointers: [1, 2, 0, 4, 5] });
        check(What::Contents { to: 1, bytes: 2, digest: 3, whole: true });
        check(What::Other);
    }
}
