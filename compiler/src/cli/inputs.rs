//! Reads the inputs of runs from files.

use super::{files, message};
use onnxc::{
    diag::{Code, Diagnostic, DiagnosticSink, Diagnostics, quoted},
    dim::Symbol,
    plan::{Custom, Plan, Port},
    ty::Type,
    value::Value,
};
use onnxc_proto::GraphProto;
use std::{collections::BTreeMap, path::Path};

/// The inputs of one run, by name.
pub type Inputs = BTreeMap<String, Value>;

/// Distributes the files of each input to runs. An input with a single file has the same value in
/// all runs.
pub fn runs(inputs: BTreeMap<String, Vec<Value>>) -> Result<Vec<Inputs>, Diagnostic> {
    let count = inputs.values().map(Vec::len).max().unwrap_or(1);
    if let Some((name, values)) =
        inputs.iter().find(|(_, v)| !matches!(v.len(), 1) && v.len() != count)
    {
        let message =
            format!("{} has {} files, but another input has {count}", quoted(name), values.len());
        return Err(Diagnostic::new(Code::BadOption, message));
    }
    let of = |run: usize, values: &[Value]| values.get(run).unwrap_or(&values[0]).clone();
    let one = |run| inputs.iter().map(|(name, all)| (name.clone(), of(run, all))).collect();
    Ok((0..count).map(one).collect())
}

/// Returns an error if the plan calls a custom operator, whose function this program lacks.
pub fn callable(plan: &Plan) -> Result<(), Diagnostic> {
    let Some(&Custom { operator, function, .. }) = plan.customs().first() else { return Ok(()) };
    let message = format!(
        "the operator {} calls {}, a function of your program",
        quoted(operator),
        quoted(function)
    );
    Err(Diagnostic::new(Code::Unsupported, message)
        .help("compile the model, and call the module from your program"))
}

/// Reads the files of `NAME=FILE` arguments, by name.
pub fn read(
    texts: &[String],
    graph: Option<&GraphProto>,
) -> Result<BTreeMap<String, Vec<Value>>, Diagnostics> {
    let mut inputs: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let diagnostics = DiagnosticSink::default();
    for text in texts {
        let (name, file) = split(text);
        let mut infos = graph.iter().flat_map(|graph| &graph.input);
        let ty = infos.find(|info| info.name() == name).and_then(|info| info.r#type.as_ref());
        if let Some(value) = diagnostics.keep(files::read(Path::new(file), ty)) {
            inputs.entry(name.to_owned()).or_default().push(value);
        }
    }
    diagnostics.finish()?;
    Ok(inputs)
}

/// Splits a `NAME=FILE` argument. The names of inputs and of files may contain an equals sign. The
/// first existing file counts.
fn split(text: &str) -> (&str, &str) {
    let splits = text.match_indices('=').map(|(at, _)| (&text[..at], &text[at + 1..]));
    let split = splits.clone().find(|(_, file)| Path::new(file).is_file());
    split
        .or_else(|| splits.clone().next())
        .expect("the parser of `--input` requires an equals sign")
}

/// Returns an error for each input that several `NAME=FILE` arguments of `command` name.
pub fn repeated<'t>(command: &str, texts: impl Iterator<Item = &'t String>) -> Vec<Diagnostic> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    texts.for_each(|text| *counts.entry(split(text).0).or_default() += 1);
    let error = |(name, count): (&str, usize)| {
        let name = quoted(name);
        let message = format!("the input {name} has {count} files, but the model runs once");
        let help = format!("`onnxc {command}` takes one file for each input; `onnxc run` several");
        Diagnostic::new(Code::BadOption, message).help(help)
    };
    counts.into_iter().filter(|(_, count)| *count > 1).map(error).collect()
}

/// The errors for inputs that the model does not have.
pub fn unknown(names: &[&str], inputs: &Inputs) -> Vec<Diagnostic> {
    let known: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    let diagnostic = |name: &String| {
        let message = format!("the model has no input {}", quoted(name));
        let note = match known.is_empty() {
            true => "it has none".to_owned(),
            false => format!("its inputs are {}", known.join(", ")),
        };
        let error = Diagnostic::new(Code::BadOption, message).note(note);
        let open = names.iter().copied().filter(|&name| !inputs.contains_key(name));
        message::suggest(error, name, open)
    };
    inputs.keys().filter(|name| !names.contains(&name.as_str())).map(diagnostic).collect()
}

/// Returns the inputs in the order of the plan.
pub fn in_order(plan: &Plan, inputs: &Inputs) -> Result<Vec<Value>, Diagnostics> {
    let names: Vec<&str> = plan.inputs.iter().map(|port| port.name.as_str()).collect();
    let (mut diagnostics, mut last) = (unknown(&names, inputs), None);
    let (mut given, mut sizes) = (Vec::new(), Sizes::default());
    for port in &plan.inputs {
        match one(port, inputs) {
            Ok(value) => {
                let contradictions = sizes.add(port, &value);
                if !contradictions.is_empty() {
                    diagnostics.extend(contradictions);
                    last = Some(diagnostics.len() - 1);
                }
                given.push(value);
            }
            Err(diagnostic) => diagnostics.push(diagnostic),
        }
    }
    // One command names all sizes anew.
    if let Some(last) = last {
        diagnostics[last].help = Some(sizes.help());
    }
    if diagnostics.is_empty() { Ok(given) } else { Err(Diagnostics(diagnostics)) }
}

fn one(port: &Port, inputs: &Inputs) -> Result<Value, Diagnostic> {
    let name = quoted(&port.name);
    match (inputs.get(&port.name), &port.ty) {
        (Some(value), ty) if fits(value, ty) => Ok(value.clone()),
        (Some(Value::Optional(None)), _) if port.default.is_some() => Ok(Value::Optional(None)),
        (Some(value), wanted) => {
            let found = described(value, wanted);
            let message = format!("the input {name} is {found}, but the model takes {wanted}");
            Err(Diagnostic::new(Code::Refused, message))
        }
        (None, Type::Optional(_)) => Ok(Value::Optional(None)),
        (None, _) if port.default.is_some() => Ok(Value::Optional(None)),
        (None, _) => {
            let message = format!("the input {name} is not given");
            Err(Diagnostic::new(Code::BadOption, message)
                .help(format!("set `--input {}=FILE`", port.name)))
        }
    }
}

/// Returns whether a value has a type, as far as the sizes are numbers.
fn fits(value: &Value, ty: &Type) -> bool {
    match (value, ty) {
        (Value::Optional(None), _) => matches!(ty, Type::Optional(_)),
        (Value::Optional(Some(value)), ty) => fits(value, ty),
        (value, Type::Optional(ty)) => fits(value, ty),
        (Value::Tensor(tensor), Type::Tensor(ty)) => {
            let mut sizes = ty.shape.iter().zip(&tensor.shape);
            tensor.dtype == ty.dtype
                && tensor.shape.len() == ty.rank()
                && sizes.all(|(dim, &size)| dim.known().is_none_or(|dim| dim == size as i64))
        }
        (Value::Sequence(values), Type::Sequence(element)) => {
            values.iter().all(|value| is_element(value, element))
        }
        (Value::Map(keys, values), Type::Map(key, ty)) => {
            (Some(keys.dtype), Some(values.dtype)) == (Some(*key), ty.dtype())
        }
        (Value::Tensor(_) | Value::Sequence(_) | Value::Map(..), _) => false,
    }
}

/// Returns whether a value can be in a sequence of `element`, where the sizes may differ.
fn is_element(value: &Value, element: &Type) -> bool {
    match (value, element) {
        (Value::Tensor(tensor), Type::Tensor(ty)) => {
            (tensor.dtype, tensor.shape.len()) == (ty.dtype, ty.rank())
        }
        (Value::Tensor(tensor), ty) => ty.key().is_none() && ty.dtype() == Some(tensor.dtype),
        (value, ty) => fits(value, ty),
    }
}

/// Says what a value is that does not have the type `wanted`.
fn described(value: &Value, wanted: &Type) -> String {
    match value {
        Value::Tensor(tensor) => tensor.ty().to_string(),
        Value::Optional(Some(value)) => described(value, wanted),
        Value::Sequence(values) => {
            let element = wanted.content().element().unwrap_or(wanted);
            match values.iter().find(|value| !is_element(value, element)) {
                Some(value) => format!("a sequence with {}", described(value, element)),
                None => value.kind().to_owned(),
            }
        }
        Value::Map(keys, values) => format!("map({}, {})", keys.dtype, values.dtype),
        Value::Optional(None) => value.kind().to_owned(),
    }
}

/// The sizes of the inputs so far, and how to name those anew that contradict one another.
#[derive(Default)]
struct Sizes<'p> {
    /// The first input that has a symbol, and the size there.
    known: BTreeMap<&'p Symbol, (&'p str, usize)>,
    /// The new name of each other size of a symbol.
    renamed: BTreeMap<(&'p Symbol, usize), String>,
    /// The options that give an input its new names.
    options: Vec<String>,
}

impl<'p> Sizes<'p> {
    /// Adds the sizes of an input. Returns the errors for symbols that have another size in an
    /// earlier axis.
    fn add(&mut self, port: &'p Port, value: &Value) -> Vec<Diagnostic> {
        let (Value::Tensor(tensor), Type::Tensor(ty)) = (value, port.ty.content()) else {
            return Vec::new();
        };
        let (mut diagnostics, mut names) = (Vec::new(), Vec::new());
        for (axis, (dim, &size)) in ty.shape.iter().zip(&tensor.shape).enumerate() {
            let mut name = format!("{dim:?}");
            if let Some(symbol) = dim.as_symbol() {
                let &mut (before, known) = self.known.entry(symbol).or_insert((&port.name, size));
                if known != size {
                    let (input, before) = (quoted(&port.name), quoted(before));
                    let message = format!(
                        "`{symbol}` is {size} in the input {input}, but {known} in {before}"
                    );
                    diagnostics.push(Diagnostic::new(Code::Refused, message));
                    let anew = || format!("{}_{axis}", port.name);
                    name.clone_from(self.renamed.entry((symbol, size)).or_insert_with(anew));
                }
            }
            names.push(name);
        }
        if !diagnostics.is_empty() {
            self.options.push(format!("--shape {}={}", port.name, names.join(",")));
        }
        diagnostics
    }

    /// Returns the help for sizes that contradict one another: all options that they need.
    fn help(&self) -> String {
        let what = if self.renamed.len() == 1 { "one" } else { "them" };
        format!("if the sizes differ, name {what} anew: `{}`", self.options.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxc::tensor::Tensor;

    #[test]
    fn all_errors_in_the_inputs_are_reported_at_once() {
        let text = "<ir_version: 10, opset_import: [\"\" : 21]>
            g (float[n] a, float[n] b, int64 c, seq(float[2]) d, float e) => (float[n] y) {
                y = Sum(a, b, e)
            }";
        let planned = onnxc::Compiler::new(&onnxc::Options::default()).plan(text.into());
        let plan = planned.expect("the model is valid");
        let floats = |values: &[f32]| Value::Tensor(Tensor::from_floats(values));
        let given = [("a", floats(&[1.0, 2.0])), ("b", floats(&[1.0])), ("c", floats(&[1.0]))];
        let more = [("d", floats(&[1.0, 2.0])), ("f", floats(&[]))];
        let inputs = given.into_iter().chain(more).map(|(name, value)| (name.to_owned(), value));
        let found = in_order(&plan, &inputs.collect()).expect_err("nothing fits").0;
        let found: Vec<&str> = found.iter().map(|diagnostic| diagnostic.message.as_str()).collect();
        assert_eq!(
            found,
            [
                "the model has no input `f`",
                "`n` is 1 in the input `b`, but 2 in `a`",
                "the input `c` is float[1], but the model takes int64",
                "the input `d` is float[2], but the model takes seq(float[2])",
                "the input `e` is not given",
            ]
        );
    }

    #[test]
    fn an_input_of_another_type_is_described_by_its_content() {
        let text = "<ir_version: 10, opset_import: [\"\" : 21, \"ai.onnx.ml\" : 4]>
            g (map(string, float) m, optional(float[2]) o, seq(float[n]) s) => (y) {
                y = ai.onnx.ml.DictVectorizer<string_vocabulary = [\"a\"]>(m)
            }";
        let planned = onnxc::Compiler::new(&onnxc::Options::default()).plan(text.into());
        let plan = planned.expect("the model is valid");
        let floats = |values: &[f32]| Value::Tensor(Tensor::from_floats(values));
        let keys = || Tensor::from_strings(vec!["a".into()]);
        let matrix = Tensor { shape: vec![1, 2], ..Tensor::from_floats(&[1.0, 2.0]) };
        let map = |keys, values| Value::Map(keys, values);
        let wrong = [
            ("m", map(Tensor::from_ints(&[1]), Tensor::from_floats(&[1.0]))),
            ("o", Value::Optional(Some(floats(&[1.0]).into()))),
            ("s", Value::Sequence(vec![floats(&[1.0]), matrix.into()])),
        ];
        let right = [
            ("m", map(keys(), Tensor::from_floats(&[1.0]))),
            ("o", floats(&[1.0, 2.0])),
            ("s", Value::Sequence(vec![floats(&[]), floats(&[1.0])])),
        ];
        let given = |all: [(&str, Value); 3]| all.map(|(name, value)| (name.to_owned(), value));
        assert!(in_order(&plan, &given(right).into()).is_ok());
        let found = in_order(&plan, &given(wrong).into()).expect_err("nothing fits").0;
        let found: Vec<&str> = found.iter().map(|diagnostic| diagnostic.message.as_str()).collect();
        assert_eq!(
            found,
            [
                "the input `m` is map(int64, float), but the model takes map(string, float[m_len])",
                "the input `o` is float[1], but the model takes optional(float[2])",
                "the input `s` is a sequence with float[1, 2], but the model takes seq(float[?])",
            ]
        );
    }

    #[test]
    fn one_command_settles_all_sizes_that_differ() {
        let text = "<ir_version: 10, opset_import: [\"\" : 21]>
            g (float[n, n, 2] a, float[n, m] h, float[m, n] c) => (float y) {
                y = Constant<value_float = 1.0>()
            }";
        let planned = onnxc::Compiler::new(&onnxc::Options::default()).plan(text.into());
        let plan = planned.expect("the model is valid");
        let zeros = |shape: &[usize]| {
            let count = shape.iter().product();
            let tensor = Tensor::from_floats(&vec![0.0; count]);
            Value::Tensor(Tensor { shape: shape.to_vec(), ..tensor })
        };
        let given = [("a", zeros(&[1, 3, 2])), ("h", zeros(&[3, 4])), ("c", zeros(&[4, 5]))];
        let inputs = given.into_iter().map(|(name, value)| (name.to_owned(), value));
        let found = in_order(&plan, &inputs.collect()).expect_err("sizes differ").0;
        assert_eq!(found.len(), 3);
        let help: Vec<&str> = found.iter().filter_map(|one| one.help.as_deref()).collect();
        let all = "if the sizes differ, name them anew: \
                   `--shape a=n,a_1,2 --shape h=a_1,m --shape c=m,c_1`";
        assert_eq!(help, [all]);
    }
}
