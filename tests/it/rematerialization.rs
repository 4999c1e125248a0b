//! Rematerialization: a model fits a smaller arena with the same results.

use crate::programs::root;
use onnxc::{
    Options,
    diag::Diagnostics,
    interpreter::Learner,
    plan::Training,
    tensor::{Data, Tensor},
    train::{Initial, Loss, Method, Prepare},
    value::Value,
};
use onnxc_proto::Message;
use std::fs;

/// A linear congruential generator, whose upper bits are used.
struct Random(u32);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as usize % end
    }

    fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| (self.below(2001) as f32 - 1000.0) / 1000.0).collect()
    }
}

/// Returns a chain of random operators, each of which reads the previous value and perhaps an older
/// one.
fn chain(random: &mut Random, length: usize) -> Vec<u8> {
    let (mut weights, mut nodes) = (Vec::new(), Vec::new());
    for i in 1..=length {
        let (last, old) = (i - 1, random.below(i));
        nodes.push(match random.below(5) {
            0 => format!("h{i} = Tanh(h{last})"),
            1 => format!("h{i} = Mul(h{last}, h{old})"),
            2 => format!("h{i} = Sub(h{old}, h{last})"),
            3 => format!("h{i} = Softmax(h{last})"),
            _ => {
                let numbers: Vec<_> = random.floats(64).iter().map(|x| format!("{x:?}")).collect();
                weights.push(format!("float[8, 8] w{i} = {{{}}}", numbers.join(", ")));
                format!("h{i} = MatMul(h{last}, w{i})")
            }
        });
    }
    let text = format!(
        "<ir_version: 8, opset_import: [\"\": 17]>
        chain (float[16, 8] h0) => (float[16, 8] y)
        <float[8, 8] w = {{{}}}{}{}> {{ {} y = MatMul(h{length}, w) }}",
        ["0.5"; 64].join(", "),
        if weights.is_empty() { "" } else { ", " },
        weights.join(", "),
        nodes.join("\n")
    );
    text.into_bytes()
}

/// Plans a model that is made trainable, with an arena of at most `max_arena` bytes.
fn plan(model: &[u8], max_arena: Option<usize>) -> Result<Training, Diagnostics> {
    let prepare = Prepare::new(Loss::Mse, Method::Momentum).initial(Initial::Keep);
    let model = prepare.bytes(model.to_vec().into()).unwrap_or_else(|found| panic!("{found}"));
    let mut options = Options::default();
    options.max_arena = max_arena;
    let planned = onnxc::Compiler::new(&options).training_plans(model.encode_to_vec().into());
    planned.map(|planned| planned.expect("the model has training information"))
}

/// Returns the outputs of three steps and the variables after them, as bytes.
fn train(training: &Training, inputs: &[Value]) -> Vec<Vec<u8>> {
    let mut learner = Learner::new(training);
    let mut all = Vec::new();
    for _ in 0..3 {
        let given = learner.step(0, inputs).expect("the inputs fit the model");
        all.extend(given.iter().filter_map(Value::tensor).map(|tensor| tensor.bytes().to_vec()));
    }
    all.extend(learner.state().map(|(_, tensor)| tensor.bytes().to_vec()));
    all
}

#[test]
fn rematerialization_keeps_training_results() {
    let mut random = Random(1);
    let mut again = 0;
    for length in [4, 8, 12, 20, 30, 40, 60] {
        let model = chain(&mut random, length);
        let whole = plan(&model, None).unwrap_or_else(|found| panic!("{found}"));
        let floats = |random: &mut Random| {
            let bytes: Vec<u8> =
                random.floats(128).into_iter().flat_map(f32::to_le_bytes).collect();
            let data = Data::Bytes(bytes.into());
            Value::Tensor(Tensor { shape: vec![16, 8], data, ..Tensor::from_floats(&[]) })
        };
        let inputs = [floats(&mut random), floats(&mut random)];
        let wanted = train(&whole, &inputs);
        let bytes = whole.infer.arena_bytes;
        for most in (1..10).map(|tenths| bytes * tenths / 10) {
            let Ok(less) = plan(&model, Some(most)) else { continue };
            assert!(less.plans().all(|plan| plan.arena_bytes <= most), "{length}: {most}");
            assert!(train(&less, &inputs) == wanted, "{length} nodes in {most} bytes");
            again += less.plans().map(|plan| plan.rematerialized.len()).sum::<usize>();
        }
    }
    println!("{again} calls are rematerialized");
    assert!(again > 20, "{again} calls are rematerialized");
}

#[test]
fn an_arena_limit_that_is_too_small_names_the_least_size() {
    let model = chain(&mut Random(2), 20);
    let found = plan(&model, Some(64)).err().expect("nothing fits 64 bytes").to_string();
    assert!(found.contains("does not fit an arena of 64 bytes"), "{found}");
    let least = found.split("as small as ").nth(1).and_then(|rest| rest.split(' ').next());
    let least: usize =
        least.and_then(|least| least.parse().ok()).expect("the message has a number");
    assert!(plan(&model, Some(least)).is_ok(), "{found}");
}

#[test]
fn rematerialization_shrinks_the_digits_network() {
    let network = fs::read(root().join("examples/models/untrained.onnx"));
    let prepare = Prepare::new(Loss::CrossEntropy, Method::Adam);
    let model = prepare.bytes(network.expect("the file is there").into());
    let model = model.unwrap_or_else(|found| panic!("{found}")).encode_to_vec();
    let bytes = |max_arena| {
        let mut options = Options::default();
        options.dim("batch=32").expect("the option is valid");
        options.max_arena = max_arena;
        let planned = onnxc::Compiler::new(&options).training_plans(model.clone().into());
        let training =
            planned.unwrap_or_else(|f| panic!("{f}")).expect("the model has training information");
        training.infer.arena_bytes
    };
    let (whole, less) = (bytes(None), bytes(Some(820_000)));
    assert!(whole > 900_000 && less <= 820_000, "{whole} bytes, {less} bytes");
}
