//! Reads and writes the large network as an ONNX file, which any ONNX engine runs too.
//!
//! The graph is a chain: subtract the mean, multiply the scale, then `Gemm` and `Relu` in turn. Weights of half
//! precision pass through a `Cast`, weights of one byte through a `DequantizeLinear` with a scale for each
//! output. Our own runner takes exactly such chains and refuses everything else by name; what a file says of
//! its features, its digest and its examples stands in its metadata and is checked as in the other models.

use crate::dense::{DenseLayer, DenseNetwork, OUTPUTS, Space, Weights};
use crate::golden::check_golden;
use crate::model::Model;
use crate::products::WIDEST;
use crate::protobuf::{Content, Message, fields, take_whole};
use crate::refusal::Refusal;
use apex_policy::predict::acquaintance::Acquaintance;
use apex_policy::predict::features::{COUNT, FNV_START, base, fnv, list_hash};
use std::collections::BTreeMap;

/// The word that a file of this model carries as its kind.
const KIND: &str = "large-network";

const FLOAT: u64 = 1;
const INT8: u64 = 3;
const FLOAT16: u64 = 10;
const OPSET: u64 = 13;
const IR_VERSION: u64 = 8;

/// A tensor of the file, with its bytes in place.
#[derive(Clone, Debug, Default)]
struct Tensor<'a> {
    name: &'a str,
    shape: Vec<usize>,
    kind: u64,
    raw: &'a [u8],
}

#[derive(Clone, Debug, Default)]
struct Node<'a> {
    operator: &'a str,
    inputs: Vec<&'a str>,
    output: &'a str,
    transposed: bool,
    axis: Option<u64>,
}

#[derive(Default)]
struct Graph<'a> {
    nodes: Vec<Node<'a>>,
    tensors: BTreeMap<&'a str, Tensor<'a>>,
    words: BTreeMap<&'a str, &'a str>,
    digest: u64,
    input: &'a str,
    output: &'a str,
}

/// Reads a file, checks all that it says of itself, and makes the network ready to run.
pub fn read(bytes: &[u8]) -> Result<DenseNetwork, Refusal> {
    let graph = read_graph(bytes)?;
    let word = |key: &'static str| graph.words.get(key).copied().ok_or(Refusal::NoWord(key));
    let kind = word("kind")?;
    if kind != KIND {
        return Err(Refusal::WrongKind(kind.into()));
    }
    let hash = word("features")?;
    if hash != format!("{:016x}", list_hash()) {
        return Err(Refusal::OtherFeatures(hash.into()));
    }
    if word("digest")? != format!("{:016x}", graph.digest) {
        return Err(Refusal::Damaged);
    }
    let mut network = chain(&graph)?;
    let widening = floats(word("widening")?)?;
    network.widening =
        widening.try_into().map_err(|_| Refusal::Graph("widening has the wrong length".into()))?;
    let (inputs, outputs) = (floats(word("golden_inputs")?)?, floats(word("golden_outputs")?)?);
    if inputs.len() < COUNT || inputs.len() / COUNT != outputs.len() / OUTPUTS {
        return Err(Refusal::Missing("golden_inputs".into()));
    }
    let mut space = Space::default();
    let rows = inputs.chunks_exact(COUNT).zip(outputs.chunks_exact(OUTPUTS));
    for (example, (row, expected)) in rows.enumerate() {
        check_golden(example, expected, network.outputs(row, &mut space))?;
    }
    Ok(network)
}

/// The network as a file, with examples made from `golden` features.
#[must_use]
pub fn write(network: &DenseNetwork, golden: &[[f32; COUNT]], words: &[(&str, &str)]) -> Vec<u8> {
    let mut space = Space::default();
    let outputs: Vec<f32> =
        golden.iter().flat_map(|row| network.outputs(row, &mut space).to_vec()).collect();
    let mut writer = Writer { graph: Message::default(), digest: FNV_START };
    writer.node("Sub", &["features", "mean"], "centred", &[]);
    writer.node("Mul", &["centred", "scale"], "normal", &[]);
    let mut last = String::from("normal");
    for nth in 0..network.layers.len() {
        let byte = matches!(DenseNetwork::bare(&network.layers[nth]).0, Weights::Byte(..));
        let half = matches!(DenseNetwork::bare(&network.layers[nth]).0, Weights::Half(_));
        let [weight, bias, stored, scales] =
            ["weight", "bias", "stored", "scales"].map(|part| format!("layer{nth}.{part}"));
        if half {
            writer.node("Cast", &[&stored], &weight, &[("to", FLOAT)]);
        } else if byte {
            writer.node("DequantizeLinear", &[&stored, &scales], &weight, &[("axis", 0)]);
        }
        let final_layer = nth + 1 == network.layers.len();
        let sum = if final_layer { "answer".into() } else { format!("layer{nth}.sum") };
        writer.node("Gemm", &[&last, &weight, &bias], &sum, &[("transB", 1)]);
        if !final_layer {
            last = format!("layer{nth}.out");
            writer.node("Relu", &[&sum], &last, &[]);
        }
    }
    writer.graph = writer.graph.text(2, "apex");
    writer.tensor("mean", FLOAT, &[network.mean.len()], &raw(&network.mean));
    writer.tensor("scale", FLOAT, &[network.scale.len()], &raw(&network.scale));
    for (nth, layer) in network.layers.iter().enumerate() {
        let (weights, bias) = DenseNetwork::bare(layer);
        let shape = [layer.outputs(), layer.inputs()];
        let [weight, biases, stored, scales] =
            ["weight", "bias", "stored", "scales"].map(|part| format!("layer{nth}.{part}"));
        match weights {
            Weights::Single(values) => writer.tensor(&weight, FLOAT, &shape, &raw(&values)),
            Weights::Half(values) => {
                let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                writer.tensor(&stored, FLOAT16, &shape, &bytes);
            }
            Weights::Byte(values, units) => {
                let bytes: Vec<u8> = values.iter().map(|value| *value as u8).collect();
                writer.tensor(&stored, INT8, &shape, &bytes);
                writer.tensor(&scales, FLOAT, &[units.len()], &raw(&units));
            }
        }
        writer.tensor(&biases, FLOAT, &[bias.len()], &raw(bias));
    }
    let digest = format!("{:016x}", writer.digest);
    let graph = writer
        .graph
        .message(11, &value_info("features", network.mean.len()))
        .message(12, &value_info("answer", OUTPUTS));
    let mut model = Message::default()
        .whole(1, IR_VERSION)
        .text(2, "apex")
        .message(7, &graph)
        .message(8, &Message::default().text(1, "").whole(2, OPSET));
    let own = [
        ("kind", KIND.to_owned()),
        ("features", format!("{:016x}", list_hash())),
        ("digest", digest),
        ("widening", text(&network.widening)),
        ("golden_inputs", text(golden.as_flattened())),
        ("golden_outputs", text(&outputs)),
    ];
    let given = words.iter().map(|(key, word)| (*key, (*word).to_owned()));
    for (key, word) in own.into_iter().chain(given) {
        model = model.message(14, &Message::default().text(1, key).text(2, &word));
    }
    model.0
}

/// The large network as one of the models that can be replaced. Its space between layers is made anew for
/// each answer here; whoever asks often keeps one.
impl Model for DenseNetwork {
    type Input = [f32; COUNT];

    fn read(bytes: &[u8]) -> Result<DenseNetwork, Refusal> {
        read(bytes)
    }

    fn write(&self, golden: &[[f32; COUNT]], words: &[(&str, &str)]) -> Vec<u8> {
        write(self, golden, words)
    }

    fn over_expected(&self, features: &[f32; COUNT]) -> f32 {
        let mut space = Space::default();
        base(features) + self.outputs(features, &mut space).first().copied().unwrap_or(0.0)
    }
}

struct Writer {
    graph: Message,
    digest: u64,
}

impl Writer {
    fn node(&mut self, operator: &str, inputs: &[&str], output: &str, numbers: &[(&str, u64)]) {
        let mut node = Message::default();
        for input in inputs {
            node = node.text(1, input);
        }
        node = node.text(2, output).text(3, output).text(4, operator);
        for (name, value) in numbers {
            node = node.message(5, &Message::default().text(1, name).whole(3, *value).whole(20, 2));
        }
        self.graph = std::mem::take(&mut self.graph).message(1, &node);
    }

    fn tensor(&mut self, name: &str, kind: u64, shape: &[usize], raw: &[u8]) {
        let mut tensor = Message::default();
        for side in shape {
            tensor = tensor.whole(1, *side as u64);
        }
        tensor = tensor.whole(2, kind).text(8, name).bytes(9, raw);
        self.digest = fnv(self.digest, raw);
        self.graph = std::mem::take(&mut self.graph).message(5, &tensor);
    }
}

/// An input or output of single precision, any number of rows.
fn value_info(name: &str, columns: usize) -> Message {
    let rows = Message::default().text(2, "rows");
    let columns = Message::default().whole(1, columns as u64);
    let shape = Message::default().message(1, &rows).message(1, &columns);
    let tensor = Message::default().whole(1, FLOAT).message(2, &shape);
    Message::default().text(1, name).message(2, &Message::default().message(1, &tensor))
}

fn raw(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Numbers as hex digits of their bits, so that they come back exactly.
fn text(values: &[f32]) -> String {
    values.iter().map(|value| format!("{:08x}", value.to_bits())).collect()
}

fn floats(text: &str) -> Result<Vec<f32>, Refusal> {
    let digits = text.as_bytes().as_chunks::<8>().0.iter();
    digits
        .map(|digits| {
            let bits =
                std::str::from_utf8(digits).ok().and_then(|d| u32::from_str_radix(d, 16).ok());
            bits.map(f32::from_bits)
                .filter(|value| value.is_finite())
                .ok_or_else(|| Refusal::NotFinite("a number in the metadata".into()))
        })
        .collect()
}

fn read_graph(bytes: &[u8]) -> Result<Graph<'_>, Refusal> {
    let mut graph = Graph { digest: FNV_START, ..Graph::default() };
    let mut found = false;
    for field in fields(bytes) {
        match field.ok_or(Refusal::CutOff)? {
            (7, Content::Bytes(body)) => {
                found = true;
                for field in fields(body) {
                    match field.ok_or(Refusal::CutOff)? {
                        (1, Content::Bytes(node)) => graph.nodes.push(read_node(node)?),
                        (5, Content::Bytes(tensor)) => {
                            let tensor = read_tensor(tensor)?;
                            graph.digest = fnv(graph.digest, tensor.raw);
                            if graph.tensors.insert(tensor.name, tensor.clone()).is_some() {
                                return Err(Refusal::Twice(tensor.name.into()));
                            }
                        }
                        (11, Content::Bytes(value)) => graph.input = named(value)?,
                        (12, Content::Bytes(value)) => graph.output = named(value)?,
                        _ => {}
                    }
                }
            }
            (14, Content::Bytes(pair)) => {
                let mut words = ["", ""];
                for field in fields(pair) {
                    if let (key @ (1 | 2), Content::Bytes(bytes)) = field.ok_or(Refusal::CutOff)? {
                        words[key as usize - 1] = utf8(bytes)?;
                    }
                }
                graph.words.insert(words[0], words[1]);
            }
            _ => {}
        }
    }
    if found { Ok(graph) } else { Err(Refusal::CutOff) }
}

fn utf8(bytes: &[u8]) -> Result<&str, Refusal> {
    std::str::from_utf8(bytes).map_err(|_| Refusal::Header("a name is no text".into()))
}

fn named(value: &[u8]) -> Result<&str, Refusal> {
    for field in fields(value) {
        if let (1, Content::Bytes(name)) = field.ok_or(Refusal::CutOff)? {
            return utf8(name);
        }
    }
    Ok("")
}

fn read_node(node: &[u8]) -> Result<Node<'_>, Refusal> {
    let mut read = Node::default();
    for field in fields(node) {
        match field.ok_or(Refusal::CutOff)? {
            (1, Content::Bytes(name)) => read.inputs.push(utf8(name)?),
            (2, Content::Bytes(name)) => read.output = utf8(name)?,
            (4, Content::Bytes(name)) => read.operator = utf8(name)?,
            (5, Content::Bytes(attribute)) => {
                let (mut name, mut value) = ("", 0);
                for field in fields(attribute) {
                    match field.ok_or(Refusal::CutOff)? {
                        (1, Content::Bytes(bytes)) => name = utf8(bytes)?,
                        (3, Content::Whole(whole)) => value = whole,
                        _ => {}
                    }
                }
                match name {
                    "transB" => read.transposed = value == 1,
                    "axis" => read.axis = Some(value),
                    "to" if value == FLOAT => {}
                    other => {
                        return Err(Refusal::Graph(format!("{} with {other}", read.operator)));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(read)
}

fn read_tensor(tensor: &[u8]) -> Result<Tensor<'_>, Refusal> {
    let mut read = Tensor::default();
    for field in fields(tensor) {
        match field.ok_or(Refusal::CutOff)? {
            (1, Content::Whole(side)) => {
                read.shape.push(usize::try_from(side).unwrap_or(usize::MAX))
            }
            // Other writers put all sides into one field.
            (1, Content::Bytes(mut sides)) => {
                while !sides.is_empty() {
                    let side = take_whole(&mut sides).ok_or(Refusal::CutOff)?;
                    read.shape.push(usize::try_from(side).unwrap_or(usize::MAX));
                }
            }
            (2, Content::Whole(kind)) => read.kind = kind,
            (8, Content::Bytes(name)) => read.name = utf8(name)?,
            (9, Content::Bytes(raw)) => read.raw = raw,
            _ => {}
        }
    }
    let bytes = match read.kind {
        FLOAT => 4,
        FLOAT16 => 2,
        INT8 => 1,
        _ => return Err(Refusal::WrongType(read.name.into())),
    };
    let count =
        read.shape.iter().try_fold(bytes, |product: usize, &side| product.checked_mul(side));
    if count != Some(read.raw.len()) {
        return Err(Refusal::Misplaced(read.name.into()));
    }
    Ok(read)
}

/// Follows the chain from the input to the output.
fn chain(graph: &Graph<'_>) -> Result<DenseNetwork, Refusal> {
    let mut network = DenseNetwork {
        mean: vec![0.0; COUNT],
        scale: vec![1.0; COUNT],
        layers: Vec::new(),
        widening: [1.0; Acquaintance::ALL.len()],
    };
    let (mut value, mut width, mut rectified) = (graph.input, COUNT, true);
    for node in &graph.nodes {
        let follows = node.inputs.first() == Some(&value);
        match (node.operator, node.inputs.as_slice()) {
            ("Cast" | "DequantizeLinear", _) => continue,
            ("Sub", [_, mean]) if follows && network.layers.is_empty() => {
                network.mean = floats_of(graph, mean, &[COUNT])?;
            }
            ("Mul", [_, scale]) if follows && network.layers.is_empty() => {
                network.scale = floats_of(graph, scale, &[COUNT])?;
            }
            ("Gemm", [_, weight, bias]) if follows && node.transposed && rectified => {
                let layer = layer(graph, weight, bias, width)?;
                width = layer.outputs();
                network.layers.push(layer);
                rectified = false;
            }
            ("Relu", [_]) if follows && !rectified => rectified = true,
            (operator, _) => {
                return Err(Refusal::Graph(format!("{operator} does not continue the chain")));
            }
        }
        value = node.output;
    }
    if value != graph.output || rectified || width != OUTPUTS {
        return Err(Refusal::Graph("the chain does not end in the answer".into()));
    }
    Ok(network)
}

fn layer(
    graph: &Graph<'_>,
    weight: &str,
    bias: &str,
    inputs: usize,
) -> Result<DenseLayer, Refusal> {
    let maker = graph.nodes.iter().find(|node| node.output == weight);
    let stored = maker.map_or(Some(weight), |node| node.inputs.first().copied());
    let tensor = stored.and_then(|name| graph.tensors.get(name));
    let tensor = tensor.ok_or_else(|| Refusal::Missing(weight.into()))?;
    let &[outputs, columns] = tensor.shape.as_slice() else {
        return Err(Refusal::WrongShape(weight.into(), tensor.shape.clone()));
    };
    if columns != inputs || outputs == 0 || inputs > WIDEST {
        return Err(Refusal::WrongShape(weight.into(), tensor.shape.clone()));
    }
    let bias = floats_of(graph, bias, &[outputs])?;
    match (tensor.kind, maker.map(|node| (node.operator, node.inputs.as_slice(), node.axis))) {
        (FLOAT, None) => {
            let weights = floats_of(graph, weight, &[outputs, inputs])?;
            Ok(DenseLayer::single(inputs, &weights, bias))
        }
        (FLOAT16, Some(("Cast", _, _))) => {
            let halves = tensor.raw.as_chunks::<2>().0;
            let weights: Vec<u16> = halves.iter().map(|half| u16::from_le_bytes(*half)).collect();
            if weights.iter().any(|half| half & 0x7c00 == 0x7c00) {
                return Err(Refusal::NotFinite(weight.into()));
            }
            Ok(DenseLayer::half(inputs, &weights, bias))
        }
        (INT8, Some(("DequantizeLinear", [_, scales], Some(0)))) => {
            let scales = floats_of(graph, scales, &[outputs])?;
            let weights: Vec<i8> = tensor.raw.iter().map(|byte| *byte as i8).collect();
            Ok(DenseLayer::byte(inputs, &weights, scales, bias))
        }
        _ => Err(Refusal::WrongType(weight.into())),
    }
}

fn floats_of(graph: &Graph<'_>, name: &str, shape: &[usize]) -> Result<Vec<f32>, Refusal> {
    let tensor = graph.tensors.get(name).ok_or_else(|| Refusal::Missing(name.into()))?;
    if tensor.kind != FLOAT {
        return Err(Refusal::WrongType(name.into()));
    }
    if tensor.shape != shape {
        return Err(Refusal::WrongShape(name.into(), tensor.shape.clone()));
    }
    let values: Vec<f32> =
        tensor.raw.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
    if values.iter().any(|value| !value.is_finite()) {
        return Err(Refusal::NotFinite(name.into()));
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::tests::sample;

    const GOLDEN: [[f32; COUNT]; 2] = [[0.75; COUNT], [0.25; COUNT]];

    #[test]
    fn every_form_survives_its_file() {
        let network = sample(&[COUNT, 64, 40, OUTPUTS]);
        for form in [network.clone(), network.halved(), network.quantised()] {
            let bytes = write(&form, &GOLDEN, &[("data", "none")]);
            assert_eq!(read(&bytes).as_ref(), Ok(&form));
        }
    }

    #[test]
    fn each_fault_has_its_reason() {
        let network = sample(&[COUNT, 8, OUTPUTS]);
        let good = write(&network, &GOLDEN, &[]);
        assert_eq!(read(&[]), Err(Refusal::CutOff));
        assert_eq!(read(&good[..good.len() / 2]), Err(Refusal::CutOff));
        assert_eq!(read(b"no model at all"), Err(Refusal::CutOff));
        let replaced = |from: &str, to: &str| {
            assert_eq!(from.len(), to.len());
            let mut bytes = good.clone();
            let at = bytes.windows(from.len()).position(|w| w == from.as_bytes()).unwrap();
            bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
            read(&bytes).unwrap_err()
        };
        assert_eq!(replaced(KIND, "large-netwerk"), Refusal::WrongKind("large-netwerk".into()));
        let hash = format!("{:016x}", list_hash());
        assert!(matches!(replaced(&hash, "0123456789abcdef"), Refusal::OtherFeatures(_)));
        assert!(matches!(replaced("Relu", "Tanh"), Refusal::Graph(_)));
        assert_eq!(replaced("digest", "dugest"), Refusal::NoWord("digest"));
        let mut flipped = good.clone();
        let weights = raw(&network.mean);
        let at = flipped.windows(weights.len()).position(|w| w == weights).unwrap();
        flipped[at] ^= 1;
        assert_eq!(read(&flipped), Err(Refusal::Damaged));
        let narrow = sample(&[COUNT, 8, OUTPUTS - 1]);
        assert!(matches!(read(&write(&narrow, &GOLDEN, &[])), Err(Refusal::Graph(_))));
    }

    #[test]
    fn noise_is_refused_and_never_panics() {
        let network = sample(&[COUNT, 4, OUTPUTS]).quantised();
        let good = write(&network, &GOLDEN, &[]);
        for place in (0..good.len()).step_by(3) {
            for value in [0, 0xff, 0x0a] {
                let mut bytes = good.clone();
                bytes[place] = value;
                let _ = read(&bytes);
            }
        }
    }
}
