//! The values that are on the heap.

use onnxc::{
    dtype::DType,
    plan::{Buffer, Kind, Place, Plan, step::operands},
};
use std::collections::BTreeSet;

/// Returns the buffers that a run allocates on the heap, each with the reason.
pub fn heap_buffers(plan: &Plan) -> Vec<(&Buffer, &'static str)> {
    let mut used = BTreeSet::new();
    operands(&plan.steps, &mut |operand| {
        used.insert(operand.buffer);
    });
    let buffers = used.into_iter().map(|id| &plan.buffers[id]);
    let on_heap = buffers.filter(|buffer| buffer.place == Place::Heap);
    on_heap.map(|buffer| (buffer, reason(buffer))).collect()
}

fn reason(buffer: &Buffer) -> &'static str {
    match (buffer.kind, buffer.dtype) {
        (Kind::Sequence, _) => "a sequence",
        (Kind::Elements, DType::String) => "strings",
        (Kind::Elements, _) if buffer.len.known().is_some() => "of a fixed size",
        (Kind::Elements, _) => "its size is known only during the run, and has no bound",
    }
}
