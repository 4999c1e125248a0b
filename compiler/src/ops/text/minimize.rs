//! Minimization of DFAs: Moore's partition refinement. It takes a bounded number of steps, whereas
//! that of `regex-automata` is quadratic.

use regex_automata::{
    Anchored,
    dfa::{Automaton as _, dense},
    util::{primitives::StateID, start},
};
use std::collections::HashMap;

/// The transitions that the refinement may read. If it takes more, all states stay.
const MOST_READ: usize = 1 << 23;

/// Returns the states that are equal to an earlier one, which represents both. `members` has a byte
/// of each class.
pub(super) fn equal_states(
    dfa: &dense::DFA<Vec<u32>>,
    members: &[u8],
) -> HashMap<StateID, StateID> {
    let (states, next) = transitions(dfa, members);
    let ends = |state: StateID| dfa.is_match_state(dfa.next_eoi_state(state));
    let first =
        states.iter().map(|&state| vec![dfa.is_match_state(state).into(), ends(state).into()]);
    let (mut groups, mut count) = grouped(first);
    for _ in 0..=MOST_READ / next.len().max(1) {
        let signature = |(i, row): (usize, &[usize])| {
            [i].iter().chain(row).map(|&state| groups[state]).collect()
        };
        let (refined, more) = grouped(next.chunks(members.len()).enumerate().map(signature));
        if more == count {
            return represented(&states, &groups);
        }
        (groups, count) = (refined, more);
    }
    HashMap::new()
}

/// Returns the states that a match may reach, with the dead state first, and the positions of their
/// successors: one for each class of bytes.
fn transitions(dfa: &dense::DFA<Vec<u32>>, members: &[u8]) -> (Vec<StateID>, Vec<usize>) {
    let (mut states, mut places, mut next) = (Vec::new(), HashMap::new(), Vec::new());
    let mut place = |state: StateID, states: &mut Vec<StateID>| {
        *places.entry(state).or_insert_with(|| {
            states.push(state);
            states.len() - 1
        })
    };
    // `regex-automata` has the dead state at 0.
    place(StateID::ZERO, &mut states);
    for before in [None].into_iter().chain((0..=u8::MAX).map(Some)) {
        let config = start::Config::new().anchored(Anchored::Yes).look_behind(before);
        place(dfa.start_state(&config).expect("the automaton has an anchored start"), &mut states);
    }
    let mut i = 0;
    while let Some(&state) = states.get(i) {
        next.extend(members.iter().map(|&byte| place(dfa.next_state(state, byte), &mut states)));
        i += 1;
    }
    (states, next)
}

/// Returns the group of each signature: equal ones have the same. Returns the number of groups too.
fn grouped(signatures: impl Iterator<Item = Vec<usize>>) -> (Vec<usize>, usize) {
    let mut groups = HashMap::new();
    let found = signatures.map(|signature| {
        let count = groups.len();
        *groups.entry(signature).or_insert(count)
    });
    (found.collect(), groups.len())
}

/// Returns the first state of the group of each state that is not the first itself.
fn represented(states: &[StateID], groups: &[usize]) -> HashMap<StateID, StateID> {
    let mut first = HashMap::new();
    let found = states
        .iter()
        .zip(groups)
        .map(|(&state, group)| (state, *first.entry(group).or_insert(state)));
    found.filter(|(state, first)| state != first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex_automata::{MatchKind, dfa::StartKind};

    /// Returns the DFA of a pattern, and a byte of each class.
    fn automaton(pattern: &str, minimize: bool) -> (dense::DFA<Vec<u32>>, Vec<u8>) {
        let config = dense::Config::new()
            .start_kind(StartKind::Anchored)
            .match_kind(MatchKind::All)
            .minimize(minimize);
        let dfa = dense::Builder::new().configure(config).build(pattern);
        let dfa = dfa.expect("the pattern is valid");
        let members = dfa.byte_classes().representatives(0..=u8::MAX);
        let members = members.filter_map(|unit| unit.as_u8()).collect();
        (dfa, members)
    }

    #[test]
    fn the_states_are_as_few_as_possible() {
        let patterns =
            ["", "a", "ab|cb", "(ab|cb)*d?", "[a-z]{2,5}x", "(a|b)*a(a|b){6}", "[é-ž]+ [а-я]"];
        for pattern in patterns {
            let (dfa, members) = automaton(pattern, false);
            let left = transitions(&dfa, &members).0.len() - equal_states(&dfa, &members).len();
            let (least, members) = automaton(pattern, true);
            assert_eq!(left, transitions(&least, &members).0.len(), "{pattern}");
        }
        assert!(!equal_states(&automaton("ab|cb", false).0, b"abc").is_empty());
    }
}
