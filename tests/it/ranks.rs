//! Numbers of axes that the operators leave open: a declaration settles them, and the model checks
//! what it promises.

use onnxc::{
    Compiler, Options, dtype::DType, interpreter, plan::Plan, tensor::Tensor, value::Value,
};

/// Returns the plan of a model with these options of `--shape`, or the error.
fn plan(graph: &str, shapes: &[&str]) -> Result<Plan, String> {
    let text = format!("<ir_version: 10, opset_import: [\"\" : 21]> g {graph}");
    let mut options = Options::default();
    shapes.iter().try_for_each(|shape| options.shape(shape)).map_err(|error| error.to_string())?;
    Compiler::new(&options).plan(text.into()).map_err(|diagnostics| diagnostics.to_string())
}

/// A tensor of these sizes, whose elements are their indices.
fn floats(shape: &[usize]) -> Value {
    let numbers: Vec<f64> = (0..shape.iter().product::<usize>()).map(|i| i as f64).collect();
    let tensor = Tensor::from_numbers(DType::F32, shape.to_vec(), &numbers);
    Value::Tensor(tensor.expect("there is a number for each element"))
}

fn ints(elements: &[i64]) -> Value {
    Value::Tensor(Tensor::from_ints(elements))
}

/// Returns the shape of the first output, or `None` if the run returns an error.
fn shape(plan: &Plan, inputs: &[Value]) -> Option<Vec<usize>> {
    let outputs = interpreter::run(plan, inputs).ok()?;
    Some(outputs[0].tensor().expect("every model returns a tensor").shape.clone())
}

/// Runs a model whose output is declared as `float[a, b]`, and one in which only `--shape` declares
/// it. Each case has the inputs and the shape of the output.
fn check(inputs: &str, node: &str, cases: &[(&[Value], Option<&[usize]>)]) {
    let model = |output: &str| format!("({inputs}) => ({output}) {{ {node} }}");
    let open = plan(&model("float[] y"), &[]).err().expect("nothing declares the axes");
    assert!(open.contains("E0204") && open.contains("--shape y="), "{open}");
    for (output, shapes) in [("float[a, b] y", &[][..]), ("float[] y", &["y=a,b"])] {
        let plan = plan(&model(output), shapes).unwrap_or_else(|error| panic!("{node}: {error}"));
        for (inputs, expected) in cases {
            let found = shape(&plan, inputs);
            assert_eq!(found.as_deref(), *expected, "{node} of {inputs:?}");
        }
    }
}

#[test]
fn a_slice_has_as_many_axes_as_its_data() {
    let node = "(float[n, 4] x, int64[k] from, int64[k] to) => (y) { y = Slice(x, from, to) }";
    let plan = plan(node, &[]).expect("the data has two axes");
    let x = floats(&[9, 4]);
    for (from, to, expected) in [
        (&[][..], &[][..], Some(vec![9, 4])),
        (&[2], &[5], Some(vec![3, 4])),
        (&[2, -1], &[-1, 9], Some(vec![6, 1])),
        (&[0, 0, 0], &[1, 1, 1], None),
        (&[0], &[1, 1], None),
    ] {
        assert_eq!(shape(&plan, &[x.clone(), ints(from), ints(to)]), expected, "{from:?}");
    }
}

#[test]
fn a_slice_of_unknown_axes_has_as_many_axes_as_its_data() {
    let graph = "(float[4, n] x, int64[k] from, int64[k] to, int64[k] axes) => (y)
        { y = Slice(x, from, to, axes) }";
    let plan = plan(graph, &[]).expect("the data has two axes");
    let x = floats(&[4, 6]);
    let run = |axes: &[i64]| {
        let ones = vec![1; axes.len()];
        shape(&plan, &[x.clone(), ints(&ones), ints(&vec![3; axes.len()]), ints(axes)])
    };
    assert_eq!(run(&[1]), Some(vec![4, 2]));
    assert_eq!(run(&[-1, 0]), Some(vec![2, 2]));
    assert_eq!(run(&[2]), None);
}

#[test]
fn a_declaration_settles_the_length_of_a_list() {
    let [x, three] = [floats(&[2, 6]), floats(&[2, 6, 1])];
    check(
        "float[n, m] x, int64[r] s",
        "y = Reshape(x, s)",
        &[
            (&[x.clone(), ints(&[3, -1])], Some(&[3, 4])),
            (&[x.clone(), ints(&[0, 6])], Some(&[2, 6])),
            (&[x.clone(), ints(&[12])], None),
            (&[x.clone(), ints(&[2, 3, 2])], None),
        ],
    );
    check(
        "float[n] x, int64[r] s",
        "y = Expand(x, s)",
        &[(&[floats(&[3]), ints(&[2, 3])], Some(&[2, 3])), (&[floats(&[3]), ints(&[3])], None)],
    );
    check(
        "int64[r] s",
        "y = ConstantOfShape(s)",
        &[(&[ints(&[2, 0])], Some(&[2, 0])), (&[ints(&[2])], None)],
    );
    check(
        "float[n, m, k] x, int64[r] s",
        "y = Squeeze(x, s)",
        &[(&[three.clone(), ints(&[-1])], Some(&[2, 6])), (&[three, ints(&[0])], None)],
    );
    check(
        "float[n] x, int64[r] s",
        "y = Unsqueeze(x, s)",
        &[(&[floats(&[3]), ints(&[1])], Some(&[3, 1])), (&[floats(&[3]), ints(&[0, 1])], None)],
    );
}

#[test]
fn a_declaration_settles_which_axes_are_squeezed() {
    check(
        "float[n, 3, 1] x",
        "y = Squeeze(x)",
        &[(&[floats(&[2, 3, 1])], Some(&[2, 3])), (&[floats(&[1, 3, 1])], None)],
    );
    check(
        "float[n, m, 3] x",
        "s = Squeeze(x) y = Neg(s)",
        &[
            (&[floats(&[1, 2, 3])], Some(&[2, 3])),
            (&[floats(&[2, 1, 3])], Some(&[2, 3])),
            (&[floats(&[2, 2, 3])], None),
        ],
    );
}

#[test]
fn a_declaration_settles_which_branches_may_run() {
    let truth = |value: bool| Value::Tensor(Tensor::from_bool(value));
    let x = floats(&[2, 3]);
    check(
        "float[2, 3] x, bool c, bool d",
        "i = If(c) <
            then_branch = a () => (float[] t) { t = Neg(x) },
            else_branch = b () => (float[] e) {
                e = If(d) <
                    then_branch = f () => (float[] g) { g = Abs(x) },
                    else_branch = h () => (float[] j) { j = ReduceMax<keepdims = 0>(x) }
                >
            }
        >
        y = Identity(i)",
        &[
            (&[x.clone(), truth(true), truth(false)], Some(&[2, 3])),
            (&[x.clone(), truth(false), truth(true)], Some(&[2, 3])),
            (&[x, truth(false), truth(false)], None),
        ],
    );
}

#[test]
fn a_shape_may_be_that_of_an_inner_value() {
    let graph = "(float[n, 3, 1] x, float[k, 3] z, int64[r] s) => (y) {
        a = Squeeze(x) b = Reshape(z, s) c = Add(a, b) y = Neg(c)
    }";
    let error = plan(graph, &["a=n,3"]).err().expect("the axes of `b` are open");
    assert!(error.contains("--shape b="), "{error}");
    let plan = plan(graph, &["a=n,3", "b=k,3"]).expect("both are declared");
    let run = |n: usize| shape(&plan, &[floats(&[n, 3, 1]), floats(&[1, 3]), ints(&[1, 3])]);
    assert_eq!((run(2), run(1)), (Some(vec![2, 3]), None));
}
