//! Hostile names: a name in ONNX may be any text. For all names and documentation of a model, the
//! module compiles without warnings, and its documentation has no markup from the model.

use crate::programs::{rustc, rustdoc, scratch};
use onnxc::Options;
use onnxc_proto::{
    FunctionProto, GraphProto, Message, ModelProto, NodeProto, OperatorSetIdProto,
    StringStringEntryProto, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto,
    tensor_shape_proto::{Dimension, dimension::Value as Size},
    type_proto,
};
use std::{fs, path::Path};

/// Text with a meaning in Rust, in Markdown or on a terminal.
const HOSTILE: &[&str] = &[
    " ",
    "two\nlines\r\n\ttabs",
    "*/ /* // /// //! #![x]",
    "\" \\ ' {} {0} \\u{41} \\",
    "r#\"raw\"# b'x' '\\''",
    "bidi \u{202e} \u{2066} \u{200b} \u{feff} marks",
    "nul \0 bell \u{7} escape \u{1b}[31m",
    "emoji 🦀 and ünïcödé ｆｕｌｌ",
    "1x1",
    "fn",
    "r#fn",
    "self",
    "Self",
    "_",
    "__",
    "$crate",
    "| a | table | \\| cell |",
    "`code` ``more`` ```rust",
    "    let indented = code();",
    "<script>alert('evil')</script> <b>bold</b> <!-- comment -->",
    "[link](http://evil.example/) [`Nowhere`] [Vec] ![image](http://evil.example/i.png)",
    "http://evil.example/ https://evil.example www.evil.example <http://evil.example>",
    "# heading",
    "===\n---\n- list\n1. list\n> quote\n+ list",
    "&lt;b&gt; &amp; $x^2$ ~~gone~~ *a* _b_ **c**",
    "../../etc/passwd",
    "con:aux|nul",
    // Letters without a case, and letters that rustc calls uncommon.
    "日本",
    "ſǆŉıİ",
];

/// Names of generated code, names of Rust's prelude, and names that become the same identifier.
const TAKEN: &[&str] = &[
    "infer",
    "infer_in",
    "new",
    "reset",
    "with_weights",
    "Model",
    "ModelOutput",
    "ModelArena",
    "Inline",
    "Heap",
    "Dynamic",
    "State",
    "state",
    "arena",
    "weights",
    "WEIGHTS",
    "strings",
    "STRINGS",
    "sizes",
    "borrow",
    "heap",
    "broadcast",
    "x",
    "x_2",
    "x_absent",
    "x_given",
    "y",
    "y_given",
    "usize",
    "f32",
    "bool",
    "str",
    "u8",
    "char",
    "String",
    "Vec",
    "Option",
    "Some",
    "None",
    "Result",
    "Ok",
    "Err",
    "Default",
    "Clone",
    "Debug",
    "Box",
    "Iterator",
    "Sized",
    "Send",
    "drop",
    "main",
    "core",
    "std",
    "alloc",
    "onnxc_runtime",
    "View",
    "Tensor",
    "Slot",
    "DynamicSlot",
    "Aligned",
    "Block",
    "Error",
    "Weights",
    "view",
    "conv",
    "binary",
    "unary",
    "variadic",
    "reshape",
    "fn",
    "fn_",
    "FN",
    "r#fn",
    "type",
    "gen",
    "async",
    "try",
    "union",
    "macro_rules",
    "self",
    "Self",
    "super",
    "crate",
    "a.b",
    "a/b",
    "a_b",
    "A_B",
    "aB",
    "a__b",
    "_a_b_",
    "i128",
    "matches",
    "assert",
    "include_bytes",
    "comment",
    "blank",
    "日本",
    "x_日本",
];

fn named(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn float(name: &str, sizes: &[Size]) -> ValueInfoProto {
    let dims = sizes.iter().map(|size| Dimension { value: Some(size.clone()), denotation: None });
    let shape = Some(TensorShapeProto { dim: dims.collect() });
    let ty = type_proto::Tensor { elem_type: Some(1), shape };
    ValueInfoProto {
        name: named(name),
        r#type: Some(TypeProto {
            value: Some(type_proto::Value::TensorType(ty)),
            ..TypeProto::default()
        }),
        doc_string: named(name),
        ..ValueInfoProto::default()
    }
}

fn node(domain: &str, op_type: &str, inputs: &[&str], output: &str, name: &str) -> NodeProto {
    NodeProto {
        input: inputs.iter().map(|&input| input.to_owned()).collect(),
        output: vec![output.to_owned()],
        name: named(name),
        op_type: named(op_type),
        domain: named(domain),
        doc_string: named(name),
        ..NodeProto::default()
    }
}

fn model(graph: GraphProto, functions: Vec<FunctionProto>, text: &str) -> ModelProto {
    let opset = |domain: &str, version| OperatorSetIdProto {
        domain: named(domain),
        version: Some(version),
    };
    let entry = StringStringEntryProto { key: named(text), value: named(text) };
    let opsets = [opset("", 21)].into_iter();
    let own = functions.iter().map(|function| opset(function.domain(), 1));
    ModelProto {
        ir_version: Some(10),
        opset_import: opsets.chain(own).collect(),
        producer_name: named(text),
        producer_version: named(text),
        domain: named(text),
        doc_string: named(text),
        metadata_props: vec![entry],
        graph: Some(graph),
        functions,
        ..ModelProto::default()
    }
}

/// Returns a model all of whose parts are named `text`, with a suffix where names must differ.
fn everywhere(text: &str, size: Size) -> ModelProto {
    let marked = |mark: &str| format!("{text}{mark}");
    let (input, scale, default) = (marked("!"), marked("?"), marked("%"));
    let (called, output, other) = (marked("+"), marked("="), marked("@"));
    let sizes = [size, Size::DimValue(2)];
    let weight = |name: &str| TensorProto {
        dims: vec![2],
        data_type: Some(1),
        float_data: vec![1.0, 2.0],
        name: named(name),
        ..TensorProto::default()
    };
    let domain = marked(".domain");
    let function = FunctionProto {
        name: named(&called),
        domain: named(&domain),
        input: vec![input.clone(), called.clone()],
        output: vec![output.clone()],
        node: vec![node("", "Mul", &[&input, &called], &output, text)],
        opset_import: vec![OperatorSetIdProto { domain: named(""), version: Some(21) }],
        doc_string: named(text),
        ..FunctionProto::default()
    };
    let graph = GraphProto {
        name: named(text),
        doc_string: named(text),
        input: vec![float(&input, &sizes), float(&default, &[Size::DimValue(2)])],
        output: vec![float(&output, &sizes), float(&other, &sizes)],
        initializer: vec![weight(&scale), weight(&default)],
        node: vec![
            node(&domain, &called, &[&input, &scale], &called, text),
            node("", "Add", &[&called, &default], &output, text),
            node("", "Relu", &[&output], &other, text),
        ],
        ..GraphProto::default()
    };
    model(graph, vec![function], text)
}

/// Returns a model with an input and outputs of each name, and dimensions of these names or of a
/// fixed size. One output of each has a size that a run computes.
fn all_at_once(names: &[&str], size: Option<i64>) -> ModelProto {
    let size = |name: &str| size.map_or(Size::DimParam(name.to_owned()), Size::DimValue);
    let sizes = |name: &str| [size(name), Size::DimValue(2)];
    let [output, found] = ["", "/"].map(|mark| move |name: &str| format!("{name}{mark} "));
    let outputs = |name: &&str| {
        let count = Size::DimParam(format!("{name} count"));
        [float(&output(name), &sizes(name)), float(&found(name), &[count])]
    };
    let nodes = |name: &&str| {
        [("Neg", output(name)), ("Unique", found(name))]
            .map(|(op, output)| node("", op, &[name], &output, name))
    };
    let graph = GraphProto {
        name: named("all"),
        input: names.iter().map(|name| float(name, &sizes(name))).collect(),
        output: names.iter().flat_map(outputs).collect(),
        node: names.iter().flat_map(nodes).collect(),
        ..GraphProto::default()
    };
    model(graph, Vec::new(), "")
}

/// A library of modules, written file by file.
struct Library<'d> {
    directory: &'d Path,
    source: String,
    count: usize,
}

impl Library<'_> {
    fn add(&mut self, model: &ModelProto, name: &str, options: &Options) {
        let module = format!("m{}", self.count);
        let mut options = options.clone();
        (options.name, options.stem) = (named(name), named(&module));
        let bytes = model.encode_to_vec().into();
        let output = onnxc::Compiler::new(&options).compile_bytes(bytes, &module);
        let output = output.map_err(|diagnostics| panic!("{name:?}: {diagnostics}"));
        let Ok(output) = output;
        output
            .write(&self.directory.join(format!("{module}.rs")))
            .expect("the scratch directory is writable");
        // Lines stay short enough to read.
        let longest = output.module.code.lines().map(str::len).max();
        assert!(longest < Some(2000), "{name:?}: a line of {longest:?} bytes");
        self.source += &format!("pub mod {module};\n");
        self.count += 1;
    }
}

#[test]
fn hostile_names_compile_without_warnings() {
    let directory = scratch("names");
    let source = "//! Modules.\n#![deny(warnings, missing_docs)]\n#![allow(missing_docs)]\n".into();
    let mut library = Library { directory: &directory, source, count: 0 };
    let long = "long name ".repeat(1000);
    for text in HOSTILE.iter().copied().chain([&*long]) {
        for size in [Size::DimValue(3), Size::DimParam(text.to_owned())] {
            library.add(&everywhere(text, size), text, &Options::default());
        }
        let mut bounded = Options::default();
        bounded.settings.states.insert(format!("{text}!"), format!("{text}="));
        library.add(&everywhere(text, Size::DimValue(3)), text, &bounded);
    }
    for size in [None, Some(2)] {
        for name in TAKEN {
            library.add(&all_at_once(&[name], size), name, &Options::default());
        }
        library.add(&all_at_once(TAKEN, size), "all", &Options::default());
    }
    let file = directory.join("lib.rs");
    fs::write(&file, &library.source).expect("the scratch directory is writable");
    for edition in ["2021", "2024"] {
        let output = rustc(&file, edition, "lib");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.is_empty(), "{text}");
    }
    let docs = directory.join("doc");
    let output = rustdoc(&file, "2024", &docs);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for page in pages(&docs) {
        let text = fs::read_to_string(&page).expect("rustdoc writes UTF-8");
        for injected in ["<script>alert", "<b>bold", "href=\"http://evil", "src=\"http://evil"] {
            assert!(!text.contains(injected), "{}: {injected}", page.display());
        }
    }
}

/// Lists the pages below a directory.
fn pages(directory: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(directory).expect("rustdoc wrote the page").flatten();
    let (folders, files): (Vec<_>, Vec<_>) =
        entries.map(|entry| entry.path()).partition(|path| path.is_dir());
    let inside = folders.iter().flat_map(|folder| pages(folder));
    let files = files.into_iter().filter(|path| path.extension().is_some_and(|end| end == "html"));
    files.chain(inside).collect()
}
