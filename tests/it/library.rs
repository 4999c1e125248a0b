//! The library: custom passes, and models that are optimized and printed.

use crate::programs::{folder, onnxc, root, scratch};
use onnxc::{
    Builder, Options, Spec,
    diag::Diagnostics,
    export,
    import::{self, Size},
    interpreter,
    ir::{Edit, Graph, replace},
    plan::Port,
    tensor::Tensor,
    value::Value,
};
use onnxc_proto::{Bytes, Message};
use std::{fs, path::Path};

const MODEL: &str = r#"<ir_version: 10, opset_import: ["" : 21]>
    gated (float[4] x) => (float[4] y) {
        [gate] h = HardSwish (x)
        y = Abs (h)
    }"#;

/// Replaces every `HardSwish` by a `Relu`.
fn replace_hard_swish(graph: &Graph) -> Result<Graph, Diagnostics> {
    replace(graph, &|site, node| {
        let relu = || Spec::new("Relu").called(&node.name).inputs(node.inputs.clone());
        (node.op.name() == "HardSwish").then(|| relu().add_at(site).ok()).flatten()
    })
}

/// Removes the node of that name.
fn remove_node(graph: &Graph, name: &str) -> Result<Graph, Diagnostics> {
    let mut edit = Edit::of(graph);
    if let Some((node, _)) = graph.node_named(name) {
        edit.bypass(node, 0);
    }
    edit.finish()
}

/// Returns the module that a builder generates for [`MODEL`].
fn generate(name: &str, build: impl FnOnce(Builder) -> Builder) -> String {
    let directory = scratch(name);
    let model = directory.join("gated.onnxtxt");
    fs::write(&model, MODEL).expect("the scratch directory is writable");
    let report = build(Builder::new(&model).out_dir(&directory)).compile();
    let report = report.map_err(|diagnostics| diagnostics.to_string()).expect("the model is valid");
    fs::read_to_string(report.module).expect("the compiler wrote the file")
}

#[test]
fn custom_passes_change_the_module() {
    let as_it_is = generate("own_pass_none", |builder| builder);
    assert!(as_it_is.contains("hard_swish"), "{as_it_is}");
    let replaced =
        generate("own_pass_replace", |builder| builder.pass("simpler", replace_hard_swish));
    assert!(replaced.contains("relu") && !replaced.contains("hard_swish"), "{replaced}");
    let left_out = generate("own_pass_without", |builder| {
        builder
            .pass("simpler", replace_hard_swish)
            .pass("shorter", |graph| remove_node(graph, "gate"))
    });
    assert!(left_out.contains("abs") && !left_out.contains("relu"), "{left_out}");
}

#[test]
fn two_models_in_one_file_are_an_error() {
    let directory = scratch("builder_same");
    let models = ["first", "second"].map(|folder| directory.join(folder).join("gated.onnxtxt"));
    for model in &models {
        fs::create_dir(model.with_file_name("")).expect("the scratch directory is writable");
        fs::write(model, MODEL).expect("the scratch directory is writable");
    }
    let [first, second] = models.each_ref().map(|model| Builder::new(model).out_dir(&directory));
    assert!(first.clone().compile().is_ok() && first.compile().is_ok());
    let diagnostics =
        second.clone().compile().expect_err("the first module would be overwritten").to_string();
    for model in &models {
        assert!(diagnostics.contains(&model.display().to_string()), "{diagnostics}");
    }
    assert!(
        diagnostics.contains("`name`") && second.name("other").compile().is_ok(),
        "{diagnostics}"
    );
}

#[test]
fn two_versions_of_a_model_in_one_file_are_an_error() {
    let directory = scratch("builder_twice");
    let model = directory.join("gated.onnxtxt");
    fs::write(&model, MODEL).expect("the scratch directory is writable");
    let builder = Builder::new(&model).out_dir(&directory);
    let [first, same] = [builder.clone(), builder.clone()].map(Builder::compile);
    let module =
        fs::read(first.expect("the model is valid").module).expect("the compiler wrote the file");
    assert!(same.is_ok());
    let other = builder.pass("shorter", |graph| remove_node(graph, "gate"));
    let diagnostics =
        other.clone().compile().expect_err("the first module would be overwritten").to_string();
    for part in ["in two ways", "gated.onnxtxt", "gated.rs", "`name`"] {
        assert!(diagnostics.contains(part), "{diagnostics}");
    }
    assert!(fs::read(directory.join("gated.rs")).expect("the file was kept") == module);
    assert!(other.name("short").compile().is_ok());
}

#[test]
fn a_pass_that_breaks_the_graph_is_named() {
    let directory = scratch("own_pass_broken");
    let model = directory.join("gated.onnxtxt");
    fs::write(&model, MODEL).expect("the scratch directory is writable");
    let broken = |graph: &Graph| {
        let mut edit = Edit::of(graph);
        let (last, first) = (graph.node_named("y"), graph.node_named("gate"));
        if let (Some((last, _)), Some((first, _))) = (last, first) {
            edit.move_before(last, first);
        }
        edit.finish()
    };
    let builder = Builder::new(&model).out_dir(&directory).pass("backwards", broken);
    let diagnostics = builder.compile().expect_err("a value is used before it is made").to_string();
    assert!(
        diagnostics.contains("pass backwards") && diagnostics.contains("before"),
        "{diagnostics}"
    );
}

#[test]
fn a_builder_without_out_dir_is_an_error() {
    // Cargo does not set `OUT_DIR` for tests.
    let diagnostics = Builder::new("nothing.onnx").compile().expect_err("there is no such model");
    assert!(diagnostics.to_string().contains("`OUT_DIR`"), "{diagnostics}");
}

#[test]
fn builder_methods_accept_strings_and_integers() {
    let count = [1.0, 2.0].len();
    let builder = Builder::new("nothing.onnx")
        .dim("n", count)
        .dim("m", 1..=count)
        .dim(String::from("batch"), 1)
        .shape("x", [count.into(), "m".into(), 3.into()])
        .custom(String::from("com.acme::Clip"), "crate::clip")
        .pass(String::from("simpler"), replace_hard_swish)
        .out_dir(scratch("names_and_numbers"));
    let diagnostics = builder.compile().expect_err("there is no such model").to_string();
    assert!(diagnostics.contains("nothing.onnx"), "{diagnostics}");
}

/// Returns the output of the program for these arguments.
fn run_onnxc(arguments: &[&str]) -> String {
    let output = onnxc().args(arguments).output().expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the text is UTF-8")
}

fn path_text(path: &Path) -> String {
    path.to_str().expect("the path is text").to_owned()
}

#[test]
fn printed_models_can_be_read_and_print_the_same() {
    let directory = scratch("shown");
    for name in ["mlp.onnxtxt", "operators.onnxtxt", "free.onnxtxt"] {
        let model = path_text(&folder("models").join(name));
        let shown = run_onnxc(&["show", "--full", &model]);
        let copy = directory.join("copy.onnxtxt");
        fs::write(&copy, &shown).expect("the scratch directory is writable");
        assert_eq!(run_onnxc(&["show", "--full", &path_text(&copy)]), shown);
    }
    let model = path_text(&folder("models/mlp.onnxtxt"));
    assert!(run_onnxc(&["show", "--after", "fuse", &model]).contains("internal."));
}

#[test]
fn optimizing_twice_changes_nothing() {
    let directory = scratch("optimized");
    for name in ["mlp", "scale", "free"] {
        let model = path_text(&folder("models").join(name).with_extension("onnxtxt"));
        let [first, second] =
            ["first", "second"].map(|copy| path_text(&directory.join(copy).with_extension("onnx")));
        run_onnxc(&["optimize", &model, "-o", &first]);
        run_onnxc(&["optimize", &first, "-o", &second]);
        let [first, second] =
            [first, second].map(|path| fs::read(path).expect("the compiler wrote the file"));
        assert!(first == second, "{name} changes when it is optimized again");
    }
}

/// Returns the results of a model for inputs of small numbers.
fn run_model(model: Bytes) -> Vec<Value> {
    let mut options = Options::default();
    options.settings.directory = Some(folder("models"));
    options
        .settings
        .dims
        .extend(["batch", "samples"].map(|name| (name.to_owned(), Size::Fixed(40))));
    let text =
        import::print::model(&import::decode(model.clone()).expect("the bytes are a model"), 0);
    let has = |name: &str| [",", "]"].iter().any(|end| text.contains(&format!("{name}{end}")));
    options.settings.dims.retain(|name, _| has(name));
    let plan = onnxc::Compiler::new(&options).plan(model).expect("the model is valid");
    let input = |port: &Port| {
        let shape = port.ty.as_tensor().and_then(|ty| ty.known_shape()).expect("sizes are fixed");
        let len = shape.iter().product::<usize>();
        let numbers: Vec<f32> = (0..len).map(|i| (i % 7) as f32 / 8.0 - 0.25).collect();
        Value::Tensor(Tensor { shape, ..Tensor::from_floats(&numbers) })
    };
    let inputs: Vec<Value> = plan.inputs.iter().map(input).collect();
    interpreter::run(&plan, &inputs).expect("the inputs fit the model")
}

#[test]
fn an_optimized_model_has_the_same_results() {
    let digits = root().join("examples/models/digits.onnx");
    for model in [folder("models/mlp.onnxtxt"), folder("models/free.onnxtxt"), digits] {
        let bytes = Bytes::from(fs::read(&model).expect("the model is checked in"));
        let graph = onnxc::Compiler::new(&Options::default())
            .optimize(bytes.clone())
            .expect("the model is valid");
        let written = export::model(&graph).expect("the graph can be exported");
        assert!(
            run_model(bytes) == run_model(written.encode_to_vec().into()),
            "{}",
            model.display()
        );
    }
}

#[test]
fn types_that_an_operator_lost_are_written_with_casts() {
    // `Erf` takes integers before version 13 only, and `Mul` takes `int8` from version 14 on. The
    // logarithms of sums take integers before version 28 only.
    for text in [
        "<ir_version: 10, opset_import: [\"\" : 9]>
        g (int8[2, 3] x) => (y, z) { y = Erf (x) z = Mul (x, x) }",
        "<ir_version: 10, opset_import: [\"\" : 18]>
        g (int32[2, 3] x) => (y, z) { y = ReduceLogSum (x) z = ReduceLogSumExp (x) }",
    ] {
        let graph = onnxc::Compiler::new(&Options::default()).optimize(text.into());
        let written = export::model(&graph.expect("the model compiles"));
        let written = written.expect("its operators exist");
        let nodes = &written.graph.as_ref().expect("the graph is written").node;
        let casts = nodes.iter().filter(|node| node.op_type() == "Cast").count();
        assert_ne!(casts, 0);
        let again = onnxc::Compiler::new(&Options::default()).plan(written.encode_to_vec().into());
        assert!(again.is_ok(), "{}", again.err().unwrap());
    }
}

#[test]
fn fused_nodes_cannot_be_exported() {
    let model = fs::read(folder("models/mlp.onnxtxt")).expect("the model is checked in");
    let mut fused = None;
    let plan = onnxc::Compiler::new(&Options::default())
        .observe(|pass, graph| {
            if pass == "fuse" {
                fused = Some(graph.clone());
            }
        })
        .plan(model.into());
    assert!(plan.is_ok());
    let diagnostics = export::model(&fused.expect("the pass exists"))
        .expect_err("a fused graph cannot be exported");
    assert!(diagnostics.to_string().contains("made of `MatMul`"), "{diagnostics}");
}

#[test]
fn optimize_fixes_dimensions_and_constants() {
    let directory = scratch("settled");
    let model = directory.join("model.onnxtxt");
    let source = r#"<ir_version: 10, opset_import: ["" : 21]>
        g (float[N, 3] x, float by) => (float[N, 3] y) {
            s = Shape (x)
            z = ConstantOfShape (s)
            a = Add (z, by)
            y = Mul (x, a)
        }"#;
    fs::write(&model, source).expect("the scratch directory is writable");
    let copy = path_text(&directory.join("copy.onnxtxt"));
    run_onnxc(&["optimize", &path_text(&model), "-o", &copy, "--dim", "N=2", "--const", "by=1"]);
    let found = fs::read_to_string(copy).expect("the compiler wrote the file");
    assert!(found.contains("g (float[2, 3] x) => (float[2, 3] y)"), "{found}");
    assert_eq!(found.matches(" = Mul (x, a)").count(), 1, "{found}");
    assert_eq!(found.matches('(').count(), 3, "{found}");
}
