//! Generates branches and loops.

use super::{
    steps::Body,
    text::line,
    tokens::{number, size},
};
use crate::{
    dim::{Dim, Symbol},
    plan::{
        Block, BufferId, Carried, Common, Cond, If, Kind, Loop, Operand, Place, Resized, Stacked,
        Step, TripCount,
    },
};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};

/// The kernel that copies elements.
const COPY: &str = "kernels::reshape::identity";

/// How many results of a block are the same buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Given {
    Once,
    Often,
}

impl Given {
    fn of<'o>(operand: &Operand, all: impl IntoIterator<Item = &'o Operand>) -> Given {
        let same = all.into_iter().filter(|other| other.buffer == operand.buffer);
        if same.count() > 1 { Given::Often } else { Given::Once }
    }
}

/// Returns whether a step writes a buffer.
fn makes(step: &Step, buffer: BufferId) -> bool {
    match step {
        Step::Call(call) => call.writes().any(|written| written.buffer == buffer),
        Step::If(step) => step.outputs.iter().any(|output| output.buffer == buffer),
        Step::Loop(step) => {
            let carried = step.carried.iter().map(|carried| &carried.value);
            let stacked = step.stacked.iter().map(|stacked| &stacked.all);
            carried.chain(stacked).any(|value| value.buffer == buffer)
        }
        Step::Check(_) => false,
    }
}

/// Returns whether a step writes a buffer, or a step inside it does.
fn made_in(steps: &[Step], buffer: BufferId) -> bool {
    steps.iter().any(|step| {
        makes(step, buffer)
            || match step {
                Step::If(step) => step.branches.iter().any(|block| made_in(&block.steps, buffer)),
                Step::Loop(step) => made_in(&step.body.steps, buffer),
                Step::Call(_) | Step::Check(_) => false,
            }
    })
}

impl Body<'_> {
    pub(super) fn branch(&mut self, step: &If) -> TokenStream {
        let comment = line(&step.node);
        let cond = match &step.cond {
            Cond::Size(dim) => self.condition(dim),
            Cond::Tensor(operand) => self.element(operand),
        };
        let on_heap: Vec<usize> = (0..step.outputs.len())
            .filter(|&i| self.plan.buffers[step.outputs[i].buffer].place == Place::Heap)
            .collect();
        let before = self.made.len();
        let blocks = step.branches.each_ref().map(|block| {
            let tokens = self.block(block, step, &on_heap);
            self.made.truncate(before);
            tokens
        });
        self.made.extend(on_heap.iter().map(|&i| step.outputs[i].buffer));
        let symbols = step.binds.iter().map(|symbol| format_ident!("{symbol}"));
        let symbols = symbols.map(|symbol| quote!(#symbol));
        let heap = on_heap.iter().map(|&i| {
            let name = self.name(&step.outputs[i]);
            // A sequence may be changed in place.
            match self.plan.buffers[step.outputs[i].buffer].kind {
                Kind::Elements => quote!(#name),
                Kind::Sequence => quote!(mut #name),
            }
        });
        let taken: Vec<TokenStream> = symbols.chain(heap).collect();
        let [then, otherwise] = blocks;
        let bind = match taken.as_slice() {
            [] => TokenStream::new(),
            [one] => quote!(let #one =),
            _ => quote!(let (#(#taken),*) =),
        };
        let end = (!taken.is_empty()).then(|| quote!(;));
        quote! {
            comment!(#comment);
            #bind if #cond { #then } else { #otherwise } #end
        }
    }

    fn block(&mut self, block: &Block, step: &If, on_heap: &[usize]) -> TokenStream {
        let scope = self.sizes.open_block();
        let steps = self.steps(&block.steps);
        self.sizes.open();
        let result = self.block_result(block, step, on_heap);
        let result = self.sizes.close(result);
        self.sizes.close_block(scope);
        quote!(#steps #result)
    }

    /// The statements at the end of a branch, and its value.
    fn block_result(&mut self, block: &Block, step: &If, on_heap: &[usize]) -> TokenStream {
        if let Some(why) = &block.refusal {
            let (error, why) = (self.method.cx.imports.item("Error"), line(why));
            return quote!(return Err(#error::Value(#why)););
        }
        let mut copies = TokenStream::new();
        let mut given: Vec<TokenStream> = block.sizes.iter().map(|dim| self.size(dim)).collect();
        for (i, (from, to)) in block.results.iter().zip(&step.outputs).enumerate() {
            if on_heap.contains(&i) {
                given.push(self.owned_result(from, &block.steps, Given::of(from, &block.results)));
            } else if (from.buffer, &from.start) != (to.buffer, &to.start) {
                // The symbol for the length of the output is bound after the branches.
                copies.extend(self.copy(from, &Operand { len: from.len.clone(), ..to.clone() }));
            }
        }
        let result = match given.as_slice() {
            [] => TokenStream::new(),
            [one] => quote!(#one),
            _ => quote!((#(#given),*)),
        };
        quote!(#copies #result)
    }

    /// A result of a block as a vector or a sequence: the block's own, if it has one and returns it
    /// once.
    fn owned_result(&mut self, operand: &Operand, steps: &[Step], given: Given) -> TokenStream {
        let buffer = &self.plan.buffers[operand.buffer];
        let whole = operand.start.known() == Some(0) && operand.len == buffer.len;
        let own = given == Given::Once && steps.iter().any(|step| makes(step, operand.buffer));
        if buffer.place == Place::Heap && !self.made.contains(operand.buffer) {
            return self.new_buffer(operand.buffer);
        }
        if buffer.place == Place::Heap && whole && own {
            return format_ident!("{}", self.method.names[operand.buffer]).to_token_stream();
        }
        let mut locals = Vec::new();
        self.local(operand, false, &mut locals);
        if !locals.is_empty() {
            let borrowed = self.borrow_one(operand);
            return quote!(#borrowed.to_vec());
        }
        let slice = self.slice(operand, false, &locals);
        match buffer.kind {
            Kind::Elements => quote!((#slice).to_vec()),
            Kind::Sequence => quote!((#slice).clone()),
        }
    }

    fn copy(&mut self, from: &Operand, to: &Operand) -> TokenStream {
        let mut locals = Vec::new();
        self.local(to, true, &mut locals);
        self.local(from, false, &mut locals);
        let borrow = self.borrow(&locals);
        let (from, to) = (self.slice(from, false, &locals), self.slice(to, true, &locals));
        let identity = self.method.cx.imports.function(COPY);
        quote!(#borrow #identity(#from, #to);)
    }

    pub(super) fn iterations(&mut self, step: &Loop) -> TokenStream {
        let comment = line(&step.node);
        let iteration = format_ident!("{}", &*step.iteration);
        let carried: TokenStream =
            step.carried.iter().map(|carried| self.carry(carried, step)).collect();
        let sizes = self.size_at_first(&step.sizes);
        let common = step.common.iter().map(|common| format_ident!("{}", &*common.symbol));
        let common: TokenStream = common.map(|symbol| quote!(let mut #symbol = 0;)).collect();
        let stacks: TokenStream = step.stacked.iter().map(|stacked| self.stack(stacked)).collect();
        let (bind_most, below) = self.most(step, &iteration);
        let decides = step.cond.is_some() || step.again.is_some();
        let again = decides.then(|| self.method.derive_name(&step.iteration, "again"));
        let first = step.cond.as_ref().map_or(quote!(true), |cond| self.element(cond));
        let is_mut = step.again.as_ref().map(|_| quote!(mut));
        let bind_again = again.as_ref().map(|again| quote!(let #is_mut #again = #first;));
        let goes_on = match (&again, below) {
            (Some(again), Some(below)) => quote!(#again && #below),
            (Some(again), None) => quote!(#again),
            (None, Some(below)) => below,
            (None, None) => quote!(true),
        };
        let body = self.loop_body(step, &iteration, again.as_ref());
        quote! {
            comment!(#comment);
            #carried
            #sizes
            #common
            #stacks
            #bind_most
            #bind_again
            let mut #iteration = 0;
            while #goes_on {
                #body
                #iteration += 1;
            }
        }
    }

    /// Generates the body of a loop, up to the values that it carries to the next iteration.
    fn loop_body(&mut self, step: &Loop, iteration: &Ident, again: Option<&Ident>) -> TokenStream {
        let (made, scope) = (self.made.len(), self.sizes.open_block());
        let steps = self.steps(&step.body.steps);
        self.sizes.open();
        let parts = self.check_common(&step.common, iteration);
        let pushed: TokenStream =
            step.stacked.iter().map(|stacked| self.push(stacked, &step.iteration)).collect();
        let decided = again.zip(step.again.as_ref()).map(|(again, flag)| {
            let flag = self.element(flag);
            quote!(#again = #flag;)
        });
        let next: TokenStream =
            step.carried.iter().map(|carried| self.carry_on(carried, step)).collect();
        let resized = self.resize(&step.sizes);
        let end = self.sizes.close(quote!(#parts #pushed #decided #next #resized));
        self.sizes.close_block(scope);
        self.made.truncate(made);
        quote!(#steps #end)
    }

    /// The greatest number of iterations: a variable for it, and the condition of the loop.
    fn most(&mut self, step: &Loop, iteration: &Ident) -> (TokenStream, Option<TokenStream>) {
        match &step.most {
            None => (TokenStream::new(), None),
            Some(TripCount::Size(dim)) => {
                // The size is only evaluated if the condition before it holds.
                let dim = size(dim);
                (TokenStream::new(), Some(quote!(#iteration < #dim)))
            }
            Some(TripCount::Tensor(operand)) => {
                let most = self.method.derive_name(&step.iteration, "most");
                let number = self.element(operand);
                (
                    quote!(let #most = usize::try_from(#number).unwrap_or(0);),
                    Some(quote!(#iteration < #most)),
                )
            }
        }
    }

    /// Copies the initial value of a loop-carried value.
    fn carry(&mut self, carried: &Carried, step: &Loop) -> TokenStream {
        let Carried { initial, value, next } = carried;
        if self.plan.buffers[value.buffer].place == Place::Heap {
            let (name, owned) = (self.name(value), self.owned_result(initial, &[], Given::Once));
            self.made.insert(value.buffer);
            let is_sequence = self.plan.buffers[value.buffer].kind == Kind::Sequence;
            let changes = next != value || made_in(&step.body.steps, value.buffer);
            let is_mut = (changes || is_sequence).then(|| quote!(mut));
            quote!(let #is_mut #name = #owned;)
        } else if initial == value {
            TokenStream::new()
        } else {
            self.copy(initial, &Operand { len: initial.len.clone(), ..value.clone() })
        }
    }

    /// Carries a value of an iteration to the next one.
    fn carry_on(&mut self, carried: &Carried, step: &Loop) -> TokenStream {
        let Carried { value, next, .. } = carried;
        if next == value {
            return TokenStream::new();
        }
        if self.plan.buffers[value.buffer].place == Place::Heap {
            let given = Given::of(next, step.carried.iter().map(|carried| &carried.next));
            let (name, owned) =
                (self.name(value), self.owned_result(next, &step.body.steps, given));
            return quote!(#name = #owned;);
        }
        self.copy(next, &Operand { len: next.len.clone(), ..value.clone() })
    }

    /// Binds the sizes of the first iteration.
    fn size_at_first(&mut self, sizes: &[Resized]) -> TokenStream {
        let each = sizes.iter().map(|Resized { symbol, at_first, .. }| {
            let (symbol, size) = (format_ident!("{symbol}"), self.size(at_first));
            quote!(let mut #symbol = #size;)
        });
        each.collect()
    }

    /// Assigns the sizes of the next iteration, all at once.
    fn resize(&mut self, sizes: &[Resized]) -> TokenStream {
        let (symbols, sizes): (Vec<Ident>, Vec<TokenStream>) = sizes
            .iter()
            .map(|Resized { symbol, after, .. }| (format_ident!("{symbol}"), self.size(after)))
            .unzip();
        match symbols.as_slice() {
            [] => TokenStream::new(),
            [symbol] => quote!(#symbol = #(#sizes)*;),
            _ => quote!((#(#symbols),*) = (#(#sizes),*);),
        }
    }

    /// Takes the sizes of parts from the first iteration, and checks those of the others.
    fn check_common(&mut self, common: &[Common], iteration: &Ident) -> TokenStream {
        if common.is_empty() {
            return TokenStream::new();
        }
        let check_part = self.method.cx.imports.function("view::check_part");
        let (mut settled, mut checks) = (TokenStream::new(), TokenStream::new());
        for Common { node, output, axis, symbol, size } in common {
            let (node, output, axis) = (line(node), line(output), number(*axis));
            let (symbol, size) = (format_ident!("{symbol}"), self.size(size));
            settled.extend(quote!(#symbol = #size;));
            checks.extend(quote! {
                #check_part(#node, #output, #axis, #symbol, #size)?;
            });
        }
        quote!(if #iteration == 0 { #settled } #checks)
    }

    /// Makes the buffer for the outputs of all iterations.
    fn stack(&mut self, stacked: &Stacked) -> TokenStream {
        if stacked.at.is_some() || self.plan.buffers[stacked.all.buffer].place != Place::Heap {
            return self.make(&stacked.all);
        }
        let name = self.name(&stacked.all);
        let imports = &self.method.cx.imports;
        let ty = imports.element(self.plan.buffers[stacked.all.buffer].dtype);
        let heap = imports.item("arena::heap");
        self.made.insert(stacked.all.buffer);
        quote!(let mut #name = #heap::<#ty>(0);)
    }

    /// Appends the output of an iteration to those of the iterations before.
    fn push(&mut self, stacked: &Stacked, iteration: &Symbol) -> TokenStream {
        let Stacked { item, all, at } = stacked;
        if at.is_some() || self.plan.buffers[all.buffer].place != Place::Heap {
            let behind = || Dim::symbol(iteration) * &item.len;
            let start = &all.start + at.clone().unwrap_or_else(behind);
            return self.copy(item, &Operand { buffer: all.buffer, start, len: item.len.clone() });
        }
        let mut locals = Vec::new();
        self.local(item, false, &mut locals);
        let borrow = self.borrow(&locals);
        let (name, slice) = (self.name(all), self.slice(item, false, &locals));
        quote!(#borrow #name.extend_from_slice(#slice);)
    }

    /// The first element of an operand.
    pub(super) fn element(&mut self, operand: &Operand) -> TokenStream {
        let mut locals = Vec::new();
        self.local(operand, false, &mut locals);
        if locals.is_empty() {
            let slice = self.slice(operand, false, &locals);
            return quote!((#slice)[0]);
        }
        let borrowed = self.borrow_one(operand);
        quote!(#borrowed[0])
    }

    fn name(&self, operand: &Operand) -> Ident {
        format_ident!("{}", self.method.names[operand.buffer])
    }
}
