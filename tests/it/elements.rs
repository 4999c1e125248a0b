//! Every element type of ONNX, as input and output of generated modules.

use crate::programs::{run, scratch};
use onnxc::{Options, import::Size};
use std::{fs, path::Path};

/// The element types: the name in ONNX's text, the type in Rust, and six elements.
const TYPES: &[(&str, &str, &str)] = &[
    ("float", "f32", "[0.5, -1.0, 2.0, -0.25, 1e-40, 3e38]"),
    ("double", "f64", "[0.5, -1.0, 2.0, -0.25, 1e-310, 3e300]"),
    ("float16", "f16", "[0x3c00, 0x4000, 0xbc00, 1, 2, 0x7bff].map(f16::from_bits)"),
    ("bfloat16", "bf16", "[0x3f80, 0x4000, 0xbf80, 1, 2, 0x7f7f].map(bf16::from_bits)"),
    ("float8e4m3fn", "F8E4M3FN", "[0, 1, 0x38, 0x7e, 0x80, 0xb8].map(F8E4M3FN::from_bits)"),
    ("float8e4m3fnuz", "F8E4M3FNUZ", "[0, 1, 0x38, 0x7e, 0x81, 0xb8].map(F8E4M3FNUZ::from_bits)"),
    ("float8e5m2", "F8E5M2", "[0, 1, 0x3c, 0x7b, 0x81, 0xbc].map(F8E5M2::from_bits)"),
    ("float8e5m2fnuz", "F8E5M2FNUZ", "[0, 1, 0x3c, 0x7b, 0x81, 0xbc].map(F8E5M2FNUZ::from_bits)"),
    ("float8e8m0", "F8E8M0", "[0, 1, 0x7f, 0x80, 0x81, 0xfe].map(F8E8M0::from_bits)"),
    ("float6e2m3", "F6E2M3", "[0, 1, 8, 9, 33, 63].map(F6E2M3::from_bits)"),
    ("float6e3m2", "F6E3M2", "[0, 1, 8, 9, 33, 63].map(F6E3M2::from_bits)"),
    ("float4e2m1", "F4E2M1", "[0, 1, 2, 7, 9, 15].map(F4E2M1::from_bits)"),
    ("int2", "I2", "[0, 1, -1, -2, 1, 0].map(I2::new)"),
    ("int4", "I4", "[0, 1, -1, -8, 7, 3].map(I4::new)"),
    ("int8", "i8", "[0, 1, -1, -128, 127, 3]"),
    ("int16", "i16", "[0, 1, -1, -32768, 32767, 3]"),
    ("int32", "i32", "[0, 1, -1, i32::MIN, i32::MAX, 3]"),
    ("int64", "i64", "[0, 1, -1, i64::MIN, i64::MAX, 3]"),
    ("uint2", "U2", "[0, 1, 2, 3, 1, 0].map(U2::new)"),
    ("uint4", "U4", "[0, 1, 2, 15, 7, 3].map(U4::new)"),
    ("uint8", "u8", "[0, 1, 2, 255, 7, 3]"),
    ("uint16", "u16", "[0, 1, 2, u16::MAX, 7, 3]"),
    ("uint32", "u32", "[0, 1, 2, u32::MAX, 7, 3]"),
    ("uint64", "u64", "[0, 1, 2, u64::MAX, 7, 3]"),
    ("bool", "bool", "[true, false, true, true, false, false]"),
    ("string", "String", "[\"a\", \"\", \"c\\n\", \"\\\"\", \"é\", \"f\"].map(String::from)"),
    ("complex64", "Complex<f32>", "[0, 1, 2, 3, 4, 5].map(|x| Complex { re: x as f32, im: -0.5 })"),
    (
        "complex128",
        "Complex<f64>",
        "[0, 1, 2, 3, 4, 5].map(|x| Complex { re: x as f64, im: -0.5 })",
    ),
];

/// The element types of sequences.
const SEQUENCE_TYPES: &[&str] = &[
    "float",
    "double",
    "float16",
    "bfloat16",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
    "string",
    "complex64",
    "complex128",
];

/// The models for each type: a name, the text with `T` for the type, and Rust code that checks the
/// module `model` with the elements `x`.
const FORMS: &[(&str, &str, &str)] = &[
    (
        "fixed",
        "(T[2, 3] x) => (T[3, 2] y) { y = Transpose(x) }",
        "assert_eq!(*model.infer(&x), transposed(&x));",
    ),
    (
        "scalar",
        "(T x) => (T y) { y = Identity(x) }",
        "assert_eq!(model.infer(x[3].clone()), x[3]);",
    ),
    (
        "bounded",
        "(T[most, 3] x) => (T[3, most] y) { y = Transpose(x) }",
        "let y = model.infer(View::new([2, 3], &x).unwrap()).unwrap();
         assert_eq!((y.shape(), y.data()), ([3, 2], &transposed(&x)[..]));",
    ),
    (
        "free",
        "(T[n, 3] x) => (T[3, n] y) { y = Transpose(x) }",
        "let y = model.infer(View::new([2, 3], &x).unwrap()).unwrap();
         assert_eq!((y.shape(), y.data()), ([3, 2], &transposed(&x)[..]));",
    ),
    (
        "absent",
        "(optional(T[6]) x) => (optional(T[6]) y, bool given)
         { y = Identity(x) given = OptionalHasElement(x) }",
        "assert!(model.infer(None).y.is_none());
         let found = model.infer(Some(&x));
         assert!(found.given && found.y.is_some_and(|y| *y == x));",
    ),
];

/// The checks that differ for strings: callers pass `&str`, and modules return `String`s on the
/// heap.
const STRINGS: &[(&str, &str)] = &[
    (
        "fixed",
        "let texts = x.each_ref().map(String::as_str);
         assert_eq!(model.infer(&texts).unwrap().data(), transposed(&x));",
    ),
    ("scalar", "assert_eq!(model.infer(&[x[3].as_str()]).unwrap().data(), [x[3].clone()]);"),
    ("bounded", STRING_VIEW),
    ("free", STRING_VIEW),
    (
        "absent",
        "assert!(model.infer(None).unwrap().y.is_none());
         let texts = x.each_ref().map(String::as_str);
         let found = model.infer(Some(&texts)).unwrap();
         assert!(found.given && found.y.is_some_and(|y| y.data() == x));",
    ),
];

const STRING_VIEW: &str = "let texts = x.each_ref().map(String::as_str);
    let y = model.infer(View::new([2, 3], &texts).unwrap()).unwrap();
    assert_eq!((y.shape(), y.data()), ([3, 2], &transposed(&x)[..]));";

const SEQUENCE: (&str, &str, &str) = (
    "sequence",
    "(seq(T[n]) x) => (seq(T[n]) y) { y = Identity(x) }",
    "let mut list = Sequence::new();
     list.push(&[2], &x[..2]).unwrap();
     list.push(&[0], &[]).unwrap();
     assert_eq!(model.infer(&list), list);",
);

/// Models that convert maps to tensors, and tensors to maps.
const MAPS: &[(&str, &str, &str)] = &[
    (
        "from_text",
        "(map(string, float) x) => (y)
         { y = ai.onnx.ml.DictVectorizer<string_vocabulary = [\"a\", \"b\", \"c\"]>(x) }",
        "let y = model.infer(Map::new(&[\"c\", \"a\"], &[0.5, 2.0]).unwrap()).unwrap();
         assert_eq!(y[..], [2.0, 0.0, 0.5]);",
    ),
    (
        "from_numbers",
        "(map(int64, double) x) => (y)
         { y = ai.onnx.ml.DictVectorizer<int64_vocabulary = [7, -1]>(x) }",
        "let y = model.infer(Map::new(&[-1], &[0.5]).unwrap()).unwrap();
         assert_eq!(y[..], [0.0, 0.5]);",
    ),
    (
        "to_text",
        "(float[2, 2] x) => (y)
         { y = ai.onnx.ml.ZipMap<classlabels_strings = [\"u\", \"v\"]>(x) }",
        "let y = model.infer(&[0.5, 1.0, 2.0, 4.0]);
         assert_eq!((y.keys(), y.values()), (&[\"u\", \"v\"][..], &[0.5, 1.0, 2.0, 4.0][..]));",
    ),
    (
        "to_numbers",
        "(float[n, 2] x) => (y) { y = ai.onnx.ml.ZipMap<classlabels_int64s = [3, -4]>(x) }",
        "let y = model.infer((&[[0.5, 1.0]]).into()).unwrap();
         assert_eq!((y.keys(), y.values()), (&[3, -4][..], &[0.5, 1.0][..]));",
    ),
];

/// A program that calls the modules of all forms and types.
struct Program<'d> {
    directory: &'d Path,
    modules: String,
    body: String,
}

impl<'d> Program<'d> {
    fn new(directory: &'d Path) -> Program<'d> {
        Program { directory, modules: String::new(), body: String::new() }
    }

    /// Adds a model, and the code that checks its module.
    fn add(&mut self, name: &str, text: &str, check: &str) {
        let head = "<ir_version: 13, opset_import: [\"\" : 25, \"ai.onnx.ml\" : 5]>";
        let text = format!("{head} {name} {text}");
        let mut options = Options::default();
        options.name = Some(name.to_owned());
        options.stem = Some(name.to_owned());
        if name.starts_with("bounded") {
            options.settings.dims.insert("most".into(), Size::Between(1, 4));
        }
        let output = onnxc::Compiler::new(&options).compile_bytes(text.into_bytes().into(), name);
        let output = output.unwrap_or_else(|diagnostics| panic!("{name}: {diagnostics}"));
        output
            .write(&self.directory.join(format!("{name}.rs")))
            .expect("the scratch directory is writable");
        let model = onnxc::ident::camel(name);
        self.modules += &format!("mod {name};\n");
        self.body += &format!("{{ let mut model = {name}::{model}::new(); {check} }}\n");
    }

    /// Compiles and runs the program.
    fn run(&self) {
        let Program { directory, modules, body } = self;
        let source = format!("{HEAD}\n{modules}\nfn main() {{\n{body}}}\n");
        let file = directory.join("main.rs");
        fs::write(&file, source).expect("the scratch directory is writable");
        run(&file);
    }
}

/// The start of every program.
const HEAD: &str = "#![allow(dead_code, unused_imports)]
use onnxc_runtime::{Complex, F4E2M1, F6E2M3, F6E3M2, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ,
F8E8M0, I2, I4, U2, U4, bf16, f16, map::Map, sequence::Sequence, view::View};

fn transposed<T: Clone>(x: &[T; 6]) -> [T; 6] {
    [0, 3, 1, 4, 2, 5].map(|i| x[i].clone())
}";

#[test]
fn every_element_type_is_an_input_and_output_of_every_form() {
    let directory = scratch("elements");
    let mut program = Program::new(&directory);
    for (ty, rust, elements) in TYPES {
        program.body += &format!("{{ let x: [{rust}; 6] = {elements};\n");
        let sequence = SEQUENCE_TYPES.contains(ty).then_some(&SEQUENCE);
        for (form, text, check) in FORMS.iter().chain(sequence) {
            let other = STRINGS.iter().find(|(name, _)| *ty == "string" && name == form);
            let check = other.map_or(check, |(_, check)| check);
            let text = text.replace("(T", &format!("({ty}"));
            program.add(&format!("{form}_{ty}"), &text, check);
        }
        program.body += "}\n";
    }
    program.run();
}

#[test]
fn maps_are_inputs_and_outputs() {
    let directory = scratch("maps");
    let mut program = Program::new(&directory);
    MAPS.iter().for_each(|(name, text, check)| program.add(name, text, check));
    program.run();
}
