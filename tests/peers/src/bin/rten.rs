//! rten, with weights packed when the model is loaded.

use onnxc_peers::{Elements, Job, Peer, Result, serve};
use rten::{Model, ModelOptions, NodeId, Value, ValueOrView};
use rten_tensor::{Tensor, prelude::*};

struct Rten {
    model: Model,
    inputs: Vec<(NodeId, Value)>,
    outputs: Vec<NodeId>,
    last: Vec<Value>,
}

fn load(job: &Job) -> Result<Rten> {
    let mut options = ModelOptions::with_all_ops();
    let model = options.enable_optimization(true).prepack_weights(true).load_file(&job.model)?;
    let mut inputs = Vec::new();
    for input in &job.inputs {
        let shape = input.shape.as_slice();
        let value = match &input.elements {
            Elements::F32(x) => Tensor::from_data(shape, x.clone()).into(),
            // rten has one integer type, `i32`.
            Elements::I64(x) => {
                Tensor::from_data(shape, x.iter().map(|&x| x as i32).collect::<Vec<_>>()).into()
            }
        };
        inputs.push((model.node_id(&input.name)?, value));
    }
    let outputs = job.outputs.iter().map(|output| Ok(model.node_id(&output.name)?));
    let outputs = outputs.collect::<Result<_>>()?;
    Ok(Rten { model, inputs, outputs, last: Vec::new() })
}

impl Peer for Rten {
    fn run(&mut self) -> Result {
        let inputs = self.inputs.iter().map(|(id, value)| (*id, ValueOrView::from(value)));
        self.last = self.model.run(inputs.collect(), &self.outputs, None)?;
        Ok(())
    }

    fn outputs(&mut self) -> Result<Vec<Elements>> {
        let elements = |value: &Value| match value {
            Value::FloatTensor(x) => Ok(Elements::F32(x.to_vec())),
            Value::Int32Tensor(x) => Ok(Elements::I64(x.iter().map(|&x| i64::from(x)).collect())),
            _ => Err("an output has elements of another type".into()),
        };
        self.last.iter().map(elements).collect()
    }
}

fn main() {
    serve(load);
}
