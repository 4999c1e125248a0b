//! The weights: one blob, and a name for each part of it; and beside it the constant strings, which
//! are text in the module.

use super::{Style, WeightsIn};
use crate::plan::{
    BufferId, Place, Plan, Weight,
    memory::{ALIGNMENT, operands},
};
use crate::tensor::Data;
use proc_macro2::{Literal, TokenStream};
use quote::quote;
use std::{
    collections::{BTreeMap, HashSet},
    io::{self, Write},
};

/// Writes all weights of plans that have them in common, each where the plan placed it: one behind
/// the other, a piece at a time, so that no more than a piece needs memory.
///
/// # Errors
///
/// Those of `out`.
pub fn write(plans: &[&Plan], out: &mut dyn Write) -> io::Result<()> {
    let buffers = plans.iter().flat_map(|plan| plan.buffers.iter());
    let placed = buffers.filter_map(|(_, buffer)| match &buffer.place {
        Place::Weight { offset, weight, .. } if weight.bytes() > 0 => Some((*offset, weight)),
        Place::Weight { .. } | Place::Input(_) | Place::Arena { .. } | Place::Heap => None,
    });
    // Several plans may read one.
    let placed: BTreeMap<usize, &Weight> = placed.collect();
    let mut written = 0;
    for (offset, weight) in placed {
        fill(out, offset - written)?;
        weight.pieces().try_for_each(|piece| out.write_all(&piece))?;
        written = offset + weight.bytes();
    }
    fill(out, plans.first().map_or(0, |plan| plan.weight_bytes) - written)
}

/// Writes the zeros of a gap, which aligns what comes next.
fn fill(out: &mut dyn Write, bytes: usize) -> io::Result<()> {
    out.write_all(&[0; ALIGNMENT][..bytes])
}

/// The constant tensors of strings, in the order in which the module has them.
pub fn strings(plan: &Plan) -> Vec<(BufferId, &[String])> {
    fn of(data: &Data) -> Option<&[String]> {
        match data {
            Data::Strings(strings) => Some(strings),
            Data::Bytes(_) => None,
        }
    }
    // The keys of maps stand where the maps are given.
    let mut used = HashSet::new();
    used.extend(plan.defaults().map(|operand| operand.buffer));
    operands(&plan.steps, &mut |operand| {
        used.insert(operand.buffer);
    });
    let each = plan.buffers.iter().filter_map(|(id, buffer)| match &buffer.place {
        Place::Weight { weight, .. } => {
            Some((id, of(&weight.constant().data)?)).filter(|_| used.contains(&id))
        }
        Place::Input(_) | Place::Arena { .. } | Place::Heap => None,
    });
    each.collect()
}

/// The static that holds the constant strings, where there are any.
pub fn strings_item(plan: &Plan) -> TokenStream {
    let strings = strings(plan);
    if strings.is_empty() {
        return TokenStream::new();
    }
    let count = Literal::usize_unsuffixed(strings.len());
    let each = strings.iter().map(|(_, strings)| quote!(&[#(#strings),*]));
    quote! {
        blank!();
        pub(super) static STRINGS: [&[&str]; #count] = [#(#each),*];
    }
}

/// The static that holds the weights. A file of another length than the module was made for does
/// not compile.
pub fn item(plans: &[&Plan], style: &Style) -> TokenStream {
    let bytes = match &style.weights {
        WeightsIn::File(name) => quote!(*include_bytes!(#name)),
        WeightsIn::Module => {
            let mut blob = Vec::new();
            write(plans, &mut blob).expect("a vector takes all");
            let literal = Literal::byte_string(&blob);
            quote!(*#literal)
        }
    };
    let len = Literal::usize_unsuffixed(plans.first().map_or(0, |plan| plan.weight_bytes));
    quote! {
        pub(super) static WEIGHTS: &Aligned<[u8; #len]> = &Aligned(#bytes);
    }
}
