//! The weights: one blob, and a name for each part of it; and beside it the constant strings, which
//! are text in the module.

use super::{Style, WeightsIn};
use crate::plan::{BufferId, Place, Plan, memory::operands};
use crate::tensor::Data;
use proc_macro2::{Literal, TokenStream};
use quote::quote;
use std::collections::HashSet;

/// All weights, each where the plan placed it.
pub fn blob(plan: &Plan) -> Vec<u8> {
    let mut blob = vec![0; plan.weight_bytes];
    for (_, buffer) in plan.buffers.iter() {
        if let Place::Weight { offset, tensor, .. } = &buffer.place {
            blob[*offset..*offset + tensor.bytes().len()].copy_from_slice(tensor.bytes());
        }
    }
    blob
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
        Place::Weight { tensor, .. } => {
            Some((id, of(&tensor.data)?)).filter(|_| used.contains(&id))
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
        pub(super) static STRINGS: [&[&str]; #count] = [#(#each),*];
        blank!();
    }
}

/// The static that holds the weights. A file of another length than the module was made for does
/// not compile.
pub fn item(plan: &Plan, style: &Style) -> TokenStream {
    let bytes = match &style.weights {
        WeightsIn::File(name) => quote!(*include_bytes!(#name)),
        WeightsIn::Module => {
            let literal = Literal::byte_string(&blob(plan));
            quote!(*#literal)
        }
    };
    let len = Literal::usize_unsuffixed(plan.weight_bytes);
    quote! {
        pub(super) static WEIGHTS: &Aligned<[u8; #len]> = &Aligned(#bytes);
    }
}
