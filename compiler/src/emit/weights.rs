//! Writes the weights, which are one blob, and the constant strings, which are text in the module.

use super::{Style, WeightsIn, context::Context};
use crate::{
    dtype::DType,
    plan::{
        Buffer, BufferId, Place, Plan, Weight, memory::ALIGNMENT, step::operands, weight_layout,
    },
    tensor::Data,
};
use onnxc_runtime::arena::{Checksum, Trailer};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::quote;
use std::{
    collections::{BTreeMap, HashSet},
    io::{self, Write},
};

/// Writes the weights file of these plans: the weights and a [`Trailer`]. Only one piece of a
/// weight is in memory at a time.
///
/// # Errors
///
/// Returns the error of `out`.
pub fn write_file(plans: &[&Plan], out: &mut dyn Write) -> io::Result<()> {
    let mut summed = Summed { out, checksum: Checksum::default() };
    write(plans, &mut summed)?;
    let Summed { out, checksum } = summed;
    let trailer = Trailer { layout: weight_layout(plans), checksum: checksum.finish() };
    out.write_all(&trailer.to_bytes())
}

/// Computes the checksum of what is written to `out`.
struct Summed<'w> {
    out: &'w mut dyn Write,
    checksum: Checksum,
}

impl Write for Summed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.checksum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes the weights that these plans share, each at the offset that the plan assigned.
fn write(plans: &[&Plan], out: &mut dyn Write) -> io::Result<()> {
    let buffers = plans.iter().flat_map(|plan| plan.buffers.iter());
    let placed = buffers.filter_map(|(_, buffer)| match &buffer.place {
        Place::Weight { offset, weight, .. } if weight.bytes() > 0 => Some((*offset, weight)),
        Place::Weight { .. } | Place::Input(_) | Place::Arena { .. } | Place::Heap => None,
    });
    // Several plans may read the same weight.
    let placed: BTreeMap<usize, &Weight> = placed.collect();
    let mut written = 0;
    for (offset, weight) in placed {
        fill(out, offset - written)?;
        weight.pieces().try_for_each(|piece| out.write_all(&piece))?;
        written = offset + weight.bytes();
    }
    fill(out, plans.first().map_or(0, |plan| plan.weight_bytes) - written)
}

/// Writes zeros up to the next weight, which is aligned.
fn fill(out: &mut dyn Write, bytes: usize) -> io::Result<()> {
    out.write_all(&[0; ALIGNMENT][..bytes])
}

/// Returns the constant tensors of strings, in the order in which the module has them.
pub fn strings(plan: &Plan) -> Vec<(BufferId, &[String])> {
    // The keys of maps are emitted where the maps are returned.
    let used = used(plan);
    let each = plan.buffers.iter().filter(|(id, _)| used.contains(id));
    each.filter_map(|(id, buffer)| match &buffer.place {
        Place::Weight { weight, .. } => match &weight.constant().data {
            Data::Strings(strings) => Some((id, &strings[..])),
            Data::Bytes(_) => None,
        },
        Place::Input(_) | Place::Arena { .. } | Place::Heap => None,
    })
    .collect()
}

/// Returns whether a module of these plans has weights.
pub fn has_weights(plans: &[&Plan]) -> bool {
    plans.iter().any(|plan| {
        let used = used(plan);
        let is_read = |id: BufferId, buffer: &Buffer| {
            let is_weight = matches!(buffer.place, Place::Weight { .. });
            is_weight && buffer.dtype != DType::String && used.contains(&id)
        };
        plan.weight_bytes > 0 || plan.buffers.iter().any(|(id, buffer)| is_read(id, buffer))
    })
}

/// The buffers that steps and defaults use.
fn used(plan: &Plan) -> HashSet<BufferId> {
    let mut used: HashSet<BufferId> = plan.defaults().map(|operand| operand.buffer).collect();
    operands(&plan.steps, &mut |operand| {
        used.insert(operand.buffer);
    });
    used
}

/// Returns the static `name` with the constant strings, if there are any.
pub fn strings_item(plan: &Plan, name: &Ident) -> TokenStream {
    let strings = strings(plan);
    if strings.is_empty() {
        return TokenStream::new();
    }
    let count = Literal::usize_unsuffixed(strings.len());
    let each = strings.iter().map(|(_, strings)| quote!(&[#(#strings),*]));
    quote! {
        blank!();
        static #name: [&[&str]; #count] = [#(#each),*];
    }
}

/// Returns the static with the weights, if the module has any. It does not compile with a file that
/// was generated with another module.
pub fn item(plans: &[&Plan], cx: &Context, style: &Style) -> TokenStream {
    if !cx.has_weights {
        return TokenStream::new();
    }
    if matches!(style.weights, WeightsIn::Caller(_)) {
        return TokenStream::new();
    }
    let (aligned, model) = (cx.imports.item("arena::Aligned"), &cx.model);
    let weights = match &style.weights {
        WeightsIn::File(name) | WeightsIn::Caller(name) => {
            quote!(::onnxc_runtime::include_weights!(#name, #model::WEIGHT_LAYOUT))
        }
        WeightsIn::Module => {
            let mut blob = Vec::new();
            write(plans, &mut blob).expect("writing to a vector returns no error");
            let literal = Literal::byte_string(&blob);
            quote!(&#aligned(*#literal))
        }
    };
    let len = Literal::usize_unsuffixed(plans.first().map_or(0, |plan| plan.weight_bytes));
    quote! {
        blank!();
        static WEIGHTS: &#aligned<[u8; #len]> = #weights;
    }
}
