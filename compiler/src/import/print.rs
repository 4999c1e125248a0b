//! Prints messages in ONNX's textual syntax, which [`super::text`] parses.
//!
//! The syntax cannot express documentation and metadata of values and nodes, quantization
//! annotations and training. They are printed as comments. ONNX's own parser reads the rest except
//! for sparse constants in attributes, and quotes around parts of an operator's domain or the name
//! of a subgraph. Such quotes are printed only around text that is not an identifier.

use super::{
    external::Files,
    tensor::tensor,
    text::{CONTAINERS, is_special, kind_name},
};
use crate::{check, dtype::DType, tensor::Tensor};
use onnxc_proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    SparseTensorProto, StringStringEntryProto, TensorProto, TensorShapeProto, TypeProto,
    ValueInfoProto, attribute_proto::AttributeType, tensor_proto::DataLocation,
    tensor_shape_proto::dimension::Value as Size, type_proto::Value,
};

/// Prints `model`. Constants of more than `longest` elements are printed as `{...}`, which cannot
/// be parsed again.
pub fn model(model: &ModelProto, longest: usize) -> String {
    let mut printer = Printer { text: String::new(), depth: 0, longest };
    printer.model(model);
    printer.text
}

struct Printer {
    text: String,
    depth: usize,
    longest: usize,
}

impl Printer {
    fn line(&mut self, line: &str) {
        self.text.extend(std::iter::repeat_n("    ", self.depth));
        self.text += line;
        self.text.push('\n');
    }

    /// Prints a line for each of `items`, between the lines `open` and `close`.
    fn block<T>(
        &mut self,
        (open, separator, close): (&str, &str, &str),
        items: &[T],
        text: impl Fn(&Self, &T) -> String,
    ) {
        self.line(open);
        self.depth += 1;
        for (i, item) in items.iter().enumerate() {
            let end = if i + 1 < items.len() { separator } else { "" };
            let line = text(self, item) + end;
            self.line(&line);
        }
        self.depth -= 1;
        self.line(close);
    }

    fn comment(&mut self, text: &str) {
        text.lines().for_each(|line| self.line(format!("# {line}").trim_end()));
    }

    fn remarks(&mut self, of: &str, doc: &str, metadata: &[StringStringEntryProto]) {
        let entries = metadata.iter().map(|e| format!("{} = {}", e.key(), e.value()));
        for text in Some(doc.to_owned()).filter(|doc| !doc.is_empty()).into_iter().chain(entries) {
            self.comment(&format!("{of}{text}"));
        }
    }

    fn header(&mut self, fields: &[(&str, Option<String>)]) {
        let said =
            fields.iter().filter_map(|(key, value)| Some(format!("{key}: {}", value.as_ref()?)));
        self.block(("<", ",", ">"), &said.collect::<Vec<_>>(), |_, line| line.clone());
    }

    fn model(&mut self, model: &ModelProto) {
        let metadata = &model.metadata_props;
        let metadata =
            list("[", metadata, |e| format!("{}: {}", quote(e.key()), quote(e.value())), "]");
        self.header(&[
            ("ir_version", Some(model.ir_version().to_string())),
            ("opset_import", Some(opsets(&model.opset_import))),
            ("producer_name", model.producer_name.as_deref().map(quote)),
            ("producer_version", model.producer_version.as_deref().map(quote)),
            ("domain", model.domain.as_deref().map(quote)),
            ("model_version", model.model_version.map(|version| version.to_string())),
            ("doc_string", model.doc_string.as_deref().map(quote)),
            ("metadata_props", Some(metadata).filter(|_| !model.metadata_props.is_empty())),
        ]);
        if let Some(graph) = &model.graph {
            self.graph(graph, "", "");
        }
        for function in &model.functions {
            self.text.push('\n');
            self.function(function);
        }
        self.training(model);
    }

    fn function(&mut self, function: &FunctionProto) {
        self.remarks("", "", &function.metadata_props);
        self.header(&[
            ("domain", function.domain.as_deref().map(quote)),
            ("overload", function.overload.as_deref().map(quote)),
            ("opset_import", Some(opsets(&function.opset_import))),
            ("doc_string", function.doc_string.as_deref().map(quote)),
        ]);
        let plain = function.attribute.iter().map(|attribute| name(attribute));
        let with_default =
            function.attribute_proto.iter().map(|attribute| self.attribute(attribute));
        let attributes: Vec<String> = plain.chain(with_default).collect();
        let attributes = match attributes.is_empty() {
            true => String::new(),
            false => list(" <", &attributes, String::clone, ">"),
        };
        let names = |names: &[String]| list("(", names, |text| name(text), ")");
        let (inputs, outputs) = (names(&function.input), names(&function.output));
        self.line(&format!("{}{attributes} {inputs} => {outputs}", name(function.name())));
        if !function.value_info.is_empty() {
            self.block(("<", ",", ">"), &function.value_info, |_, value| typed(value));
        }
        self.nodes(&function.node);
    }

    /// Prints a graph, with `before` in front of its name and `after` at its end.
    fn graph(&mut self, graph: &GraphProto, before: &str, after: &str) {
        self.remarks("", graph.doc_string(), &graph.metadata_props);
        for value in graph.input.iter().chain(&graph.output).chain(&graph.value_info) {
            self.remarks(&format!("{}: ", value.name()), value.doc_string(), &value.metadata_props);
        }
        for annotation in &graph.quantization_annotation {
            let of = format!("{}: ", annotation.tensor_name());
            self.remarks(&of, "", &annotation.quant_parameter_tensor_names);
        }
        let values = |values: &[ValueInfoProto]| list("(", values, typed, ")");
        let (inputs, outputs) = (values(&graph.input), values(&graph.output));
        self.line(&format!("{before}{} {inputs} => {outputs}", name(graph.name())));
        // No node can use what has no name, and the syntax has no place for it.
        let constants = graph.initializer.iter().filter(|tensor| !tensor.name().is_empty());
        let constants = constants.map(|tensor| self.tensor(tensor, " = "));
        let is_named = |tensor: &&SparseTensorProto| {
            tensor.values.as_ref().is_some_and(|values| !values.name().is_empty())
        };
        let sparse = graph.sparse_initializer.iter().filter(is_named);
        let sparse = sparse.map(|tensor| self.sparse(tensor, " = "));
        let values = graph.value_info.iter().filter(|value| !value.name().is_empty()).map(typed);
        let lines: Vec<String> = constants.chain(sparse).chain(values).collect();
        if !lines.is_empty() {
            self.block(("<", ",", ">"), &lines, |_, line| line.clone());
        }
        self.nodes(&graph.node);
        self.text.insert_str(self.text.len() - 1, after);
    }

    fn nodes(&mut self, nodes: &[NodeProto]) {
        self.line("{");
        self.depth += 1;
        nodes.iter().for_each(|node| self.node(node));
        self.depth -= 1;
        self.line("}");
    }

    fn node(&mut self, node: &NodeProto) {
        self.remarks("", node.doc_string(), &node.metadata_props);
        let label = node.name.as_ref().filter(|name| !name.is_empty());
        let label = label.map_or(String::new(), |label| format!("[{}] ", name(label)));
        let names = |names: &[String]| list("", names, |text| name(text), "");
        let (outputs, inputs) = (names(&node.output), names(&node.input));
        let domain = Some(node.domain()).filter(|domain| !domain.is_empty());
        let op = domain.map_or(String::new(), |domain| qualified(domain) + ".");
        let overload = node.overload.as_ref().filter(|overload| !overload.is_empty());
        let overload = overload.map_or(String::new(), |overload| format!(":{}", name(overload)));
        let start = format!("{label}{outputs} = {op}{}{overload}", name(node.op_type()));
        if node
            .attribute
            .iter()
            .any(|attribute| attribute.g.is_some() || !attribute.graphs.is_empty())
        {
            self.line(&format!("{start} ({inputs}) <"));
            self.depth += 1;
            for (i, attribute) in node.attribute.iter().enumerate() {
                let end = if i + 1 < node.attribute.len() { "," } else { "" };
                self.long_attribute(attribute, end);
            }
            self.depth -= 1;
            self.line(">");
        } else {
            let attributes = match node.attribute.is_empty() {
                true => String::new(),
                false => list(" <", &node.attribute, |attribute| self.attribute(attribute), ">"),
            };
            self.line(&format!("{start}{attributes} ({inputs})"));
        }
    }

    /// Prints an attribute that may be a graph, on lines of its own.
    fn long_attribute(&mut self, attribute: &AttributeProto, after: &str) {
        if let Some(graph) = &attribute.g {
            self.graph(graph, &format!("{} = ", name(attribute.name())), after);
        } else if attribute.graphs.is_empty() {
            let line = self.attribute(attribute) + after;
            self.line(&line);
        } else {
            self.line(&format!("{} = [", name(attribute.name())));
            self.depth += 1;
            for (i, graph) in attribute.graphs.iter().enumerate() {
                self.graph(graph, "", if i + 1 < attribute.graphs.len() { "," } else { "" });
            }
            self.depth -= 1;
            self.line(&format!("]{after}"));
        }
    }

    fn attribute(&self, attribute: &AttributeProto) -> String {
        // Files of IR version 1 do not say the type.
        let kind = check::attribute_kind(attribute);
        let said = kind_name(kind).map_or(String::new(), |kind| format!(": {kind}"));
        let name_of = name(attribute.name());
        if let Some(reference) = attribute.ref_attr_name.as_ref().filter(|name| !name.is_empty()) {
            return format!("{name_of}{said} = @{}", name(reference));
        }
        let a = attribute;
        let value = match kind {
            AttributeType::Float => float(a.f()),
            AttributeType::Int => a.i().to_string(),
            AttributeType::String => quote_bytes(a.s()),
            AttributeType::Tensor => a.t.as_deref().map_or("".into(), |t| self.tensor(t, " ")),
            AttributeType::SparseTensor => {
                a.sparse_tensor.as_deref().map_or("".into(), |tensor| self.sparse(tensor, " "))
            }
            AttributeType::TypeProto => a.tp.as_deref().map_or("".into(), ty),
            AttributeType::Floats => list("[", &a.floats, |x| float(*x), "]"),
            AttributeType::Ints => list("[", &a.ints, i64::to_string, "]"),
            AttributeType::Strings => list("[", &a.strings, |s| quote_bytes(s), "]"),
            AttributeType::Tensors => list("[", &a.tensors, |t| self.tensor(t, " "), "]"),
            AttributeType::SparseTensors => {
                list("[", &a.sparse_tensors, |tensor| self.sparse(tensor, " "), "]")
            }
            AttributeType::TypeProtos => list("[", &a.type_protos, ty, "]"),
            AttributeType::Graph | AttributeType::Graphs | AttributeType::Undefined => "[]".into(),
        };
        // Only an empty list needs its type.
        let said = if value == "[]" { said } else { String::new() };
        format!("{name_of}{said} = {value}")
    }

    fn tensor(&self, proto: &TensorProto, between: &str) -> String {
        let dims = match proto.dims.is_empty() {
            true => String::new(),
            false => list("[", &proto.dims, i64::to_string, "]"),
        };
        let named = proto.name.as_ref().filter(|name| !name.is_empty());
        let named = named.map_or(String::new(), |text| format!(" {}", name(text)));
        let data = if proto.data_location() == DataLocation::External {
            let entry =
                |e: &StringStringEntryProto| format!("{}: {}", quote(e.key()), quote(e.value()));
            list("[", &proto.external_data, entry, "]")
        } else {
            self.elements(proto)
        };
        // The parser needs a name or `=` before external data.
        let between = if data.starts_with('[') { " = " } else { between };
        format!("{}{dims}{named}{between}{data}", dtype(proto.data_type()))
    }

    fn sparse(&self, proto: &SparseTensorProto, between: &str) -> String {
        let (missing, none) = (TensorProto::default(), Vec::new());
        let values = proto.values.as_ref().unwrap_or(&missing);
        let indices = proto.indices.as_ref();
        let dims = if proto.dims.is_empty() { &none } else { &proto.dims };
        let of = format!("{}{}", dtype(values.data_type()), list("[", dims, i64::to_string, "]"));
        let named = values.name.as_ref().filter(|name| !name.is_empty());
        let named = named.map_or(String::new(), |text| format!(" {}", name(text)));
        let places = indices.map_or("{}".into(), |indices| self.elements(indices));
        format!("sparse_tensor({of}){named}{between}{} at {places}", self.elements(values))
    }

    /// The elements, or dots if there are too many or they cannot be read.
    fn elements(&self, proto: &TensorProto) -> String {
        match tensor(proto, &Files::none()) {
            Ok(tensor) if tensor.len() <= self.longest => {
                list("{", &elements(&tensor), String::clone, "}")
            }
            Ok(_) | Err(_) => "{...}".into(),
        }
    }

    fn training(&mut self, model: &ModelProto) {
        for info in &model.training_info {
            let mut printer = Printer { text: String::new(), depth: 0, longest: self.longest };
            for (what, graph, bindings) in [
                ("initialization", &info.initialization, &info.initialization_binding),
                ("algorithm", &info.algorithm, &info.update_binding),
            ] {
                if let Some(graph) = graph {
                    printer.graph(graph, &format!("{what}: "), "");
                    printer.remarks("update ", "", bindings);
                }
            }
            self.text.push('\n');
            self.comment(&printer.text);
        }
    }
}

fn list<T>(open: &str, items: &[T], text: impl Fn(&T) -> String, close: &str) -> String {
    let items: Vec<String> = items.iter().map(text).collect();
    format!("{open}{}{close}", items.join(", "))
}

fn opsets(opsets: &[OperatorSetIdProto]) -> String {
    list("[", opsets, |set| format!("{} : {}", quote(set.domain()), set.version()), "]")
}

/// A name, in quotes if it would not be parsed as one otherwise.
fn name(text: &str) -> String {
    let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && text.bytes().next().is_some_and(|b| !b.is_ascii_digit());
    let word = is_special(text) || CONTAINERS.contains(&text) || DType::from_name(text).is_some();
    if plain && !word { text.to_owned() } else { quote(text) }
}

/// A name of several parts, joined by dots.
fn qualified(text: &str) -> String {
    text.split('.').map(name).collect::<Vec<_>>().join(".")
}

fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn quote_bytes(text: &[u8]) -> String {
    quote(&String::from_utf8_lossy(text))
}

fn float(x: f32) -> String {
    format!("{x:?}")
}

fn typed(value: &ValueInfoProto) -> String {
    let ty = value.r#type.as_ref().map_or(String::new(), |proto| ty(proto) + " ");
    ty + &name(value.name())
}

fn dtype(code: i32) -> String {
    DType::from_code(code).map_or_else(|| format!("type_{code}"), |dtype| dtype.to_string())
}

fn ty(proto: &TypeProto) -> String {
    let inner = |proto: Option<&TypeProto>| proto.map_or(String::new(), ty);
    match &proto.value {
        Some(Value::TensorType(of)) => tensor_type(of.elem_type(), of.shape.as_ref()),
        Some(Value::SparseTensorType(of)) => {
            format!("sparse_tensor({})", tensor_type(of.elem_type(), of.shape.as_ref()))
        }
        Some(Value::SequenceType(of)) => format!("seq({})", inner(of.elem_type.as_deref())),
        Some(Value::OptionalType(of)) => format!("optional({})", inner(of.elem_type.as_deref())),
        Some(Value::MapType(of)) => {
            format!("map({}, {})", dtype(of.key_type()), inner(of.value_type.as_deref()))
        }
        Some(Value::OpaqueType(of)) => {
            let parts = [&of.domain, &of.name].into_iter().flatten();
            let parts: Vec<&String> = parts.collect();
            // Only the first may contain dots.
            let (first, rest) = parts.split_at(parts.len().min(1));
            let first = first.iter().map(|text| qualified(text));
            let parts: Vec<String> = first.chain(rest.iter().map(|text| name(text))).collect();
            list("opaque(", &parts, String::clone, ")")
        }
        None => String::new(),
    }
}

fn tensor_type(code: i32, shape: Option<&TensorShapeProto>) -> String {
    let size = |dim: &onnxc_proto::tensor_shape_proto::Dimension| match &dim.value {
        Some(Size::DimValue(size)) => size.to_string(),
        Some(Size::DimParam(text)) if !text.is_empty() => name(text),
        Some(Size::DimParam(_)) | None => "?".into(),
    };
    let shape = match shape {
        None => "[]".into(),
        Some(shape) if shape.dim.is_empty() => String::new(),
        Some(shape) => list("[", &shape.dim, size, "]"),
    };
    format!("{}{shape}", dtype(code))
}

/// The elements of a constant: as numbers if ONNX's syntax has numbers for the type, else as bits.
fn elements(tensor: &Tensor) -> Vec<String> {
    if let Some(strings) = tensor.strings() {
        return strings.iter().map(|text| quote(text)).collect();
    }
    let single =
        |bytes: &[u8]| bytes.as_chunks().0.iter().map(|&b| float(f32::from_le_bytes(b))).collect();
    let double = |bytes: &[u8]| {
        bytes.as_chunks().0.iter().map(|&b| format!("{:?}", f64::from_le_bytes(b))).collect()
    };
    let bytes = tensor.bytes();
    match tensor.dtype {
        DType::F32 | DType::C64 => single(bytes),
        DType::F64 | DType::C128 => double(bytes),
        DType::F16 | DType::BF16 => {
            bytes.as_chunks().0.iter().map(|&b| u16::from_le_bytes(b).to_string()).collect()
        }
        DType::U64 => {
            bytes.as_chunks().0.iter().map(|&b| u64::from_le_bytes(b).to_string()).collect()
        }
        _ => match tensor.ints() {
            Some(ints) => ints.iter().map(i64::to_string).collect(),
            None => bytes.iter().map(u8::to_string).collect(),
        },
    }
}
