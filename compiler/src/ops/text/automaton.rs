//! Automata of patterns: RE2's patterns compiled to DFAs, whose states are numbered as they are
//! reached.

use super::{minimize, re2};
use crate::{
    diag::{Code, Diagnostic, Result, quoted},
    limits::{Budget, Limit},
};
use regex_automata::{
    Anchored, MatchKind,
    dfa::{Automaton as _, StartKind, dense},
    nfa::thompson,
    util::{primitives::StateID, start, syntax},
};
use std::collections::HashMap;

/// The size limit of one DFA before minimization, in bytes.
const MAX_BYTES: usize = 8 << 20;

/// The name of compiled patterns, in messages.
pub(super) const AUTOMATA: &str = "automata of patterns";

/// A DFA that finds all matches at one place. State 0 has no matches.
pub(super) struct Automaton {
    dfa: dense::DFA<Vec<u32>>,
    pattern: String,
    /// The class of each byte.
    pub(super) classes: Vec<u8>,
    /// A byte of each class.
    pub(super) members: Vec<u8>,
    /// The states that equal another one, which represents them.
    same: HashMap<StateID, StateID>,
    /// The states that have a number, from 1.
    states: Vec<StateID>,
    numbers: HashMap<StateID, u16>,
}

/// The transition of a state by a byte, or by the end of the text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    /// The next state.
    pub(super) next: u16,
    /// Whether a match ends before the byte.
    pub(super) is_match: bool,
}

impl Automaton {
    /// Compiles the pattern of the attribute `attribute`, enclosed in `around`.
    pub(super) fn compile(
        attribute: &str,
        pattern: &str,
        [before, after]: [&str; 2],
        budget: &Budget,
    ) -> Result<Automaton> {
        let bad = |why: &dyn std::fmt::Display| {
            let pattern = quoted(pattern);
            let message = format!("`{attribute}` is {pattern}, which is not a valid RE2 pattern");
            Diagnostic::new(Code::BadAttribute, message).note(why.to_string())
        };
        let text = re2::translate(pattern).map_err(|why| bad(&why))?;
        let config = syntax::Config::new().utf8(false);
        // The pattern is parsed alone first, so that no parenthesis in it can close the group
        // around it below.
        syntax::parse_with(&text, &config).map_err(|why| bad(&why))?;
        let left = budget.left(Limit::PatternBytes);
        let most = Some(left.min(MAX_BYTES));
        let large = || match left < MAX_BYTES {
            true => budget.exceeded(Limit::PatternBytes, AUTOMATA),
            false => too_large(pattern),
        };
        let dfa = dense::Builder::new()
            .syntax(config)
            .thompson(thompson::Config::new().nfa_size_limit(most))
            .configure(
                dense::Config::new()
                    .start_kind(StartKind::Anchored)
                    .match_kind(MatchKind::All)
                    .dfa_size_limit(most)
                    .determinize_size_limit(most),
            )
            .build(&format!("{before}(?:{text}){after}"))
            .map_err(|_| large())?;
        budget.spend(Limit::PatternBytes, dfa.memory_usage(), AUTOMATA)?;
        let classes: Vec<u8> = (0..=u8::MAX).map(|byte| dfa.byte_classes().get(byte)).collect();
        let last = classes.iter().copied().max().unwrap_or(0);
        let member = |class: u8| classes.iter().position(|&c| c == class);
        let members: Vec<u8> =
            (0..=last).filter_map(|class| u8::try_from(member(class)?).ok()).collect();
        let same = minimize::equal_states(&dfa, &members);
        let (states, numbers) = (Vec::new(), HashMap::new());
        Ok(Automaton { dfa, pattern: pattern.to_owned(), classes, members, same, states, numbers })
    }

    /// The number of states that have a number.
    pub(super) fn state_count(&self) -> usize {
        self.states.len()
    }

    /// Returns the state at which a match starts after the byte `before`, or at the start of the
    /// text.
    pub(super) fn start(&mut self, before: Option<u8>) -> Result<u16> {
        let config = start::Config::new().anchored(Anchored::Yes).look_behind(before);
        let state = self.dfa.start_state(&config).expect("the automaton has an anchored start");
        self.number(state)
    }

    /// Returns the transition of a numbered state by a byte, or by the end of the text.
    pub(super) fn step(&mut self, state: usize, byte: Option<u8>) -> Result<Step> {
        let state = self.states[state - 1];
        let next = match byte {
            Some(byte) => self.dfa.next_state(state, byte),
            None => self.dfa.next_eoi_state(state),
        };
        let is_match = self.dfa.is_match_state(next);
        let next = if byte.is_some() { self.number(next)? } else { 0 };
        Ok(Step { next, is_match })
    }

    /// Returns the number of a state, and numbers a new state.
    fn number(&mut self, state: StateID) -> Result<u16> {
        let state = self.same.get(&state).copied().unwrap_or(state);
        if self.dfa.is_dead_state(state) {
            return Ok(0);
        }
        if let Some(&number) = self.numbers.get(&state) {
            return Ok(number);
        }
        self.states.push(state);
        let number = u16::try_from(self.states.len()).map_err(|_| too_large(&self.pattern))?;
        self.numbers.insert(state, number);
        Ok(number)
    }
}

/// Returns the error for a pattern whose automaton is too large.
pub(super) fn too_large(pattern: &str) -> Diagnostic {
    let message = "patterns with this many states are not supported yet";
    Diagnostic::new(Code::Unsupported, message).note(quoted(pattern))
}
