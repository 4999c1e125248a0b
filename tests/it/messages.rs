//! The messages for faulty files and command lines, as a user reads them. Each case is a file of
//! `tests/messages`: the command, and its output.

use crate::{
    golden,
    numpy::{archive, array, floats},
    programs::{folder, onnxc, scratch},
};
use onnxc::import;
use onnxc_proto::{Bytes, Message};
use std::fs;

/// A faulty file or command line.
#[derive(Clone)]
struct Case {
    /// The name of the golden file.
    name: &'static str,
    /// The arguments of `onnxc`.
    arguments: String,
    /// The files that exist, with their contents.
    files: Vec<(&'static str, Vec<u8>)>,
}

fn case(name: &'static str, arguments: &str, files: &[(&'static str, &[u8])]) -> Case {
    let files = files.iter().map(|(name, bytes)| (*name, bytes.to_vec())).collect();
    Case { name, arguments: arguments.to_owned(), files }
}

/// A case of a model in ONNX's textual syntax, without the head.
fn model(name: &'static str, arguments: &str, graph: &str) -> Case {
    let text = format!("<ir_version: 10, opset_import: [\"\" : 21]>\n{graph}");
    case(name, arguments, &[("model.onnxtxt", text.as_bytes())])
}

const COMPILE: &str = "model.onnxtxt";
const RELU: &str = "relu (float[batch_size, 4] image) => (float[batch_size, 4] y)\n\
    { y = Relu (image) }";

/// Files that are no models.
fn foreign_files() -> Vec<Case> {
    let safetensors = [&14u64.to_le_bytes()[..], b"{\"w\":{\"a\":1}}  "].concat();
    let cases: [(&str, &str, &[u8]); 19] = [
        ("empty", "empty.onnx", b""),
        ("gzip", "model.onnx.gz", b"\x1f\x8b\x08\0\0\0\0\0"),
        ("zip", "model.zip", b"PK\x03\x04\x14\0model.onnx"),
        ("pytorch", "model.pt", b"PK\x03\x04\0\0archive/data.pkl\x80\x02"),
        ("torchscript", "traced.pt", b"PK\x03\x04\0\0a/data.pkl a/constants.pkl"),
        ("pickle", "weights.pth", b"\x80\x02}q\0X\x06\0\0\0weight"),
        ("numpy_archive", "weights.npz", b"PK\x03\x04\0\0w.npy\x93NUMPY"),
        ("tflite", "model.tflite", b"\x1c\0\0\0TFL3\x14\0\x20\0"),
        ("hdf5", "model.h5", b"\x89HDF\r\n\x1a\n\0\0"),
        ("gguf", "llama.gguf", b"GGUF\x03\0\0\0"),
        ("safetensors", "model.safetensors", &safetensors),
        ("saved_model", "saved_model.pb", b"\x08\x01\x12\x09\x0a\x07\x22\x05serve"),
        ("web_page", "model.onnx", b"<!DOCTYPE html>\n<html><head>"),
        ("openvino", "model.xml", b"<?xml version=\"1.0\"?><net name=\"m\">"),
        ("json", "config.json", b"{\n  \"architectures\": [\"BertModel\"]\n}"),
        (
            "lfs_pointer",
            "model.onnx",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
        ),
        ("notes", "notes.txt", b"Buy milk.\n"),
        ("utf16", "model.onnxtxt", b"\xff\xfe<\0i\0r\0_\0"),
        ("single_tensor", "input_0.pb", b"\x08\x01\x10\x01\x4a\x04\0\0\x80\x3f"),
    ];
    cases.into_iter().map(|(name, file, bytes)| case(name, file, &[(file, bytes)])).collect()
}

/// Command lines that name something that does not exist.
fn wrong_names() -> Vec<Case> {
    let relu = |name, arguments| model(name, arguments, RELU);
    vec![
        case("missing_model", "cnn.onx", &[("cnn.onnx", b"")]),
        case("missing_folder", "models/cnn.onnx", &[]),
        relu("missing_output_folder", "model.onnxtxt -o nosuchdir/o.rs"),
        relu("missing_folder_of_optimized", "optimize model.onnxtxt -o nosuchdir/o.onnx"),
        case("folder_as_model", ".", &[]),
        case("folder_of_model", ".", &[("cnn.onnx", b"")]),
        case("folder_of_saved_model", "saved", &[("saved/saved_model.pb", b"\x08\x01\x12\0")]),
        relu("unknown_dimension", "model.onnxtxt --dim batch_sice=1"),
        relu("abbreviated_dimension", "model.onnxtxt --dim batch=1"),
        relu("unknown_constant", "model.onnxtxt --const imgae=1"),
        relu("unknown_pass", "model.onnxtxt --print-after fuze"),
        relu("unknown_option", "model.onnxtxt --optimise size"),
        case("misspelled_command", "inspekt", &[]),
        relu("unknown_command", "inspekt model.onnxtxt"),
        relu("unknown_option_as_json", "model.onnxtxt --optimise size --message-format json"),
        relu("unknown_code", "explain E9999"),
        case("unknown_operator_name", "ops Sofmax", &[]),
        relu("bad_bytes", "model.onnxtxt --max-arena 200Q"),
        relu("bad_dimension", "model.onnxtxt --dim batch_size=2x"),
        relu("negative_dimension", "model.onnxtxt --dim batch_size=-1"),
        relu("empty_bound", "model.onnxtxt --dim batch_size=1..=0"),
        relu("unknown_shape", "model.onnxtxt --shape imgae=1,4"),
        relu("unused_shape", "model.onnxtxt --shape y=1,4 --deny-warnings"),
        relu("empty_outputs", "model.onnxtxt --dim batch_size=0 --deny-warnings"),
        relu("empty_name", "model.onnxtxt --name=-"),
        relu("unknown_choice", "model.onnxtxt --optimize sise"),
        relu("no_threads", "bench model.onnxtxt --threads 0"),
        relu("unknown_runtime", "bench model.onnxtxt --runtime ../runtime-lib"),
        relu("two_models", "model.onnxtxt model.onnxtxt"),
        case("new_existing", "new app model.onnx --kind server", &[("app", b"")]),
        relu("new_free_size", "new app model.onnxtxt --kind server"),
        model(
            "new_scalar",
            "new app model.onnxtxt --kind server",
            "g (float[batch, 4] x, int64 sr, bool flag) => (float[batch, 4] y, int64 z)\n\
             { r = Cast <to = 1> (sr) y = Mul (x, r) z = Add (sr, sr) }",
        ),
        relu("new_loss", "new app model.onnxtxt --kind server --loss mse"),
        relu("new_name", "new 2nd model.onnxtxt --kind server"),
        relu("check_missing_model", "check model.onnx"),
        relu("two_modules", "model.onnxtxt ./model.onnxtxt -o modules/"),
        relu("early_option", "--quiet inspect model.onnxtxt"),
        relu("late_command", "model.onnxtxt bench"),
        relu("no_test_folder", "test ."),
        relu("free_sizes", "bench model.onnxtxt"),
        case("no_model", "-o model.rs", &[]),
        relu("excluded_options", "model.onnxtxt --optimize size --precision bf16"),
        relu("option_of_other_tools", "model.onnxtxt --batch 1"),
        relu("value_of_other_tools", "model.onnxtxt --precision fp16"),
        case("command_of_other_tools", "compile model.onnx", &[]),
        case("help_of_no_command", "inspekt --help", &[]),
        relu("negative_bytes", "model.onnxtxt --max-arena -5"),
        relu("bad_limit", "model.onnxtxt --limit nodes=many"),
        relu("unknown_limit", "model.onnxtxt --limit nods=10"),
        relu("no_number", "compare model.onnxtxt --rtol high"),
        relu("negative_tolerance", "compare model.onnxtxt --rtol -1"),
        relu("no_bytes", "inspect model.onnxtxt --flash 12Q"),
        relu("several_bad_values", "inspect model.onnxtxt --dim batch_size=2x --max-arena 200Q"),
        relu("no_seconds", "bench model.onnxtxt --seconds ten"),
        relu("missing_test_folder", "test models"),
        relu("new_here", "new . model.onnxtxt --kind server"),
        relu("no_training", "bench model.onnxtxt --step"),
        relu("value_as_input", "run model.onnxtxt --input image=1,2"),
        relu("compare_other_runtime", "compare model.onnxtxt --with tensorflow"),
    ]
}

/// Models with an error.
fn faulty_models() -> Vec<Case> {
    let external = b"<ir_version: 10, opset_import: [\"\" : 21]>\n\
        g (float[2] x) => (y) <float[2] a = [\"location\": \"w.onnx\"]> { y = Add (x, a) }";
    let newer = b"<ir_version: 10, opset_import: [\"\" : 99]>\n\
        g (float[2] x) => (float[2] y) { y = Relu (x) }";
    vec![
        case("newer_operator_set", COMPILE, &[("model.onnxtxt", newer)]),
        model(
            "no_broadcast",
            COMPILE,
            "g (float[2, 10] a, float[2, 11] b) => (float[2, 10] y)\n{ y = Add (a, b) }",
        ),
        model(
            "shape_origin",
            COMPILE,
            "g (float[1, 3, 32, 32] image, float[4, 3, 3, 3] w, float[784, 10] weight)\n\
            => (float[1, 10] y)\n\
            {\n    c = Conv (image, w)\n    r = Relu (c)\n    \
            p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)\n    \
            f = Flatten (p)\n    y = MatMul (f, weight)\n}",
        ),
        model(
            "missing_folder_of_weights",
            "model.onnxtxt -o nosuchdir/o.rs",
            "g (float[2] x) => (float[2] y)\n<float[2] w = {1, 2}> { y = Mul (x, w) }",
        ),
        model(
            "misspelled_values",
            COMPILE,
            "g (float[2] image) => (float[2] logits)\n\
             { hidden = Relu (imgae) logit = Exp (hiden) }",
        ),
        model(
            "repeated_operator",
            COMPILE,
            "g (float[2] x) => (y)\n{ a = Foo (x) b = Foo (a) c = Bar (b) y = Foo (c) }",
        ),
        model(
            "constant_index",
            COMPILE,
            "g (float[10, 2] table) => (y)\n<int64 i = {99}> { y = Gather (table, i) }",
        ),
        model(
            "constant_indices",
            COMPILE,
            "g (float[3, 2] x, float[1, 2] u, float[1] v, float[1, 1, 2, 2] image, \
            float[1, 4] region) => (a, b, c, d, e, f, h, i, j)\n\
            <int64[1, 2] rows = {3, 0}, int64[1, 2] point = {2, -3}, int64 last = {2}, \
            int64 after = {3}, int64[3] classes = {1, 2, 7}, int64[1] one = {1}, \
            int64[1, 1, 2, 2] places = {0, 3, 16, 15}>\n\
            {\n    a = GatherElements (x, rows)\n    b = GatherND (x, point)\n    \
            c = ScatterElements (x, rows, u)\n    d = ScatterND (x, point, v)\n    \
            s = SequenceConstruct (x, x)\n    e = SequenceAt (s, last)\n    \
            t = SequenceErase (s, last)\n    f = SequenceLength (t)\n    \
            w = SequenceInsert (s, x, after)\n    r = SequenceLength (w)\n    \
            h = NegativeLogLikelihoodLoss <ignore_index = 7> (x, classes)\n    \
            i = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (image, places)\n    \
            j = RoiAlign (image, region, one)\n}",
        ),
        model(
            "large_window",
            "model.onnxtxt --deny-warnings",
            "g (float[1, 1, 2, 2] x, float[1, 1, 3, 3] w) => (y)\n{ y = Conv (x, w) }",
        ),
        model(
            "large_window_inside",
            COMPILE,
            "g (float[1, 1, 2, 2] x, float[1, 1, 3, 3] w) => (y)\n\
             { c = Conv (x, w) y = ReduceSum (c) }",
        ),
        model(
            "report_over_model",
            "report model.onnxtxt -o model.onnxtxt",
            "g (float[2] x) => (y) { y = Relu (x) }",
        ),
        model(
            "reduce_over_model",
            "reduce model.onnxtxt -o model.onnxtxt",
            "g (float[2] x) => (y) { y = Relu (x) }",
        ),
        case(
            "optimize_over_data",
            "optimize model.onnxtxt -o w.onnx",
            &[("model.onnxtxt", external), ("w.onnx", &[0; 8])],
        ),
        model(
            "misspelled_type",
            COMPILE,
            "g (float[2] x) => (y) <flaot[2] w = {1, 2}> { y = Mul (x, w) }",
        ),
        model("squeezed_sizes", COMPILE, "g (float[n, 3, 1] x) => (y)\n{ y = Squeeze (x) }"),
        model(
            "unknown_rank",
            COMPILE,
            "g (float[n] x, int64[r] sizes) => (y)\n{ y = Reshape (x, sizes) }",
        ),
        model("unknown_operator", COMPILE, "g (float[2] x) => (float[2] y)\n{ y = Sofmax (x) }"),
        model(
            "cycle",
            COMPILE,
            "g (float[2] x) => (float[2] y)\n{ y = Add (a, x) a = Neg (b) b = Abs (a) }",
        ),
        model(
            "reversed",
            COMPILE,
            "g (float[2] x) => (float[2] y)\n\
             { y = Neg (e) e = Neg (d) d = Neg (c) c = Neg (b) b = Neg (a) a = Neg (x) }",
        ),
        model(
            "too_small_arena",
            "model.onnxtxt --optimize size --max-arena 100",
            "g (float[64] x) => (float[64] y)\n\
             { a = Exp (x) b = Sin (a) c = Transpose (b) y = Sub (c, a) }",
        ),
        model(
            "missing_data",
            COMPILE,
            "g (float[2] x) => (float[2] y)\n\
             <float[2] a = [\"location\": \"w.data\"], float[2] b = [\"location\": \"w.data\"]>\n\
             { t = Add (a, x) y = Add (t, b) }",
        ),
        model(
            "mask_of_other_size",
            COMPILE,
            "g (float[batch, 4, 16] x, float[16, 48] w, int32[lengths] mask) => (y)\n\
             { y = com.microsoft.Attention <num_heads = 2> (x, w, \"\", mask) }",
        ),
        model(
            "declared_element_type",
            "model.onnxtxt --deny-warnings",
            "g (float[2] x) => (float16[2] z) <float16[2] y>\n{ y = Neg (x) z = Abs (y) }",
        ),
        model("missing_attribute", COMPILE, "g (float[2] x) => (y)\n{ y = Cast (x) }"),
        model(
            "few_axes",
            COMPILE,
            "g (float[2, 3, 8] x, float[4, 3, 3, 3] w) => (y)\n{ y = Conv (x, w) }",
        ),
        model(
            "long_parameter",
            COMPILE,
            "g (float[1, 3, 4] x, float[4] s, float[3] b, float[3] m, float[3] v) => (y)\n\
             { y = BatchNormalization (x, s, b, m, v) }",
        ),
        model(
            "unknown_attribute",
            COMPILE,
            "g (float[2] x) => (y)\n{ y = Softmax <axes = 0> (x) }",
        ),
        model("wrong_type", COMPILE, "g (int64[2] x) => (y)\n{ y = Sigmoid (x) }"),
    ]
}

/// Models in the binary format with an error.
fn faulty_bytes() -> Vec<Case> {
    let text = "<ir_version: 10, opset_import: [\"\" : 21]>\n\
        g (float[2, 10] x) => (float[2, 32] y)\n\
        <float[10, 32] w = [\"location\": \"w.data\"]> { y = MatMul (x, w) }";
    let mut model = import::decode(text.into()).expect("the model is in ONNX's syntax");
    let graph = model.graph.as_mut().expect("a decoded model has a graph");
    let weight = &mut graph.initializer[0];
    weight.external_data.clear();
    weight.data_location = None;
    weight.raw_data = Some(Bytes::from(vec![0; 1276]));
    let short = model.encode_to_vec();
    let graph = model.graph.expect("a decoded model has a graph").encode_to_vec();
    vec![
        case("short_raw_data", "model.onnx", &[("model.onnx", &short)]),
        case("cut_model", "model.onnx", &[("model.onnx", &short[..short.len() / 2])]),
        case("single_graph", "graph.onnx", &[("graph.onnx", &graph)]),
    ]
}

/// Runs on inputs that do not fit the model.
fn faulty_inputs() -> Vec<Case> {
    let labels = "g (float[10, 2] table, int64[count] label) => (float[count, 2] y)\n\
        { y = Gather (table, label) }";
    let table = array("<f4", "10, 2", &[0; 80]);
    let files = [
        ("table.npy", table.clone()),
        ("flat.npy", array("<f4", "20,", &[0; 80])),
        ("double.npy", array("<f8", "10, 2", &[0; 160])),
        ("object.npy", array("|O", "1,", &[0; 8])),
        ("label.npy", array("<i8", "1,", &99i64.to_le_bytes())),
        ("text.npy", b"0.5, 0.25".to_vec()),
        ("table.csv", b"0.5, 0.25".to_vec()),
    ];
    let cases = [
        ("index_out_of_range", "--input table=table.npy --input label=label.npy"),
        ("unknown_input", "--input tabel=table.npy --input label=label.npy"),
        ("missing_input", "--input table=table.npy"),
        ("missing_input_file", "--input table=tables.npy --input label=label.npy"),
        ("input_without_name", "--input table.npy --input label=label.npy"),
        ("wrong_rank", "--input table=flat.npy --input label=label.npy"),
        ("wrong_element_type", "--input table=double.npy --input label=label.npy"),
        ("python_objects", "--input table=object.npy --input label=label.npy"),
        ("text_as_array", "--input table=text.npy --input label=label.npy"),
        ("input_of_other_format", "--input table=table.csv --input label=label.npy"),
    ];
    let build = |(name, inputs): (&'static str, &str)| {
        let Case { arguments, files: model, .. } = model(name, "run model.onnxtxt", labels);
        let arguments = format!("{arguments} {inputs}");
        Case { name, arguments, files: model.into_iter().chain(files.clone()).collect() }
    };
    cases.into_iter().map(build).collect()
}

/// Comparisons with a reference that cannot be used.
fn faulty_references() -> Vec<Case> {
    let compare = |name, with: &str| {
        let case = model(name, &format!("compare model.onnxtxt --dim batch_size=1 {with}"), RELU);
        let other = "<ir_version: 10, opset_import: [\"\" : 21]>\n\
            other (float[batch_size, 4] image) => (float[batch_size, 4] z) { z = Relu (image) }";
        let wide = "<ir_version: 10, opset_import: [\"\" : 21]>\n\
            wide (float[batch_size, 4] image) => (float[batch_size, 8] y)\n\
            { y = Concat <axis = 1> (image, image) }";
        let (four, zeros) = ("1, 4", [0.0; 4]);
        let values = archive(&[("image", floats(four, &zeros)), ("y", floats(four, &zeros))]);
        let mut damaged = values.clone();
        damaged[100] ^= 1;
        let misspelled = archive(&[("imgae", floats(four, &zeros)), ("y", floats(four, &zeros))]);
        let extra = archive(&[
            ("image", floats(four, &zeros)),
            ("logits", floats(four, &zeros)),
            ("Y", floats(four, &zeros)),
        ]);
        let files = [
            ("other.onnxtxt", other.as_bytes().to_vec()),
            ("wide.onnxtxt", wide.as_bytes().to_vec()),
            ("cut.npz", values[..values.len() / 2].to_vec()),
            ("damaged.npz", damaged),
            ("text.npz", b"0.5, 0.25".to_vec()),
            ("misspelled.npz", misspelled),
            ("extra.npz", extra),
        ];
        Case { files: case.files.into_iter().chain(files).collect(), ..case }
    };
    vec![
        compare("compare_unknown_reference", "--with onnxruntim"),
        compare("compare_unknown_value", "--with optimize=sise"),
        compare("compare_misspelled_value", "--with precision=bf61"),
        compare("compare_misspelled_option", "--with optimise=size"),
        compare("compare_other_values", "--with other.onnxtxt"),
        compare("compare_other_shape", "--with wide.onnxtxt"),
        compare("compare_cut_archive", "--with cut.npz"),
        compare("compare_damaged_archive", "--with damaged.npz"),
        compare("compare_text_archive", "--with text.npz"),
        compare("compare_archive_without_inputs", "--with misspelled.npz"),
        compare("compare_unknown_arrays", "--with extra.npz"),
        compare("compare_repeated_input", "--input image=a.npy --input image=b.npy"),
        compare("compare_no_outputs", "--with ."),
        compare("compare_no_python", "--with onnxruntime --python nosuchdir/python"),
    ]
}

/// Reports on data that does not fit the model.
fn faulty_reports() -> Vec<Case> {
    let report = |name, options: &str| {
        model(name, &format!("report model.onnxtxt --dim batch_size=1 {options}"), RELU)
    };
    vec![
        report("report_no_data", "--data values.npz"),
        report("report_other_data", "--data model.onnxtxt"),
        report("report_no_input", "--data ."),
        report("report_not_measured", "--runtime 0.1"),
    ]
}

/// Reductions of a model that shows nothing.
fn faulty_reductions() -> Vec<Case> {
    let reduce = |name, options: &str| {
        model(name, &format!("reduce model.onnxtxt --dim batch_size=1 {options}"), RELU)
    };
    vec![
        reduce("reduce_nothing", "--with optimize=size"),
        reduce("reduce_data_set", "--with ."),
        reduce("reduce_unknown_code", "--diagnostic E0999"),
        reduce("reduce_no_diagnostic", "--diagnostic E0302"),
    ]
}

/// Sizes that options give and runs have.
fn faulty_sizes() -> Vec<Case> {
    let run = |name, options: &str, graph, x: &str, z: &str| {
        let files = [x, z].map(|shape| {
            let sizes = shape.split([',', ' ']).filter(|size| !size.is_empty());
            let sizes = sizes.map(|size| size.parse::<usize>());
            let len = sizes.map(|size| size.expect("a size is a number")).product();
            floats(shape, &vec![0.0; len])
        });
        let mut case = model(name, &format!("run model.onnxtxt {options}"), graph);
        case.files.extend(["x.npy", "z.npy"].into_iter().zip(files));
        case
    };
    let pool = "g (float[1, 1, n] x) => (y) { y = MaxPool <kernel_shape = [3]> (x) }";
    let sum = "g (float[n, 2] x, float[n, 2] z) => (a, b) { a = Neg (x) b = Neg (z) }";
    let both = "--input x=x.npy --input z=z.npy";
    vec![
        model(
            "size_of_outputs",
            "model.onnxtxt --dim m=3 --deny-warnings",
            "g (float[n] x) => (float[m] y) { y = Relu (x) }",
        ),
        model(
            "circle_of_sizes",
            "model.onnxtxt --dim n=b --dim b=n",
            "g (float[n, b] x) => (y) { y = Relu (x) }",
        ),
        model("negative_image", "model.onnxtxt --dim n=-1", pool),
        model(
            "free_states",
            "model.onnxtxt --state past=present",
            "g (float[1, p] past, float[1, s] x) => (present)\n\
             { present = Concat <axis = 1> (past, x) }",
        ),
        run(
            "run_other_state",
            "--state h=k --dim n=0..=4 --input x=x.npy",
            "g (float[2] h, float[n] x) => (k) { k = Concat <axis = 0> (h, x) }",
            "3,",
            "1,",
        ),
        run("two_sizes_of_one_name", both, sum, "3, 2", "5, 2"),
        run("other_axes_of_input", &format!("{both} --shape z=m,3"), sum, "3, 2", "5, 2"),
        run("run_small_image", "--dim n=1..=8 --input x=x.npy", pool, "1, 1, 1", "1,"),
        run(
            "run_empty_image",
            "--input x=x.npy",
            "g (float[n, 2] x) => (y) { y = Relu (x) }",
            "0, 2",
            "1,",
        ),
        run(
            "run_parts",
            "--dim n=1..=8 --input x=x.npy",
            "g (float[n] x) => (y, z) <int64[2] sizes = {2, 3}> { y, z = Split (x, sizes) }",
            "4,",
            "1,",
        ),
        run(
            "run_broadcast",
            &format!("{both} --dim n=1..=8 --dim m=1..=8"),
            "g (float[n, 2] x, float[m, 2] z) => (y) { y = Add (x, z) }",
            "3, 2",
            "5, 2",
        ),
    ]
}

/// Returns all cases.
fn cases() -> Vec<Case> {
    let models = [foreign_files(), wrong_names(), faulty_models(), faulty_bytes()].concat();
    let models = [models, faulty_sizes()].concat();
    let commands = [faulty_references(), faulty_reports(), faulty_reductions()].concat();
    [models, faulty_inputs(), commands].concat()
}

#[test]
fn messages_are_those_that_are_checked_in() {
    for Case { name, arguments, files } in cases() {
        let directory = scratch(&format!("message_{name}"));
        for (file, bytes) in files {
            let path = directory.join(file);
            let folder = path.parent().expect("a file is in a folder");
            fs::create_dir_all(folder).expect("the scratch directory is writable");
            fs::write(path, bytes).expect("the scratch directory is writable");
        }
        let mut command = onnxc();
        command.current_dir(&directory).args(arguments.split(' '));
        command.env("NO_COLOR", "1").env_remove("CLICOLOR_FORCE");
        let output = command.output().expect("the program was built");
        let text = String::from_utf8(output.stderr).expect("messages are UTF-8");
        let is_warning = text.starts_with("warning") && !text.contains("\nerror");
        assert_eq!(output.status.success(), is_warning, "{name}: {text}");
        assert!(!text.contains("panicked"), "{name}: {text}");
        let page = format!("$ onnxc {arguments}\n{text}");
        golden::check(&folder("messages").join(format!("{name}.txt")), page.as_bytes());
    }
}

#[test]
fn every_message_belongs_to_a_case() {
    let cases = cases();
    for file in golden::files(&folder("messages"), ".txt") {
        let name = file.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        assert!(cases.iter().any(|case| case.name == name), "{name}");
    }
}
