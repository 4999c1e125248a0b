//! Sizes that are computed at run time: the module and the interpreter return the same error for a
//! size that is too small, and no size leaves the range of `usize`.

use crate::programs::{run, scratch};
use onnxc::{CompiledModel, Options, interpreter, tensor::Tensor, value::Value};
use onnxc_runtime::Error;
use std::fs;

/// The nodes that all models have: `x` has `n` elements and `y` has `m`; `less` is `n - 5`.
const HEAD: &str = "
    s = Shape(x) t = Shape(y) less = Sub(s, five) last = Squeeze(less) many = Squeeze(t)
    row = Unsqueeze(x, one) image = Unsqueeze(x, front)";

/// A name, and the nodes that compute `z`.
const MODELS: &[(&str, &str)] = &[
    // Shapes.
    ("reshape", "z = Reshape(y, less)"),
    ("reshape_beside", "shape = Concat<axis = 0>(minus, t) z = Reshape(x, shape)"),
    ("reshape_beside_less", "shape = Concat<axis = 0>(minus, less) z = Reshape(x, shape)"),
    ("reshape_beside_two", "shape = Concat<axis = 0>(t, minus, less) z = Reshape(x, shape)"),
    ("reshape_beside_kept", "shape = Concat<axis = 0>(zero, minus, t) z = Reshape(row, shape)"),
    ("reshape_zero", "shape = Concat<axis = 0>(t, minus) z = Reshape<allowzero = 1>(x, shape)"),
    ("constant", "z = ConstantOfShape(less)"),
    ("constants", "shape = Concat<axis = 0>(less, t) z = ConstantOfShape(shape)"),
    ("expand", "z = Expand(y, less)"),
    ("expand_rows", "shape = Concat<axis = 0>(t, less) z = Expand(row, shape)"),
    ("tile", "z = Tile(x, less)"),
    ("pad", "pads = Concat<axis = 0>(less, t) z = Pad(x, pads)"),
    ("pad_after", "pads = Concat<axis = 0>(t, less) z = Pad(x, pads)"),
    ("pad_edge", "pads = Concat<axis = 0>(less, t) z = Pad<mode = \"edge\">(x, pads)"),
    ("pad_reflect", "pads = Concat<axis = 0>(t, less) z = Pad<mode = \"reflect\">(x, pads)"),
    ("pad_wrap", "pads = Concat<axis = 0>(less, t) z = Pad<mode = \"wrap\">(x, pads)"),
    ("resize", "z = Resize<mode = \"nearest\">(x, \"\", \"\", less)"),
    ("resize_linear", "z = Resize<mode = \"linear\">(y, \"\", \"\", less)"),
    ("range", "z = Range(origin, last, unit)"),
    ("range_down", "z = Range(many, last, down)"),
    ("slice", "z = Slice(x, less, t)"),
    ("slice_from", "z = Slice(x, t, less)"),
    ("slice_end", "z = Slice(x, minus, t)"),
    ("slice_back", "z = Slice(x, less, t, zero, minus)"),
    ("slice_back_from", "z = Slice(x, t, less, zero, minus)"),
    ("slice_threes", "z = Slice(x, less, s, zero, three)"),
    ("one_hot", "z = OneHot(x, last, values)"),
    ("eye_like", "shape = Concat<axis = 0>(less, t) c = ConstantOfShape(shape) z = EyeLike(c)"),
    ("trilu", "z = Trilu(row, last)"),
    ("center_crop_pad", "z = CenterCropPad(x, less)"),
    ("split", "parts = Concat<axis = 0>(less, five) a, b = Split(x, parts) z = Identity(a)"),
    ("split_even", "a, z = Split<num_outputs = 2>(x)"),
    ("top_k", "z, i = TopK(x, less)"),
    ("affine_grid", "size = Concat<axis = 0>(one, one, less, t) z = AffineGrid(theta, size)"),
    (
        "max_unpool",
        "a, i = MaxPool<kernel_shape = [2], strides = [2]>(image)
         shape = Concat<axis = 0>(one, one, less)
         z = MaxUnpool<kernel_shape = [2], strides = [2]>(a, i, shape)",
    ),
    ("col2im", "a = Reshape(x, column) z = Col2Im(a, less, t)"),
    ("hann_window", "z = HannWindow(last)"),
    ("mel", "z = MelWeightMatrix(last, many, rate, low, high)"),
    ("dft", "a = Reshape(x, signal) z = DFT(a, last)"),
    ("stft", "a = Reshape(x, signal) z = STFT(a, many, \"\", last)"),
    ("gather", "z = Gather(x, less)"),
    ("chunks", "a = SplitToSequence(x, last) z = ConcatFromSequence<axis = 0>(a)"),
    (
        "parts",
        "parts = Concat<axis = 0>(less, five) a = SplitToSequence(x, parts)
         z = ConcatFromSequence<axis = 0>(a)",
    ),
    (
        "iterations",
        "z = Loop(last, \"\") <body = iteration (int64 i, bool go) => (bool on, int64 twice) {
            on = Identity(go) twice = Add(i, i)
         }>",
    ),
    (
        "iterations_growing",
        "a, z = Loop(many, \"\", x) <body = iteration (int64 i, bool go, v) => (bool on, w, p) {
            on = Identity(go) w = Concat<axis = 0>(v, y) p = Identity(v)
        }>",
    ),
    (
        "iterations_nonzero",
        "z = Scan(x) <num_scan_inputs = 1, scan_output_axes = [1], body = iteration (e) => (p) {
            some = Add(y, e) p = NonZero(some)
        }>",
    ),
    (
        "iterations_equal",
        "z = Scan(x) <
            num_scan_inputs = 1, scan_output_axes = [2], scan_output_directions = [1],
            body = iteration (e) => (p) {
                places = NonZero(y) by = Cast<to = 7>(e) p = Add(places, by)
            }
        >",
    ),
    // Elements.
    ("less", "z = Identity(less)"),
    ("min", "z = Min(less, t)"),
    ("max", "z = Max(less, t)"),
    ("max_below", "b = Sub(t, three) z = Max(less, b)"),
    ("modulo", "z = Mod(less, three)"),
    ("div", "z = Div(less, three)"),
    ("mul", "z = Mul(less, t)"),
    ("clip", "z = Clip(less, down, many)"),
    ("chosen", "c = Less(less, t) z = Where(c, less, t)"),
    ("least", "all = Concat<axis = 0>(less, t) z = ReduceMin(all)"),
    ("sum", "all = Concat<axis = 0>(less, t) z = ReduceSum(all)"),
    ("opposite", "c = Less(less, t) z = Not(c)"),
    ("as_int32", "a = Cast<to = 6>(less) z = Cast<to = 7>(a)"),
    ("as_uint8", "a = Cast<to = 2>(less) z = Cast<to = 7>(a)"),
    // Elements as sizes.
    ("size_min", "a = Min(less, t) z = ConstantOfShape(a)"),
    ("size_max", "b = Sub(t, three) a = Max(less, b) z = ConstantOfShape(a)"),
    (
        "size_max_plus",
        "b = Sub(t, three) a = Max(less, b) c = Add(a, three) z = ConstantOfShape(c)",
    ),
    ("size_mod", "a = Mod(less, three) z = ConstantOfShape(a)"),
    ("size_div", "a = Div(less, three) z = ConstantOfShape(a)"),
    ("size_clip", "a = Clip(less, down, many) z = ConstantOfShape(a)"),
    ("size_chosen", "c = Less(less, t) a = Where(c, less, t) z = ConstantOfShape(a)"),
    ("size_least", "all = Concat<axis = 0>(less, t) a = ReduceMin(all) z = ConstantOfShape(a)"),
    // Sizes of values that no kernel reads.
    ("shape_of_constant", "a = ConstantOfShape(less) z = Shape(a)"),
    ("shape_of_rest", "shape = Concat<axis = 0>(minus, t) a = Reshape(x, shape) z = Shape(a)"),
    (
        "like_rest",
        "shape = Concat<axis = 0>(minus, t) a = Reshape(x, shape)
        b = Shape(a) z = ConstantOfShape(b)",
    ),
    ("shape_of_pool", "a = MaxPool<kernel_shape = [3], strides = [2]>(image) z = Shape(a)"),
    (
        "like_pool",
        "a = MaxPool<kernel_shape = [3], strides = [2]>(image)
        b = Shape(a) z = ConstantOfShape(b)",
    ),
    ("like_slice", "a = Slice(x, less, t) b = Shape(a) z = ConstantOfShape(b)"),
];

/// The constants of all models.
const CONSTANTS: &str = "int64[1] zero = {0}, int64[1] one = {1}, int64[1] three = {3},
    int64[1] five = {5}, int64[1] minus = {-1}, int64[2] front = {0, 1}, int64 origin = {0},
    int64 unit = {1}, int64 down = {-1}, float[2] values = {0.5, 2.0}, int64[3] column = {1, -1, 1},
    int64[3] signal = {1, -1, 1}, float[1, 2, 3] theta = {1.0, 0.0, 0.5, 0.0, 2.0, 0.25},
    int64 rate = {16}, float low = {1.0}, float high = {8.0}";

/// The largest `n` and `m` that are tested.
const LAST: [usize; 2] = [7, 3];

fn compile(name: &str, nodes: &str) -> CompiledModel {
    let text = format!(
        "<ir_version: 10, opset_import: [\"\" : 21]>
         {name} (float[n] x, float[m] y) => (z) <{CONSTANTS}> {{ {HEAD} {nodes} }}"
    );
    let mut options = Options::default();
    options.name = Some(name.to_owned());
    options.stem = Some(name.to_owned());
    let output = onnxc::Compiler::new(&options).compile_bytes(text.into_bytes().into(), name);
    output.unwrap_or_else(|diagnostics| panic!("{name}: {diagnostics}"))
}

/// Returns the result of the interpreter for `n` and `m` elements, as the program prints it.
fn interpret(output: &CompiledModel, n: usize, m: usize) -> String {
    let numbers = |len: usize| (0..len).map(|i| i as f32).collect::<Vec<_>>();
    let inputs = [n, m].map(|len| Value::Tensor(Tensor::from_floats(&numbers(len))));
    let Ok(outputs) = interpreter::run(output.plans.infer(), &inputs) else {
        return "error".into();
    };
    let z = outputs[0].tensor().expect("every model returns a tensor");
    format!("{:?} {:?}", z.shape, z.floats().expect("every model returns numbers"))
}

/// The part of the program outside the modules.
const PROGRAM: &str = "
#![allow(dead_code)]
use onnxc_runtime::view::{Tensor, View};

const NUMBERS: [f32; 8] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];

trait Number: Copy { fn number(self) -> f64; }
impl Number for f32 { fn number(self) -> f64 { self.into() } }
impl Number for i64 { fn number(self) -> f64 { self as f64 } }
impl Number for bool { fn number(self) -> f64 { u8::from(self).into() } }

fn text<T: Number>(shape: &[usize], data: &[T]) -> String {
    let data: Vec<f64> = data.iter().map(|&x| x.number()).collect();
    format!(\"{shape:?} {data:?}\")
}

trait Show { fn show(&self) -> String; }
impl<T: Number, const N: usize> Show for [T; N] {
    fn show(&self) -> String { text(&[N], self) }
}
impl<T: Number, const R: usize> Show for View<'_, T, R> {
    fn show(&self) -> String { text(&self.shape(), self.data()) }
}
impl<T: Number, const R: usize> Show for Tensor<T, R> {
    fn show(&self) -> String { text(&self.shape(), self.data()) }
}
";

#[test]
fn sizes_agree_in_module_and_interpreter() {
    let directory = scratch("sizes");
    let (mut modules, mut body) = (String::new(), String::new());
    for (name, nodes) in MODELS {
        let output = compile(name, nodes);
        output
            .write(&directory.join(format!("{name}.rs")))
            .expect("the scratch directory is writable");
        let sizes = (0..=LAST[0]).flat_map(|n| (0..=LAST[1]).map(move |m| (n, m)));
        let cases: Vec<_> = sizes.map(|(n, m)| (n, m, interpret(&output, n, m))).collect();
        let model = onnxc::ident::camel(name);
        modules += &format!("mod {name};\n");
        body += &format!(
            "for (n, m, expected) in {cases:?} {{
                let found = std::panic::catch_unwind(|| {{
                    match {name}::{model}::new().infer(NUMBERS[..n].into(), NUMBERS[..m].into()) {{
                        Ok(z) => z.show(),
                        Err(_) => String::from(\"error\"),
                    }}
                }});
                let found = found.unwrap_or_else(|_| String::from(\"a panic\"));
                if found != expected {{
                    wrong.push(format!(\"{name} {{n}} {{m}}: {{found}} instead of {{expected}}\"));
                }}
            }}\n"
        );
    }
    let main = format!(
        "fn main() {{
            let mut wrong: Vec<String> = Vec::new();
            {body}
            assert!(wrong.is_empty(), \"{{}}\", wrong.join(\"\\n\"));
        }}"
    );
    let file = directory.join("main.rs");
    fs::write(&file, format!("{PROGRAM}{modules}{main}"))
        .expect("the scratch directory is writable");
    run(&file);
}

#[test]
fn size_errors_name_the_value() {
    let model = r#"<ir_version: 10, opset_import: ["" : 21]>
        g (float[n] x, float[n] y, int64[2] s) => (float[a, b] z) {
            w = Add(x, y)
            [fold] z = Reshape(w, s)
        }"#;
    let mut options = Options::default();
    options.settings.dims.insert("n".into(), (0..=8).into());
    let plan = onnxc::Compiler::new(&options).plan(model.into()).expect("the model is valid");
    let run = |x: usize, y: usize, s: [i64; 2]| {
        let floats = |len: usize| Tensor::from_floats(&vec![0.0; len]);
        let inputs = [floats(x), floats(y), Tensor::from_ints(&s)].map(Value::Tensor);
        interpreter::run(&plan, &inputs).map(|_| ())
    };
    assert_eq!(run(6, 6, [2, -1]), Ok(()));
    let rule = "the numbers of elements before and after";
    for (found, error) in [
        (run(6, 6, [2, 4]), Error::Mismatch { node: "fold", rule, left: 6, right: 8 }),
        (run(9, 9, [3, 3]), Error::Bound { name: "n", bound: 8, found: 9 }),
        (
            run(6, 5, [2, 3]),
            Error::Size { input: "y", axis: 0, wanted: "n", expected: 6, found: 5 },
        ),
    ] {
        assert_eq!(found, Err(error));
    }
}

#[test]
fn blocked_convolutions_check_the_number_of_channels() {
    let halves = |count: usize| vec!["0.5"; count].join(", ");
    let of_groups = |group: usize, depth: usize| {
        format!(
            "<ir_version: 10, opset_import: [\"\" : 21]>
            g (float[1, k, 6, 1] x) => (float[1, 16, 6, 1] y)
            <float[16, {depth}, 1, 1] v = {{{}}}, float[16, 16, 1, 1] w = {{{}}}> {{
                h = Conv<group = {group}>(x, v)
                y = Conv(h, w)
            }}",
            halves(16 * depth),
            halves(256)
        )
    };
    for (text, channels) in [(of_groups(1, 3), 3), (of_groups(2, 3), 6)] {
        let planned = onnxc::Compiler::new(&Options::default()).plan(text.into());
        let plan = planned.unwrap_or_else(|found| panic!("{found}"));
        for given in channels - 1..=channels + 1 {
            let x = Tensor::from_floats(&vec![1.0; given * 6]);
            let x = Tensor { shape: vec![1, given, 6, 1], ..x };
            let found = interpreter::run(&plan, &[x.into()]);
            assert_eq!(found.is_ok(), given == channels, "{given} channels, {found:?}");
        }
    }
}
