//! The identifier of a layout of weights, which ties a weights file to its module.

use super::{Place, Plan};
use onnxc_runtime::arena::Checksum;
use std::collections::BTreeSet;

/// Returns the identifier of the layout of the weights that these plans share. It depends on the
/// place, the type and the name of each weight and on the kernels that read it, and not on the
/// elements: a model that was trained further may have the same layout.
pub fn weight_layout(plans: &[&Plan]) -> u64 {
    // Sorted, so that the order of calls does not matter.
    let mut lines = BTreeSet::new();
    for plan in plans {
        for (_, buffer) in plan.buffers.iter() {
            if let Place::Weight { offset, weight, .. } = &buffer.place {
                let (bytes, name) = (weight.bytes(), &buffer.name);
                lines.insert(format!("{offset} {bytes} {} {name}\n", buffer.dtype));
            }
        }
        plan.calls(&mut |call| {
            for operand in call.reads() {
                if let Place::Weight { offset, .. } = &plan.buffers[operand.buffer].place {
                    lines.insert(format!("{offset} {}\n", call.kernel));
                }
            }
        });
    }
    let mut checksum = Checksum::default();
    lines.iter().for_each(|line| checksum.update(line.as_bytes()));
    checksum.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Compiler, Optimize, Options};

    /// Returns the identifier for a model with the weights `w`, which `op` multiplies.
    fn layout_of(w: &str, op: &str, optimize: Optimize) -> u64 {
        let text = format!(
            "<ir_version: 10, opset_import: [\"\" : 21]>
             g (float[2, 4] x) => (float[2, 4] y) <float[4, 4] {w}> {{ y = {op} }}"
        );
        let options = Options { optimize, ..Options::default() };
        let planned = Compiler::new(&options).plan(text.into());
        weight_layout(&[&planned.unwrap_or_else(|diagnostics| panic!("{diagnostics}"))])
    }

    #[test]
    fn layouts_are_told_apart_and_values_are_not() {
        let (a, b) =
            ("w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}", "MatMul(x, w)");
        let expected = layout_of(a, b, Optimize::Speed);
        let values = "w = {5, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17}";
        assert_eq!(layout_of(values, b, Optimize::Speed), expected);
        assert_ne!(layout_of(&a.replace('w', "v"), "MatMul(x, v)", Optimize::Speed), expected);
        assert_ne!(layout_of(a, b, Optimize::Size), expected);
    }
}
