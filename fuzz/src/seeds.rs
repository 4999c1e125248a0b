//! The models that mutants are made of: one for each sample of an operator, and those of the tests.

use onnxc_proto::ModelProto;
use std::sync::OnceLock;

/// A sample node of each operator, which the compiler's tests compile.
const SAMPLES: &str = include_str!("../../compiler/src/cli/ops/samples.txt");

const MODELS: [&str; 6] = [
    include_str!("../../tests/models/cache.onnxtxt"),
    include_str!("../../tests/models/defaults.onnxtxt"),
    include_str!("../../tests/models/free.onnxtxt"),
    include_str!("../../tests/models/mlp.onnxtxt"),
    include_str!("../../tests/models/network.onnxtxt"),
    include_str!("../../tests/models/network_int8.onnxtxt"),
];

/// Returns all seeds.
pub fn all() -> &'static [ModelProto] {
    static SEEDS: OnceLock<Vec<ModelProto>> = OnceLock::new();
    SEEDS.get_or_init(|| {
        let samples = SAMPLES.lines().filter_map(sample);
        let texts = samples.chain(MODELS.iter().map(|&text| text.to_owned()));
        texts.filter_map(|text| onnxc::import::decode(text.into_bytes().into()).ok()).collect()
    })
}

/// Makes a model of a sample: its lists in brackets are shapes of inputs, those in braces are
/// constants. Samples of particular versions and types are left out.
fn sample(line: &str) -> Option<String> {
    if line.contains(['#', '^', '"']) {
        return None;
    }
    let (head, rest) = line.rsplit_once(" (")?;
    let (operands, _) = rest.split_once(')')?;
    let name = head.split(' ').next()?;
    if head[name.len()..].trim_start().starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (mut inputs, mut constants, mut arguments) = (Vec::new(), Vec::new(), Vec::new());
    for (i, operand) in operands.split_inclusive([']', '}']).enumerate() {
        let operand = operand.trim_start_matches([',', ' ']);
        let name = format!("x{i}");
        if let Some(list) = operand.strip_prefix('{').and_then(|list| list.strip_suffix('}')) {
            let count = list.split(',').count();
            constants.push(format!("int64[{count}] {name} = {{{list}}}"));
        } else if let Some(shape) = operand.strip_prefix('[').and_then(|s| s.strip_suffix(']')) {
            inputs.push(format!("float[{shape}] {name}"));
        } else {
            return None;
        }
        arguments.push(name);
    }
    let constants = match constants.as_slice() {
        [] => String::new(),
        all => format!("<{}>", all.join(", ")),
    };
    Some(format!(
        "<ir_version: 10, opset_import: [\"\" : 21]>
         g ({}) => (y) {constants} {{ y = {head} ({}) }}",
        inputs.join(", "),
        arguments.join(", ")
    ))
}
