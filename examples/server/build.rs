//! Compiles the model.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    onnxc::Builder::new("../models/digits.onnx").compile()?;
    Ok(())
}
