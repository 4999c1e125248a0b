//! Generates variables for the sizes that a function uses more than once.

use super::tokens::{join, parse_tokens};
use crate::{
    dim::{Atom, Dim, Names, Symbol},
    plan::{Plan, Step},
};
use proc_macro2::{Ident, TokenStream};
use quote::quote;
use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
};

/// The fewest operators of a size that gets a variable. A shorter size is repeated.
const FEWEST_OPERATORS: usize = 2;

/// Returns a new name for the variable that holds the value of an expression.
type NameOf<'a> = &'a dyn Fn(&str) -> Ident;

/// The sizes of a function. A first pass over its steps counts them. In the second pass, each size
/// that was counted more than once gets a variable where it is first used.
pub struct Sizes {
    /// The number of uses of each size in the first pass, or `None` during it.
    counts: Option<HashMap<Dim, usize>>,
    /// The symbols that a loop changes. No variable depends on them.
    changing: BTreeSet<Symbol>,
    /// Whether the sizes are evaluated before they are checked.
    saturates: bool,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    found: HashMap<Dim, usize>,
    /// The sizes that variables in scope hold, in the order of the variables.
    scope: Vec<Dim>,
    /// The variables in scope, by their sizes.
    variables: HashMap<Dim, Ident>,
    /// The `let` statements before each of the statements that are being generated.
    lets: Vec<TokenStream>,
}

impl Sizes {
    /// The first pass.
    pub fn first_pass(plan: &Plan) -> Sizes {
        let mut changing = BTreeSet::new();
        changing_symbols(&plan.steps, &mut changing);
        Sizes { counts: None, changing, saturates: false, state: RefCell::default() }
    }

    /// Returns whether all sizes of a plan are numbers. These get no variables, so that there is
    /// nothing to count.
    pub fn are_numbers(&self, plan: &Plan) -> bool {
        plan.symbols.is_empty() && self.changing.is_empty()
    }

    /// The first pass over sizes that are evaluated when a run starts, before they are checked.
    pub fn first_pass_unchecked() -> Sizes {
        let (changing, state) = (BTreeSet::new(), RefCell::default());
        Sizes { counts: None, changing, saturates: true, state }
    }

    /// The second pass.
    pub fn second_pass(self) -> Sizes {
        let counts = Some(self.state.take().found);
        Sizes { counts, state: RefCell::default(), ..self }
    }

    /// Writes a size as Rust source; `name_of` returns a new name for the variable of a value.
    pub fn text(&self, dim: &Dim, name_of: NameOf<'_>) -> String {
        self.expression(dim, &|part| self.name(part, name_of))
    }

    fn expression(&self, dim: &Dim, names: Names<'_>) -> String {
        if self.saturates { dim.saturating_expression(names) } else { dim.expression(names) }
    }

    /// Writes whether a size is not zero as Rust source.
    pub fn condition(&self, dim: &Dim, name_of: NameOf<'_>) -> String {
        dim.condition(&|part| self.name(part, name_of))
    }

    /// Starts a statement: the variables that it needs stand before it.
    pub fn open(&self) {
        self.state.borrow_mut().lets.push(TokenStream::new());
    }

    /// Ends a statement, and returns it preceded by the variables that it needs.
    pub fn close(&self, statement: TokenStream) -> TokenStream {
        let lets = self.state.borrow_mut().lets.pop();
        join([lets.unwrap_or_default(), statement])
    }

    /// Returns the statements of `write`, preceded by the variables that they need.
    pub fn with_lets(&self, write: impl FnOnce() -> TokenStream) -> TokenStream {
        self.open();
        let statements = write();
        self.close(statements)
    }

    /// Starts a block.
    pub fn open_block(&self) -> usize {
        self.state.borrow().scope.len()
    }

    /// Ends the block that started with `count` variables in scope.
    pub fn close_block(&self, count: usize) {
        let State { scope, variables, .. } = &mut *self.state.borrow_mut();
        for size in scope.drain(count..) {
            variables.remove(&size);
        }
    }

    fn name(&self, dim: &Dim, name_of: NameOf<'_>) -> Option<String> {
        if operators(dim) < FEWEST_OPERATORS || self.changes(dim) {
            return None;
        }
        let Some(counts) = &self.counts else {
            let mut state = self.state.borrow_mut();
            let count = state.found.entry(dim.clone()).or_default();
            *count += 1;
            // Its parts are counted once, since a variable would contain them.
            return (*count > 1).then(|| "counted".into());
        };
        if let Some(name) = self.variable(dim) {
            return Some(name);
        }
        let is_used_again = counts.get(dim).is_some_and(|&count| count > 1);
        if !is_used_again || self.state.borrow().lets.is_empty() {
            return None;
        }
        let text =
            self.expression(dim, &|part| (part != dim).then(|| self.name(part, name_of)).flatten());
        let (name, value) = (name_of(&text), parse_tokens(&text));
        let mut state = self.state.borrow_mut();
        state.scope.push(dim.clone());
        state.variables.insert(dim.clone(), name.clone());
        state.lets.last_mut()?.extend(quote!(let #name = #value;));
        Some(name.to_string())
    }

    /// The variable in scope that holds a size.
    fn variable(&self, dim: &Dim) -> Option<String> {
        self.state.borrow().variables.get(dim).map(Ident::to_string)
    }

    /// Returns whether a loop changes a symbol of a size.
    fn changes(&self, dim: &Dim) -> bool {
        let mut symbols = BTreeSet::new();
        dim.symbols(&mut symbols);
        !symbols.is_disjoint(&self.changing)
    }
}

/// Collects the symbols that loops change.
fn changing_symbols(steps: &[Step], found: &mut BTreeSet<Symbol>) {
    for step in steps {
        match step {
            Step::Call(_) | Step::Check(_) => {}
            Step::If(step) => {
                step.branches.iter().for_each(|block| changing_symbols(&block.steps, found));
            }
            Step::Loop(step) => {
                found.insert(step.iteration.clone());
                found.extend(step.sizes.iter().map(|size| size.symbol.clone()));
                found.extend(step.common.iter().map(|size| size.symbol.clone()));
                changing_symbols(&step.body.steps, found);
            }
        }
    }
}

/// The number of operators in the source of a size.
fn operators(dim: &Dim) -> usize {
    let mut count = dim.terms().count().saturating_sub(1);
    for (product, n) in dim.terms() {
        count += product.len().saturating_sub(usize::from(n.unsigned_abs() == 1));
        count += product.iter().map(atom_operators).sum::<usize>();
    }
    count
}

fn atom_operators(atom: &Atom) -> usize {
    match atom {
        Atom::Symbol(_) | Atom::Part(_) | Atom::TooLong => 0,
        Atom::FloorDiv(a, b)
        | Atom::Max(a, b)
        | Atom::Min(a, b)
        | Atom::Broadcast(a, b)
        | Atom::Equal(a, b)
        | Atom::Less(a, b) => 1 + operators(a) + operators(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::format_ident;

    #[test]
    fn a_size_that_is_used_again_is_a_variable() {
        let n = Dim::symbol("n");
        let half = (&n + 1).floor_div(&2.into());
        let name_of = |_: &str| format_ident!("x_len");
        let write = |sizes: &Sizes| {
            let texts = sizes.with_lets(|| {
                let texts = [&half, &(&half * 3), &(&n + 1)].map(|dim| sizes.text(dim, &name_of));
                texts.iter().map(|text| parse_tokens(&format!("f({text});"))).collect()
            });
            texts.to_string()
        };
        let first = Sizes::first_pass(&Plan::default());
        write(&first);
        let expected = quote! {
            let x_len = (n + 1) / 2;
            f(x_len);
            f(3 * x_len);
            f(n + 1);
        };
        assert_eq!(write(&first.second_pass()), expected.to_string());
    }

    #[test]
    fn operators_are_counted() {
        let n = Dim::symbol("n");
        let half = (&n + 1).floor_div(&2.into());
        let counted = [n.clone(), &n * 2, &n + 1, half, &n * 8 + 8];
        assert_eq!(counted.map(|dim| operators(&dim)), [0, 1, 1, 2, 2]);
    }
}
