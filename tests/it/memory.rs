//! Compares planned memory with a lower bound.

use crate::programs::{folder, root};
use onnxc::{
    CompiledModel, Options,
    plan::{Place, memory::lower_bound},
    train::{Loss, Method, Prepare},
};
use onnxc_proto::Message;
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Lists the models in the folder that `ONNXC_MODELS` names: `model.onnx` in a folder each.
pub fn list_models() -> Vec<PathBuf> {
    let Some(folder) = env::var_os("ONNXC_MODELS") else { return Vec::new() };
    let entries = fs::read_dir(folder).expect("`ONNXC_MODELS` names a folder");
    let each = entries.flatten().map(|entry| entry.path().join("model.onnx"));
    each.filter(|model| model.exists()).collect()
}

#[test]
fn arenas_are_close_to_the_peak_of_live_memory() {
    let compile = |model: &Path| onnxc::Compiler::new(&Options::default()).compile(model);
    let own = root().join("examples/models/digits.onnx");
    let output = compile(&own).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    check_memory(&own, &output);
    for model in list_models() {
        // Models that do not compile are left to other tests.
        if let Ok(output) = compile(&model) {
            check_memory(&model, &output);
        }
    }
}

fn check_memory(model: &Path, output: &CompiledModel) {
    let (planned, least) = (output.plans.infer().arena_bytes, lower_bound(output.plans.infer()));
    println!("{}: {planned} bytes, {least} live at once", model.display());
    assert!(
        planned * 100 <= least * 105,
        "{}: {planned} bytes are planned, {least} are live at once",
        model.display()
    );
}

#[test]
fn training_arenas_are_close_to_the_peak_of_live_memory() {
    let network = fs::read(root().join("examples/models/untrained.onnx"));
    let prepare = Prepare::new(Loss::CrossEntropy, Method::Adam);
    let model = prepare.bytes(network.expect("the file is there").into());
    let model = model.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let mut options = Options::default();
    options.dim("batch=32").expect("the option is valid");
    let planned = onnxc::Compiler::new(&options).training_plans(model.encode_to_vec().into());
    let training =
        planned.expect("the model is valid").expect("the model has training information");
    let step = &training.steps[0].plan;
    let (planned, least) = (step.arena_bytes, lower_bound(step));
    println!("a step of the digits network: {planned} bytes, {least} live at once");
    assert!(planned * 100 <= least * 110, "{planned} bytes are planned, {least} are live at once");
}

#[test]
fn bounded_models_need_no_heap() {
    let model = folder("models/bounded.onnxtxt");
    let on_heap = |dims: &[&str]| {
        let mut options = Options::default();
        dims.iter().try_for_each(|dim| options.dim(dim)).expect("the bounds are valid");
        let output = onnxc::Compiler::new(&options).compile(&model);
        let plans = output.unwrap_or_else(|diagnostics| panic!("{diagnostics}")).plans;
        let buffers = plans.infer().buffers.iter().map(|(_, buffer)| buffer);
        let on_heap = buffers.filter(|buffer| matches!(buffer.place, Place::Heap));
        on_heap.map(|buffer| buffer.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(on_heap(&["n=1..=20", "m=1..=6"]), [""; 0]);
    assert!(!on_heap(&["n=1..=20"]).is_empty(), "m has no bound");
}
