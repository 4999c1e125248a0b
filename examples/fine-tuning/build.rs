//! Makes the last layers of a network trainable, and compiles it.

use onnxc::{
    Builder,
    train::{Initial, Loss, Method, Optimizer, Prepare, Setting},
};
use onnxc_proto::Message;
use std::{env, error::Error, fs, path::PathBuf};

const NETWORK: &str = "../models/mobilenet_v2.onnx";

/// The weights to train, by their names in PyTorch: the last of 17 bottlenecks, and the layers
/// after it.
const TRAINABLE: [&str; 3] = ["features.17.*", "features.18.*", "classifier.*"];

/// The greatest batch size.
const BATCH: i64 = 32;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={NETWORK}");
    let optimizer = Optimizer::from(Method::Adam).with(Setting::LearningRate, 0.002)?;
    let learner = Prepare::new(Loss::CrossEntropy, optimizer).initial(Initial::Keep);
    let learner = TRAINABLE.into_iter().fold(learner, Prepare::trainable);
    let model = learner.bytes(fs::read(NETWORK)?.into())?;
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").ok_or("there is no OUT_DIR")?);
    let path = out_dir.join("mobilenet.onnx");
    fs::write(&path, model.encode_to_vec())?;
    Builder::new(path).dim("batch", 1..=BATCH).compile()?;
    Ok(())
}
