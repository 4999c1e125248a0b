//! Borrows slots of the arena: the parts that one call reads and writes.

use super::{
    port::Form as PortForm,
    steps::{Body, Local},
    tokens::number,
};
use crate::{
    dim::Dim,
    plan::{BufferId, Operand, Place},
};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

impl Body<'_> {
    /// Adds an operand to the locals if it is in the arena.
    pub(super) fn local(&self, operand: &Operand, written: bool, locals: &mut Vec<Local>) {
        let placed = matches!(self.plan.buffers[operand.buffer].place, Place::Arena { .. });
        if !placed
            || self.empty.contains(&operand.buffer)
            || locals.iter().any(|local| local.operand == *operand && local.written == written)
        {
            return;
        }
        let is_scratch = |id: &BufferId| self.scratch.contains(id);
        let name = if is_scratch(&operand.buffer) {
            match locals.iter().filter(|local| is_scratch(&local.operand.buffer)).count() {
                0 => format_ident!("scratch"),
                before => self.method.derive_name("scratch", &(before + 1).to_string()),
            }
        } else {
            let parts = locals.iter().filter(|local| local.operand.buffer == operand.buffer);
            let name = &self.method.names[operand.buffer];
            match parts.count() {
                0 => format_ident!("{name}"),
                before => self.method.derive_name(name, &format!("part_{before}")),
            }
        };
        locals.push(Local { operand: operand.clone(), written, name });
    }

    /// Borrows the parts of the arena that a call uses.
    pub(super) fn borrow(&self, locals: &[Local]) -> TokenStream {
        let names: Vec<&Ident> = locals.iter().map(|local| &local.name).collect();
        let accesses: Vec<TokenStream> = locals
            .iter()
            .map(|local| {
                let slot = self.slot(&local.operand);
                if local.written { quote!(#slot.write()) } else { quote!(#slot.read()) }
            })
            .collect();
        self.method.borrow(&names, &accesses)
    }

    /// Borrows one operand in the arena to read it.
    pub(super) fn borrow_one(&self, operand: &Operand) -> TokenStream {
        let (borrow, slot) = (self.method.cx.imports.item("arena::borrow"), self.slot(operand));
        quote!(#borrow(arena, #slot.read()))
    }

    /// The slot of an operand, which may be a part of the buffer.
    pub(super) fn slot(&self, operand: &Operand) -> TokenStream {
        let slot = &self.slots[&operand.buffer];
        let slot = match self.plan.is_dynamic(operand.buffer) {
            true => quote!(layout.slot(#slot)),
            false => quote!(#slot),
        };
        let all = match &self.plan.buffers[operand.buffer].place {
            Place::Arena { capacity, .. } => capacity.clone(),
            Place::Weight { weight, .. } => Dim::from(weight.len()),
            Place::Input(_) | Place::Heap => operand.len.clone(),
        };
        if operand.start.known() == Some(0) && operand.len == all {
            return quote!(#slot);
        }
        let [start, len] =
            [&operand.start, &operand.len].map(|dim| self.size_of(dim, operand.buffer));
        quote!(#slot.part(#start, #len))
    }

    /// The access to output `i` of the model in the arena.
    pub(super) fn output_slot(&self, i: usize) -> TokenStream {
        let slot = self.slot(&self.plan.outputs[i].operand);
        match self.method.outputs[i].form.content() {
            PortForm::Array(len) => {
                let len = number(*len);
                quote!(#slot.array::<#len>())
            }
            _ => quote!(#slot.read()),
        }
    }
}
