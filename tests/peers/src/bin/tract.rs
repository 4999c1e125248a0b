//! tract, with its optimizations.

use onnxc_peers::{Elements, Job, Peer, Result, serve};
use tract_linalg::multithread::{Executor, set_default_executor};
use tract_onnx::prelude::*;

struct Tract {
    state: TypedSimpleState,
    inputs: TVec<TValue>,
    last: TVec<TValue>,
}

fn load(job: &Job) -> Result<Tract> {
    if job.threads > 1 {
        set_default_executor(Executor::multithread(job.threads));
    }
    let model = tract_onnx::onnx().model_for_path(&job.model)?.into_optimized()?.into_runnable()?;
    let mut inputs = tvec![];
    for input in &job.inputs {
        inputs.push(match &input.elements {
            Elements::F32(x) => Tensor::from_shape(&input.shape, x)?.into_tvalue(),
            Elements::I64(x) => Tensor::from_shape(&input.shape, x)?.into_tvalue(),
        });
    }
    Ok(Tract { state: model.spawn()?, inputs, last: tvec![] })
}

impl Peer for Tract {
    fn run(&mut self) -> Result {
        self.last = self.state.run(self.inputs.clone())?;
        Ok(())
    }

    fn outputs(&mut self) -> Result<Vec<Elements>> {
        let elements = |value: &TValue| -> Result<Elements> {
            Ok(if value.datum_type() == f32::datum_type() {
                Elements::F32(value.try_as_plain_ram()?.as_slice::<f32>()?.to_vec())
            } else {
                let value = value.cast_to::<i64>()?;
                Elements::I64(value.try_as_plain_ram()?.as_slice::<i64>()?.to_vec())
            })
        };
        self.last.iter().map(elements).collect()
    }
}

fn main() {
    serve(load);
}
