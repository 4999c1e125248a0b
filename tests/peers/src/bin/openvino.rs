//! OpenVINO, set to the lowest latency. `PEERS_PRECISION=default` lets it choose the precision: 16
//! bits on processors with instructions for them.

use onnxc_peers::{Elements, Job, Peer, Result, serve};
use openvino::{
    CompiledModel, Core, DeviceType, ElementType, InferRequest, RwPropertyKey, Shape, Tensor,
};

struct OpenVino {
    request: InferRequest,
    outputs: Vec<Elements>,
    _model: CompiledModel,
    _core: Core,
}

fn load(job: &Job) -> Result<OpenVino> {
    let mut core = Core::new()?;
    let mut set =
        |key: RwPropertyKey, value: &str| core.set_property(&DeviceType::CPU, &key, value);
    set(RwPropertyKey::HintPerformanceMode, "LATENCY")?;
    set(RwPropertyKey::InferenceNumThreads, &job.threads.to_string())?;
    set(RwPropertyKey::NumStreams, "1")?;
    if std::env::var("PEERS_PRECISION").as_deref() != Ok("default") {
        set(RwPropertyKey::HintInferencePrecision, "f32")?;
    }
    let file = job.model.to_str().ok_or("the path is no text")?;
    let model = core.read_model_from_file(file, "")?;
    let mut model = core.compile_model(&model, DeviceType::CPU)?;
    let mut request = model.create_infer_request()?;
    for input in &job.inputs {
        let sizes: Vec<i64> = input.shape.iter().map(|&size| size as i64).collect();
        let dtype = match input.elements {
            Elements::F32(_) => ElementType::F32,
            Elements::I64(_) => ElementType::I64,
        };
        let mut tensor = Tensor::new(dtype, &Shape::new(&sizes)?)?;
        tensor.get_raw_data_mut()?.copy_from_slice(&input.elements.bytes());
        request.set_tensor(&input.name, &tensor)?;
    }
    let outputs = job.outputs.iter().map(|output| output.elements.clone()).collect();
    Ok(OpenVino { request, outputs, _model: model, _core: core })
}

impl Peer for OpenVino {
    fn run(&mut self) -> Result {
        Ok(self.request.infer()?)
    }

    fn outputs(&mut self) -> Result<Vec<Elements>> {
        for (k, output) in self.outputs.iter_mut().enumerate() {
            let tensor = self.request.get_output_tensor_by_index(k)?;
            match output {
                Elements::F32(x) => *x = tensor.get_data::<f32>()?.to_vec(),
                Elements::I64(x) => *x = tensor.get_data::<i64>()?.to_vec(),
            }
        }
        Ok(self.outputs.clone())
    }
}

fn main() {
    serve(load);
}
