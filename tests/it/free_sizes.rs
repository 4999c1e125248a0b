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

/// Asserts that plans give the same bits for an input of this shape.
fn assert_same_bits(plans: [&Plan; 2], shape: [usize; 4]) {
    let count: usize = shape.iter().product();
    let x: Vec<f64> = (0..count).map(|i| (i as f64 * 0.7).cos()).collect();
    let x = Tensor::from_numbers(DType::F32, shape.to_vec(), &x);
    let x = x.expect("the type is a floating-point type");
    let outputs = plans
        .map(|plan| interpreter::run(plan, &[x.clone().into()]).expect("the input fits the plan"));
    assert!(outputs[0] == outputs[1], "{shape:?}");
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
        assert_same_bits([&free, &fixed], [1, 32, height, width]);
    }
}

#[test]
fn a_convolution_of_bounded_sizes_is_the_best_for_the_largest() {
    for (most, algorithm) in [(4, "conv_nchwc"), (61, "winograd_nchwc")] {
        let graph = "(float[1, 32, n, n] x, float c) => (float[1, 32, n, n] y)
            <int64[4] shape = {32, 32, 3, 3}> {
                w = ConstantOfShape<value = float[1] {0.5}>(shape)
                a = Conv <pads = [1, 1, 1, 1]> (x, w)
                b = Mul(a, c)
                y = Conv <pads = [1, 1, 1, 1]> (b, w)
            }";
        let mut options = Options::default();
        options.settings.dims.insert("n".into(), (1..=most).into());
        let text = format!("<ir_version: 10, opset_import: [\"\" : 21]> g {graph}");
        let plan = onnxc::Compiler::new(&options).plan(text.into_bytes().into());
        let plan = plan.expect("the model is valid");
        assert!(plan.to_string().contains(algorithm), "{plan}");
    }
}

#[test]
fn convolutions_of_one_pixel_have_the_bits_of_free_sizes() {
    let planned = |height: &str, width: &str| {
        plan(&format!(
            "(float[1, 32, {height}, {width}] x) => (float[1, 48, n, m] y)
            <float first = {{0.0}}, float last = {{1536.0}}, float one = {{1.0}},
             int64[4] shape = {{48, 32, 1, 1}}> {{
                range = Range(first, last, one)
                waves = Sin(range)
                w = Reshape(waves, shape)
                y = Conv(x, w)
            }}"
        ))
    };
    let free = planned("h", "w");
    for [height, width] in [[1, 1], [1, 2], [3, 1]] {
        let fixed = planned(&height.to_string(), &width.to_string());
        assert_same_bits([&free, &fixed], [1, 32, height, width]);
    }
}

/// Runs a graph whose only input is `x`, of zeros, and returns the shape of its first output.
fn shape_of_run(graph: &str, sizes: &[usize]) -> Result<Vec<usize>, String> {
    let (text, options) =
        (format!("<ir_version: 10, opset_import: [\"\" : 21]> g {graph}"), Options::default());
    let plan = onnxc::Compiler::new(&options).plan(text.into_bytes().into());
    let plan = plan.map_err(|diagnostics| diagnostics.to_string())?;
    let x = Tensor::from_numbers(DType::F32, sizes.to_vec(), &vec![0.0; sizes.iter().product()]);
    let x = x.expect("the type is a floating-point type");
    let outputs = interpreter::run(&plan, &[x.into()]).map_err(|error| error.to_string())?;
    Ok(outputs[0].tensor().expect("the output is a tensor").shape.clone())
}

#[test]
fn a_size_of_zero_in_a_reshape_is_unambiguous() {
    let run = |allowzero: u8, wanted: &str, free: &[usize]| {
        let graph = |ty: &str| {
            format!(
                "(float[{ty}] x) => (float[p, q] y) 
                <int64[1] kept = {{0}}, int64[1] rest = {{-1}}> {{
                    b = Shape<start = 0, end = 1>(x)
                    s = Shape<start = 1, end = 2>(x)
                    shape = Concat<axis = 0>({wanted})
                    y = Reshape<allowzero = {allowzero}>(x, shape)
                }}"
            )
        };
        let fixed = free.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let results = [graph("b, s"), graph(&fixed)].map(|graph| shape_of_run(&graph, free).ok());
        assert_eq!(results[0].is_some(), results[1].is_some(), "{wanted} of {free:?}");
        if results[0].is_some() {
            assert_eq!(results[0], results[1], "{wanted} of {free:?}");
        }
        results[0].clone()
    };
    for wanted in ["b, rest", "kept, rest"] {
        assert_eq!(run(0, wanted, &[0, 3]), Some(vec![0, 3]));
        assert_eq!(run(0, wanted, &[3, 0]), Some(vec![3, 0]));
        assert_eq!(run(0, wanted, &[3, 2]), Some(vec![3, 2]));
    }
    assert_eq!(run(1, "b, rest", &[3, 0]), Some(vec![3, 0]));
    assert_eq!(run(1, "b, rest", &[0, 3]), None);
    assert_eq!(run(1, "s, rest", &[3, 0]), None);
    assert_eq!(run(1, "s, b", &[3, 0]), Some(vec![0, 3]));
    assert_eq!(run(0, "s, b", &[2, 3]), Some(vec![3, 2]));
    assert_eq!(run(0, "s, b", &[3, 0]), None);
    assert_eq!(run(0, "s, rest", &[0, 3]), Some(vec![3, 0]));
}

#[test]
fn a_computed_zero_that_copies_another_size_is_an_error_of_the_run() {
    let graph = "(float[b, s] x) => (float[p, q] y) <int64[1] rest = {-1}> {
        s = Shape<start = 1, end = 2>(x)
        shape = Concat<axis = 0>(s, rest)
        y = Reshape(x, shape)
    }";
    assert_eq!(shape_of_run(graph, &[2, 3]), Ok(vec![3, 2]));
    let error = shape_of_run(graph, &[3, 0]);
    assert!(error.is_err(), "ONNX's result is [3, 0]: {error:?}");
    // Nothing reads the elements of `y`, only its sizes.
    let graph = "(float[b, s] x) => (float[q] z) <int64[1] rest = {-1}> {
        s = Shape<start = 1, end = 2>(x)
        shape = Concat<axis = 0>(s, rest)
        y = Reshape(x, shape)
        r = Relu(y)
        t = Shape<start = 0, end = 1>(r)
        z = ConstantOfShape(t)
    }";
    assert_eq!(shape_of_run(graph, &[2, 3]), Ok(vec![3]));
    let error = shape_of_run(graph, &[3, 0]);
    assert!(error.is_err(), "ONNX's result is [3]: {error:?}");
}

#[test]
fn an_empty_axis_is_not_resized_to_sizes_of_the_run() {
    let graph = "(float[n] x) => (float[m] y) <int64[1] one = {1}> {
        rows = NonZero(x)
        found = Shape<start = 1, end = 2>(rows)
        longer = Add(found, one)
        size = Cast<to = 7>(longer)
        y = Resize(x, , , size)
    }";
    assert_eq!(shape_of_run(graph, &[4]), Ok(vec![1]));
    assert!(shape_of_run(graph, &[0]).is_err());
}

#[test]
fn conditions_beyond_the_last_slice_choose_nothing() {
    for (len, chosen) in [(0, 0), (1, 1), (3, 2), (7, 4)] {
        for size in ["n".to_owned(), len.to_string()] {
            let graph = format!(
                "(float[{size}] x) => (float[m] y) <bool[5] conditions = {{1, 0, 1, 1, 1}}> {{
                    y = Compress<axis = 0>(x, conditions)
                }}"
            );
            assert_eq!(shape_of_run(&graph, &[len]), Ok(vec![chosen]), "{size}");
        }
    }
}

#[test]
fn einsum_broadcasts_a_size_that_only_the_run_tells() {
    let model = "<ir_version: 10, opset_import: [\"\" : 21]> g
        (float[b, i, d] q, float[c, e, j] k) => (float[x, y, z] r, float[v, w] s, t) {
            r = Einsum<equation = \"bid,bdj->bij\">(q, k)
            s = Einsum<equation = \"bid,bdj->ij\">(q, k)
            t = Einsum<equation = \"bid,bdj,bdk->ijk\">(q, k, k)
        }";
    let sizes = [[1, 2, 3, 1, 3, 4], [3, 2, 3, 1, 3, 4], [1, 2, 3, 3, 3, 4], [3, 2, 1, 3, 5, 2]];
    let input = |shape: &[usize]| {
        let len: usize = shape.iter().product();
        let numbers: Vec<f64> = (0..len).map(|i| (i as f64 * 0.7).cos()).collect();
        let tensor = Tensor::from_numbers(DType::F32, shape.to_vec(), &numbers);
        tensor.expect("the type is a floating-point type").into()
    };
    for sizes in sizes {
        let mut options = Options::default();
        let run = |options: &Options| {
            let plan = onnxc::Compiler::new(options).plan(model.to_owned().into_bytes().into());
            let plan = plan.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
            let inputs = [input(&sizes[..3]), input(&sizes[3..])];
            interpreter::run(&plan, &inputs).expect("the sizes broadcast")
        };
        let free = run(&options);
        for (name, size) in ["b", "i", "d", "c", "e", "j"].iter().zip(sizes) {
            options.dim(&format!("{name}={size}")).expect("the option has the form NAME=N");
        }
        for (free, fixed) in free.iter().zip(run(&options)) {
            let [free, fixed] = [free, &fixed].map(|value| {
                let tensor = value.tensor().expect("the output is a tensor");
                (tensor.shape.clone(), tensor.floats().expect("its elements are floats"))
            });
            // An axis that is broadcast is summed in another order.
            let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-5;
            assert_eq!(free.0, fixed.0, "{sizes:?}");
            assert!(free.1.iter().zip(&fixed.1).all(close), "{sizes:?}");
        }
    }
}

#[test]
fn a_shape_tells_sizes_of_one_name_apart() {
    let model = "<ir_version: 10, opset_import: [\"\" : 21]> g
        (float[n, 2] x, float[n, 2] z) => (float[n, 2] a, float[k, 2] b) {
            a = Neg(x)
            b = Neg(z)
        }";
    for dims in [&[][..], &["n=3"], &["n=3", "m=5"]] {
        let mut options = Options::default();
        options.shape("z=m,2").expect("the option has the form NAME=SIZE,…");
        for dim in dims {
            options.dim(dim).expect("the option has the form NAME=N");
        }
        let plan = onnxc::Compiler::new(&options).plan(model.to_owned().into_bytes().into());
        let plan = plan.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let inputs = [3, 5].map(|rows| {
            let tensor = Tensor::from_numbers(DType::F32, vec![rows, 2], &vec![1.0; 2 * rows]);
            tensor.expect("the type is a floating-point type").into()
        });
        let outputs = interpreter::run(&plan, &inputs).expect("each input has its own size");
        let shapes = outputs.iter().filter_map(|value| Some(value.tensor()?.shape.clone()));
        assert_eq!(shapes.collect::<Vec<_>>(), [[3, 2], [5, 2]], "{dims:?}");
    }
}

#[test]
fn a_mask_of_another_number_of_keys_is_an_error_of_the_run() {
    let text = "<ir_version: 10, opset_import: [\"\" : 21, \"com.microsoft\" : 1]>
        g (float[b, s, 4] q, float[b, l, 4] k, int32[b, m] mask) => (y) {
            y = com.microsoft.MultiHeadAttention<num_heads = 2> (q, k, k, \"\", mask)
        }";
    let planned = onnxc::Compiler::new(&Options::default()).plan(text.to_owned().into());
    let plan = planned.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let numbers = |shape: &[usize], count: usize| {
        let numbers: Vec<f64> = (0..count).map(|i| (i as f64 * 0.7).sin()).collect();
        Tensor::from_numbers(DType::F32, shape.to_vec(), &numbers).expect("enough numbers")
    };
    let run = |ones: usize| {
        let mask = 1_i32.to_le_bytes().repeat(ones);
        let mask = Tensor::from_raw(DType::I32, vec![1, ones], mask.into());
        let given = [numbers(&[1, 2, 4], 8), numbers(&[1, 3, 4], 12), mask];
        let found = interpreter::run(&plan, &given.map(Into::into));
        found.map(|found| found[0].tensor().and_then(Tensor::floats))
    };
    let all = run(3).expect("there are 3 keys");
    assert_eq!(run(1).expect("one number counts for all keys"), all);
    assert!(run(2).is_err());
}
