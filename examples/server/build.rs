//! Compiles the model. The server maps the weights, so the program does not include them.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = onnxc::Builder::new("../models/digits.onnx");
    model.weights(onnxc::Weights::Caller).compile()?;
    Ok(())
}
