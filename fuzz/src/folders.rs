//! Writes mutants that compile as test folders, with inputs and the interpreter's outputs, so that
//! `onnxc test` builds and runs their modules.
//!
//! ```text
//! folders DIRECTORY COUNT [SEED]
//! ```

use onnxc::{Optimize, import::value, interpreter::Session, plan::Plan, value::Value};
use onnxc_fuzz::{choices::Choices, mutant::mutant, oracle, random::Random};
use onnxc_proto::Message;
use std::{env, error::Error, fs, path::Path};

/// Numbers at the ends of the types.
const EXTREMES: [f64; 10] = [
    0.0,
    -0.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    f32::MAX as f64,
    f32::MIN as f64,
    1e-45,
    i64::MIN as f64,
    255.0,
];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [directory, count, rest @ ..] = arguments.as_slice() else {
        return Err("usage: folders DIRECTORY COUNT [SEED]".into());
    };
    let directory = Path::new(directory);
    let count: usize = count.parse()?;
    let mut random = Random(rest.first().map_or(Ok(1), |seed| seed.parse())?);
    let mut written = 0;
    while written < count {
        let len = 2 + random.below(40);
        let bytes = random.bytes(len);
        let Some(model) = mutant(&mut Choices::new(&bytes)) else { continue };
        let model = model.encode_to_vec();
        let Some(plan) = oracle::plan(&model, Optimize::Speed) else { continue };
        let sets = sets(&plan);
        if sets.is_empty() {
            continue;
        }
        written += 1;
        let folder = directory.join(format!("mutant_{written:05}"));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("model.onnx"), &model)?;
        for (i, [inputs, outputs]) in sets.iter().enumerate() {
            let set = folder.join(format!("test_data_set_{i}"));
            fs::create_dir(&set)?;
            for (name, values) in [("input", inputs), ("output", outputs)] {
                for (i, value) in values.iter().enumerate() {
                    fs::write(set.join(format!("{name}_{i}.pb")), value::write(value, name))?;
                }
            }
        }
    }
    Ok(())
}

/// Returns the inputs with which a model runs, each with its outputs: small numbers, and extremes.
/// They are of one session, as the module of the model draws other random numbers in each run.
fn sets(plan: &Plan) -> Vec<[Vec<Value>; 2]> {
    let mut session = Session::new(plan);
    let small = |i: usize| ((i * 7 + 3) % 11) as f64 / 4.0 - 1.0;
    let extreme = |i: usize| EXTREMES[i % EXTREMES.len()];
    let all: [&dyn Fn(usize) -> f64; 2] = [&small, &extreme];
    let each = all.into_iter().filter_map(|number| {
        let inputs = oracle::inputs_of(plan, number, &|_| 1)?;
        let outputs = session.run(&inputs).ok()?;
        Some([inputs, outputs])
    });
    each.collect()
}
