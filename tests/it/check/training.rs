//! Rules for training.

use super::{
    Case,
    bases::{INFERENCE, STEP, entry, info, training},
    case, parse,
};
use onnxc::diag::Code::*;
use onnxc_proto::{Message, ModelProto, TrainingInfoProto};

/// Returns the training model with its training information changed.
fn change(change: impl FnOnce(&mut TrainingInfoProto)) -> Vec<u8> {
    let mut model = training(STEP);
    change(&mut model.training_info[0]);
    model.encode_to_vec()
}

/// Returns the training model with a text of the step replaced.
fn step(from: &str, to: &str) -> Vec<u8> {
    assert!(STEP.contains(from), "{from}");
    training(&STEP.replacen(from, to, 1)).encode_to_vec()
}

/// Returns the training model with a second training information.
fn two(step: &str, change: impl FnOnce(&mut ModelProto)) -> Vec<u8> {
    let mut model = training(STEP);
    model.training_info.push(info(step));
    model.training_info[1].initialization_binding.clear();
    model.training_info[1].update_binding.clear();
    change(&mut model);
    model.encode_to_vec()
}

pub fn cases() -> Vec<Case> {
    [bindings(), graphs(), gradients(), optimizers()].into_iter().flatten().collect()
}

fn bindings() -> Vec<Case> {
    let init = |key: &str, value: &str| {
        let binding = entry(key, value);
        change(|info| info.initialization_binding.push(binding))
    };
    let update = |key: &str, value: &str| {
        let binding = entry(key, value);
        change(|info| info.update_binding.push(binding))
    };
    vec![
        case("init_key_unknown", InitKey, "`u` is not an initializer", init("u", "w0")),
        case("init_key_input", InitKey, "`x` is not an initializer", init("x", "w0")),
        case(
            "init_key_of_other",
            InitKey,
            "`other` is not an initializer",
            two("other_step () => (o) <float other = {1}> { o = Neg(other) }", |model| {
                model.training_info[0].initialization_binding.push(entry("other", "w0"))
            }),
        ),
        case("init_value_unknown", InitValue, "`w1` is not an output", init("rate", "w1")),
        case("init_twice", InitDuplicate, "assigns to `w`", init("w", "w0")),
        case("init_size", InitType, "`w0` is float, but the variable `count`", init("count", "w0")),
        case(
            "init_no_graph",
            InitMissing,
            "no initialization graph",
            change(|info| info.initialization = None),
        ),
        case(
            "init_input",
            InitInputs,
            "has the input `x`",
            change(|info| {
                let text = "first (float x) => (float w0) { w0 = Constant<value_float = 0.25>() }";
                info.initialization = onnxc::import::text::graph(text).ok();
            }),
        ),
        case(
            "init_reads_model",
            UndefinedValue,
            "`w`",
            change(|info| {
                let text = "first () => (float w0) { w0 = Neg(w) }";
                info.initialization = onnxc::import::text::graph(text).ok();
            }),
        ),
        case("update_key_unknown", UpdateKey, "`u` is not an initializer", update("u", "new")),
        case("update_key_input", UpdateKey, "`x` is not an initializer", update("x", "new")),
        case("update_key_output", UpdateKey, "`p` is not an initializer", update("p", "new")),
        case("update_value_unknown", UpdateValue, "`nothing` is neither", update("v", "nothing")),
        case("update_value_inside", UpdateValue, "`v_new` is neither", update("v", "v_new")),
        case("update_twice", UpdateDuplicate, "`w` is assigned", update("w", "loss")),
        case(
            "update_twice_in_two",
            UpdateDuplicate,
            "`w` is assigned by training_info 0",
            two("more () => (float u) { u = Neg(w) }", |model| {
                model.training_info[1].update_binding.push(entry("w", "u"))
            }),
        ),
        case("update_type", UpdateType, "but the variable `count`", update("count", "loss")),
        case("update_shape", UpdateType, "`p` is float[4], but the variable `v`", update("v", "p")),
        case(
            "state_ambiguous",
            AmbiguousState,
            "`v` is an initializer of more than one",
            two("more () => (float u) <float v = {1}> { u = Neg(v) }", |model| {
                model.training_info[0].update_binding.push(entry("v", "loss"));
                model.training_info[1].update_binding.push(entry("v", "u"));
            }),
        ),
    ]
}

fn graphs() -> Vec<Case> {
    let mut old = training(STEP);
    old.ir_version = Some(6);
    let mut reads = parse(&INFERENCE.replace("Mul(x, w)", "Mul(x, rate)"));
    reads.training_info.push(info(STEP));
    reads.training_info[0].update_binding.clear();
    let mut unnamed = training(STEP);
    unnamed.opset_import.truncate(1);
    unnamed.training_info[0].algorithm = onnxc::import::text::graph(
        "step () => (float new) { new = ai.onnx.preview.training.Adagrad(w, w, w, w, w) }",
    )
    .ok();
    vec![
        case("training_version", TrainingVersion, "IR version 6", old.encode_to_vec()),
        case(
            "training_not_imported",
            UnknownDomain,
            "`ai.onnx.preview.training`",
            unnamed.encode_to_vec(),
        ),
        case(
            "inference_reads_step",
            InferenceReadsTraining,
            "inference cannot use it",
            reads.encode_to_vec(),
        ),
        case(
            "step_repeats_input",
            TrainingNames,
            "`x` is declared by",
            step("float[4] t", "float[4] t, float[4] x"),
        ),
        case(
            "step_repeats_initializer",
            TrainingNames,
            "`w` is declared by",
            step("float v = {0}", "float v = {0}, float w = {0}"),
        ),
        case(
            "step_repeats_output",
            TrainingNames,
            "`p` is defined twice",
            step("d = Sub", "p = Neg(t) d = Sub"),
        ),
        case("step_undefined", UndefinedValue, "`q`", step("Sub(p, t)", "Sub(p, q)")),
        case(
            "step_input_untyped",
            MissingType,
            "the input has no type",
            step("float[4] t", "float[4] t, more"),
        ),
        case("step_sizes", ShapeMismatch, "do not broadcast", step("float[4] t", "float[5] t")),
        case("step_attribute", MissingAttribute, "`beta` is missing", step("beta = 1.0, ", "")),
        case(
            "step_reads_other_step",
            UndefinedValue,
            "`rate`",
            two("more () => (float u) { u = Neg(rate) }", |_| {}),
        ),
    ]
}

fn gradients() -> Vec<Case> {
    vec![
        case(
            "gradient_of_nothing",
            GradientOf,
            "`y` is `cost`",
            step("y = \"loss\"", "y = \"cost\""),
        ),
        case(
            "gradient_loss_removed",
            GradientOf,
            "`y` is `loss`",
            step("loss = ReduceSum<keepdims = 0>(s)", ""),
        ),
        case(
            "gradient_by_nothing",
            GradientBy,
            "name `b`, which is not",
            step("xs = [\"w\"]", "xs = [\"b\"]"),
        ),
        case(
            "gradient_fixed_nothing",
            GradientBy,
            "name `b`, which is not",
            step("zs = [\"x\"]", "zs = [\"b\"]"),
        ),
        case(
            "gradient_by_twice",
            GradientBy,
            "name `w` twice",
            step("zs = [\"x\"]", "zs = [\"w\"]"),
        ),
        case("gradient_inputs", GradientArity, "has 1 input,", step(">(w, x)", ">(w)")),
        case("gradient_outputs", GradientArity, "has 2 outputs", step("g = ai", "g, h = ai")),
        case(
            "gradient_integer",
            GradientType,
            "`count` is int64",
            step(
                "xs = [\"w\"], zs = [\"x\"], y = \"loss\">(w, x)",
                "xs = [\"w\", \"count\"], y = \"loss\">(w, count)",
            ),
        ),
        case(
            "gradient_value",
            GradientType,
            "given for `w` is float[4], not float",
            step(">(w, x)", ">(x, x)"),
        ),
        case(
            "gradient_dead",
            GradientDeadPath,
            "depends on `w` only through",
            step("Mul(d, d)", "Round(d)"),
        ),
        case("gradient_cycle", GradientCycle, "`loss` depends on what", cycle()),
        case("gradient_unnamed", MissingAttribute, "`y` is missing", step(", y = \"loss\"", "")),
    ]
}

/// Returns a model whose loss, behind the `Gradient` node, depends on the gradient.
fn cycle() -> Vec<u8> {
    let gradient =
        "g = ai.onnx.preview.training.Gradient<xs = [\"w\"], zs = [\"x\"], y = \"loss\">(w, x)";
    let sorted = STEP.replacen(gradient, "", 1).replacen(
        "d = Sub(p, t)",
        &format!("{gradient} d = Sub(p, g)"),
        1,
    );
    training(&sorted).encode_to_vec()
}

fn optimizers() -> Vec<Case> {
    vec![
        case(
            "optimizer_inputs",
            OptimizerInputs,
            "inputs",
            step("(rate, count, w, g, v)", "(rate, count, w, g)"),
        ),
        case(
            "optimizer_count_type",
            TypeMismatch,
            "input 1",
            step("(rate, count, w", "(rate, rate, w"),
        ),
        case(
            "optimizer_gradient_shape",
            ShapeMismatch,
            "",
            step("(rate, count, w, g, v)", "(rate, count, w, x, v)"),
        ),
    ]
}
