//! The table of a profile.

use super::{Profile, Times};
use core::fmt;

impl<S: AsRef<[Times]>, C> fmt::Display for Profile<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (total, times) = (self.total(), self.times());
        let per_run = micros(total.checked_div(self.runs()).unwrap_or(0));
        writeln!(f, "{per_run:.3} us in {} nodes, mean of {} runs", times.len(), self.runs())?;
        writeln!(f, "{:>8} {:>12} {:>12} {:>8}  node", "share", "mean us", "least us", "GFLOP/s")?;
        let rows = f.precision().unwrap_or(usize::MAX).min(times.len());
        let mut before = None;
        for _ in 0..rows {
            let Some(at) = next(times, before) else { break };
            before = Some(at);
            let (Some(node), times) = (self.nodes().get(at), times[at]) else { continue };
            let share = 100.0 * times.total() as f64 / total.max(1) as f64;
            let (mean, least) = (micros(times.mean()), micros(times.least()));
            write!(f, "{share:>6.1} % {mean:>12.3} {least:>12.3} ")?;
            match (node.macs(), times.mean()) {
                (0, _) | (_, 0) => write!(f, "{:>8}", "")?,
                (macs, time) => write!(f, "{:>8.1}", 2.0 * macs as f64 / time as f64)?,
            }
            writeln!(f, "  {} ({})", node.name(), node.operator())?;
        }
        Ok(())
    }
}

fn micros(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

/// Returns the node after `before` in the order of falling totals; nodes of equal totals keep their
/// order.
fn next(times: &[Times], before: Option<usize>) -> Option<usize> {
    let key = |at: usize| (core::cmp::Reverse(times[at].total()), at);
    let later = |&at: &usize| before.is_none_or(|before| key(at) > key(before));
    (0..times.len()).filter(later).min_by_key(|&at| key(at))
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::super::{Node, Observer as _, Profile, Times};
    use std::{
        format,
        string::{String, ToString as _},
    };

    const NODES: &[Node] = &[
        Node::new("/stem/conv 1", "Conv", 1_000),
        Node::new("y", "Relu", 0),
        Node::new("z", "Add", 0),
    ];

    #[test]
    fn a_table_is_in_the_order_of_cost() {
        let mut readings = [0, 100, 1_100, 1_200, 5_000, 5_300, 6_300, 6_400].into_iter();
        let clock = move || readings.next().unwrap_or(0);
        let mut profile = Profile::new(NODES, [Times::NONE; 3], clock);
        for _ in 0..2 {
            profile.start();
            (0..3).for_each(|node| profile.node(node));
        }
        let expected = "\
1.300 us in 3 nodes, mean of 2 runs
   share      mean us     least us  GFLOP/s  node
  76.9 %        1.000        1.000           y (Relu)
  15.4 %        0.200        0.100     10.0  /stem/conv 1 (Conv)
   7.7 %        0.100        0.100           z (Add)
";
        assert_eq!(profile.to_string(), expected);
        assert_eq!(format!("{profile:.1}").lines().count(), 3);
        let mut folded = String::new();
        assert!(profile.write_folded(&mut folded).is_ok());
        assert_eq!(folded, "stem;conv_1;Conv 400\ny;Relu 2000\nz;Add 200\n");
        assert_eq!(profile.times()[0].most(), 300);
    }
}
