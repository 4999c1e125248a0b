//! Makes the network trainable, and compiles it.

use onnxc::{
    Builder,
    train::{Loss, Method, Optimizer, Prepare, Setting},
};
use onnxc_proto::Message;
use std::{env, error::Error, fs, path::PathBuf};

const NETWORK: &str = "../models/untrained.onnx";

/// The greatest batch size.
const BATCH: i64 = 32;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={NETWORK}");
    let optimizer = Optimizer::from(Method::Adam).with(Setting::LearningRate, 0.005)?;
    let model = Prepare::new(Loss::CrossEntropy, optimizer).bytes(fs::read(NETWORK)?.into())?;
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").ok_or("there is no OUT_DIR")?);
    let path = out_dir.join("digits.onnx");
    fs::write(&path, model.encode_to_vec())?;
    Builder::new(path).dim("batch", 1..=BATCH).compile()?;
    Ok(())
}
