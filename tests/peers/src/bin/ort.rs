//! ONNX Runtime, with all optimizations. Inputs and outputs are bound once.

use onnxc_peers::{Elements, Job, Peer, Result, serve};
use ort::{
    AsPointer,
    memory::Allocator,
    session::{IoBinding, Session, builder::GraphOptimizationLevel},
    value::{DynValue, Tensor},
};

struct Ort {
    session: Session,
    binding: IoBinding,
    outputs: Vec<DynValue>,
}

fn load(job: &Job) -> Result<Ort> {
    let library = std::env::var("ORT_DYLIB_PATH")?;
    let environment = ort::init_from(library)?.build()?;
    let builder = Session::builder(&environment)?.with_intra_threads(job.threads)?;
    let mut builder = builder.with_optimization_level(GraphOptimizationLevel::All)?;
    let session = builder.commit_from_file(&job.model)?;
    let mut binding = session.create_binding()?;
    for input in &job.inputs {
        let shape = input.shape.clone();
        match &input.elements {
            Elements::F32(x) => {
                binding.bind_input(&input.name, &Tensor::from_array((shape, x.clone()))?)?;
            }
            Elements::I64(x) => {
                binding.bind_input(&input.name, &Tensor::from_array((shape, x.clone()))?)?;
            }
        }
    }
    let mut outputs = Vec::new();
    for output in &job.outputs {
        let (allocator, shape) = (Allocator::default(), output.shape.clone());
        let value = match output.elements {
            Elements::F32(_) => Tensor::<f32>::new(&allocator, shape)?.into_dyn(),
            Elements::I64(_) => Tensor::<i64>::new(&allocator, shape)?.into_dyn(),
        };
        let name = std::ffi::CString::new(output.name.as_str())?;
        // SAFETY: the three pointers are valid, and the value lives as long as the binding, next to
        // which it is stored.
        let status = unsafe {
            (ort::api().BindOutput)(binding.ptr_mut().cast(), name.as_ptr(), value.ptr().cast())
        };
        if !status.0.is_null() {
            return Err(format!("output {} cannot be bound", output.name).into());
        }
        outputs.push(value);
    }
    Ok(Ort { session, binding, outputs })
}

impl Peer for Ort {
    // Calls the C API: the overhead of the crate's `run` matters for models that take microseconds.
    fn run(&mut self) -> Result {
        let (session, options) = (self.session.ptr().cast_mut(), std::ptr::null());
        // SAFETY: the session and the binding are alive, and no other thread runs them.
        let status = unsafe {
            (ort::api().RunWithBinding)(session.cast(), options, self.binding.ptr().cast())
        };
        if status.0.is_null() { Ok(()) } else { Err("the run failed".into()) }
    }

    fn outputs(&mut self) -> Result<Vec<Elements>> {
        let elements = |value: &DynValue| -> Result<Elements> {
            Ok(match value.try_extract_tensor::<f32>() {
                Ok((_, x)) => Elements::F32(x.to_vec()),
                Err(_) => Elements::I64(value.try_extract_tensor::<i64>()?.1.to_vec()),
            })
        };
        self.outputs.iter().map(elements).collect()
    }
}

fn main() {
    serve(load);
}
