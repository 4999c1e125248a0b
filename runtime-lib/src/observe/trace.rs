//! The times of nodes, one by one, for a timeline.

use super::{Clock, Node, Observer};
use core::{fmt, fmt::Write as _};

/// One execution of a node, in nanoseconds of the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    node: u32,
    start: u64,
    end: u64,
}

/// Records when each node starts and ends. `{}` prints JSON in the format of Chrome's traces, which
/// <https://ui.perfetto.dev> and `chrome://tracing` open.
///
/// `S` holds the events: an array, a vector or a mutable slice of the greatest number of events.
/// Later ones are not recorded.
#[derive(Clone, Debug)]
pub struct Trace<S, C> {
    nodes: &'static [Node],
    events: S,
    len: usize,
    clock: C,
    /// The time at which the current node started.
    started: u64,
}

impl<S: AsRef<[Event]> + AsMut<[Event]>, C: Clock> Trace<S, C> {
    /// Creates the trace of a module with these nodes.
    pub fn new(nodes: &'static [Node], events: S, clock: C) -> Trace<S, C> {
        Trace { nodes, events, len: 0, clock, started: 0 }
    }
}

impl<S: AsMut<[Event]>, C: Clock> Observer for Trace<S, C> {
    fn start(&mut self) {
        self.started = self.clock.now();
    }

    fn node(&mut self, node: usize) {
        let Some(event) = self.events.as_mut().get_mut(self.len) else { return };
        let (start, end) = (self.started, self.clock.now());
        *event = Event { node: u32::try_from(node).unwrap_or(u32::MAX), start, end };
        self.len += 1;
        self.started = end;
    }
}

impl<S: AsRef<[Event]>, C> fmt::Display for Trace<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        for (i, event) in self.events.as_ref().iter().take(self.len).enumerate() {
            let Some(node) = self.nodes.get(event.node as usize) else { continue };
            f.write_str(if i == 0 { "\n{\"name\":\"" } else { ",\n{\"name\":\"" })?;
            escape(f, node.name())?;
            f.write_str("\",\"cat\":\"")?;
            escape(f, node.operator())?;
            let (start, time) =
                (Micros(event.start), Micros(event.end.saturating_sub(event.start)));
            write!(f, "\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":{start},\"dur\":{time}}}")?;
        }
        f.write_str("\n]}\n")
    }
}

/// Nanoseconds as microseconds.
struct Micros(u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1_000, self.0 % 1_000)
    }
}

/// Writes text inside of a string of JSON.
fn escape(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            c if c.is_control() => write!(f, "\\u{:04x}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    Ok(())
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use std::string::ToString as _;

    #[test]
    fn events_are_json_and_later_ones_are_dropped() {
        const NODES: &[Node] = &[Node::new("a\"b", "Conv", 0), Node::new("y", "Relu", 0)];
        let mut now = 0;
        let clock = || {
            now += 1_500;
            now
        };
        let mut trace = Trace::new(NODES, [Event::default(); 2], clock);
        trace.start();
        (0..2).chain(0..2).for_each(|node| trace.node(node));
        let expected = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[
{\"name\":\"a\\\"b\",\"cat\":\"Conv\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":1.500,\"dur\":1.500},
{\"name\":\"y\",\"cat\":\"Relu\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":3.000,\"dur\":1.500}
]}
";
        assert_eq!(trace.to_string(), expected);
    }
}
