//! Models of free sizes: each run lays out one arena for its sizes.

use crate::programs::{folder, onnxc, run, scratch};
use onnxc::{
    Options,
    dtype::DType,
    interpreter,
    plan::{Place, Plan, UseCounts},
    tensor::Tensor,
};
use std::fs;

/// The sizes of the modules of fixed sizes in `programs/free.rs`.
const SIZES: &[[usize; 3]] = &[[1, 16, 3], [2, 41, 5], [1, 5000, 1], [0, 16, 3], [5, 2, 4]];

/// Runs a model of free sizes against those of fixed sizes.
fn compare(model: &str, options: &[&str]) {
    let directory = scratch(&format!("free_{model}_{}", options.len()));
    let mut program =
        fs::read_to_string(folder("programs/free.rs")).expect("the program is checked in");
    program.push_str("use onnxc_runtime::view::View;\n");
    let mut compile = |name: &str, dims: &[String]| {
        let path = folder("models").join(format!("{model}.onnxtxt"));
        let mut command = onnxc();
        command.arg(path).arg("-o").arg(directory.join(format!("{name}.rs"))).args(options);
        command.args(["--name", "Model", "--weights", "inline"]).args(dims);
        let run = command.output().expect("the program was built");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        program.push_str(&format!("mod {name};\n"));
    };
    compile("free", &[]);
    for (i, [batch, n, classes]) in SIZES.iter().enumerate() {
        let dims = [("batch", batch), ("n", n), ("classes", classes)];
        let dims = dims.map(|(name, size)| format!("--dim={name}={size}"));
        compile(&format!("fixed_{i}"), &dims);
    }
    let file = directory.join("main.rs");
    fs::write(&file, program).expect("the scratch directory is writable");
    run(&file);
}

#[test]
fn free_sizes_give_the_bits_of_fixed_ones() {
    for model in ["network", "network_int8"] {
        compare(model, &[]);
        compare(model, &["--optimize=size"]);
    }
}

/// Returns the plan of a graph.
fn plan(graph: &str) -> Plan {
    let text = format!("<ir_version: 10, opset_import: [\"\" : 21]> g {graph}");
    let planned = onnxc::Compiler::new(&Options::default()).plan(text.into_bytes().into());
    planned.unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

#[test]
fn values_on_the_heap_are_freed_after_their_last_use() {
    let plan = plan(
        "(float[n] x) => (float[k] y) <int64[1] all = {-1}> {
            places = NonZero(x)
            flat = Reshape(places, all)
            picked = Gather(x, flat)
            doubled = Add(picked, picked)
            y = Neg(doubled)
        }",
    );
    let freed = UseCounts::of(&plan).last_uses(&plan.steps).into_iter().flatten();
    let on_heap = freed.filter(|&buffer| plan.buffers[buffer].place == Place::Heap);
    let names: Vec<&str> = on_heap.map(|buffer| &*plan.buffers[buffer].name).collect();
    assert_eq!(names, ["places", "picked", "doubled"]);
}

#[test]
fn the_end_of_a_slice_bounds_nothing() {
    let graph = "(float[n] x) => (float[m] y)
        <int64[1] start = {0}, int64[1] end = {1000000000}, int64[1] axis = {0}> {
            r = Exp(x)
            s = Slice(r, start, end, axis)
            y = Neg(s)
        }";
    let plan = plan(graph);
    assert_eq!((plan.arena_bytes, plan.dynamic.is_empty()), (0, false));
    let x = Tensor::from_floats(&[0.0; 3]);
    let y = interpreter::run(&plan, &[x.into()]).expect("the input fits the model").remove(0);
    assert_eq!(y.tensor().and_then(Tensor::floats), Some(vec![-1.0; 3]));
}

#[test]
fn an_upper_limit_of_the_arena_requires_bounds() {
    let model = folder("models/free.onnxtxt");
    let run = |dims: &[&str]| {
        let mut command = onnxc();
        command.arg(&model).args(["--max-arena", "1000000"]).args(dims);
        let run = command.output().expect("the program was built");
        (run.status.success(), String::from_utf8_lossy(&run.stderr).into_owned())
    };
    let (is_ok, message) = run(&[]);
    assert!(!is_ok && message.contains("depends on free dimensions"), "{message}");
    let (is_ok, message) = run(&["--dim=batch=1..=4", "--dim=samples=1..=1000"]);
    assert!(is_ok, "{message}");
}

#[test]
fn a_convolution_chooses_the_algorithm_of_its_sizes() {
    let planned = |height: &str, width: &str| {
        plan(&format!(
            "(float[1, 32, {height}, {width}] x) => (float[1, 32, n, m] y)
            <float first = {{0.0}}, float last = {{9216.0}}, float one = {{1.0}},
             int64[4] shape = {{32, 32, 3, 3}}> {{
                range = Range(first, last, one)
                waves = Sin(range)
                w = Reshape(waves, shape)
                a = Conv <pads = [1, 1, 1, 1]> (x, w)
                y = Conv <pads = [1, 1, 1, 1]> (a, w)
            }}"
        ))
    };
    let free = planned("h", "w");
    assert!(free.to_string().contains("conv_by_size_nchwc"), "{free}");
    for ([height, width], algorithm) in [([5, 7], "conv_nchwc"), ([40, 61], "winograd_nchwc")] {
        let fixed = planned(&height.to_string(), &width.to_string());
        assert!(fixed.to_string().contains(algorithm), "{fixed}");
        let x: Vec<f64> = (0..32 * height * width).map(|i| (i as f64 * 0.7).cos()).collect();
        let x = Tensor::from_numbers(DType::F32, vec![1, 32, height, width], &x);
        let x = x.expect("the type is a floating-point type");
        let outputs = [&free, &fixed].map(|plan| {
            interpreter::run(plan, &[x.clone().into()]).expect("the input fits the plan")
        });
        assert!(outputs[0] == outputs[1], "{height} × {width}");
    }
}
