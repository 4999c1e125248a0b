//! Compiles the model four times: with a constant sample rate, with the sample rate as an input,
//! with all sizes fixed, and with a state that the model keeps. `SILERO` names the folder of the
//! model.

use onnxc::Builder;
use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-env-changed=SILERO");
    let model = PathBuf::from(env::var("SILERO")?).join("model.onnx");
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    let to = |name: &str| {
        let directory = out_dir.join(name);
        fs::create_dir_all(&directory)?;
        Ok::<_, Box<dyn Error>>(Builder::new(&model).name("silero").out_dir(directory))
    };
    to("constant")?.constant("sr", 8000).compile()?;
    to("input")?.compile()?;
    let sizes = [("input_0", 1), ("input_1", 288), ("state_1", 1)];
    let fixed = |name| {
        let builder = to(name)?;
        Ok::<_, Box<dyn Error>>(sizes.iter().fold(builder, |b, &(name, size)| b.dim(name, size)))
    };
    fixed("fixed")?.compile()?;
    fixed("kept")?.constant("sr", 8000).state("state", "stateN").compile()?;
    Ok(())
}
